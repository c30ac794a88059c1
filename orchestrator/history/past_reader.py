"""Opening a store for reading history, and reading it: by harness, by step, or record by record, a page at a time.

A file is never opened to see what it is: closing any descriptor of a store releases all locks that this process holds on it,
including SQLite's. So its name decides, unless this process is writing it, and SQLite opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeAlias

from orchestrator.codec import encode
from orchestrator.errors import UsageError
from orchestrator.records import HarnessRecord, Record, StepRecord
from orchestrator.store.file.open_files import is_beside_store, is_written
from orchestrator.store.places.store_location import local_path
from orchestrator.store.postgres.postgres_address import address_in
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_protocol import Store

Past: TypeAlias = Store | SqliteReader
"""Stores that history can be read from."""
PAGE = 500
"""Records read at a time."""
Source: TypeAlias = Past | str | Path
_LOGS = (".jsonl", ".ndjson", ".log")
_PACKED = (".gz",)
_PAGE_BYTES = 4_000_000
_FIRST_ROWS = 16
"""Rows of the first page. Steps may be of any size, so it is small; the size of later pages follows what was measured."""
_MOST_ROWS = 4096


def is_log(source: Source) -> bool:
    """Return whether a path is that of a log of JSON lines, by its name: `steps.jsonl`, `steps.log.gz`.

    Raises:
        UsageError: it is a file that SQLite keeps beside a store.
    """
    if not isinstance(source, str | Path):
        return False
    if address_in(source) is not None:
        return False
    path = Path(source)
    if is_beside_store(path):
        raise UsageError(f"{source} belongs to the store beside it: expected the store itself; give its path")
    if is_written(path):
        return False
    return (path.with_suffix("") if path.suffix in _PACKED else path).suffix in _LOGS


@contextmanager
def open_past(source: Source) -> Generator[Past]:
    """Open a source for reading, which may be the address of a server, and close afterwards what was opened.

    Raises:
        UsageError: it is a log, or cannot be read.
    """
    if is_log(source):
        raise UsageError(f"{source} is a log: expected a store, since a log has no states; give the store that it belongs to")
    if not isinstance(source, str | Path):
        if not hasattr(source, "state_at"):
            raise UsageError(f"expected a store, or the path of one, was {source!r:.200}")
        yield source
        return
    with closing(SqliteReader(local_path(source))) as reader:
        yield reader


def find_harness(past: Past, name: str) -> HarnessRecord:
    """Return what is known of one harness.

    Raises:
        UnknownHarness: there is none of that name.
    """
    for record in past.harnesses():
        if record.name == name:
            return record
    past.steps(name, limit=1)  # raises with the known names
    raise AssertionError(name)


def read_records(
    past: Past, after: int = 0, until: int | None = None, read: Callable[..., list[Record]] | None = None
) -> Generator[Record]:
    """Yield the records after one `seq` up to another, page by page: those existing now, none added meanwhile.

    Args:
        read: returns one page of records; default returns complete records.
    """
    read = read or past.records
    last = past.last_seq() if until is None else min(until, past.last_seq())
    while after < last and (page := read(after=after, limit=PAGE)):
        yield from (record for record in page if record.seq <= last)
        after = page[-1].seq


def oldest_step(past: Past, name: str) -> int:
    """Return the number of the oldest remaining step: 1 unless steps were pruned; 0 if there is none."""
    steps = past.steps(name, limit=1)
    return steps[0].step_number if steps else 0


def pages(reader: Past, name: str, *, after: int = 0, limit: int | None = None) -> Iterator[list[StepRecord]]:
    """Yield the steps from number `after + 1`, oldest first: at most `limit`, none recorded after the call.

    So a harness that steps faster than it is read does not keep the reader busy forever.

    Raises:
        UnknownHarness: there is no such harness.
    """
    last = find_harness(reader, name).current_step
    for oldest in reader.steps(name, after=after, limit=1):
        # Earlier ones were pruned.
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


def _fitting(page: list[StepRecord], rows: int) -> int:
    """Return the number of rows of the next page, from the largest of three samples; at most eight times the last one."""
    samples = (page[0], page[len(page) // 2], page[-1])
    largest = max(len(encode((record.input, record.output))) for record in samples)
    return max(1, min(rows * 8, _MOST_ROWS, _PAGE_BYTES // max(largest, 1)))
