// Building the page from text alone: nothing that is shown is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child instanceof Node ? child : shown(child));
  }
  return node;
}

// Characters that reorder or hide text are written out, as on a terminal: the same ones as in control_characters.py.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\u{13430}-\u{1345f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}\ud800-\udfff]|(?<=[\ufe0e\ufe0f])[\ufe0e\ufe0f]/gu;

export function shown(value) {
  return String(value).replace(HIDDEN, (mark) => `\\u${mark.codePointAt(0).toString(16).padStart(4, "0")}`);
}

// One node for each item; a node whose key is there already stays, and so does what is focused, typed or unfolded in it.
export function keep(place, items, keyOf, make) {
  const known = new Map(Array.from(place.children, (node) => [node.dataset.key, node]));
  const nodes = items.map((item) => {
    const key = keyOf(item), node = known.get(key) ?? make(item);
    known.delete(key);
    node.dataset.key = key;
    return node;
  });
  const kept = new Set(nodes);
  for (const node of Array.from(place.children)) if (!kept.has(node)) node.remove();
  nodes.forEach((node, index) => {
    if (place.children[index] !== node) place.insertBefore(node, place.children[index] ?? null);
  });
}

// Shows nodes in place of others and touches only what differs, so that a link stays focused and a text selected. For nodes
// without listeners; what is unfolded stays unfolded.
export function renew(place, nodes) {
  const before = Array.from(place.childNodes);
  nodes.forEach((node, index) => {
    const old = before[index];
    if (!old) return place.append(node);
    if (old.nodeName === "DETAILS" && node.nodeName === "DETAILS") node.open = old.open;
    if (old.isEqualNode(node)) return;
    if (old instanceof Element && old.cloneNode().isEqualNode(node.cloneNode())) renew(old, Array.from(node.childNodes));
    else old.replaceWith(node);
  });
  for (const old of before.slice(nodes.length)) old.remove();
}

// A table whose rows stay as long as their items say the same.
export function keepTable(place, heads, items, cells) {
  if (!place.querySelector(":scope > table")) place.replaceChildren(table(heads, []));
  keep(place.querySelector(":scope > table > tbody"), items, JSON.stringify, (item) => rowOf(cells(item)));
}

const rowOf = (cells) => el("tr", {}, cells.map((cell) => el("td", {}, cell)));

export function pretty(value) {
  return shown(typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");
}

export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

export function table(heads, rows) {
  return el("table", { class: "table", tabindex: "0" },
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, rows.map(rowOf)));
}

export function spark(counts) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", `0 0 ${Math.max(counts.length, 1) * 4} 24`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const most = Math.max(1, ...counts);
  counts.forEach((count, place) => {
    const bar = document.createElementNS(SVG, "rect");
    const height = Math.max(count ? 2 : 0.5, (22 * count) / most);
    for (const [name, value] of Object.entries({ x: place * 4, y: 24 - height, width: 3, height })) bar.setAttribute(name, value);
    svg.append(bar);
  });
  return svg;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "";
  if (seconds < 0) seconds = 0;
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size) return `${Math.round(seconds / size)} ${unit}`;
  }
  return seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`;
}

// The rows in view of a long list: `line(row, place)` makes a node, which is kept as long as the row stays in view.
export function virtual(box, body, height, line) {
  let rows = [], kept = new Map();
  const range = () => {
    const first = Math.max(0, Math.floor(box.scrollTop / height) - 6);
    return [first, Math.min(rows.length, first + Math.ceil(box.clientHeight / height) + 12)];
  };
  const draw = () => {
    const [first, last] = range(), now = new Map();
    for (let place = first; place < last; place++) {
      const row = rows[place], known = kept.get(row);
      const node = known ?? line(row);
      node.style.top = `${place * height}px`;
      node.setAttribute("aria-rowindex", place + 2);
      now.set(row, node);
      kept.delete(row);
      if (!known) body.append(node);
    }
    for (const node of kept.values()) node.remove();
    kept = now;
  };
  body.style.position = "relative";
  let isDue = false;
  box.addEventListener("scroll", () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => { isDue = false; draw(); });
  }, { passive: true });
  return {
    range: () => rows.slice(...range()),
    // Rows that are other objects than before are made anew.
    show(next) {
      rows = next;
      body.style.height = `${rows.length * height}px`;
      draw();
    },
    draw, node: (row) => kept.get(row), rows: () => rows,
  };
}

export function clock(stamp) {
  return stamp ? stamp.slice(0, 19).replace("T", " ") : "";
}

export function words(name) {
  return String(name).replaceAll("_", " ");
}
