// What needs a person: one card for each cause, with what is asked, the time that is left, and the orders that help.

import { at, get, order } from "./api.js";
import { clock, el, keep, pretty, span, words } from "./dom.js";

const BAD = new Set(["gave_up", "failed", "blocked", "unknown_effect", "halted", "hung", "interrupted"]);
const TITLES = { approval: "asks for approval", unknown_effect: "unknown effect", kill_switch: "kill switch", budget: "budget" };

export async function needsView(main) {
  const list = el("div");
  main.replaceChildren(el("h2", {}, "Needs you"), list);
  return async () => {
    const found = await get("needs");
    keep(list, found.length ? found : [null], keyOf, (need) => (need ? card(need) : el("p", { class: "good" }, "Nothing needs you.")));
  };
}

// What a card says and asks: while that is the same the card stays, with the reason that is being typed.
function keyOf(need) {
  if (!need) return "";
  const { facts, ...rest } = need;
  return JSON.stringify([rest, facts.id ?? facts.attempt ?? ""]);
}

function card(need) {
  const name = need.harness || (need.kind === "kill_switch" ? "all harnesses" : "");
  const title = need.harness ? el("a", { href: `#/h/${encodeURIComponent(name)}` }, name) : name;
  const reason = el("input", { type: "text", "aria-label": `reason, ${words(need.kind)} of ${name}`, placeholder: "reason" });
  const said = () => ({ reason: reason.value });
  const buttons = need.orders.map((verb) => button(need, verb, said));
  return el("section", { class: `card ${BAD.has(need.kind) ? "bad" : ""}`, "data-kind": need.kind, "data-harness": need.harness },
    el("p", {}, el("strong", {}, title), " ", el("span", {}, TITLES[need.kind] ?? need.what)),
    TITLES[need.kind] ? el("p", {}, need.what) : null,
    need.cause ? el("p", { class: "soft" }, need.cause) : null,
    need.kind === "approval" ? exactly(need.facts) : null,
    buttons.length ? el("div", { class: "orders" }, buttons, needsReason(need) ? reason : null) : null);
}

function exactly(asked) {
  return el("div", {},
    el("p", { class: "soft" }, `${asked.category ?? ""}, step ${asked.step_number}, asked ${clock(asked.timestamp)}`,
      asked.left_s ? `; ${span(asked.left_s)} left` : ""),
    el("pre", {}, pretty(asked.arguments)));
}

const needsReason = (need) => ["approval", "unknown_effect"].includes(need.kind);

function button(need, verb, said) {
  const facts = need.facts;
  if (need.kind === "approval") {
    return order(verb === "approve" ? "Approve" : "Deny", `approvals/${encodeURIComponent(facts.id)}/${verb}`,
      { body: said, done: (answer) => `${answer.id} is ${answer.verdict}`, main: verb === "approve" });
  }
  if (need.kind === "unknown_effect") {
    const body = () => ({ harness: facts.harness, key: facts.key, as: verb, ...said() });
    return order(verb === "done" ? "It happened" : "It did not happen", "effects/settle", { body, done: () => `${facts.key} is settled` });
  }
  if (need.kind === "kill_switch") {
    return order("Turn off", "kill-switch", { body: () => ({ on: false, harness: need.harness }), done: () => "effects may begin" });
  }
  return order(verb[0].toUpperCase() + verb.slice(1), `${at(need.harness)}/${verb}`,
    { done: (now) => `${now.harness} is ${words(now.status)} at step ${now.current_step}`, main: verb === "start" });
}
