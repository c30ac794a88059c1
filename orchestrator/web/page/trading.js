// Trading: where an account stands, how it came there, and why it is halted. Amounts are exact; those that are rounded to be read
// have all their digits in the title.

import { at, get } from "./api.js";
import { accountChart } from "./charts.js";
import { clock, el, keepTable, table, words } from "./dom.js";
import { watch } from "./live.js";

// The time of a bar: the date alone, if it is a daily one.
const moment = (stamp) => clock(stamp).replace(/ 00:00:00$/, "");

export async function tradingView(main, name) {
  return name ? account(main, name) : accounts(main);
}

async function accounts(main) {
  const list = el("div");
  main.replaceChildren(el("h2", {}, "Trading"), list);
  return async () => {
    const found = await get("trading");
    if (!found.length) return list.replaceChildren(el("p", { class: "soft" }, "No harness here has traded yet."));
    keepTable(list, ["Harness", "Risk", "Equity", "Cash", "Positions", "Newest bar", "Why"], found, (one) => [
      el("a", { href: `#/trading/${encodeURIComponent(one.harness)}` }, one.harness), risk(one), figure(one.equity), figure(one.cash),
      one.positions.length, moment(one.time), one.latched || one.why]);
  };
}

async function account(main, name) {
  const why = el("div"), top = el("div"), box = el("div", { class: "chart", tabindex: "0" }), below = el("div");
  const choose = el("select", { "aria-label": "Symbol" }), reading = el("progress", { hidden: true, "aria-label": "steps read" });
  const whole = el("button", { type: "button" }, "All of it");
  main.replaceChildren(
    el("h2", {}, el("a", { href: "#/trading" }, "Trading"), " › ", el("a", { href: `#/h/${encodeURIComponent(name)}` }, name)),
    why, top, el("div", { class: "filters" }, choose, whole, reading), box,
    el("p", { class: "soft small" }, "Prices with what was bought (↑) and sold (↓), adjusted for splits; equity; drawdown. Shaded where trading was held up. Arrow keys, + and - move and zoom. Drawn by ",
      el("a", { href: "https://www.tradingview.com/", target: "_blank", rel: "noopener noreferrer" }, "TradingView Lightweight Charts™"),
      ", © 2026 TradingView, Inc. (", el("a", { href: "lightweight_charts_notice.txt" }, "notice"), ")"),
    below);
  const run = await get("run"), live = watch(name, run.last_seq);
  const chart = await accountChart(box, describe);
  let rows = [], revision = null, symbol = "", isFitted = false, told = "";

  const curve = async () => {
    const since = Math.max(0, rows.length - 1);
    const mine = revision === null ? "" : `&revision=${revision}&since=${since}`;
    const found = await get(`${at(name)}/trading/curve?symbol=${encodeURIComponent(symbol)}${mine}`);
    rows = [...rows.slice(0, found.first), ...found.rows];
    revision = found.revision;
    chart.draw(rows);
    if (!isFitted) chart.fit();
  };
  choose.addEventListener("change", async () => {
    symbol = choose.value;
    rows = [], revision = null;
    await curve();
  });
  whole.addEventListener("click", () => chart.fit());

  const refresh = async () => {
    if (!live.isNew) return;
    live.isNew = false;
    const now = await get(`${at(name)}/trading`);
    const isBehind = now.read < now.steps;
    reading.hidden = !isBehind;
    reading.max = now.steps;
    reading.value = now.read;
    for (const one of now.symbols.slice(choose.options.length)) choose.append(el("option", { value: one }, one));
    choose.hidden = now.symbols.length < 2;
    why.replaceChildren(...held(now));
    top.replaceChildren(el("div", { class: "figures" }, figures(now)));
    const text = JSON.stringify([now.positions, now.open, now.orders, now.fills, now.refused, now.restrictions]);
    if (text !== told) below.replaceChildren(...tables(now));
    told = text;
    await curve();
    isFitted ||= !isBehind;
    if (isBehind) {
      live.isNew = true;
      setTimeout(() => dispatchEvent(new Event("ordered")), 0);
    }
  };
  refresh.leave = () => { live.close(); chart.remove(); };
  return refresh;
}

function held(now) {
  const causes = [now.risk === "active" ? "" : now.why, now.latched].filter(Boolean);
  if (now.risk === "active" && !now.latched) return [];
  const since = now.restrictions.find((one) => one.end === null);
  const what = now.risk === "halted" || now.latched ? "Trading is halted" : "Only orders that reduce a position are placed";
  return [el("section", { class: `card ${now.risk === "halted" || now.latched ? "bad" : ""}`, "data-risk": now.latched ? "latched" : now.risk },
    el("p", {}, el("strong", {}, what), since ? `, since ${moment(since.begin)}` : ""), causes.map((cause) => el("p", {}, cause)))];
}

const risk = (one) => el("span", { class: one.risk === "halted" || one.latched ? "bad-text" : one.risk === "active" ? "good" : "warn" }, one.latched ? "kill switch" : words(one.risk));

function figures(now) {
  const made = now.figures;
  return [
    tile("Equity", figure(now.equity), `from ${cents(made.first_equity)}`),
    tile("Gain", el("span", { class: Number(made.gain) < 0 ? "bad-text" : "good", title: made.gain, "data-exact": made.gain }, share(made.gain, true)),
      made.yearly_gain === null ? "" : `${share(made.yearly_gain, true)} a year`),
    tile("Drawdown", el("span", { title: String(made.drawdown), "data-exact": String(made.drawdown) }, share(made.drawdown)), `${share(made.max_drawdown)} at most`),
    tile("Cash", figure(now.cash), `${now.positions.length} positions`),
    tile("Trades", made.trades.toLocaleString("en"), `turnover ${cents(made.turnover)}`),
    tile("Fees", figure(made.fees), ""),
    tile("Refused", made.refused.toLocaleString("en"), "orders or parts of them"),
    tile("Risk", risk(now), `${now.steps.toLocaleString("en")} steps to ${moment(now.time)}`),
  ];
}

const tile = (name, value, more) => el("div", { class: "figure", "data-figure": name.toLowerCase() },
  el("span", { class: "soft" }, name), el("strong", {}, value), el("span", { class: "soft small" }, more));

function tables(now) {
  const step = (one) => el("a", { href: `#/h/${encodeURIComponent(now.harness)}/steps` }, one.step.toLocaleString("en"));
  const price = (one) => [one.kind, one.limit_price && `at ${one.limit_price}`, one.stop_price && `from ${one.stop_price}`].filter(Boolean).join(" ");
  const side = (one) => el("span", { class: one.side === "buy" ? "bought" : "sold" }, one.side);
  return [
    part("Positions", "No position.", ["Symbol", "Units", "Price", "Value", "Cost", "Gain if sold"], now.positions.map((one) =>
      [one.symbol, amount(one.units), amount(one.price), amount(one.value), amount(one.cost), signed(one.gain)])),
    part("Open orders", "No open order.", ["Decided", "Symbol", "Side", "Units", "Filled", "Kind", "Wanted by", "Reason"], now.open.map((one) =>
      [moment(one.decided), one.symbol, side(one), amount(one.units), amount(one.filled), price(one), one.wanted_by, one.reason])),
    part("Refused orders", "No order was refused.", ["Step", "Symbol", "Side", "Units", "Kind", "Wanted by", "Refused by", "Why"], now.refused.map((one) =>
      [step(one), one.symbol, side(one), amount(one.units), price(one), one.wanted_by, one.by, one.why])),
    part("Held up", "Trading was never held up.", ["What", "From", "To", "Why"], now.restrictions.map((one) =>
      [words(one.kind), moment(one.begin), one.end === null ? "now" : moment(one.end), one.why])),
    part("Fills", "No order was filled.", ["Time", "Step", "Symbol", "Side", "Units", "Price", "Fee", "Gain", "Wanted by", "Reason"], now.fills.map((one) =>
      [moment(one.time), step(one), one.symbol, side(one), amount(one.units), amount(one.price), amount(one.fee), signed(one.gain), one.wanted_by ?? "", one.reason])),
    part("Orders", "No order was placed.", ["Decided", "Step", "Symbol", "Side", "Units", "Filled", "Status", "Kind", "Wanted by", "Reason"], now.orders.map((one) =>
      [moment(one.decided), step(one), one.symbol, side(one), amount(one.units), amount(one.filled), one.status ?? "not reported", price(one), one.wanted_by, one.why || one.reason])),
  ];
}

const part = (title, none, heads, rows) => el("section", { "data-part": title.toLowerCase() }, el("h3", {}, `${title}${rows.length > 3 ? ` (${rows.length}${rows.length >= 200 ? " newest" : ""})` : ""}`),
  rows.length ? el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": title }, grid(heads, rows)) : el("p", { class: "soft" }, none));

function grid(heads, rows) {
  const made = table(heads, rows);
  heads.forEach((_, place) => {
    if (rows.every((cells) => !cells[place] || cells[place].classList?.contains("amount"))) {
      for (const line of made.rows) line.cells[place].classList.add("number");
    }
  });
  return made;
}

// Text of an exact amount, with its digits grouped, and at most so many of them after the point; rounded as the report does.
export function rounded(text, digits = 2) {
  if (text === null || text === undefined) return "";
  const [whole, part = ""] = String(text).replace("-", "").split(".");
  const isShort = part.length <= 8;
  const shown = isShort && part.length > digits ? [whole, part] : Math.abs(Number(text)).toFixed(digits).split(".");
  return `${String(text).startsWith("-") ? "−" : ""}${shown[0].replace(/\B(?=(\d{3})+$)/g, ",")}${shown[1] ? `.${shown[1]}` : ""}`;
}

const cents = (text) => Number(text).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 }).replace("-", "−");
const figure = (text) => el("span", { class: "amount", title: text, "data-exact": text }, cents(text));
const amount = (text) => text === null ? "" : el("span", { class: "amount", title: text, "data-exact": text }, /\./.test(text) ? rounded(text) : rounded(text, 0));
const signed = (text) => text === null ? "" : el("span", { class: `amount ${text.startsWith("-") ? "bad-text" : ""}`, title: text, "data-exact": text }, rounded(text));
const share = (value, isSigned = false) => `${isSigned && Number(value) >= 0 ? "+" : ""}${(100 * Number(value)).toFixed(2)} %`.replace("-", "−");

function describe(rows) {
  if (!rows.length) return "no step yet";
  const deepest = Math.max(...rows.map((row) => row[4]));
  return `equity from ${rows[0][1].toFixed(2)} to ${rows.at(-1)[1].toFixed(2)}, drawdown ${(100 * deepest).toFixed(2)} % at most; the tables have the figures`;
}
