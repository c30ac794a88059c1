"""The steps of a harness with `durability="group"` that are accepted and not on disk yet.

Invariants: steps reach the store in order, and none after one that was not stored; no step is accepted while an earlier one
has waited for longer than `group_s`, or twice `MAX_BYTES` wait; whoever asks for what was accepted before it (`flush`, `hold`)
continues when that is on disk.

    accept ──► open chunk ──► push: at `group_s / 2`, at MAX_BYTES, or for what must not precede its steps
                                │
                                ▼
                            sent chunks ──► stored, oldest first: their waiters are woken
                                       └──► refused: everything that waits is lost, and `accept` raises the error

Rows that belong to the step in progress and that nobody waits for, such as a line of output, are held until the steps before
them are stored; the next step waits for that.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from math import inf
from typing import Any

import trio
from attrs import define, field
from trio.lowlevel import Task, cancel_shielded_checkpoint, current_task, reschedule

from harnesses.errors import OrchestratorError
from harnesses.step import NewStep, Step
from harnesses.timing.clock import jumps
from orchestrator.recording.commit_queue import Condition, PendingWrite, settled
from orchestrator.recording.recorder import Recorder
from orchestrator.store.store_protocol import EffectRow, StepRow

MAX_BYTES = 4 * 1024 * 1024
"""Characters of steps after which they are handed to the disk at once; twice as many may wait."""
GROUP_S = 0.05
"""Default of the seconds within which an accepted step is on disk.

On a virtual clock, which jumps whenever no task can run, it is real time, looked at when a step is accepted: a backtest sleeps
for a day of virtual time between two steps. There, a harness that makes no step for a while is stored after `_IDLE` times the
time between its last two.
"""
_IDLE = 4
_TURN_S = 0.0002
"""Seconds after which the other tasks get their turn. A turn after each step would take a quarter of the time of a step."""


@define(eq=False)
class _Chunk:
    """Steps that are handed to the recorder together."""

    since: float
    """Time at which the first step was accepted."""
    slots: list[PendingWrite] = field(factory=list[PendingWrite])
    steps: list[NewStep[Any, Any]] = field(factory=list[NewStep[Any, Any]])
    size: int = 0


class GroupedSteps:
    """The accepted steps of one harness. It outlives attempts.

    Args:
        group_s: seconds on Trio's clock within which an accepted step is on disk, as long as a commit takes less than half of
            that; None for the default.
        on_stored: called when steps have been stored.
    """

    def __init__(self, recorder: Recorder, group_s: float | None, on_stored: Callable[[], None]) -> None:
        self._recorder = recorder
        self._group_s = GROUP_S if group_s is None else group_s
        self._yields = jumps()
        """Whether the other tasks get their turn after each step, so that a virtual clock can jump."""
        self._is_real = group_s is None and self._yields
        """Whether the bound is in real time, although the clock is virtual."""
        self._accepted_at = trio.current_time()
        self._idle_at = inf
        self._now: Callable[[], float] = time.perf_counter if self._is_real else trio.current_time
        self._on_stored = on_stored
        self._open: _Chunk | None = None
        self._sent: deque[_Chunk] = deque()
        self._later: list[tuple[PendingWrite, bool]] = []
        """Rows of the step in progress that are sent when the steps before them are stored, and whether they ring."""
        self._holders = 0
        self._waiters: list[Task] = []
        self._begun = Condition()
        self._failure: BaseException | None = None
        self._last = 0
        """Number of the last step known to be stored."""
        self._turn = 0.0

    def durable(self, accepted: int) -> int:
        """Return the number of the last stored step, of a harness that has made `accepted` steps."""
        return self._last if self._failure is not None or self._is_pending else max(accepted, self._last)

    def unstored(self, after: int) -> list[Step[Any, Any]]:
        """Return the accepted steps with a number above `after` that are not known to be stored."""
        chunks = self._sent if self._open is None else (*self._sent, self._open)
        return [step.as_step() for chunk in chunks for step in chunk.steps if step.step_number > after]

    def complete(self, stored: Sequence[Step[Any, Any]], after: int, limit: int) -> Sequence[Step[Any, Any]]:
        """Return at most `limit` steps after a number: those that the store has returned, then accepted ones."""
        if len(stored) >= limit or not self._is_pending:
            return stored
        last = stored[-1].step_number if stored else after
        return [*stored, *islice(self.unstored(last), limit - len(stored))]

    async def accept(
        self, row: StepRow, step: NewStep[Any, Any], notes: tuple[EffectRow, ...] = (), *, redacted: bool
    ) -> None:
        """Accept a step. Waits only while the disk is too far behind. Not cancellable.

        Raises:
            OwnershipLost, StoreLost: this step, and those that were not stored before it, are not recorded.
        """
        now = self._now()
        while self._has_to_wait(now):
            self.push()
            await self._wait()
            now = self._now()
        self._check()
        slot = PendingWrite()
        slot.row, slot.notes, slot.redacted = row, notes, redacted
        chunk = self._open
        if chunk is None:
            if not self._sent:
                self._last = row.step - 1
            chunk = self._open = _Chunk(now)
            self._begun.ring()
        chunk.slots.append(slot)
        chunk.steps.append(step)
        chunk.size += len(row.body) if row.state is None else len(row.body) + len(row.state)
        if notes:
            chunk.size += sum(len(note.body) for note in notes)
        if self._is_real:
            self._note_pace()
        if chunk.size >= MAX_BYTES or (self._is_real and now >= chunk.since + self._group_s / 2):
            self.push()
        # Real time in any case: a virtual clock may stand still.
        if self._yields or time.perf_counter() - self._turn >= _TURN_S:
            await cancel_shielded_checkpoint()
            self._turn = time.perf_counter()

    def note_soon(self, slot: PendingWrite, *, rings: bool) -> None:
        """Send a row of the step in progress after the steps before it, without waiting. Dropped if those are lost.

        Args:
            rings: whether it is to be committed soon; otherwise along with the next commit.
        """
        if self._failure is not None:
            return
        self._later.append((slot, rings))
        self.push()
        self._send_later()

    def push(self) -> None:
        """Hand over what was accepted: operations that are sent to the recorder from now on come after it."""
        chunk, self._open = self._open, None
        if chunk is None:
            return
        self._sent.append(chunk)
        chunk.slots[-1].result = self._settle
        try:
            self._recorder.enqueue_all(chunk.slots)
        except OrchestratorError as error:
            self._settle(error)

    async def flush(self) -> None:
        """Wait until everything accepted is on disk. Not cancellable.

        Raises:
            OwnershipLost, StoreLost: it is not recorded.
        """
        self.push()
        while self._sent or self._later:
            await self._wait()
        self._check()

    async def clear(self) -> None:
        """Wait before a step that is recorded by itself: for everything accepted, and for those who hold the harness."""
        await self.flush()
        while self._holders:
            await self._wait()
            await self.flush()

    async def hold(self) -> None:
        """Wait until everything accepted is on disk; no step is accepted from now until `release`. Not cancellable.

        Raises:
            OwnershipLost, StoreLost: it is not recorded; the hold is released.
        """
        self._holders += 1
        try:
            await self.flush()
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """End a hold."""
        self._holders -= 1
        self._wake()

    async def watch(self) -> None:
        """Hand over what was accepted in time. Runs until cancelled."""
        while True:
            await self._begun.until(lambda: self._open)
            await trio.sleep_until(self._due())
            if self._due() <= trio.current_time():
                self.push()

    def _due(self) -> float:
        """Return when the open chunk is to be handed over, on Trio's clock."""
        if self._open is None:
            return inf
        return self._idle_at if self._is_real else self._open.since + self._group_s / 2

    def _note_pace(self) -> None:
        """Note from when on, in virtual time, the harness counts as one that makes no step for a while."""
        moment = trio.current_time()
        self._idle_at = moment + max(self._group_s / 2, _IDLE * (moment - self._accepted_at))
        self._accepted_at = moment

    @property
    def _is_pending(self) -> bool:
        return bool(self._sent) or self._open is not None

    def _has_to_wait(self, now: float) -> bool:
        if self._later or self._holders:
            return True
        chunk = self._sent[0] if self._sent else self._open
        if chunk is None:
            return False
        return now - chunk.since > self._group_s or (bool(self._sent) and self._size() >= 2 * MAX_BYTES)

    def _size(self) -> int:
        return sum(chunk.size for chunk in self._sent) + (0 if self._open is None else self._open.size)

    def _settle(self, result: Any) -> None:
        """Note that the oldest sent chunk is stored; or lose everything that waits."""
        if isinstance(result, BaseException):
            self._failure = self._failure or result
            self._sent.clear()
            self._later.clear()
            self._open = None
        else:
            row = self._sent.popleft().slots[-1].row
            assert row is not None
            self._last = row.step
            self._send_later()
            self._on_stored()
        self._wake()

    def _send_later(self) -> None:
        if self._sent:
            return
        later, self._later = self._later, []
        for slot, rings in later:
            (self._recorder.enqueue_soon if rings else self._recorder.enqueue_along)(slot)

    async def _wait(self) -> None:
        self._check()
        self._waiters.append(current_task())
        await settled()
        self._check()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for task in waiters:
            reschedule(task)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
