// One harness: why it is where it is, what it waits for, its steps with what changed, what was said to it and by its agents.

import { at, every, get, order, post } from "./api.js";
import { clock, el, facts, keep, keepTable, pretty, renew, shown, span, spark, table, words } from "./dom.js";

const STARTED_AGAIN = new Set(["finished", "stopped", "failed", "gave_up", "blocked", "budget_spent"]);
const TABS = ["steps", "state", "transcript", "output", "messages", "history", "effects"];
const CAUSES_MS = 3000;
const FOLLOWED = new Set(["output", "messages", "transcript"]);

export async function harnessView(main, name, tab = "steps") {
  const top = el("div"), why = el("div"), orders = el("div"), limits = limitsForm(name), below = el("div");
  const tabs = el("div", { class: "tabs" }, TABS.map((one) => el("a", {
    href: `#/h/${encodeURIComponent(name)}/${one}`, "aria-current": one === tab ? "page" : null,
  }, one[0].toUpperCase() + one.slice(1))));
  main.replaceChildren(top, orders, limits, why, tabs, below);
  const show = { steps, state, transcript, output, messages, history, effects }[tab] ?? steps;
  const causes = every(CAUSES_MS, async () => {
    const [chain, waits] = await Promise.all([get(`${at(name)}/why`), get(`${at(name)}/waits`)]);
    renew(why, [causesOf(chain, waits)]);
  });
  let before = "";
  return async () => {
    const now = await get(at(name));
    renew(top, summary(now));
    const verbs = ordersOf(now);
    limits.hidden = !now.is_live || now.status === "completed" || STARTED_AGAIN.has(now.status);
    update(orders, el("div", { class: "orders" }, verbs.map((each) => button(now.harness, ...each))), JSON.stringify(verbs));
    await causes();
    const key = FOLLOWED.has(tab) ? `${now.last_seq}` : `${now.current_step} ${now.attempt} ${now.activity}`;
    if (key === before) return;
    before = key;
    await show(below, name, now);
  };
}

// Replaces what is shown only if it says something else, so that what is focused or unfolded stays so.
function update(place, node, key) {
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  place.replaceChildren(node);
}

function causesOf(chain, waits) {
  return el("section", { class: "card plain", "aria-label": "Why it is where it is" },
    el("h3", {}, "Why it is where it is"),
    el("ol", { class: "chain" }, chain.map((link) => el("li", {}, link.harness && link.step ? el("a", { href: `#/h/${encodeURIComponent(link.harness)}/history` }, "→") : "", " ", link.text))),
    waits.length ? [el("h3", {}, "Waits"), table(["For", "Time left"], waits.map((wait) => [
      wait.what, wait.left_s === null ? "no limit" : wait.left_s > 0 ? span(wait.left_s) : `due for ${span(-wait.left_s)}`]))] : null);
}

function ordersOf(now) {
  if (!now.is_live || now.status === "completed") return [];
  if (STARTED_AGAIN.has(now.status)) return [["Start", "start"]];
  return [...(now.status === "paused" ? [["Resume", "resume"]] : [["Pause", "pause"], ["Pause now", "pause", { hard: true }]]), ["Stop", "stop"], ["Restart", "restart"]];
}

// Time limits while it runs; those in force are asked for when it is unfolded.
function limitsForm(name) {
  const what = el("select", { "aria-label": "Time limit" }, ["step_timeout_s", "deadline_s", "period_s"].map((one) => el("option", { value: one }, words(one))));
  const limit = el("input", { type: "text", inputmode: "decimal", "aria-label": "Seconds", placeholder: "seconds; empty for none", size: 20 });
  const reason = el("input", { type: "text", "aria-label": "Reason of the time limit", placeholder: "reason" });
  const current = el("p", { class: "soft" });
  const told = (limits) => { current.textContent = Object.entries(limits).map(([one, seconds]) => `${words(one)}: ${seconds === null ? "none" : span(seconds)}`).join(" · "); };
  const form = el("details", {}, el("summary", {}, "Time limits"), current,
    el("div", { class: "orders" }, what, limit, reason, order("Set", `${at(name)}/limits`, {
      body: () => ({ limits: { [what.value]: limit.value.trim() === "" ? null : Number(limit.value) }, reason: reason.value }),
      done: (set) => { told(set.limits); return `${set.harness} ${set.changed ? "has new limits" : "has these limits already"}`; },
    })));
  form.addEventListener("toggle", async () => {
    if (!form.open) return;
    try { told((await post(`${at(name)}/limits`)).limits); } catch (error) { current.textContent = error.message; }
  });
  return form;
}

function button(name, label, verb, body = {}) {
  return order(label, `${at(name)}/${verb}`, { body: () => body, done: (told) => `${told.harness} is ${words(told.status)} at step ${told.current_step}` });
}

function summary(now) {
  const name = now.harness;
  const age_s = now.began === null || now.began === undefined ? null : Date.now() / 1000 - now.began;
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
  ];
}

const view = (name, kind) => el("a", { href: `#/${kind === "trading" ? "trading" : "coding"}/${encodeURIComponent(name)}` }, kind);
const link = (name) => el("a", { href: `#/h/${encodeURIComponent(name)}` }, name);

// The newest steps, and those that were asked for or are unfolded.
async function steps(below, name) {
  if (!below.firstChild) below.replaceChildren(...stepList(name));
  await below.firstChild.look();
}

function stepList(name) {
  const list = el("div"), more = el("button", { type: "button" }, "Earlier steps"), earlier = new Map();
  let rows = [];
  const draw = (found) => {
    const isOpen = (step) => list.querySelector(`[data-key="${step.step_number}"] [aria-expanded=true]`);
    const steps = new Map([...rows.filter(isOpen), ...earlier.values(), ...found].map((step) => [step.step_number, step]));
    rows = Array.from(steps.values()).sort((one, other) => other.step_number - one.step_number);
    keep(list, rows, (step) => String(step.step_number), (step) => stepRow(name, step));
    more.hidden = !rows.length || rows.at(-1).step_number <= 1;
  };
  more.addEventListener("click", async () => {
    const found = await get(`${at(name)}/steps?limit=50&before=${rows.at(-1).step_number}`);
    for (const step of [...rows, ...found]) earlier.set(step.step_number, step);
    draw([]);
  });
  list.look = async () => draw(await get(`${at(name)}/steps?limit=50`));
  return [list, more];
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
        el("h3", {}, "State after it"), el("pre", {}, pretty(whole.state)), forkForm(name, step.step_number));
    }
  });
  return el("div", { class: "step" }, el("div", { class: "orders" }, button,
    el("span", { class: "soft" }, clock(step.timestamp)), el("span", {}, step.line)), detail);
}

function forkForm(name, step) {
  const to = el("input", { type: "text", value: `${name}-${step}`, "aria-label": `name of the fork at step ${step}` });
  return el("div", { class: "orders" }, order("Fork", `${at(name)}/fork`, {
    body: () => ({ step, as: to.value }), done: (made) => `${made.harness} has steps 1 to ${made.step_number} of ${made.origin}; start it under its name`,
  }), to);
}

async function state(below, name, now) {
  const last = now.current_step, shownState = el("pre"), changes = el("pre");
  const step = el("input", { type: "number", min: 0, max: last, value: last, "aria-label": "after step" });
  const slider = el("input", { type: "range", min: 0, max: last, value: last, "aria-label": "step" });
  const look = async () => {
    const number = Math.min(last, Math.max(0, Math.round(Number(step.value) || 0)));
    const [found, whole] = await Promise.all([get(`${at(name)}/state?step=${number}`), number ? get(`${at(name)}/steps/${number}`) : null]);
    shownState.textContent = pretty(found.state);
    changes.textContent = whole ? whole.changes.map(shown).join("\n") || "nothing" : "the initial state";
  };
  const soon = () => look().catch((error) => { shownState.textContent = shown(error.message); });
  step.addEventListener("input", () => { slider.value = step.value; soon(); });
  slider.addEventListener("input", () => { step.value = slider.value; soon(); });
  if (below.querySelector("input[type=range]")) return;  // Someone is looking at an earlier state.
  below.replaceChildren(el("div", { class: "filters" }, el("label", {}, "After step ", step), slider), el("h3", {}, "State"), shownState, el("h3", {}, "Changed by this step"), changes);
  await look();
}

async function messages(below, name, now) {
  const found = await get(`${at(name)}/messages`), waiting = new Set(found.waiting);
  if (!below.querySelector("textarea")) below.replaceChildren(now.status === "completed" ? "" : writing(name, now), el("div"));
  if (!found.messages.length) return below.lastChild.replaceChildren(el("p", { class: "soft" }, "It has no message."));
  const rows = found.messages.map((message) => ({ ...message, waits: waiting.has(message.seq) }));
  keepTable(below.lastChild, ["Time", "From", "Kind", "", "Message"], rows, (message) => [
    clock(message.timestamp), message.from, message.kind ?? "message", message.waits ? "waits" : "read", pretty(message.message),
  ]);
}

function writing(name, now) {
  const text = el("textarea", { rows: 3, "aria-label": "message", placeholder: "a message: JSON, or else text" }), reply = el("pre", { hidden: true });
  const body = () => {
    try { return { message: JSON.parse(text.value) }; } catch { return { message: text.value }; }
  };
  const replied = (answer) => {
    reply.hidden = false;
    reply.textContent = pretty(answer.reply);
    return `${name} has replied`;
  };
  return el("div", {}, text, el("div", { class: "orders" },
    order("Send", `${at(name)}/send`, { body, done: (sent) => `message ${sent.seq} is in the mailbox of ${sent.harness}`, main: true }),
    now.is_live ? order("Ask", `${at(name)}/ask`, { body, done: replied }) : null), reply);
}

async function transcript(below, name) {
  const turns = await get(`${at(name)}/transcripts`);
  keep(below, turns.length ? turns.reverse() : [null], JSON.stringify, (one) => (one ? turn(one) : el("p", { class: "soft" }, "No agent of it has said anything.")));
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
  const box = below.querySelector("pre"), isAtEnd = !box || box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
  if (!isAtEnd) return;  // Someone reads further up.
  below.replaceChildren(el("pre", {}, lines.map((line) => `${clock(line.timestamp)}  ${shown(line.line)}`).join("\n") || "no output"));
  below.firstChild.scrollTop = below.firstChild.scrollHeight;
}

async function history(below, name) {
  const events = await get(`${at(name)}/history`);
  keepTable(below, ["Time", "Attempt", "After step", "Event", "Why"], events, (event) => [
    clock(event.timestamp), event.attempt, event.step, words(event.kind),
    el("div", {}, event.cause ?? event.reason ?? "", event.traceback ? el("details", {}, el("summary", {}, "traceback"), el("pre", {}, pretty(event.traceback))) : null),
  ]);
}

async function effects(below, name) {
  const found = await get(`${at(name)}/effects`);
  keepTable(below, ["Time", "Step", "Key", "Outcome", "Arguments", "Result"], found.reverse(), (effect) => [
    clock(effect.timestamp), effect.step_number, effect.key, effect.outcome,
    pretty(JSON.stringify(effect.arguments) ?? "").slice(0, 300), pretty(JSON.stringify(effect.result) ?? "").slice(0, 300)]);
}
