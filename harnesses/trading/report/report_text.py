"""A report as text: the figures and the trades for people, the trades as CSV for spreadsheets. Pure.

What agents write (reasons) is data: what could move a terminal's cursor, or be taken for a formula, is made harmless.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from io import StringIO

from harnesses.trading.report.report_figures import Account, Figures, Interval, TradeRow

COLUMNS = ("time", "symbol", "side", "units", "price", "fee", "gain", "wanted_by", "reason", "client_id", "fill_id")
_HEAD = ("time", "symbol", "side", "units", "price", "fee", "gain", "wanted by", "reason")
_RIGHT = frozenset({"units", "price", "fee", "gain"})
_FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet takes for a formula at the beginning of a cell. Source: OWASP, CSV Injection."""


def as_csv(trades: Iterable[TradeRow]) -> str:
    """Return the trades as CSV, numbers exact."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in trades:
        fill = row.fill
        exact = (f"{number:f}" for number in (fill.units, fill.price, fill.fee, row.gain))
        texts = (row.wanted_by or "", row.reason, fill.client_id, fill.fill_id)
        writer.writerow((fill.time.isoformat(), _cell(fill.symbol), fill.side, *exact, *map(_cell, texts)))
    return out.getvalue()


def as_text(title: str, account: Account) -> str:
    """Return the whole report as text."""
    parts = [title, "", *_figures(account.figures), "", *_intervals(account.intervals), "", *_trades(account.trades)]
    return "\n".join(parts) + "\n"


def _figures(figures: Figures) -> list[str]:
    yearly = "" if figures.yearly_gain is None else f", {figures.yearly_gain:+.2%} a year"
    rows = [
        ("time", f"{figures.begin:%Y-%m-%d %H:%M} to {figures.end:%Y-%m-%d %H:%M}" if figures.begin else "nothing yet"),
        ("steps", f"{figures.steps:,}"),
        ("equity", f"{figures.first_equity:,.2f} to {figures.last_equity:,.2f}: {figures.gain:+.2%}{yearly}"),
        ("drawdown", f"{figures.drawdown:.2%} now, {figures.max_drawdown:.2%} at most"),
        ("turnover", f"{figures.turnover:,.2f}, {figures.turns:.2f} times the mean equity"),
        ("fees", f"{figures.fees:,.2f}"),
        ("trades", f"{figures.trades:,}; {figures.refused:,} orders, or parts of them, were not placed"),
    ]
    return [f"{name:<10}{value}" for name, value in rows]


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
        )
        for row in trades
    ]
    return ["Trades", *_table(_HEAD, rows)]


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
