// The fleet, worst first: only the rows in view are in the document, so that ten thousand scroll like ten.

import { get } from "./api.js";
import { el, shown, span, spark, virtual, words } from "./dom.js";

const HEIGHT = 40, SUPERVISORS_MS = 2000;
const HEADS = ["Harness", "Status", "Step", "Attempt", "This step", "p95", "Rate", "Pace", "Last step, or why"];
const NUMBERS = [2, 3, 4, 5, 6];
const SORTS = {
  "worst first": (a, b) => a.rank - b.rank || byName(a, b),
  "as a tree": null,
  "by supervisor": null,
  "by name": (a, b) => byName(a, b),
  "by steps": (a, b) => b.current_step - a.current_step,
  "by attempts": (a, b) => b.attempt - a.attempt || byName(a, b),
  "longest step first": (a, b) => (a.began ?? Infinity) - (b.began ?? Infinity),
  "newest first": (a, b) => (b.timestamp ?? "") < (a.timestamp ?? "") ? -1 : 1,
};
const BAD = new Set(["gave_up", "failed", "blocked", "halted", "hung", "interrupted", "budget_spent"]);
const WARN = new Set(["waiting_for_approval", "backing_off", "paused"]);
const byName = (a, b) => a.harness < b.harness ? -1 : a.harness > b.harness ? 1 : 0;

export async function fleetView(main, fleet) {
  const search = el("input", { type: "search", placeholder: "name or cause", "aria-label": "Search" });
  const status = el("select", { "aria-label": "Status" }, el("option", { value: "" }, "every status"));
  const sort = el("select", { "aria-label": "Order" }, Object.keys(SORTS).map((name) => el("option", { value: name }, name)));
  const count = el("span", { class: "soft", "aria-live": "polite" });
  const head = el("div", { class: "row head", role: "row", "aria-rowindex": 1 },
    HEADS.map((text, place) => el("div", { class: `cell ${NUMBERS.includes(place) ? "number" : ""}`, role: "columnheader" }, text)));
  const body = el("div", { role: "rowgroup" });
  const grid = el("div", { class: "grid", role: "table", "aria-label": "Fleet", tabindex: "0" }, el("div", { role: "rowgroup" }, head), body);
  main.replaceChildren(el("h2", {}, "Fleet"), el("div", { class: "filters" }, search, status, sort, count), grid);
  let paces = {}, asked = "";
  const list = virtual(grid, body, HEIGHT, (row) => row.is_supervisor ? supervisorLine(row) : line(row, paces[row.harness], SORTS[sort.value] ? 0 : row.depth ?? 0));
  let supervisors = [], asked_at = -Infinity;
  const askSupervisors = async () => {
    if (sort.value !== "by supervisor" || performance.now() - asked_at < SUPERVISORS_MS) return;
    asked_at = performance.now();
    supervisors = await get("supervisors");
    choose();
  };

  const choose = () => {
    const text = search.value.toLowerCase(), all = [...fleet.rows.values()];
    const rows = all.filter((row) => (!status.value || row.activity === status.value) &&
      (!text || row.harness.toLowerCase().includes(text) || row.cause.toLowerCase().includes(text)));
    const known = new Set([...status.options].map((option) => option.value));
    for (const name of new Set(all.map((row) => row.activity))) {
      if (!known.has(name)) status.append(el("option", { value: name }, words(name)));
    }
    count.textContent = `${rows.length.toLocaleString()} of ${all.length.toLocaleString()}`;
    grid.setAttribute("aria-rowcount", rows.length + 1);
    list.show(SORTS[sort.value] ? rows.sort(SORTS[sort.value]) : sort.value === "by supervisor" ? bySupervisor(rows, supervisors) : tree(rows));
  };

  const chosen = () => {
    grid.scrollTop = 0;
    // The same row looks different in a tree.
    for (const [name, row] of fleet.rows) fleet.rows.set(name, { ...row });
    choose();
    asked_at = -Infinity;
    askSupervisors().catch(() => {});
  };

  const askPaces = async () => {
    const rows = list.range().filter((row) => !row.is_supervisor).slice(0, 80);
    const key = rows.map((row) => `${row.harness} ${row.current_step}`).join();
    if (!rows.length || key === asked) return;
    asked = key;
    paces = await get(`paces?names=${rows.map((row) => encodeURIComponent(row.harness)).join(",")}`);
    for (const row of rows) list.node(row)?.pace(paces[row.harness]);
  };

  let soon = 0;
  grid.addEventListener("scroll", () => { clearTimeout(soon); soon = setTimeout(() => askPaces().catch(() => {}), 150); }, { passive: true });
  grid.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key], rows = list.rows();
    if (!step || !rows.length) return;
    event.preventDefault();
    const now = rows.findIndex((row) => row.harness === document.activeElement?.dataset?.harness);
    const next = Math.min(rows.length - 1, Math.max(0, now + step));
    if (next * HEIGHT < grid.scrollTop || (next + 2) * HEIGHT > grid.scrollTop + grid.clientHeight) grid.scrollTop = Math.max(0, (next - 3) * HEIGHT);
    list.draw();
    list.node(rows[next])?.focus({ preventScroll: true });
  });
  search.addEventListener("input", choose);
  for (const input of [status, sort]) input.addEventListener("input", chosen);
  choose();
  return async () => {
    const focused = document.activeElement?.dataset?.harness;
    await askSupervisors();
    if (fleet.isNew) choose();
    if (focused && fleet.rows.has(focused)) list.node(fleet.rows.get(focused))?.focus({ preventScroll: true });
    for (const row of list.range()) list.node(row)?.age?.();
    await askPaces();
  };
}

// Those that others have started come below them, each one level further in.
function tree(rows) {
  const names = new Set(rows.map((row) => row.harness)), below = new Map();
  for (const row of rows) {
    const parent = names.has(row.parent) ? row.parent : "";
    if (below.has(parent)) below.get(parent).push(row);
    else below.set(parent, [row]);
  }
  const found = [], stack = (below.get("") ?? []).sort(byName).reverse().map((row) => [row, 0]);
  while (stack.length) {
    const [row, depth] = stack.pop();
    row.depth = depth;
    found.push(row);
    stack.push(...(below.get(row.harness) ?? []).sort(byName).reverse().map((child) => [child, depth + 1]));
  }
  return found;
}

// Supervisors, each above the harnesses below it; those without one come first.
function bySupervisor(rows, supervisors) {
  const below = new Map();
  for (const row of rows) {
    const path = row.supervisor ?? "";
    if (!below.has(path)) below.set(path, []);
    below.get(path).push(row);
  }
  const found = (below.get("") ?? []).sort(byName);
  for (const row of found) row.depth = 0;
  for (const each of supervisors) {
    const depth = each.supervisor.split("/").length;
    found.push({ ...each, is_supervisor: true, depth: depth - 1, harness: `${each.supervisor}/` });
    for (const row of (below.get(each.supervisor) ?? []).sort(byName)) { row.depth = depth; found.push(row); }
  }
  return found;
}

function supervisorLine(row) {
  const name = row.supervisor.split("/").at(-1), limit = `${row.restarts} of ${row.intensity} restarts in ${span(row.period_s)}`;
  return el("div", { class: "row", role: "row", tabindex: "-1", "data-harness": row.harness }, [
    `${"\u2003".repeat(row.depth)}${name}/`, words(row.activity ?? ""), "", "", "", "", "", "", `${words(row.strategy)}, ${limit}`,
  ].map((cell, column) => el("div", { class: `cell ${NUMBERS.includes(column) ? "number" : ""}`, role: "cell" }, el("b", {}, cell))));
}

function line(row, pace, depth) {
  const tone = BAD.has(row.activity) ? "bad-text" : WARN.has(row.activity) ? "warn" : "";
  const age = el("span"), p95 = el("span"), rate = el("span"), sparkline = el("span"), last = el("span");
  const cells = [
    [depth ? `${"\u2003".repeat(depth)}└ ` : row.parent ? el("span", { class: "soft" }, `${row.parent} › `) : "",
      el("a", { href: `#/h/${encodeURIComponent(row.harness)}`, tabindex: "-1" }, row.harness)],
    el("span", { class: tone }, words(row.activity)),
    row.current_step.toLocaleString(), row.attempt, age, p95, rate, sparkline, last,
  ];
  const node = el("div", {
    class: "row", role: "row", tabindex: "-1", "data-harness": row.harness,
    onkeydown: (event) => { if (event.key === "Enter") location.hash = `#/h/${encodeURIComponent(row.harness)}`; },
  }, cells.map((cell, column) => el("div", {
    class: `cell ${NUMBERS.includes(column) ? "number" : ""}`, role: "cell", title: column ? null : shown(row.harness),
  }, cell)));
  let usual_s = pace?.p95_s;
  node.age = () => {
    const age_s = row.began === null ? null : Date.now() / 1000 - row.began;
    age.textContent = span(age_s);
    age.className = usual_s && age_s > 10 * usual_s && age_s > 60 ? "warn" : "";
  };
  node.pace = (now) => {
    usual_s = now?.p95_s;
    p95.textContent = usual_s ? span(usual_s) : "";
    rate.textContent = now?.per_minute ? `${now.per_minute >= 100 ? Math.round(now.per_minute) : now.per_minute}/min` : "";
    sparkline.replaceChildren(...(now?.sparkline?.length ? [spark(now.sparkline)] : []));
    last.textContent = shown(row.cause || now?.last || "");
    last.parentNode.title = last.textContent;
    node.age();
  };
  node.pace(pace);
  return node;
}
