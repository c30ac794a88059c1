"""Metrics of a running program: counted from committed records in the background, rendered on request.

Invariant: it cannot affect the run. It reads the store in a thread, page by page; concurrent requests share one rendering; a
failure is printed, and ends only this.

    text() ──request──► the meter's task: counts what is committed, reads the program's figures, renders ──► all requests
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import trio
from attrs import evolve, frozen

from harnesses.diagnostics.error_groups import leaves
from harnesses.diagnostics.extras import own_version
from harnesses.errors import OrchestratorError
from harnesses.timing.clock import jumps
from orchestrator.errors import UsageError
from orchestrator.recording.commit_queue import Condition
from orchestrator.recording.recorder import Recorder
from orchestrator.status import pending_approvals, unknown_effects
from orchestrator.store.store_capabilities import Counted
from orchestrator.store.store_protocol import Store
from orchestrator.telemetry.metric_figures import Family, HarnessFigures, ProgramFigures, Snapshot, families
from orchestrator.telemetry.record_counts import Counts
from orchestrator.text.terminal_text import say

_PAGE = 1000
_PAUSE_S = 0.25
"""Seconds between two checks for new records while there is no request, so that pages are full where steps are fast."""
_ResultT = TypeVar("_ResultT")


@frozen
class Program:
    """What the meter reads besides the store. Called in the loop's thread."""

    harnesses: Callable[[], Sequence[HarnessFigures]]
    spans: Callable[[], tuple[int, int]] = lambda: (0, 0)
    """Returns the numbers of sent and of dropped spans."""


class Meter:
    """Counts what a program records from now on.

    Args:
        write: renders the metrics.
        eager: whether to count continuously; otherwise counting starts with the first request, which then takes longer. Both
            give the same numbers.
    """

    def __init__(
        self,
        recorder: Recorder,
        program: Program,
        write: Callable[[Sequence[Family]], bytes],
        *,
        eager: bool = False,
    ) -> None:
        store = recorder.store
        self._recorder = recorder
        self._store: Store = store
        self._program = program
        self._write = write
        self._counts = Counts(store.run)
        self._after = store.last_seq()
        self._follows = eager
        self._is_due = False
        self._asked = self._answered = 0
        self._result: bytes | str = b""
        """The text, or the reason why there is none."""
        self._has_ended = False
        self._bell = Condition()
        self._thread = trio.CapacityLimiter(1)

    async def text(self) -> bytes:
        """Return the metrics of a moment after the call.

        Raises:
            UsageError: they cannot be rendered.
        """
        self._asked += 1
        mine = self._asked
        self._bell.ring()
        await self._bell.until(lambda: self._has_ended or self._answered >= mine)
        if isinstance(self._result, str):
            raise UsageError(self._result)
        return self._result

    async def run(self) -> None:
        """Count and serve requests, until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._heed_news)
                while True:
                    await self._bell.until(lambda: self._is_due or self._asked > self._answered)
                    self._is_due, self._follows = False, True
                    await self._go_on()
        except Exception as error:
            self._result, self._has_ended = (
                f"metrics: counting failed, no more metrics: {next(leaves(error))}; the run goes on",
                True,
            )
            say(self._result)
            self._bell.ring()

    async def _go_on(self) -> None:
        """Count new records and serve pending requests; an error is passed to these, and the next request tries again."""
        asked, took_s = self._asked, 0.0
        try:
            await self._count(self._recorder.last_seq)
            if asked > self._answered:
                begin = time.perf_counter()
                self._result = await self._written()
                took_s = time.perf_counter() - begin
        except OrchestratorError as error:
            self._result = str(error)
        self._answered = asked
        self._bell.ring()
        # However many requests follow each other, the run has the interpreter at least half of the time.
        await trio.sleep(min(took_s, _PAUSE_S))

    async def _heed_news(self) -> None:
        await self._bell.until(lambda: self._follows)
        while not self._recorder.ended:
            await self._recorder.wait_news(self._after)
            self._is_due = True
            self._bell.ring()
            await trio.sleep(_PAUSE_S)

    async def _count(self, last: int) -> None:
        """Count all records up to `last`, including those of other programs; not those written meanwhile."""
        while self._after < last:
            read = await aside(self._count_page, self._thread)
            if read < _PAGE:
                return

    def _count_page(self) -> int:
        store = self._store
        read = store.outlines if isinstance(store, Counted) else store.records
        records = read(after=self._after, limit=_PAGE)
        self._counts.take(records)
        if records:
            self._after = records[-1].seq
        return len(records)

    async def _written(self) -> bytes:
        snapshot = self._look()
        return await aside(lambda: self._write(list(families(self._complete(snapshot)))), self._thread)

    def _look(self) -> Snapshot:
        """Return what only the loop's thread may read."""
        recorder, (sent, dropped) = self._recorder, self._program.spans()
        program = ProgramFigures(
            recorder.queued,
            recorder.commits_s.copy(),
            recorder.batches.copy(),
            max(recorder.last_seq - self._after, 0),
            sent,
            dropped,
        )
        return Snapshot(
            store=self._store.location,
            run=self._store.run,
            version=own_version(),
            counts=self._counts,
            harnesses=self._program.harnesses(),
            program=program,
        )

    def _complete(self, snapshot: Snapshot) -> Snapshot:
        """Add figures from the store, those that it can give."""
        store = self._store
        accounts = _asked_of(store.accounts) or {}
        approvals = _asked_of(lambda: pending_approvals(store))
        messages = _asked_of(store.messages_waiting) if isinstance(store, Counted) else None
        unknown = _asked_of(lambda: unknown_effects(store))
        return evolve(
            snapshot,
            approvals_waiting=approvals,
            effects_unknown=unknown,
            messages_waiting=messages,
            accounts=accounts,
        )


def _asked_of(question: Callable[[], _ResultT]) -> _ResultT | None:
    try:
        return question()
    except OrchestratorError:
        return None


async def aside(function: Callable[[], _ResultT], threads: trio.CapacityLimiter) -> _ResultT:
    """Return the result of a function called in a thread; on cancellation the thread is abandoned.

    Args:
        threads: limiter for these threads, so that many requests take no threads from the harnesses.

    A virtual clock would run on meanwhile: then it is called here, and takes no time.
    """
    if jumps():
        await trio.lowlevel.checkpoint()
        return function()
    return await trio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=threads)
