// The page: one view at a time, named in the address, brought up to date once a second while it is looked at.

import { codingView } from "./coding.js";
import { get, say, STORE } from "./api.js";
import { el, shown } from "./dom.js";
import { failuresView } from "./failures.js";
import { fleetView } from "./fleet.js";
import { harnessView } from "./harness.js";
import { moneyView } from "./money.js";
import { needsView } from "./needs.js";
import { tradingView } from "./trading.js";
import { searchView, storesView } from "./stores.js";
import { timelineView } from "./timeline.js";

const PERIOD_MS = 1000;
const main = document.getElementById("main"), count = document.getElementById("count");
const fleet = { rows: new Map(), version: 0, isNew: false };
let refresh = async () => {}, place = null, looking = null, isLost = false, isFolder = false;

// One view after the other: a slow one must not draw over the one that was asked for after it.
function open() {
  opening = opening.then(openNow, openNow);
  return opening;
}

async function openNow() {
  if (location.hash === place) return;
  place = location.hash;
  const [, view = isFolder ? "stores" : "", name = "", tab] = location.hash.replace(/^#/, "").split("/");
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === (view || "needs")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  refresh.leave?.();
  if (view === "fleet") refresh = await fleetView(main, fleet);
  else if (view === "timeline") refresh = await timelineView(main, fleet);
  else if (view === "failures") refresh = await failuresView(main);
  else if (view === "stores") refresh = await storesView(main);
  else if (view === "search") refresh = await searchView(main);
  else if (view === "money") refresh = await moneyView(main);
  else if (view === "trading") refresh = await tradingView(main, decodeURIComponent(name));
  else if (view === "coding") refresh = await codingView(main, decodeURIComponent(name), decodeURIComponent(tab ?? ""));
  else if (view === "h") refresh = await harnessView(main, decodeURIComponent(name), tab);
  else refresh = await needsView(main);
  await lookAgain();
}

function look() {
  if (!document.hidden) looking ??= lookNow().finally(() => { looking = null; });
  return looking;
}

// What is being read was asked for before something changed: once more.
async function lookAgain() {
  await looking;
  await look();
}

async function lookNow() {
  try {
    if (isFolder) return await refresh();
    const [run, changed] = await Promise.all([get("run"), get(`fleet?since=${fleet.version}`)]);
    fleet.isNew = changed.rows.length > 0;
    for (const row of changed.rows) fleet.rows.set(row.harness, row);
    fleet.version = changed.version;
    document.getElementById("store").textContent = `${shown(run.store)} · ${run.is_live ? "running" : "no program runs"} · ${changed.count.toLocaleString()} harnesses`;
    await refresh();
    // After the view, which does not wait for it: in a large fleet it is long.
    const needs = await get("needs");
    count.hidden = !needs.length;
    count.textContent = needs.length;
    document.title = needs.length ? `(${needs.length}) orchestrator` : "orchestrator";
    isLost = false;
    document.documentElement.dataset.ready = "";
  } catch (error) {
    if (!isLost) say(`Not up to date: ${error.message}`);
    isLost = true;
  }
}

addEventListener("hashchange", open);
addEventListener("ordered", lookAgain);
document.addEventListener("visibilitychange", look);
setInterval(look, PERIOD_MS);
main.replaceChildren(el("p", { class: "soft" }, "Loading …"));
let opening = begin();

// Where a folder is served and the address names no store of it, there is only the list of them.
async function begin() {
  if (STORE === null) {
    const found = await get("run").catch(() => null);
    isFolder = found === null && (await get("stores").catch(() => [])).every((one) => one.store);
  }
  for (const link of document.querySelectorAll("nav a")) link.hidden = isFolder && link.dataset.view !== "stores";
  document.getElementById("home").href = STORE === null ? "#/" : "/#/stores";
  await openNow();
}
