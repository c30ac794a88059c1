// The fleet, worst first: only the rows in view are in the document, so that ten thousand scroll like ten.

import { get } from "./api.js";
import { el, shown, span, spark, words } from "./dom.js";

const HEIGHT = 40;
const HEADS = ["Harness", "Status", "Step", "Attempt", "This step", "Usual (p95)", "Pace", "Last step, or why"];
const SORTS = {
  worst: (a, b) => a.rank - b.rank || a.harness.localeCompare(b.harness),
  name: (a, b) => a.harness.localeCompare(b.harness),
  steps: (a, b) => b.current_step - a.current_step,
  newest: (a, b) => (b.timestamp ?? "").localeCompare(a.timestamp ?? ""),
};
const BAD = new Set(["gave_up", "failed", "blocked", "halted", "hung", "interrupted", "budget_spent"]);
const WARN = new Set(["waiting_for_approval", "backing_off", "paused"]);

export async function fleetView(main, fleet) {
  const search = el("input", { type: "search", placeholder: "name or cause", "aria-label": "Search" });
  const status = el("select", { "aria-label": "Status" }, el("option", { value: "" }, "every status"));
  const sort = el("select", { "aria-label": "Order" },
    Object.keys(SORTS).map((name) => el("option", { value: name }, name === "worst" ? "worst first" : `by ${name}`)));
  const count = el("span", { class: "soft" });
  const head = el("div", { class: "row head", role: "row" }, HEADS.map((text) => el("div", { class: "cell", role: "columnheader" }, text)));
  const body = el("div", { role: "rowgroup" });
  const grid = el("div", { class: "grid", role: "table", "aria-label": "Fleet", tabindex: "0" }, el("div", { role: "rowgroup" }, head), body);
  main.replaceChildren(el("h2", {}, "Fleet"), el("div", { class: "filters" }, search, status, sort, count), grid);
  let rows = [], paces = {}, asked = "";

  const choose = () => {
    const text = search.value.toLowerCase();
    rows = [...fleet.rows.values()].filter((row) => (!status.value || row.activity === status.value) &&
      (!text || row.harness.toLowerCase().includes(text) || row.cause.toLowerCase().includes(text)));
    rows.sort(SORTS[sort.value]);
    const known = new Set([...status.options].map((option) => option.value));
    for (const name of new Set([...fleet.rows.values()].map((row) => row.activity))) {
      if (!known.has(name)) status.append(el("option", { value: name }, words(name)));
    }
    count.textContent = `${rows.length.toLocaleString()} of ${fleet.rows.size.toLocaleString()}`;
    body.style.height = `${rows.length * HEIGHT}px`;
    body.style.position = "relative";
    grid.setAttribute("aria-rowcount", rows.length);
    draw();
  };

  const visible = () => {
    const first = Math.max(0, Math.floor(grid.scrollTop / HEIGHT) - 5);
    return [first, Math.min(rows.length, first + Math.ceil(grid.clientHeight / HEIGHT) + 10)];
  };

  const draw = () => {
    const [first, last] = visible();
    const focused = document.activeElement?.dataset?.harness;
    body.replaceChildren(...rows.slice(first, last).map((row, place) => line(row, first + place, paces[row.harness])));
    if (focused) body.querySelector(`[data-harness="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  };

  const askPaces = async () => {
    const [first, last] = visible();
    const names = rows.slice(first, last).map((row) => row.harness).slice(0, 60);
    const key = names.map((name) => `${name} ${fleet.rows.get(name)?.current_step}`).join();
    if (!names.length || key === asked) return;
    asked = key;
    paces = await get(`paces?names=${names.map(encodeURIComponent).join(",")}`);
    draw();
  };

  grid.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  grid.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const now = rows.findIndex((row) => row.harness === document.activeElement?.dataset?.harness);
    const next = Math.min(rows.length - 1, Math.max(0, now + step));
    if (next * HEIGHT < grid.scrollTop || (next + 2) * HEIGHT > grid.scrollTop + grid.clientHeight) grid.scrollTop = Math.max(0, (next - 3) * HEIGHT);
    draw();
    body.querySelector(`[data-harness="${CSS.escape(rows[next].harness)}"]`)?.focus({ preventScroll: true });
  });
  for (const input of [search, status, sort]) input.addEventListener("input", choose);
  choose();
  return async () => {
    if (fleet.isNew) choose(); else draw();
    await askPaces();
  };
}

function line(row, place, pace) {
  const age_s = row.began === null ? null : Date.now() / 1000 - row.began;
  const isLate = pace?.p95_s && age_s > 10 * pace.p95_s && age_s > 60;
  const tone = BAD.has(row.activity) ? "bad-text" : WARN.has(row.activity) ? "warn" : "";
  const cells = [
    el("a", { href: `#/h/${encodeURIComponent(row.harness)}`, tabindex: "-1" }, row.parent ? `${row.parent} › ${row.harness}` : row.harness),
    el("span", { class: tone }, words(row.activity)),
    row.current_step.toLocaleString(), row.attempt,
    el("span", { class: isLate ? "warn" : "" }, span(age_s)),
    pace?.p95_s ? span(pace.p95_s) : "",
    pace?.sparkline?.length ? spark(pace.sparkline) : "",
    row.cause || pace?.last || "",
  ];
  const node = el("div", {
    class: "row", role: "row", tabindex: "-1", "data-harness": row.harness, "aria-rowindex": place + 1,
    onkeydown: (event) => { if (event.key === "Enter") location.hash = `#/h/${encodeURIComponent(row.harness)}`; },
  }, cells.map((cell, column) => el("div", {
    class: `cell ${[2, 3, 4, 5].includes(column) ? "number" : ""}`, role: "cell", title: typeof cell === "string" ? shown(cell) : null,
  }, cell)));
  node.style.top = `${place * HEIGHT}px`;
  return node;
}
