// What every harness was doing when. Colour is status; where no program ran there is a gap.

import { every, get } from "./api.js";
import { clock, el, shown, span, virtual, words } from "./dom.js";

const HEIGHT = 30, PERIOD_MS = 4000, TICKS = 6;
const KINDS = {
  running: "runs", waiting: "waits for approval", held: "paused", backing_off: "backs off", blocked: "blocked", gone: "no program",
};
const GOOD = new Set(["completed", "finished", "stopped"]), ENDS = new Set([...GOOD, "failed", "gave_up", "budget_spent"]);
const RANGES = { "all": Infinity, "last day": 86400, "last hour": 3600, "last 10 minutes": 600, "last minute": 60 };

export async function timelineView(main, fleet) {
  const search = el("input", { type: "search", placeholder: "name", "aria-label": "Search" });
  const range = el("select", { "aria-label": "Range" }, Object.keys(RANGES).map((name) => el("option", { value: name }, name)));
  const legend = el("p", { class: "legend" }, Object.entries(KINDS).map(([kind, text]) => el("span", {}, el("span", { class: `swatch is-${kind}` }), text)),
    el("span", {}, el("span", { class: "swatch is-failed" }), "failed, gave up or spent its budget"), el("span", {}, el("span", { class: "swatch is-ended" }), "ended"));
  const axis = el("div", { class: "lane axis" }), body = el("div", { role: "rowgroup" });
  const head = el("div", { role: "rowgroup" }, el("div", { class: "row head", role: "row" },
    el("div", { class: "cell", role: "columnheader" }, "Harness"), el("div", { role: "columnheader" }, axis)));
  const grid = el("div", { class: "grid lanes", role: "table", "aria-label": "Timeline", tabindex: "0" }, head, body);
  main.replaceChildren(el("h2", {}, "Timeline"), el("div", { class: "filters" }, search, range), legend, grid);
  let told = { begin: null, end: null, harnesses: {} }, asked = "";
  const list = virtual(grid, body, HEIGHT, (row) => lane(row, told, bounds()));

  const bounds = () => {
    const end = Date.parse(told.end), begin = Date.parse(told.begin);
    return [Math.max(begin, end - 1000 * RANGES[range.value]), Math.max(end, begin + 1)];
  };
  const choose = () => {
    const text = search.value.toLowerCase();
    const rows = [...fleet.rows.values()].filter((row) => row.harness.toLowerCase().includes(text))
      .sort((a, b) => a.rank - b.rank || (a.harness < b.harness ? -1 : 1));
    // New objects: every lane is drawn anew, and the one that has the focus keeps it.
    const focused = grid.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    list.show(rows.map((row) => ({ name: row.harness, status: row.status })));
    if (focused) grid.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  };
  const ask = async () => {
    const wanted = list.range().map((row) => row.name).slice(0, 80);
    asked = wanted.join();
    if (!wanted.length) return;
    told = await get(`timeline?names=${wanted.map(encodeURIComponent).join(",")}`);
    const [begin, end] = bounds();
    axis.replaceChildren(...Array.from({ length: TICKS }, (_, place) => {
      const tick = el("span", { class: "tick" }, moment(begin + ((end - begin) * place) / TICKS, end - begin));
      tick.style.left = `${(100 * place) / TICKS}%`;
      return tick;
    }));
    choose();
  };
  let soon = 0;
  grid.addEventListener("scroll", () => {
    clearTimeout(soon);
    soon = setTimeout(() => { if (list.range().map((row) => row.name).slice(0, 80).join() !== asked) ask().catch(() => {}); }, 150);
  }, { passive: true });
  search.addEventListener("input", () => { choose(); ask().catch(() => {}); });
  range.addEventListener("input", () => ask().catch(() => {}));
  choose();
  return every(PERIOD_MS, async () => { choose(); await ask(); });
}

function moment(at, width) {
  const text = new Date(at).toISOString();
  return width > 2 * 86400e3 ? text.slice(0, 10) : width > 600e3 ? text.slice(5, 16).replace("T", " ") : text.slice(11, 19);
}

function lane(row, told, [begin, until]) {
  const spans = told.harnesses[row.name] ?? [];
  const bars = spans.map((one) => {
    const from = Math.max(Date.parse(one.begin), begin), to = Math.min(Date.parse(one.end), until);
    if (to < begin || from > until) return null;
    const steps = one.first_step ? `, steps ${one.first_step} to ${one.last_step}` : "";
    const took_s = (Date.parse(one.end) - Date.parse(one.begin)) / 1000;
    const said = `${KINDS[one.kind] ?? words(one.kind)}, attempt ${one.attempt}, ${clock(one.begin)}, ${span(took_s)}${steps}${one.cause ? `: ${one.cause}` : ""}`;
    const bar = el("span", { class: `bar is-${one.kind}`, title: shown(said) });
    bar.style.left = `${(100 * (from - begin)) / (until - begin)}%`;
    bar.style.width = `${(100 * Math.max(0, to - from)) / (until - begin)}%`;
    return bar;
  });
  const last = spans.at(-1), status = row.status;
  if (last && !last.open && ENDS.has(status) && Date.parse(last.end) >= begin) {
    const end = el("span", { class: `end ${GOOD.has(status) ? "is-good" : ""}`, title: words(status) });
    end.style.left = `${(100 * (Date.parse(last.end) - begin)) / (until - begin)}%`;
    bars.push(end);
  }
  const summary = last ? `${spans.length} spans; now ${KINDS[last.kind] ?? words(last.kind)}` : "";
  return el("div", { class: "row", role: "row" },
    el("div", { class: "cell", role: "cell" }, el("a", { href: `#/h/${encodeURIComponent(row.name)}/history` }, row.name)),
    el("div", { role: "cell" }, el("div", { class: "lane", role: "img", "aria-label": summary }, bars)));
}
