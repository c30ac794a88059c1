// One harness: why it is where it is, its steps with what changed, what its agents said, its output and its effects.

import { at, get, order } from "./api.js";
import { clock, el, facts, pretty, shown, span, spark, table, words } from "./dom.js";

const STARTED_AGAIN = new Set(["finished", "stopped", "failed", "gave_up", "blocked", "budget_spent"]);
const TABS = ["steps", "transcript", "output", "history", "effects"];

export async function harnessView(main, name, tab = "steps") {
  const top = el("div"), below = el("div");
  const tabs = el("div", { class: "tabs" }, TABS.map((one) => el("a", {
    href: `#/h/${encodeURIComponent(name)}/${one}`, "aria-current": one === tab ? "page" : null,
  }, one[0].toUpperCase() + one.slice(1))));
  main.replaceChildren(top, tabs, below);
  const show = { steps, transcript, output, history, effects }[tab] ?? steps;
  let before = "";
  return async () => {
    const now = await get(at(name));
    top.replaceChildren(...summary(now));
    const key = `${now.current_step} ${now.attempt} ${now.activity}`;
    if (key === before) return;
    before = key;
    await show(below, name, now);
  };
}

function summary(now) {
  const name = now.harness;
  const age_s = now.began === null || now.began === undefined ? null : Date.now() / 1000 - now.began;
  const path = at(name), run = { done: (told) => `${told.harness} is ${words(told.status)} at step ${told.current_step}` };
  const orders = !now.is_live || now.status === "completed" ? [] : STARTED_AGAIN.has(now.status) ? ["start"]
    : [now.status === "paused" ? "resume" : "pause", "stop", "restart"];
  return [
    el("h2", {}, name),
    facts([
      ["Status", words(now.activity)], ["Why", now.cause], ["Step", now.current_step.toLocaleString()], ["Attempt", now.attempt],
      ["This step", span(age_s)], ["Usual step (p95)", span(now.p95_s)], ["Steps a minute", now.per_minute],
      ["Last step", now.last], ["Restarts at", clock(now.until)],
      ["Started by", now.parent ? link(now.parent) : ""],
      ["Has started", now.children?.length ? el("span", {}, now.children.map((child) => [link(child), " "])) : ""],
      ["View of its work", now.kind ? view(name, now.kind) : ""], ["Class", now.class], ["Pace", now.sparkline?.length ? spark(now.sparkline) : ""],
    ]),
    el("div", { class: "orders" }, orders.map((verb) => order(verb[0].toUpperCase() + verb.slice(1), `${path}/${verb}`, run))),
  ];
}

const view = (name, kind) => el("a", { href: `#/${kind === "trading" ? "trading" : "coding"}/${encodeURIComponent(name)}` }, kind);
const link = (name) => el("a", { href: `#/h/${encodeURIComponent(name)}` }, name);

async function steps(below, name) {
  const list = el("div"), more = el("button", { type: "button" }, "Earlier steps");
  let oldest = null;
  const page = async () => {
    const found = await get(`${at(name)}/steps?limit=50${oldest === null ? "" : `&before=${oldest}`}`);
    list.append(...found.map((step) => stepRow(name, step)));
    oldest = found.at(-1)?.step_number ?? 1;
    more.hidden = oldest <= 1;
  };
  more.addEventListener("click", page);
  await page();
  below.replaceChildren(list, more);
}

function stepRow(name, step) {
  const detail = el("div", { hidden: true });
  const button = el("button", { type: "button", "aria-expanded": "false" }, step.step_number.toLocaleString());
  button.addEventListener("click", async () => {
    detail.hidden = !detail.hidden;
    button.setAttribute("aria-expanded", String(!detail.hidden));
    if (!detail.childElementCount) {
      const whole = await get(`${at(name)}/steps/${step.step_number}`);
      detail.append(el("h3", {}, "Changed in the state"), el("pre", {}, whole.changes.map(shown).join("\n") || "nothing"),
        el("h3", {}, "Input"), el("pre", {}, pretty(whole.input)), el("h3", {}, "Output"), el("pre", {}, pretty(whole.output)),
        el("h3", {}, "State after it"), el("pre", {}, pretty(whole.state)));
    }
  });
  return el("div", { class: "step" }, el("div", { class: "orders" }, button,
    el("span", { class: "soft" }, clock(step.timestamp)), el("span", {}, step.line)), detail);
}

async function transcript(below, name) {
  const turns = await get(`${at(name)}/transcripts`);
  below.replaceChildren(...(turns.length ? turns.reverse().map(turn) : [el("p", { class: "soft" }, "No agent of it has said anything.")]));
}

export function turn(one) {
  const said = one.transcript;
  return el("details", { open: !one.is_recorded },
    el("summary", {}, `step ${one.step_number}: ${said.agent || "an agent"}, ${clock(one.timestamp)}${one.is_recorded ? "" : ", in progress"}`),
    said.messages.map((message) => [
      el("p", { class: "said-by" }, message.role),
      message.text ? el("pre", {}, pretty(message.text)) : null,
      (message.calls ?? []).map((call) => el("pre", {}, `→ ${call.name} ${pretty(call.arguments)}`)),
      (message.results ?? []).map((result) => el("pre", {}, `${result.is_error ? "failed: " : ""}${pretty(result.text)}`)),
    ]), said.error ? el("p", { class: "bad-text" }, said.error) : null);
}

async function output(below, name) {
  const lines = await get(`${at(name)}/output`);
  below.replaceChildren(el("pre", {}, lines.map((line) => `${clock(line.timestamp)}  ${shown(line.line)}`).join("\n") || "no output"));
}

async function history(below, name) {
  const events = await get(`${at(name)}/history`);
  below.replaceChildren(table(["Time", "Attempt", "After step", "Event", "Why"], events.map((event) => [
    clock(event.timestamp), event.attempt, event.step, words(event.kind),
    el("div", {}, event.cause ?? event.reason ?? "", event.traceback ? el("details", {}, el("summary", {}, "traceback"), el("pre", {}, pretty(event.traceback))) : null),
  ])));
}

async function effects(below, name) {
  const found = await get(`${at(name)}/effects`);
  below.replaceChildren(table(["Time", "Step", "Key", "Outcome", "Arguments", "Result"], found.reverse().map((effect) => [
    clock(effect.timestamp), effect.step_number, effect.key, effect.outcome,
    pretty(JSON.stringify(effect.arguments) ?? "").slice(0, 300), pretty(JSON.stringify(effect.result) ?? "").slice(0, 300)])));
}
