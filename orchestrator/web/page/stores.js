// The stores of a folder, and the runs of programs on each; and the search in the records of one.

import { get, say } from "./api.js";
import { clock, el, table, words } from "./dom.js";

export async function storesView(main) {
  const list = el("div");
  main.replaceChildren(el("h2", {}, "Stores and runs"), list);
  let isKnown = false;
  return async () => {
    if (isKnown) return;
    isKnown = true;
    const found = await get("stores");
    list.replaceChildren(...(found.length ? found.map(card) : [el("p", { class: "soft" }, "There is no store in this folder.")]));
  };
}

function card(one) {
  const name = one.store || one.path, address = one.store ? `/?store=${encodeURIComponent(one.store)}#/` : "#/";
  const isLive = one.runs?.some((run) => run.is_live);
  return el("section", { class: "card plain", "data-store": one.store },
    el("p", {}, el("strong", {}, one.problem ? name : el("a", { href: address }, name)), isLive ? el("span", { class: "good" }, " a program runs") : null),
    one.problem ? el("p", { class: "bad-text" }, one.problem) : el("p", { class: "soft" },
      `${one.harnesses.toLocaleString()} harnesses: ${Object.entries(one.statuses).map(([status, count]) => `${count.toLocaleString()} ${words(status)}`).join(", ")}; last record ${clock(one.last)}; ${size(one.bytes)}`),
    one.runs?.length ? el("details", {}, el("summary", {}, `${one.runs.length} runs`), table(["Run", "Began", "Last event", "Harnesses", ""],
      one.runs.map((run) => [run.run, clock(run.began), clock(run.last), run.harnesses.toLocaleString(), run.is_live ? "runs" : ""]))) : null);
}

function size(bytes) {
  const place = bytes < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1000 ** place).toPrecision(3)} ${["bytes", "kB", "MB", "GB", "TB"][place]}`;
}

export async function searchView(main) {
  const text = el("input", { type: "search", placeholder: "text in steps, events, output and messages", "aria-label": "Search in records", size: 40 });
  const harness = el("input", { type: "text", placeholder: "harness (all)", "aria-label": "Only of this harness" });
  const found = el("div"), older = el("button", { type: "button", hidden: true }, "Search older records");
  const form = el("form", { class: "filters" }, text, harness, el("button", { type: "submit", class: "main" }, "Search"));
  main.replaceChildren(el("h2", {}, "Search"), form, found, older);
  let before = null;
  const ask = async () => {
    try {
      const answer = await get(`search?text=${encodeURIComponent(text.value)}&harness=${encodeURIComponent(harness.value)}${before ? `&before=${before}` : ""}`);
      found.append(answer.found.length ? table(["Time", "Harness", "Step", "Record", "Text"], answer.found.map((one) => [
        clock(one.timestamp), one.harness ? el("a", { href: `#/h/${encodeURIComponent(one.harness)}` }, one.harness) : "", one.step, words(one.kind), one.excerpt,
      ])) : el("p", { class: "soft" }, answer.before ? "Nothing among these records." : "Nothing found."));
      before = answer.before;
      older.hidden = before === null;
    } catch (error) {
      say(error.message);
    }
  };
  form.addEventListener("submit", async (event) => { event.preventDefault(); before = null; found.replaceChildren(); await ask(); });
  older.addEventListener("click", ask);
  text.focus();
  return async () => {};
}
