"""Going through the steps of a harness in pages of bounded size, so that memory does not grow with what is read."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.codec import encode
from orchestrator.records import StepRecord
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_protocol import Store

_PAGE_BYTES = 4_000_000
_FIRST_ROWS = 16
"""Steps may be of any size, so the first page is small; the next ones follow its measure."""
_MOST_ROWS = 4096


def pages(reader: SqliteReader | Store, name: str, *, after: int = 0, limit: int | None = None) -> Iterator[list[StepRecord]]:
    """Yield the steps from number `after + 1`, oldest first: at most `limit`, and none recorded after the call.

    A harness that steps faster than it is read does not keep the reader for ever.

    Raises:
        UnknownHarness: there is no such harness.
    """
    last = _last_step(reader, name)
    for oldest in reader.steps(name, after=after, limit=1):
        # Those before it were pruned.
        after = max(after, oldest.step_number - 1)
    if limit is not None:
        last = min(last, after + limit)
    rows = _FIRST_ROWS
    while after < last:
        page = reader.steps(name, after=after, limit=min(rows, last - after))
        if not page:
            return
        yield page
        after = page[-1].step_number
        rows = _fitting(page, rows)


def _last_step(reader: SqliteReader | Store, name: str) -> int:
    for record in reader.harnesses():
        if record.name == name:
            return record.current_step
    reader.steps(name, limit=1)  # raises with the known names
    return 0


def _fitting(page: list[StepRecord], rows: int) -> int:
    """Return how many rows the next page gets, by the largest of three samples; at most eight times as many as before."""
    samples = (page[0], page[len(page) // 2], page[-1])
    largest = max(len(encode((record.input, record.output))) for record in samples)
    return max(1, min(rows * 8, _MOST_ROWS, _PAGE_BYTES // max(largest, 1)))
