// The page: one view at a time, named in the address, brought up to date once a second while it is looked at.

import { get, say } from "./api.js";
import { codingView } from "./coding.js";
import { el, shown } from "./dom.js";
import { fleetView } from "./fleet.js";
import { harnessView } from "./harness.js";
import { moneyView } from "./money.js";
import { needsView } from "./needs.js";
import { tradingView } from "./trading.js";

const PERIOD_MS = 1000;
const main = document.getElementById("main"), count = document.getElementById("count");
const fleet = { rows: new Map(), version: 0, isNew: false };
let refresh = async () => {}, isBusy = false, isLost = false;

async function open() {
  const [, view = "", name = "", tab] = location.hash.replace(/^#/, "").split("/");
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === (view || "needs")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  refresh.leave?.();
  if (view === "fleet") refresh = await fleetView(main, fleet);
  else if (view === "money") refresh = await moneyView(main);
  else if (view === "trading") refresh = await tradingView(main, decodeURIComponent(name));
  else if (view === "coding") refresh = await codingView(main, decodeURIComponent(name), decodeURIComponent(tab ?? ""));
  else if (view === "h") refresh = await harnessView(main, decodeURIComponent(name), tab);
  else refresh = await needsView(main);
  await look();
}

async function look() {
  if (isBusy || document.hidden) return;
  isBusy = true;
  try {
    const [run, needs, changed] = await Promise.all([get("run"), get("needs"), get(`fleet?since=${fleet.version}`)]);
    fleet.isNew = changed.rows.length > 0;
    for (const row of changed.rows) fleet.rows.set(row.harness, row);
    fleet.version = changed.version;
    document.getElementById("store").textContent = `${shown(run.store)} · ${run.is_live ? "running" : "no program runs"} · ${changed.count.toLocaleString()} harnesses`;
    count.hidden = !needs.length;
    count.textContent = needs.length;
    document.title = needs.length ? `(${needs.length}) orchestrator` : "orchestrator";
    await refresh();
    isLost = false;
  } catch (error) {
    if (!isLost) say(`Not up to date: ${error.message}`);
    isLost = true;
  } finally {
    isBusy = false;
  }
}

addEventListener("hashchange", open);
addEventListener("ordered", look);
document.addEventListener("visibilitychange", look);
setInterval(look, PERIOD_MS);
main.replaceChildren(el("p", { class: "soft" }, "Loading …"));
open();
