"""The step meter: reserves budget for each step and its working time before the step begins.

Invariant: a step's charge is stored in the same commit as the step. An unfinished step is not charged, unless the program was
killed in it or it could not be stored. Working time is reserved in slices, and a step is cancelled at the end of the last
slice it could get.
"""

from __future__ import annotations

from math import inf

import trio

from harnesses.budgets.budget import NOTHING, Spend
from harnesses.budgets.spending import BudgetAccount, limits, unspent
from harnesses.control import Control
from harnesses.errors import BudgetExhausted, OrchestratorError

SLICE_S = 16.0
"""Seconds of working time per reservation. A smaller slice is extended more often; a larger one ties up more unused time."""
_AHEAD = 0.75
"""Part of a slice that is left when the next one is requested. Another program may block a store for 10 s before the store
counts as lost, and the step must not be cancelled for that."""
_LEAST_S = 1e-6
_RETRY_S = 0.05


class Meter:
    """Meters the steps and the working time of one attempt.

    Args:
        control: the attempt's control, whose working-time limit is set.
        slice_s: seconds of working time per reservation.
    """

    __slots__ = ("_begun", "_control", "_news", "_open", "_slice_s", "_till", "_used_s", "is_timed")

    def __init__(self, till: BudgetAccount, control: Control, *, is_timed: bool, slice_s: float = SLICE_S) -> None:
        self.is_timed = is_timed
        """Whether working time is limited, and so counted."""
        self._till = till
        self._control = control
        control.on_stood = self.go_on
        self._slice_s = slice_s
        self._open: list[tuple[int, float]] = []
        """Reservations for the step in progress, with the seconds of each; the first one includes the step itself."""
        self._begun = inf
        self._used_s = 0.0
        self._news = trio.Event()

    async def begin(self) -> bool:
        """Reserve the next step and its first slice of time; return False if the harness is to stop instead.

        Raises:
            BudgetExhausted: too little is left.
        """
        slice_s = self._next_slice_s()
        while True:
            try:
                id = await self._till.reserve(Spend(steps=1, working_time_s=slice_s), between_steps=True)
                break
            except BudgetExhausted:
                # Others may have spent in the meantime; a shorter slice may still fit.
                shorter_s = self._next_slice_s()
                if shorter_s >= slice_s:
                    raise
                slice_s = shorter_s
        if not id:
            return False
        self._open = [(id, slice_s)]
        self._begun = trio.current_time()
        if self.is_timed:
            self._control.begin_work(self._begun + slice_s)
            self._news.set()
        return True

    def stop(self) -> None:
        """Stop the clock: `execute()` has yielded or ended."""
        if self._begun != inf:
            self._used_s = trio.current_time() - self._begun
            self._begun = inf
            self._control.end_work()

    def go_on(self, stood_s: float) -> None:
        """Resume the clock after it has stood still for `stood_s` seconds."""
        if self._begun != inf:
            self._begun = min(self._begun + stood_s, trio.current_time())
            self._news.set()

    def charge(self, *, steps: int = 1) -> None:
        """Settle the reservations of the step, in the commit of the next record. Idempotent."""
        self.stop()
        rest_s = self._used_s
        for id, slice_s in self._open:
            # A step that ignores its cancellation at the end of the last slice has worked for longer than was reserved.
            used_s = min(rest_s, slice_s) if self.is_timed else 0.0
            rest_s -= used_s
            self._till.settle_soon(id, Spend(steps=steps, working_time_s=used_s))
            steps = 0
        self._open = []

    async def extend(self) -> None:
        """Reserve another slice well before the last is used up, while the step works. Runs in a task beside the steps."""
        while True:
            await self._news.wait()
            until = self._control.work_until
            if until == inf:
                self._news = trio.Event()
                continue
            await trio.sleep_until(until - self._slice_s * _AHEAD)
            if self._control.work_until == until and not await self._extend(until):
                await trio.sleep(max(_RETRY_S, (until - trio.current_time()) / 4))

    async def _extend(self, until: float) -> bool:
        """Reserve one more slice for the step that may work until `until`; return False to try again later."""
        slice_s = self._next_slice_s()
        try:
            id = await self._till.reserve(Spend(working_time_s=slice_s))
        except OrchestratorError:
            # The budget is used up or the store is lost: the step's own record will report it.
            return False
        if self._control.work_until != until:
            self._till.settle_soon(id, NOTHING)
        else:
            self._open.append((id, slice_s))
            self._control.extend_work(until + slice_s)
        return True

    def _next_slice_s(self) -> float:
        unspent_s = unspent(self._till).working_time_s if self.is_timed else None
        return 0.0 if unspent_s is None else max(_LEAST_S, min(self._slice_s, unspent_s))


def meter_of(till: BudgetAccount | None, control: Control, *, slice_s: float = SLICE_S) -> Meter | None:
    """Return a meter for an attempt if its steps or its working time are limited."""
    limit = None if till is None else limits(till)
    if till is None or limit is None or (limit.steps is None and limit.working_time_s is None):
        return None
    return Meter(till, control, is_timed=limit.working_time_s is not None, slice_s=slice_s)
