"""Writes a report on a trading harness from its recorded steps: pictures, tables and figures in a folder.

    report(steps(reader, "paper"), "reports/paper")

Works on a finished run and on a running one. The picture (equity above, drawdown below, periods of restricted trading shaded)
needs the extra `report`. Texts of agents (reasons) are untrusted: terminal control characters and spreadsheet formulas in them
are neutralised.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from math import prod
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from attrs import frozen

from harnesses.charts.chart_theme import ALARM, CONFIG, DEEP, FAINT, INK, MID, SHADES, WIDTH
from harnesses.charts.time_axis import Span, span_of, thin
from harnesses.diagnostics.extras import load_extra
from harnesses.trading.market.orders import Side
from harnesses.trading.report.performance import Month
from harnesses.trading.report.report_figures import Account, Figures, Interval, Point, Recorded, TradeRow, account_of

_EXACT = ("units", "price", "fee", "gain")
COLUMNS = ("time", "symbol", "side", *_EXACT, "wanted_by", "reason", "client_id", "fill_id", "direction")
_HEAD = ("time", "symbol", "side", "units", "price", "fee", "gain", "wanted by", "reason")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_RIGHT = frozenset({"units", "price", "fee", "gain", *MONTHS, "whole", "held"})
_FORMULA = ("=", "+", "-", "@")
"""Characters with which a cell starts that a spreadsheet would run as a formula. Source: OWASP, CSV Injection."""


def as_csv(trades: Iterable[TradeRow]) -> str:
    """Return the trades as CSV, with exact numbers."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in trades:
        fill = row.fill
        exact = (f"{number:f}" for number in (fill.units, fill.price, fill.fee, row.gain))
        texts = (row.wanted_by or "", row.reason, fill.client_id, fill.fill_id)
        writer.writerow((fill.time.isoformat(), _cell(fill.symbol), fill.side, *exact, *map(_cell, texts), row.direction))
    return out.getvalue()


def as_text(title: str, account: Account) -> str:
    """Return the whole report as text."""
    parts = [title, "", *(f"{name:<10}{value}" for name, value in figure_rows(account.figures))]
    parts += ["", *_months(account.months), "", *_intervals(account.intervals), "", *_trades(account.trades)]
    return "\n".join(parts) + "\n"


def figure_rows(figures: Figures) -> list[tuple[str, str]]:
    """Return the figures for people, each with its name."""
    yearly = "" if figures.yearly_gain is None else f", {figures.yearly_gain:+.2%} a year"
    loans = [("financing", f"{figures.financing:,.2f} for borrowed units and money")] if figures.financing else []
    return [
        ("time", f"{figures.begin:%Y-%m-%d %H:%M} to {figures.end:%Y-%m-%d %H:%M}" if figures.begin else "nothing yet"),
        ("steps", f"{figures.steps:,}"),
        ("equity", f"{figures.first_equity:,.2f} to {figures.last_equity:,.2f}: {figures.gain:+.2%}{yearly}"),
        ("held", f"{figures.benchmark:+.2%}, had the first equity been held in equal parts, without costs"),
        ("drawdown", f"{figures.drawdown:.2%} now, {figures.max_drawdown:.2%} at most"),
        ("risk", f"Sharpe {_ratio(figures.sharpe)}, Sortino {_ratio(figures.sortino)}, Calmar {_ratio(figures.calmar)}"),
        ("exposure", f"{figures.exposure:.1%} of the equity on average"),
        ("turnover", f"{figures.turnover:,.2f}, {figures.turns:.2f} times the mean equity"),
        ("fees", f"{figures.fees:,.2f}"),
        *loans,
        (
            "trades",
            f"{figures.trades:,}; {figures.refused:,} orders, or parts of them, were not placed, {figures.expired:,} expired",
        ),
        ("sales", f"{figures.sales:,}" + (f", {figures.win_rate:.1%} with a gain" if figures.win_rate is not None else "")),
    ]


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def month_rows(months: Sequence[Month]) -> list[tuple[str, ...]]:
    """Return a row for each year: the year, the gain of each month, that of the year, and what buy and hold brought in it."""
    years: dict[int, dict[int, Month]] = {}
    for one in months:
        years.setdefault(one.year, {})[one.month] = one
    rows: list[tuple[str, ...]] = []
    for year, found in years.items():
        gains = (f"{found[number].gain:+.1%}" if number in found else "" for number in range(1, 13))
        whole, held = (prod(1 + getattr(one, name) for one in found.values()) - 1 for name in ("gain", "benchmark"))
        rows.append((str(year), *gains, f"{whole:+.1%}", f"{held:+.1%}"))
    return rows


def _months(months: Sequence[Month]) -> list[str]:
    return ["Months", *_table(("year", *MONTHS, "whole", "held"), month_rows(months))] if months else ["No months."]


def _intervals(intervals: Sequence[Interval]) -> list[str]:
    if not intervals:
        return ["Trading was never held up."]
    rows = [
        (one.kind, f"{one.begin:%Y-%m-%d %H:%M}", f"{one.end:%Y-%m-%d %H:%M}" if one.is_over else "now", _inert(one.why))
        for one in intervals
    ]
    return ["Held up", *_table(("what", "from", "to", "why"), rows)]


def _trades(trades: Sequence[TradeRow]) -> list[str]:
    if not trades:
        return ["No trades."]
    has_shorts = any(row.direction != "long" for row in trades)
    rows = [
        (
            f"{row.fill.time:%Y-%m-%d %H:%M}",
            _inert(row.fill.symbol),
            row.fill.side.value,
            f"{row.fill.units:f}",
            f"{row.fill.price:f}",
            f"{row.fill.fee:.2f}",
            f"{row.gain:.2f}",
            row.wanted_by.value if row.wanted_by else "",
            _inert(row.reason),
            *([row.direction] if has_shorts else []),
        )
        for row in trades
    ]
    return ["Trades", *_table((*_HEAD, *(["direction"] if has_shorts else [])), rows)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    aligned = [
        [
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for name, cell, width in zip(head, row, widths, strict=True)
        ]
        for row in (head, *rows)
    ]
    return ["  ".join(cells).rstrip() for cells in aligned]


def _inert(text: str) -> str:
    """Return one line of printable characters."""
    return "".join(character if character.isprintable() else " " for character in text)[:200]


def _cell(text: str) -> str:
    inert = _inert(text)
    return f"'{inert}" if inert.startswith(_FORMULA) else inert


_MOST_POINTS = 2000
"""Maximum points drawn; more than a picture has pixels for."""
_MOST_MARKS = 400
"""Maximum trades that are marked, evenly chosen; more would hide the curve."""
_WORDS = {Side.BUY: "bought", Side.SELL: "sold"}
_HEIGHT, _LOWER = 260, 110


def draw(title: str, account: Account) -> tuple[bytes, str]:
    """Return the picture as PNG and as SVG.

    Raises:
        NotReady: the drawing library is not installed.
    """
    converter = load_extra("vl_convert", "report", "a picture", "pass picture=False")
    spec = picture_of(title, account)
    return converter.vegalite_to_png(spec, scale=2), converter.vegalite_to_svg(spec)


def picture_of(title: str, account: Account) -> dict[str, Any]:
    """Return the picture as a Vega-Lite specification.

    Raises:
        NotReady: Altair is not installed.
    """
    altair = load_extra("altair", "report", "a picture", "pass picture=False")
    return {**_chart(altair, title, account).to_dict(), "config": CONFIG}


def _chart(altair: Any, title: str, account: Account) -> Any:
    times = [round(point.time.timestamp() * 1e6) for point in account.points]
    span = span_of(min(times, default=None), max(times, default=None))
    rows = [_row(span, point) for point in thin(account.points, _MOST_POINTS, attrgetter("equity"), attrgetter("drawdown"))]
    points = altair.Chart(altair.Data(values=rows))
    x, y = altair.X.from_dict(span.x(is_written=False)), {"title": "equity", "scale": altair.Scale(zero=False)}
    held = points.mark_line(color=FAINT, strokeWidth=1, strokeDash=[4, 3]).encode(x=x, y=altair.Y("held:Q", **y))
    equity = points.mark_line(color=DEEP, strokeWidth=1.5).encode(x=x, y=altair.Y("equity:Q", **y))
    marks = _marks(altair, span, account, x, y)
    below = altair.Y(
        "drawdown:Q", title="drawdown", axis=altair.Axis(format=".0%"), scale=altair.Scale(reverse=True, domainMin=0)
    )
    area = {"color": FAINT, "opacity": 0.5, "line": {"color": INK, "strokeWidth": 1}}
    drawdown = points.mark_area(**area).encode(x=altair.X.from_dict(span.x()), y=below)
    shades = _shades(altair, span, account.intervals)
    upper = altair.layer(*shades, held, equity, *marks).properties(width=WIDTH, height=_HEIGHT)
    lower = altair.layer(*shades, drawdown).properties(width=WIDTH, height=_LOWER)
    whole = altair.vconcat(upper, lower, spacing=10, bounds="flush")
    return whole.properties(title=altair.TitleParams(title, subtitle=_subtitle(account)))


def _marks(altair: Any, span: Span, account: Account, x: Any, y: Mapping[str, Any]) -> list[Any]:
    """Return a triangle on the curve for each fill: upwards for a purchase, downwards for a sale."""
    equities = {point.time: point.equity for point in account.points}
    trades = account.trades[:: len(account.trades) // _MOST_MARKS + 1]
    found = [(row.fill, equities[row.fill.time]) for row in trades if row.fill.time in equities]
    if not found:
        return []
    rows = [
        {"at": span.at(fill.time.timestamp() * 1e6), "equity": equity, "trade": _WORDS[fill.side]} for fill, equity in found
    ]
    words, ups = [*_WORDS.values()], ["triangle-up", "triangle-down"]
    shape = altair.Shape("trade:N", scale=altair.Scale(domain=words, range=ups), legend=altair.Legend(title=None))
    colour = altair.Color("trade:N", scale=altair.Scale(domain=words, range=[MID, ALARM]), legend=altair.Legend(title=None))
    points = altair.Chart(altair.Data(values=rows)).mark_point(filled=True, size=36, opacity=0.9)
    return [points.encode(x=x, y=altair.Y("equity:Q", **y), shape=shape, color=colour)]


def _shades(altair: Any, span: Span, intervals: Sequence[Interval]) -> list[Any]:
    if not intervals:
        return []
    rows = [
        {"at": span.at(one.begin.timestamp() * 1e6), "end": span.at(one.end.timestamp() * 1e6), "held up": one.kind}
        for one in intervals
    ]
    kinds = [kind for kind in SHADES if any(one.kind == kind for one in intervals)]
    colours = altair.Scale(domain=kinds, range=[SHADES[kind] for kind in kinds])
    shade = altair.Color("held up:N", scale=colours, legend=altair.Legend(title=None, symbolType="square"))
    bands = altair.Chart(altair.Data(values=rows)).mark_rect(opacity=1)
    return [bands.encode(x=altair.X.from_dict(span.x()), x2="end", color=shade)]


def _subtitle(account: Account) -> str:
    figures = account.figures
    return (
        f"{figures.gain:+.2%}, held {figures.benchmark:+.2%} (dashed) · drawdown {figures.max_drawdown:.2%} at most, "
        f"{figures.drawdown:.2%} now · "
        f"{figures.trades:,} trades · turnover {figures.turnover:,.0f} · fees {figures.fees:,.2f}"
    )


def _row(span: Span, point: Point) -> dict[str, object]:
    return {
        "at": span.at(point.time.timestamp() * 1e6),
        "equity": point.equity,
        "held": point.benchmark,
        "drawdown": point.drawdown,
    }


_PAGE = 1000


class Reader(Protocol):
    """A store, or a reader of one."""

    def steps(self, name: str, *, after: int = 0, limit: int = 1000) -> Sequence[Any]:
        """Return at most `limit` steps of one harness, oldest first, from number `after + 1`."""
        ...


@frozen
class Report:
    """Paths of the written files."""

    account: Account
    text: Path
    """Figures, periods of restricted trading, and trades."""
    trades: Path
    """Trades as CSV, with exact numbers."""
    pictures: tuple[Path, ...]
    """Equity and drawdown: PNG and SVG."""


def steps(reader: Reader, name: str) -> Iterator[Any]:
    """Yield the recorded steps of a harness, oldest first, reading page by page."""
    after = 0
    while page := reader.steps(name, after=after, limit=_PAGE):
        yield from page
        after = page[-1].step_number


def report(
    steps: Iterable[Recorded], directory: str | os.PathLike[str], *, title: str = "Trading", picture: bool = True
) -> Report:
    """Write a report of `steps` to `directory`, which is created if missing; older reports there are replaced.

    Args:
        picture: whether to draw; needs the extra `report`.

    Raises:
        HarnessMisuse: the steps are not those of a trading harness. Nothing is written.
        NotReady: the drawing library is not installed. Nothing is written.
        OSError: the folder cannot be written to.
    """
    account = account_of(steps)
    drawn = draw(title, account) if picture else None
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    text, trades = folder / "report.txt", folder / "trades.csv"
    text.write_text(as_text(title, account), encoding="utf-8")
    trades.write_text(as_csv(account.trades), encoding="utf-8")
    pictures: tuple[Path, ...] = ()
    if drawn is not None:
        pictures = folder / "equity.png", folder / "equity.svg"
        pictures[0].write_bytes(drawn[0])
        pictures[1].write_text(drawn[1], encoding="utf-8")
    return Report(account, text, trades, pictures)
