"""The spans of a store as requests for OTLP, made by a process for each core if there are many records.

The processes take turns at ranges of `seq`, which are joined in order. Each goes through all records, since a span may begin
in the range of another. Invariants: at most three ranges of each process are in memory; if a process fails, this one reads the
rest, and raises the error if there is one.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from subprocess import DEVNULL, PIPE
from typing import IO

import msgspec
from attrs import evolve, frozen

from harnesses.processes.cores import usable_cores
from harnesses.processes.helper_process import helper_command
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.telemetry.otlp_export import request_lines
from orchestrator.telemetry.span_scan import SpanScan

_SHARE = 25_000
"""Minimum number of records for a process: fewer are read before it has started."""
_MOST_PROCESSES = 8
_SIZE_BYTES = 8


@frozen
class _Plan:
    """What is to be read, and by which process."""

    store: str
    name: str | None
    """Only this harness; None for all."""
    after: int
    """Spans that ended up to this `seq` are left out."""
    last: int
    gone: list[str]
    """Harnesses whose program is gone: their attempts are over."""
    size: int
    """Records of a range."""
    processes: int = 1
    number: int = 0

    def ranges(self) -> list[tuple[int, int]]:
        """Return the first and last `seq` of each range; at least one, which may be empty."""
        begins = range(self.after + 1, max(self.last, self.after + 1) + 1, self.size)
        return [(first, min(first + self.size - 1, self.last)) for first in begins]


def stored_requests(
    reader: SqliteReader, name: str | None = None, *, after: int = 0, processes: int | None = None, size: int = 4096
) -> Iterator[bytes]:
    """Yield the spans that `stored_spans` yields as requests, several at a time, each ended by a line feed.

    Args:
        processes: how many make them; None for one for each core, if there is enough to do.
        size: records that a process reads at a time; 4,096 make about 3 MB of text.

    Raises:
        UnknownHarness: there is no such harness.
        OrchestratorError: the store cannot be read.
    """
    if name is not None:
        reader.steps(name, limit=1)  # raises with the known names
    gone = [one.name for one in reader.harnesses() if not one.owned]
    plan = _Plan(str(reader.path), name, after, reader.last_seq(), gone, size)
    if processes is None:
        processes = min(usable_cores(), _MOST_PROCESSES, (plan.last - after) // _SHARE)
    joined = 0
    if processes > 1:
        for text in _join(plan, processes):
            yield text
            joined += 1
    yield from _read(reader, plan, joined)


def serve() -> None:
    """Write ranges to standard output, each after its size, as standard input says: the program of a process."""
    # Nothing here is part of a cycle.
    gc.disable()
    work = msgspec.json.decode(sys.stdin.buffer.read(), type=_Plan)
    out = sys.stdout.buffer
    with closing(SqliteReader(work.store)) as reader:
        for text in _read(reader, work):
            out.write(len(text).to_bytes(_SIZE_BYTES, "big"))
            out.write(text)
            out.flush()


def _read(reader: SqliteReader, plan: _Plan, joined: int = 0) -> Iterator[bytes]:
    """Yield the ranges of a process, but for the first `joined` of all."""
    ranges = plan.ranges()
    scan = SpanScan(reader, plan.name) if joined < len(ranges) else None
    done = 0
    for place, (first, last) in enumerate(ranges):
        if scan is None or place < joined or place % plan.processes != plan.number:
            continue
        scan.skip(done + 1, first - 1)
        texts = scan.texts(first, last)
        if place == len(ranges) - 1:
            texts += scan.interrupt(plan.gone)
        yield "".join([f"{line}\n" for line in request_lines(texts)]).encode()
        done = last


def _join(plan: _Plan, processes: int) -> Iterator[bytes]:
    """Yield the ranges in order; end early if a process fails."""
    with ExitStack() as opened:
        # Left last, so that its threads end as the processes have.
        pool = opened.enter_context(ThreadPoolExecutor(processes))
        try:
            numbered = [evolve(plan, processes=processes, number=number) for number in range(processes)]
            pipes = [opened.enter_context(_started(one)) for one in numbered]
        except OSError:
            return
        count = len(plan.ranges())
        ahead: deque[Future[bytes | None]] = deque()
        for place in range(count + processes):
            if len(ahead) == processes or place >= count:
                if not ahead or (text := ahead.popleft().result()) is None:
                    return
                yield text
            if place < count:
                ahead.append(pool.submit(_next_range, pipes[place % processes]))


@contextmanager
def _started(plan: _Plan) -> Generator[IO[bytes]]:
    """Start a process, and yield what it writes; kill it afterwards."""
    words = helper_command("orchestrator.telemetry.span_processes:serve")
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with process.stdin as told:
                told.write(msgspec.json.encode(plan))
            yield process.stdout
        finally:
            process.kill()


def _next_range(pipe: IO[bytes]) -> bytes | None:
    """Read a range; None if the process has ended before it was whole."""
    head = pipe.read(_SIZE_BYTES)
    size = int.from_bytes(head, "big")
    text = pipe.read(size)
    return text if len(head) == _SIZE_BYTES and len(text) == size else None
