// Coding: features or tasks filling up, what each try came to, the evidence on it, what it changed, and what each proven one costs.

import { at, get } from "./api.js";
import { clock, el, facts, keepTable, pretty, shown, span, words } from "./dom.js";
import { turn } from "./harness.js";
import { watch } from "./live.js";
import { rounded } from "./trading.js";

const SVG = "http://www.w3.org/2000/svg";

export async function codingView(main, name, id) {
  if (!name) return lists(main);
  return id ? item(main, name, id) : list(main, name);
}

const here = (name, id) => `#/coding/${encodeURIComponent(name)}${id === undefined ? "" : `/${encodeURIComponent(id)}`}`;
const head = (name, id) => el("h2", {}, el("a", { href: "#/coding" }, "Coding"), " › ",
  id === undefined ? el("a", { href: `#/h/${encodeURIComponent(name)}` }, name) : [el("a", { href: here(name) }, name), " › ", id]);

async function lists(main) {
  const below = el("div");
  main.replaceChildren(el("h2", {}, "Coding"), below);
  return async () => {
    const found = await get("lists");
    const whole = await Promise.all(found.slice(0, 50).map((one) => get(`${at(one.harness)}/list`)));
    if (!whole.length) return below.replaceChildren(el("p", { class: "soft" }, "No harness here works on features or tasks yet."));
    keepTable(below, ["Harness", "Proven", "", "Blocked", "Tries", "Cost of each proven one", "Goal"], whole, (one) => [
      el("a", { href: here(one.harness) }, one.harness), `${one.passed} of ${one.listed} ${one.what}`, meter(one), one.blocked || "",
      one.cost.tries, each(one), one.goal.slice(0, 200)]);
  };
}

function meter(one) {
  const bar = el("span");
  bar.style.width = `${one.listed ? Math.round((100 * one.passed) / one.listed) : 0}%`;
  return el("div", { class: "meter", role: "img", "aria-label": `${one.passed} of ${one.listed} proven` }, bar);
}

const each = (one) => one.passed ? [
  one.per_passed.money === null ? "" : `${rounded(one.per_passed.money, 4)} of money`,
  one.per_passed.tokens === null ? "" : `${Math.round(one.per_passed.tokens).toLocaleString("en")} tokens`,
  span(one.per_passed.took_s)].filter(Boolean).join(", ") : "none is proven";

async function list(main, name) {
  const top = el("div"), chart = el("div"), below = el("div");
  const only = el("select", { "aria-label": "Status" }, ["every status", "passed", "pending", "blocked"].map((one, place) => el("option", { value: place ? one : "" }, place ? words(one === "passed" ? "proven" : one) : one)));
  main.replaceChildren(head(name), top, chart, el("div", { class: "filters" }, only), below);
  const run = await get("run"), live = watch(name, run.last_seq);
  let now = null;
  const rows = () => keepTable(below, ["Feature", "Status", "Tries", "Cost", "Commit", "What it is, and why it does not pass"],
    now.items.filter((one) => !only.value || one.status === only.value), (one) => [
      el("a", { href: here(name, one.id) }, one.id), status(one), marks(one), cost(one.cost), commit(one.commit),
      [el("div", {}, one.title.split("\n").find((line) => line.trim()) ?? ""), one.status !== "passed" && one.why ? el("div", { class: "soft" }, one.why) : null]]);
  only.addEventListener("input", rows);
  const refresh = async () => {
    if (!live.isNew) return;
    live.isNew = false;
    now = await get(`${at(name)}/list`);
    top.replaceChildren(el("p", {}, now.goal), el("div", { class: "figures" },
      tile("Proven", `${now.passed} of ${now.listed}`, meter(now)),
      tile("Blocked", now.blocked, "a person must decide"),
      tile("Tries", now.cost.tries, `${now.cost.in_vain} in vain`),
      tile("Cost", cost(now.cost) || "not known", "charged, or told by agents"),
      tile("Each proven one", each(now), now.what === "tasks" ? "tasks" : "features"),
      now.commit ? tile("Last good commit", commit(now.commit), now.branch ?? "") : null));
    chart.replaceChildren(filling(now));
    rows();
    if (now.read < now.steps || !now.is_complete) live.isNew = true;
  };
  refresh.leave = live.close;
  return refresh;
}

const tile = (name, value, more) => el("div", { class: "figure", "data-figure": name.toLowerCase() }, el("span", { class: "soft" }, name), el("strong", {}, value), el("span", { class: "soft small" }, more));
const status = (one) => el("span", { class: one.status === "passed" ? "good" : one.status === "blocked" ? "bad-text" : "soft" },
  one.status === "passed" ? "proven" : one.status, one.set_backs ? ` (set back ${one.set_backs} ×)` : "");
const commit = (hash) => hash ? el("code", { title: hash }, hash.slice(0, 10)) : "";
const cost = (one) => [one.money === null ? "" : rounded(one.money, 4), one.tokens === null ? "" : `${one.tokens.toLocaleString("en")} tokens`,
  one.took_s ? span(one.took_s) : ""].filter(Boolean).join(", ");
const GOOD = new Set(["passed", "rechecked"]);

function marks(one) {
  const said = one.tries.map(words).join(", ") || "none yet";
  return el("span", { class: "marks", role: "img", "aria-label": said, title: said },
    one.tries.map((how) => el("span", { class: GOOD.has(how) ? "good" : how === "interrupted" ? "soft" : "bad-text" }, GOOD.has(how) ? "✓" : how === "interrupted" ? "–" : "✗")));
}

// Proven features over time, as steps, below the number of all.
function filling(now) {
  const points = now.changes, width = 1000, height = 120;
  const figure = el("figure", { class: "filling" });
  if (points.length < 2) return figure;
  const begin = points[0][0], end = Math.max(new Date(now.end).getTime() / 1000, points.at(-1)[0]), most = Math.max(1, ...points.map((one) => one[2]));
  const x = (time) => (width * (time - begin)) / Math.max(end - begin, 1e-6), y = (count) => height - ((height - 6) * count) / most;
  const path = (place) => points.map((one, number) => `${number ? `H${x(one[0]).toFixed(1)}V` : `M${x(one[0]).toFixed(1)},`}${y(one[place]).toFixed(1)}`).join("") + `H${width}`;
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${now.passed} of ${now.listed} proven, from ${clock(now.begin)} to ${clock(now.end)}` });
  svg.append(node("path", { d: `${path(1)}V${height}H0Z`, class: "area" }), node("path", { d: path(1), class: "line" }), node("path", { d: path(2), class: "all" }));
  figure.append(svg, el("figcaption", { class: "soft small" }, `Proven ${now.what} over time, below all that are listed: ${clock(now.begin)} to ${clock(now.end)}`));
  return figure;
}

function node(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

async function item(main, name, id) {
  const below = el("div");
  main.replaceChildren(head(name, id), below);
  const run = await get("run"), live = watch(name, run.last_seq);
  const opened = new Set();
  const refresh = async () => {
    if (!live.isNew) return;
    live.isNew = false;
    const one = await get(`${at(name)}/list/${encodeURIComponent(id)}`);
    if (opened.size) return;  // what is being read stays
    below.replaceChildren(el("div", {},
      facts([["Status", status(one)], ["Cost", cost(one.cost)], ["Depends on", one.depends_on.join(", ")], ["Commit", commit(one.commit)]]),
      el("pre", {}, shown(one.description)),
      one.checks.length ? el("ul", {}, one.checks.map((check) => el("li", {}, check))) : "",
      one.evidence.length ? [el("h3", {}, "What proves it"), one.evidence.map(evidence)] : "",
      one.status !== "passed" && one.last_failure ? [el("h3", {}, "Why it does not pass"), el("pre", {}, shown(one.last_failure))] : "",
      one.artifacts.length ? [el("h3", {}, "Accepted work"), one.artifacts.map((made) => folded(opened, made.path || "text", () => [el("pre", {}, shown(made.text))]))] : "",
      el("h3", {}, "Tries, newest first"), one.tries.map((made) => attempt(name, made, opened))));
  };
  refresh.leave = live.close;
  return refresh;
}

const evidence = (one) => el("div", { class: "evidence" }, el("p", { class: one.passed ? "good" : "bad-text" }, `${one.passed ? "✓" : "✗"} ${one.what}`), one.text ? el("pre", {}, shown(one.text)) : null);

function folded(opened, title, fill, isOpen = false) {
  const body = el("div"), details = el("details", {}, el("summary", {}, title), body);
  details.addEventListener("toggle", async () => {
    if (details.open) opened.add(details); else opened.delete(details);
    if (details.open && !body.childElementCount) body.replaceChildren(...(await fill()));
  });
  return details;
}

function attempt(name, one, opened) {
  const said = words(one.status);
  return el("section", { class: `card ${one.passed ? "ok" : one.passed === false ? "bad" : ""}`, "data-step": one.step },
    el("p", {}, el("strong", {}, one.number ? `Try ${one.number}: ${said}` : said[0].toUpperCase() + said.slice(1)), " ", commit(one.commit), one.branch ? el("code", {}, ` ${one.branch}`) : ""),
    el("p", { class: "soft" }, `step ${one.step.toLocaleString("en")}, ${clock(one.time)}; ${cost({ ...one })}`),
    one.evidence.length ? folded(opened, "Evidence", () => one.evidence.map(evidence)) : one.note ? el("p", {}, one.note) : null,
    one.message ? folded(opened, "What the agent said", () => [el("pre", {}, shown(one.message))]) : null,
    one.diff ? folded(opened, `Diff: ${one.touched.length} ${one.touched.length === 1 ? "file" : "files"}`, () => [diff(one.diff)])
      : one.touched.length ? el("p", { class: "soft" }, `changed: ${one.touched.join(", ")}`) : null,
    folded(opened, "Transcript", async () => {
      const turns = await get(`${at(name)}/transcripts?step=${one.step}`);
      return turns.length ? turns.map(turn) : [el("p", { class: "soft" }, "No transcript was recorded for this try.")];
    }));
}

const KIND = { "+": "added", "-": "removed", "@": "hunk" };

function diff(text) {
  return el("pre", { class: "diff" }, text.split("\n").map((line) => {
    const kind = /^(diff |index |--- |\+\+\+ )/.test(line) ? "file" : KIND[line[0]] ?? "";
    return el("span", { class: kind }, line);
  }));
}
