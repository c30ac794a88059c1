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

// Characters that reorder or hide text are written out, as on a terminal.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

export function shown(value) {
  return String(value).replace(HIDDEN, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function pretty(value) {
  return shown(typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");
}

export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

export function table(heads, rows) {
  return el("table", { class: "table" },
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell) => el("td", {}, cell))))));
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

export function clock(stamp) {
  return stamp ? stamp.slice(0, 19).replace("T", " ") : "";
}

export function words(name) {
  return String(name).replaceAll("_", " ");
}
