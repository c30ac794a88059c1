// Budgets: what is spent of each limit, and setting limits.

import { get, order } from "./api.js";
import { el, renew, table, words } from "./dom.js";

export async function moneyView(main) {
  const list = el("div"), change = el("div");
  main.replaceChildren(el("h2", {}, "Money"), list, change);
  let known = "";
  return async () => {
    const pools = await get("budgets");
    const rows = pools.flatMap((pool) => [...new Set([...Object.keys(pool.limits), ...Object.keys(pool.spent)])].map((amount) => {
      const limit = pool.limits[amount], spent = pool.spent[amount] ?? 0;
      return [pool.pool, amount, String(spent), String(pool.reserved[amount] ?? 0), limit === undefined ? "no limit" : String(limit),
        limit === undefined ? "" : meter(Number(spent) / Number(limit))];
    }));
    const names = JSON.stringify(pools.map((pool) => pool.pool));
    const limited = pools.filter((pool) => !pool.pool.startsWith("agents/"));
    if (names !== known && limited.length) change.replaceChildren(limits(limited));
    known = names;
    renew(list, [rows.length ? table(["Pool", "Of", "Spent", "Reserved", "Limit", "Share"], rows) : el("p", { class: "soft" }, "There is no budget.")]);
  };
}

function meter(share) {
  const bar = el("span");
  bar.style.width = `${Math.min(100, Math.round(100 * (share || 0)))}%`;
  return el("div", { class: share >= 0.8 ? "meter over" : "meter", role: "img", "aria-label": `${Math.round(100 * (share || 0))} % spent` }, bar);
}

const AMOUNTS = ["money", "tokens", "steps", "turns", "tool_calls", "working_time_s"];

function limits(pools) {
  const pool = el("select", { "aria-label": "Budget" }, pools.map((one) => el("option", { value: one.pool }, one.pool)));
  const amount = el("select", { "aria-label": "What" }, AMOUNTS.map((name) => el("option", { value: name }, words(name))));
  const limit = el("input", { type: "text", inputmode: "decimal", "aria-label": "Limit", placeholder: "limit; empty for none", size: 16 });
  const reason = el("input", { type: "text", "aria-label": "Reason", placeholder: "reason" });
  const value = () => limit.value.trim() === "" ? null : amount.value === "money" ? limit.value.trim() : Number(limit.value);
  return el("section", { class: "card plain", "aria-label": "Set a limit" }, el("h3", {}, "Set a limit"),
    el("p", { class: "soft" }, "It counts from the first start, takes effect at the next spend, and holds over restarts."),
    el("div", { class: "orders" }, pool, amount, limit, reason, order("Set", "budgets", {
      body: () => ({ pool: pool.value, limits: { [amount.value]: value() }, reason: reason.value }), main: true,
      done: (set) => `${set.pool} ${set.changed ? "has new limits" : "has these limits already"}`,
    })));
}
