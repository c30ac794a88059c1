// Budgets: what is spent of each limit.

import { get } from "./api.js";
import { el, table } from "./dom.js";

export async function moneyView(main) {
  const list = el("div");
  main.replaceChildren(el("h2", {}, "Money"), list);
  return async () => {
    const pools = await get("budgets");
    const rows = pools.flatMap((pool) => [...new Set([...Object.keys(pool.limits), ...Object.keys(pool.spent)])].map((amount) => {
      const limit = pool.limits[amount], spent = pool.spent[amount] ?? 0;
      return [pool.pool, amount, String(spent), String(pool.reserved[amount] ?? 0), limit === undefined ? "no limit" : String(limit),
        limit === undefined ? "" : meter(Number(spent) / Number(limit))];
    }));
    list.replaceChildren(rows.length ? table(["Pool", "Of", "Spent", "Reserved", "Limit", "Share"], rows) : el("p", { class: "soft" }, "There is no budget."));
  };
}

function meter(share) {
  const bar = el("span");
  bar.style.width = `${Math.min(100, Math.round(100 * (share || 0)))}%`;
  return el("div", { class: share >= 0.8 ? "meter over" : "meter", role: "img", "aria-label": `${Math.round(100 * (share || 0))} % spent` }, bar);
}
