"""The verb `export` into a folder of parts: `harness=x/day=2026-11-22/part-<first seq>-<last seq>.parquet`, and more later.

Invariant: what the folder's `_export.json` lists is there, once. A part is written under another name first, and
counts when that file says so; so a run that was killed leaves parts that the next one removes and writes again.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from attrs import asdict, define, evolve, field, frozen

from harnesses.files.safe_files import sync
from harnesses.processes.fork_safety import close_unshared, keep_from_forks
from orchestrator.cli.export.export_formats import load_arrow, whole_file, write_parquet, write_text
from orchestrator.cli.export.export_sheets import SHEETS, Head, Sheet
from orchestrator.cli.output_targets import check_target
from orchestrator.errors import UsageError
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

PARTITIONS = ("harness", "day")
STATE = "_export.json"
_MOST_ROWS, _MOST_BYTES = 100_000, 32_000_000
"""Rows and characters that are held before they are written: each harness and day gets a part of its own then."""
_PART = re.compile(r"part-(\d+)-(\d+)\.(?:jsonl|csv|parquet)")
_TORN = re.compile(r"\..*\.part")


@frozen
class State:
    """What a folder of parts holds."""

    what: str
    format: str
    partition_by: tuple[str, ...]
    harness: str | None
    last_seq: int = 0
    """All up to here is in it."""
    last_time_us: int = 0
    """When that was recorded, so that another store is known for one."""
    rows: int = 0
    parts: int = 0


@define
class _Held:
    """Rows that wait to be written, by the folder they go to."""

    items: dict[str, list[Any]] = field(factory=dict[str, list[Any]])
    rows: int = 0
    characters: int = 0


def export_parts(reader: SqliteReader, wanted: State, folder: Path, *, incremental: bool) -> tuple[State, State]:
    """Write what is recorded and not in the folder yet; return what the folder held before, and what it holds now.

    Args:
        wanted: with the number after which to begin, if the folder is new.

    Raises:
        UsageError: the folder holds something else, or cannot be written to.
        UnknownHarness: there is no such harness.
    """
    sheet = SHEETS[wanted.what]
    if incremental and not sheet.grows:
        raise UsageError(
            f"--incremental: expected records, steps, events or transcripts, was {wanted.what}: its rows change; "
            "export it anew"
        )
    if wanted.format == "parquet":
        load_arrow()
    check_target(folder, reader.path)
    until = reader.last_seq()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            held = before = _take_up(reader, folder, wanted, incremental=incremental)
            _keep(folder, before)
            for held in _write_parts(reader, sheet, folder, before, until):
                _keep(folder, held)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}; choose another folder") from error
    return before, held


def pruned_since(reader: SqliteReader, before: State) -> bool:
    """Return whether records that come next after what a folder holds were taken away before they were exported."""
    found = reader.records(after=before.last_seq, limit=1)
    return bool(before.last_seq and found and found[0].seq > before.last_seq + 1)


def _take_up(reader: SqliteReader, folder: Path, wanted: State, *, incremental: bool) -> State:
    """Return where to go on, with nothing in the folder that does not count."""
    parts = [path for path in folder.rglob("*") if _PART.fullmatch(path.name)]
    for torn in [path for path in folder.rglob(".*.part") if _TORN.fullmatch(path.name)]:
        torn.unlink()
    try:
        state = msgspec.json.decode((folder / STATE).read_bytes(), type=State)
    except FileNotFoundError:
        if parts:
            raise UsageError(f"{folder} has parts and no {STATE}: its contents are unknown; choose another folder") from None
        return wanted
    except msgspec.MsgspecError as error:
        raise UsageError(f"{folder / STATE} cannot be read back: {error}; choose another folder") from error
    if not incremental:
        raise UsageError(f"{folder} has an export already: expected a new folder, or --incremental to go on with that one")
    _check_same(reader, folder, state, wanted)
    for path in parts:
        match = _PART.fullmatch(path.name)
        if match is not None and int(match[1]) > state.last_seq:
            path.unlink()
    return state


def _check_same(reader: SqliteReader, folder: Path, state: State, wanted: State) -> None:
    for name in ("what", "format", "partition_by", "harness"):
        was, now = getattr(state, name), getattr(wanted, name)
        if was != now:
            raise UsageError(
                f"{folder} was exported with {name} {was!r}: expected the same, was {now!r}; choose another folder"
            )
    found = reader.records(after=state.last_seq - 1, limit=1) if state.last_seq else []
    same = not found or found[0].seq != state.last_seq or found[0].time_us == state.last_time_us
    if not same or reader.last_seq() < state.last_seq:
        raise UsageError(f"{folder} is of another store than {reader.location}: expected the same; choose another folder")


def _write_parts(reader: SqliteReader, sheet: Sheet, folder: Path, state: State, until: int) -> Iterator[State]:
    """Write parts; yield what the folder holds when some are written."""
    held = _Held()
    start = state.last_seq
    for reached, items in sheet.pages(reader, state.harness, start, until):
        for item in items:
            head = sheet.head(item)
            held.items.setdefault(_place(state.partition_by, head), []).append(item)
            held.characters += head.characters
        held.rows += len(items)
        if held.rows >= _MOST_ROWS or held.characters >= _MOST_BYTES:
            state = _flush(reader, sheet, folder, evolve(state, last_seq=reached), held)
            held = _Held()
            yield state
    if until > start:
        yield _flush(reader, sheet, folder, evolve(state, last_seq=until), held)


def _flush(reader: SqliteReader, sheet: Sheet, folder: Path, state: State, held: _Held) -> State:
    """Write what is held; return what the folder holds then."""
    for place, items in held.items.items():
        where = folder / place
        where.mkdir(parents=True, exist_ok=True)
        first, last = sheet.head(items[0]).seq, sheet.head(items[-1]).seq
        with whole_file(where / f"part-{first}-{last}.{state.format}") as file:
            if state.format == "parquet":
                write_parquet(sheet, [items], file)
            else:
                with open(file.fileno(), "w", encoding="utf-8", newline="", closefd=False) as text:
                    write_text(sheet, state.format, [items], text)
        sync(where)
    found = reader.records(after=state.last_seq - 1, limit=1)
    stamp = found[0].time_us if found and found[0].seq == state.last_seq else 0
    return evolve(state, last_time_us=stamp, rows=state.rows + held.rows, parts=state.parts + len(held.items))


NOBODY = "__HIVE_DEFAULT_PARTITION__"
"""How the layout writes that there is no value: of what concerns all harnesses."""


def _place(partition_by: Sequence[str], head: Head) -> str:
    """Return the folder that an item goes to."""
    return "/".join(f"{name}={(head.harness or NOBODY) if name == 'harness' else _day(head.time_us)}" for name in partition_by)


@lru_cache(maxsize=1000)
def _date(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=days)).isoformat()


def _day(time_us: int) -> str:
    return _date(time_us // 86_400_000_000)


def _keep(folder: Path, state: State) -> None:
    with whole_file(folder / STATE) as file:
        file.write(json.dumps(asdict(state), indent=2).encode() + b"\n")
    sync(folder)


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Keep two exports from working on one folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    keep_from_forks(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UsageError(f"{folder} is being exported to by another process: wait for its end, and try again") from None
    finally:
        close_unshared(descriptor)
