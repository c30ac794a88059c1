"""Replay of a run's records in order, at a chosen speed.

Invariant: the time between two records is the original one divided by the speed, on Trio's clock. A slow consumer delays the
replay, which then catches up. At most a page is read ahead, and records that appear after the start are not included.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncGenerator, Collection, Generator, Iterator
from contextlib import ExitStack, aclosing, closing, suppress
from datetime import datetime
from math import inf, isnan
from pathlib import Path
from typing import Any

import msgspec
import trio
from attrs import frozen

from orchestrator.errors import UsageError
from orchestrator.history.past_reader import Past, Source, find_harness, is_log, open_past, read_records
from orchestrator.log import record_of
from orchestrator.records import Record

_read_line = msgspec.json.Decoder(dict[str, Any]).decode


@frozen
class _Wanted:
    names: Collection[str] | None
    kinds: Collection[str] | None
    until: int | None
    until_us: int | None

    def takes(self, record: Record) -> bool:
        if self.names is not None and record.harness not in self.names:
            return False
        if self.until_us is not None and record.time_us > self.until_us:
            return False
        return self.kinds is None or record.kind in self.kinds


async def replay(
    source: Source,
    *,
    speed: float = inf,
    names: Collection[str] | str | None = None,
    kinds: Collection[str] | str | None = None,
    after: int | datetime = 0,
    until: int | datetime | None = None,
    longest_gap_s: float | None = None,
) -> AsyncGenerator[Record]:
    """Yield the records of a run again, in order of `seq`. Close it like any async generator, with `contextlib.aclosing`.

    Args:
        source: a store, its path, or the path of a log of JSON lines (`.jsonl`, `.ndjson`, `.log`, also with `.gz`).
        speed: 1 is real time, 10 is ten times as fast; default is as fast as they are consumed.
        names: names of harnesses; default is all, and records that concern all of them.
        kinds: kinds such as `step`; default is all.
        after: the `seq` of a record, or an aware time: later records are included.
        until: the same: this record and earlier ones are included.
        longest_gap_s: limit on the wait between two records, in seconds of the run, before the speed is applied; it skips the
            time between two runs.

    Raises:
        UnknownHarness: the store has no harness of a name.
        UsageError: an argument is invalid, or a line is not a log line. A truncated last line is left out.
    """
    if isnan(speed) or speed <= 0:
        raise UsageError(f"replay: speed: expected a number above 0, was {speed!r}; 1 is real time")
    if longest_gap_s is not None and not longest_gap_s >= 0:
        raise UsageError(f"replay: longest_gap_s: expected seconds from 0 up, was {longest_gap_s!r}")
    wanted = _Wanted(_several(names), _several(kinds), *_end(until))
    after_us = _micros("after", after) if isinstance(after, datetime) else None
    due, last_us = trio.current_time(), None
    with ExitStack() as stack:
        for record in _records(source, 0 if isinstance(after, datetime) else after, stack, wanted):
            if after_us is not None and record.time_us <= after_us:
                continue
            if speed < inf and last_us is not None:
                gap_s = max(0, record.time_us - last_us) / 1e6
                due += min(gap_s, inf if longest_gap_s is None else longest_gap_s) / speed
                await trio.sleep_until(due)
            else:
                await trio.lowlevel.checkpoint()
            last_us = record.time_us
            yield record


async def replay_into(channel: trio.MemorySendChannel[Record], source: Source, **options: Any) -> None:
    """Send the records of a run into a memory channel, and close it; the options are those of `replay`."""
    async with channel:
        async with aclosing(replay(source, **options)) as records:
            async for record in records:
                await channel.send(record)


def _records(source: Source, after: int, stack: ExitStack, wanted: _Wanted) -> Generator[Record]:
    if is_log(source):
        found = _of_log(Path(str(source)), after, wanted)
    else:
        found = _of_store(stack.enter_context(open_past(source)), after, wanted)
    return stack.enter_context(closing(found))


def _of_store(past: Past, after: int, wanted: _Wanted) -> Generator[Record]:
    for name in filter(None, wanted.names or ()):
        find_harness(past, name)
    yield from filter(wanted.takes, read_records(past, after, wanted.until))


def _of_log(path: Path, after: int, wanted: _Wanted) -> Generator[Record]:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(_whole_lines(file), 1):
                record = _read(path, number, line)
                if record.seq > after and (wanted.until is None or record.seq <= wanted.until) and wanted.takes(record):
                    yield record
    except OSError as error:
        raise UsageError(f"log {path} cannot be read: {error.strerror or error}; check the path") from error


def _whole_lines(file: Iterator[bytes]) -> Generator[bytes]:
    """Yield the complete lines; of a compressed log, as much as can be decompressed."""
    with suppress(EOFError, zlib.error):
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield line


def _read(path: Path, number: int, line: bytes) -> Record:
    try:
        return record_of(_read_line(line))
    except (ValueError, msgspec.MsgspecError) as error:
        raise UsageError(f"log {path}, line {number}: {error}") from error


def _several(given: Collection[str] | str | None) -> Collection[str] | None:
    return {given} if isinstance(given, str) else given


def _end(until: int | datetime | None) -> tuple[int | None, int | None]:
    """Return the last `seq` and the last time that are wanted."""
    if isinstance(until, datetime):
        return None, _micros("until", until)
    return until, None


def _micros(what: str, moment: datetime) -> int:
    if moment.tzinfo is None:
        raise UsageError(f"replay: {what}: expected an aware time, was {moment!r}; give it a zone, such as UTC")
    return int(moment.timestamp() * 1e6 + 0.5)
