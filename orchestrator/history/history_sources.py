"""Where a past is read from: a store, the path of one, or the path of a log. What is ours is closed again.

The law: a file is never opened to see what it is. Closing any descriptor of a store lets go of all locks that this process
holds on it, SQLite's own too; so its name tells, unless this process writes it, and SQLite opens the rest.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from orchestrator.errors import UsageError
from orchestrator.records import HarnessRecord
from orchestrator.store.file.open_files import is_beside_store, is_written
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_protocol import Store

Past: TypeAlias = Store | SqliteReader
"""What can be asked."""
Source: TypeAlias = Past | str | Path
_LOGS = (".jsonl", ".ndjson", ".log")
_PACKED = (".gz",)


def is_log(source: Source) -> bool:
    """Return whether a path is that of a log of JSON lines, by its name: `steps.jsonl`, `steps.log.gz`.

    Raises:
        UsageError: it is what SQLite has beside a store.
    """
    if not isinstance(source, str | Path):
        return False
    path = Path(source)
    if is_beside_store(path):
        raise UsageError(f"{source} belongs to a store that lies beside it: expected the store itself; name that")
    if is_written(path):
        return False
    return (path.with_suffix("") if path.suffix in _PACKED else path).suffix in _LOGS


@contextmanager
def open_past(source: Source) -> Generator[Past]:
    """Give what can be asked; what was opened for it is closed afterwards.

    Raises:
        UsageError: it is a log, or nothing that can be asked.
    """
    if is_log(source):
        raise UsageError(f"{source} is a log: expected a store, which alone knows the states; give the store that it is of")
    if not isinstance(source, str | Path):
        if not hasattr(source, "state_at"):
            raise UsageError(f"expected a store, or the path of one, was {source!r:.200}")
        yield source
        return
    reader = SqliteReader(source)
    try:
        yield reader
    finally:
        reader.close()


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


def oldest_step(past: Past, name: str) -> int:
    """Return the first step of a harness that is there: 1, unless it was pruned; 0 if it has made none."""
    steps = past.steps(name, limit=1)
    return steps[0].step_number if steps else 0
