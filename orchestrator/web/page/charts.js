// The chart of an account: prices with the fills on them, equity and drawdown, one below the other on the same axis of time.
// Drawn by TradingView Lightweight Charts; without its logo, which would need a style in the document, so the page names it.

const NAMES = ["--ground", "--text", "--soft", "--line", "--link", "--good", "--bad", "--warn"];
const HELD = 5, PRICE = 6, BOUGHT = 10, SOLD = 11;

function colors() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name.slice(2), style.getPropertyValue(name).trim()]));
}

export async function accountChart(box, label) {
  const library = await import("./lightweight_charts.js");
  const chart = library.createChart(box, {
    autoSize: true,
    layout: { attributionLogo: false, fontFamily: "system-ui, sans-serif", panes: { enableResize: false } },
    rightPriceScale: { minimumWidth: 74 },
    timeScale: { rightOffset: 2, minBarSpacing: 0.05 },
    handleScroll: { vertTouchDrag: false },
    localization: { timeFormatter: stamp },
  });
  const price = chart.addSeries(library.CandlestickSeries, { priceLineVisible: false }, 0);
  const equity = chart.addSeries(library.LineSeries, { lineWidth: 2, priceLineVisible: false }, 1);
  const drawdown = chart.addSeries(library.BaselineSeries, {
    lineWidth: 1, priceLineVisible: false, baseValue: { type: "price", price: 0 }, topFillColor1: "transparent", topFillColor2: "transparent",
    priceFormat: { type: "custom", minMove: 0.0001, formatter: (share) => `${(100 * share).toFixed(share > -0.1 ? 2 : 1)} %` },
  }, 2);
  const shades = shading(chart);
  chart.panes().forEach((pane, place) => {
    pane.setStretchFactor([5, 3, 2][place]);
    pane.attachPrimitive(shades);
  });
  const fills = library.createSeriesMarkers(price, []);
  box.setAttribute("role", "img");
  let last = [];

  const paint = () => {
    const now = colors();
    chart.applyOptions({
      layout: { background: { color: now.ground }, textColor: now.soft, panes: { separatorColor: now.line } },
      grid: { vertLines: { color: now.line }, horzLines: { color: now.line } },
      rightPriceScale: { borderColor: now.line }, timeScale: { borderColor: now.line },
    });
    price.applyOptions({ upColor: now.good, downColor: now.bad, wickUpColor: now.good, wickDownColor: now.bad, borderVisible: false });
    equity.applyOptions({ color: now.link });
    drawdown.applyOptions({ topLineColor: now.bad, bottomLineColor: now.bad, bottomFillColor1: `${now.bad}22`, bottomFillColor2: `${now.bad}66` });
    draw(last);
  };

  const draw = (rows) => {
    last = rows;
    const now = colors();
    shades.set(rows, ["", `${now.warn}2e`, `${now.bad}2e`]);
    price.setData(rows.map((row) => row[PRICE] === null ? { time: row[0] }
      : { time: row[0], open: row[PRICE], high: row[PRICE + 1], low: row[PRICE + 2], close: row[PRICE + 3] }));
    equity.setData(rows.map((row) => ({ time: row[0], value: row[1] })));
    drawdown.setData(rows.map((row) => ({ time: row[0], value: -row[4] })));
    const made = rows.filter((row) => row[PRICE] !== null && (row[BOUGHT] || row[SOLD]));
    fills.setMarkers(made.flatMap((row) => [
      row[BOUGHT] ? { time: row[0], position: "belowBar", shape: "arrowUp", color: now.link, size: 1 } : null,
      row[SOLD] ? { time: row[0], position: "aboveBar", shape: "arrowDown", color: now.warn, size: 1 } : null,
    ].filter(Boolean)));
    box.setAttribute("aria-label", label(rows));
  };

  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", paint);
  box.addEventListener("keydown", (event) => {
    const scale = chart.timeScale(), range = scale.getVisibleLogicalRange();
    if (!range) return;
    const width = range.to - range.from, [from, to] = {
      ArrowLeft: [-0.1, -0.1], ArrowRight: [0.1, 0.1], "+": [0.1, -0.1], "=": [0.1, -0.1], "-": [-0.125, 0.125],
    }[event.key] ?? [0, 0];
    if (event.key === "0") scale.fitContent();
    else if (!from) return;
    else scale.setVisibleLogicalRange({ from: range.from + from * width, to: range.to + to * width });
    event.preventDefault();
  });
  paint();
  return {
    draw, fit: () => chart.timeScale().fitContent(),
    remove: () => { dark.removeEventListener("change", paint); chart.remove(); },
  };
}

// Fills the background of a pane where trading was held up.
function shading(chart) {
  let spans = [];
  const draw = ({ context, bitmapSize, horizontalPixelRatio }) => {
    const scale = chart.timeScale(), half = scale.options().barSpacing / 2;
    for (const span of spans) {
      const [from, to] = [scale.timeToCoordinate(span.from), scale.timeToCoordinate(span.to)];
      if (from === null || to === null) continue;
      context.fillStyle = span.color;
      context.fillRect((from - half) * horizontalPixelRatio, 0, (to - from + 2 * half) * horizontalPixelRatio, bitmapSize.height);
    }
  };
  return {
    set: (rows, colors) => {
      spans = [];
      let before = 0;
      for (const row of rows) {
        if (row[HELD] && row[HELD] === before) spans.at(-1).to = row[0];
        else if (row[HELD]) spans.push({ from: row[0], to: row[0], color: colors[row[HELD]] });
        before = row[HELD];
      }
    },
    paneViews: () => [{ zOrder: () => "bottom", renderer: () => ({ draw: (target) => target.useBitmapCoordinateSpace(draw) }) }],
  };
}

function stamp(seconds) {
  return new Date(1000 * seconds).toISOString().slice(0, 19).replace("T", " ").replace(" 00:00:00", "");
}
