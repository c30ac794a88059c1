"""What trading harnesses held where their steps begin that are there, for runs that were pruned."""

from __future__ import annotations

from contextlib import closing

import msgspec
from attrs import frozen

from harnesses.trading.market.orders import ZERO
from harnesses.trading.position_book import Book
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.remaining import look
from orchestrator.analysis.sources import StoreSource
from orchestrator.errors import StoreError, UsageError
from orchestrator.store.sqlite.sqlite_reader import SqliteReader


@frozen
class Kept:
    """What of the state of a trading harness is looked at."""

    book: Book | None = None


_kept = msgspec.json.Decoder(Kept).decode


def first_books(run: Run) -> dict[str, tuple[int, bool, Book]]:
    """Return, of harnesses with steps that are gone: from which step they are known, whether their book then is, and it."""
    look(run)
    found: dict[str, tuple[int, bool, Book]] = {}
    for name, first, missing in run.rows(
        "SELECT harness, first_step, missing FROM remaining WHERE first_step > 1 OR missing > 0"
    ):
        book = None if missing else _book(run, name, first)
        found[name] = (first if first > 1 else 0, book is not None, book or Book(ZERO))
    return found


def _book(run: Run, name: str, step: int) -> Book | None:
    """Return the book after a step, where there is a store to give it."""
    if not isinstance(run.source, StoreSource):
        return None
    try:
        with closing(SqliteReader(run.location)) as reader:
            return _kept(reader.state_at(name, step)).book
    except (StoreError, UsageError, msgspec.DecodeError):
        return None
