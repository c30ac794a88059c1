"""A report of what a trading harness has done, from its recorded steps: pictures, tables and figures in a folder.

    report(steps(reader, "paper"), "reports/paper")

Works on a run that has ended and on one that goes on: it shows what is recorded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from attrs import frozen

from harnesses.trading.report.report_chart import draw
from harnesses.trading.report.report_figures import Account, Recorded, account_of
from harnesses.trading.report.report_text import as_csv, as_text

_PAGE = 1000


class Reader(Protocol):
    """A store, or a reader of one."""

    def steps(self, name: str, *, after: int = 0, limit: int = 1000) -> Sequence[Any]:
        """Return at most `limit` steps of one harness, oldest first, from number `after + 1`."""
        ...


@frozen
class Report:
    """What was written."""

    account: Account
    text: Path
    """The figures, when trading was held up, and the trades."""
    trades: Path
    """The trades as CSV, numbers exact."""
    pictures: tuple[Path, ...]
    """Equity and drawdown: PNG and SVG."""


def steps(reader: Reader, name: str) -> Iterator[Any]:
    """Yield the steps that are recorded of a harness, oldest first, page by page."""
    after = 0
    while page := reader.steps(name, after=after, limit=_PAGE):
        yield from page
        after = page[-1].step_number


def report(
    steps: Iterable[Recorded], directory: str | os.PathLike[str], *, title: str = "Trading", picture: bool = True
) -> Report:
    """Write a report of `steps` to `directory`, which is made if it is not there; older reports there are replaced.

    Args:
        picture: whether to draw; that needs the extra `report`.

    Raises:
        HarnessMisuse: the steps are not those of a trading harness. Nothing is written.
        NotReady: what draws is not installed. Nothing is written.
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
