"""Has each step, and the time it works, reserved before it is begun.

The law: a step is charged with the step, in one commit; one that was not made is not charged, unless the program was killed
in it, or it could not be stored. Working time is reserved in slices, and a step is cancelled at the end of the last slice
that it could get.
"""

from __future__ import annotations

from math import inf

import trio

from harnesses.budgets.budget import NOTHING, Spend
from harnesses.budgets.spending import BudgetAccount, limits, unspent
from harnesses.control import Control
from harnesses.errors import BudgetExhausted, OrchestratorError

SLICE_S = 16.0
"""Working time reserved at once. Shorter, and it is extended more often; longer, and more of it lies idle with others."""
_AHEAD = 0.75
"""The part of a slice that is left when the next one is asked for: a store may be held up for 10 s by another program before
it counts as lost, and work must not be cut short for that."""
_LEAST_S = 1e-6
_RETRY_S = 0.05


class Meter:
    """The steps and the working time of one attempt.

    Args:
        control: of the attempt; its working limit is moved.
        slice_s: working time reserved at once.
    """

    __slots__ = ("_begun", "_control", "_news", "_open", "_slice_s", "_till", "_used_s", "is_timed")

    def __init__(self, till: BudgetAccount, control: Control, *, is_timed: bool, slice_s: float = SLICE_S) -> None:
        self.is_timed = is_timed
        """Whether working time is limited, and so counted."""
        self._till = till
        self._control = control
        self._slice_s = slice_s
        self._open: list[tuple[int, float]] = []
        """The reservations for the step under way, and the seconds of each; the step itself is in the first."""
        self._begun = inf
        self._used_s = 0.0
        self._news = trio.Event()

    async def begin(self) -> bool:
        """Reserve the next step and the time to begin it with; return False if the harness is to stop instead.

        Raises:
            BudgetExhausted: there is no room for it.
        """
        slice_s = self._next_slice_s()
        while True:
            try:
                id = await self._till.reserve(Spend(steps=1, working_time_s=slice_s), between_steps=True)
                break
            except BudgetExhausted:
                # Others may have spent of it since we looked: then a shorter slice may do.
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
        """Stop the clock: `execute()` has yielded, or has ended."""
        if self._begun != inf:
            self._used_s = trio.current_time() - self._begun
            self._begun = inf
            self._control.end_work()

    def go_on(self, stood_s: float) -> None:
        """Have the clock go on after it has stood still for so long: a person was waited for."""
        if self._begun != inf:
            self._begun = min(self._begun + stood_s, trio.current_time())
            self._news.set()

    def charge(self, *, steps: int = 1) -> None:
        """Settle what was reserved for the step, together with what is recorded next. Does nothing the second time."""
        self.stop()
        rest_s = self._used_s
        for id, slice_s in self._open:
            # A step that does not let go at the end of the last slice has worked for longer than that.
            used_s = min(rest_s, slice_s) if self.is_timed else 0.0
            rest_s -= used_s
            self._till.settle_soon(id, Spend(steps=steps, working_time_s=used_s))
            steps = 0
        self._open = []

    async def extend(self) -> None:
        """Reserve another slice well before the last is used up, for as long as the step works. Runs beside the steps."""
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
        """Reserve one slice more for the step that may work until then; return whether that is done with."""
        slice_s = self._next_slice_s()
        try:
            id = await self._till.reserve(Spend(working_time_s=slice_s))
        except OrchestratorError:
            # No room, or no store: of that the step's own record will tell.
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
    """Return a meter for an attempt, if its steps or its working time are limited."""
    limit = None if till is None else limits(till)
    if till is None or limit is None or (limit.steps is None and limit.working_time_s is None):
        return None
    return Meter(till, control, is_timed=limit.working_time_s is not None, slice_s=slice_s)
