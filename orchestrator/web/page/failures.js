// Failures, grouped by cause: how often, since when, of whom, and what came next.

import { every, get } from "./api.js";
import { clock, el, facts, keep, pretty, words } from "./dom.js";

const PERIOD_MS = 3000;

export async function failuresView(main) {
  const list = el("div");
  main.replaceChildren(el("h2", {}, "Failures"), list);
  return every(PERIOD_MS, async () => {
    const found = await get("failures");
    keep(list, found.length ? found : [null], JSON.stringify, (one) => (one ? group(one) : el("p", { class: "good" }, "Nothing has failed.")));
  });
}

function group(one) {
  const more = one.harness_count - one.harnesses.length;
  const then = Object.entries(one.then).map(([what, count]) => `${words(what)} ${count}`).join(", ");
  return el("section", { class: "card bad", "data-error": one.error },
    el("p", {}, el("strong", { class: "count" }, one.count.toLocaleString(), " × "), el("strong", {}, one.error), " ", one.message),
    facts([
      ["Harnesses", el("span", {}, one.harnesses.map((name) => [el("a", { href: `#/h/${encodeURIComponent(name)}/history` }, name), " "]), more > 0 ? `and ${more.toLocaleString()} more` : "")],
      ["First", clock(one.first)], ["Last", `${clock(one.last)}, while step ${one.last_step} was made`], ["Then", then], ["Where", one.where],
    ]),
    el("details", {}, el("summary", {}, "last one in full"), el("pre", {}, pretty(one.traceback || one.example))));
}
