"""The page about a backtest: its tables, and the accounts of the trials that matter, with pictures. It needs no network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from harnesses.charts.chart_theme import CONFIG, INK
from harnesses.files.safe_files import draft_of
from harnesses.trading.report.report_figures import Account, TradeRow
from harnesses.trading.report.trading_report import MONTHS, figure_rows, month_rows, picture_of
from orchestrator.analysis.analysis_report import html
from orchestrator.analysis.answers.answer import Answer, Table, money
from orchestrator.analysis.pictures.chart_layers import Picture
from orchestrator.cli.backtest.backtest_plan import Trial
from orchestrator.cli.backtest.backtest_results import Measure, Result, read_account
from orchestrator.cli.std_streams import say
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

_GRID = "grid"
_CELL = 56
"""Pixels of a cell of the grid."""


def write_page(
    path: Path, shown: Sequence[Answer], best: Sequence[Trial], store: Path, *, title: str, grid: Picture | None = None
) -> None:
    """Write the page to a file, which comes to its name when it is whole.

    Args:
        shown: the tables.
        best: the trials whose accounts are shown in full.
        grid: a picture of all combinations.

    Raises:
        OSError: it cannot be written.
    """
    answers, pictures, homes = [*shown], [] if grid is None else [grid], {shown[0].question: [_GRID]}
    with closing(SqliteReader(store)) as reader:
        for trial in best:
            account, what = read_account(reader, trial), "the best" if trial.fold is None else f"test {trial.fold}"
            answers.append(account_answer(what, account))
            pictures.append(Picture(trial.name, trial.name, picture_of(trial.name, account)))
            homes[what] = [trial.name]
    text = html(answers, pictures, title=title, homes=homes)
    with draft_of(path) as file:
        file.write(text.encode())
    say(f"written to {path}")


def account_answer(name: str, account: Account) -> Answer:
    """Return an account as tables: figures, months and trades.

    Args:
        name: of the section.
    """
    rows = ("time", "symbol", "side", "units", "price", "fee", "gain", "reason")
    months = ("year", *MONTHS, "whole", "benchmark")
    return Answer(
        name,
        [
            Table("figures", "figure value", figure_rows(account.figures)),
            Table("months", months, month_rows(account.months), "whole: of the year. benchmark: what holding brought in it."),
            Table("trades", rows, map(_trade, account.trades)),
        ],
    )


def _trade(row: TradeRow) -> tuple[Any, ...]:
    fill = row.fill
    amounts = (money(one) for one in (fill.units, fill.price, fill.fee, row.gain))
    return (f"{fill.time:%Y-%m-%d %H:%M}", fill.symbol, fill.side.value, *amounts, row.reason)


def grid_picture(results: Sequence[Result], by: Measure) -> Picture | None:
    """Return a map of what each combination of two options came to; None for another number of options."""
    names = list(results[0].trial.options) if results else []
    if len(names) != 2:
        return None
    rows = list(_cells(results, names, by))
    known = [row["value"] for row in rows if row["value"] is not None]
    if not known:
        return None
    middle = (min(known) + max(known)) / 2
    down, across = (
        {"field": key, "type": "ordinal", "sort": None, "title": name} for key, name in zip("ab", names, strict=True)
    )
    light = {"condition": {"test": f"datum.value > {middle!r}", "value": INK}, "value": "white"}
    colour = {"field": "value", "type": "quantitative", "title": by, "scale": {"scheme": "viridis"}}
    title = f"{by} of {' and '.join(names)}"
    spec = {
        "title": title,
        "data": {"values": rows},
        "width": {"step": _CELL},
        "height": {"step": _CELL * 0.6},
        "encoding": {"x": {**across, "axis": {"labelAngle": 0}}, "y": down},
        "layer": [
            {"mark": "rect", "encoding": {"color": colour}},
            {"mark": "text", "encoding": {"text": {"field": "shown"}, "color": light}},
        ],
        "config": CONFIG,
    }
    return Picture(_GRID, title, spec)


def _cells(results: Sequence[Result], names: Sequence[str], by: Measure) -> Iterator[dict[str, Any]]:
    for one in results:
        value = one.measure(by)
        shown = "-" if value is None else f"{value:+.1%}" if by == "gain" else f"{value:.2f}"
        yield {"a": str(one.trial.options[names[0]]), "b": str(one.trial.options[names[1]]), "value": value, "shown": shown}
