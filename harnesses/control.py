"""Orders to one attempt of a harness: pause, resume, stop, abort; and the limits on its time.

Orders go down, and they wake by events, never by cancelling a wait of ours: between two resumptions of `execute()` a scope
of the user's may be open on the task, and a `Cancelled` raised there would land outside of it. So the gate is a wait that
no cancellation can end, and whoever sees a cancellation from outside calls `abort`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from math import inf

import trio
from attrs import define, field

from harnesses.errors import BudgetExhausted, DeadlineExceeded, HarnessError, ScopeError, StepTimeout, Stopping
from harnesses.timing.stopwatch import Stopwatch


class Ending(StrEnum):
    """How an attempt that did not fail came to its end."""

    COMPLETED = "completed"
    """`is_complete()` was true."""
    FINISHED = "finished"
    """`execute()` returned."""
    EXHAUSTED = FINISHED
    """Earlier name of `FINISHED`."""
    STOPPED = "stopped"
    """The harness was told to stop."""

    @classmethod
    def _missing_(cls, value: object) -> Ending | None:
        return cls.FINISHED if value == "exhausted" else None


@define
class _Parked:
    """The clocks as they were when they were stopped."""

    since: float
    deadline: float
    limit: float
    step_until: float
    work_until: float
    watched: float
    times: int = 0
    over: trio.Event = field(factory=trio.Event)


class Control:
    """The switchboard between one running attempt and those who give it orders.

    Args:
        grace_s: seconds that clean-up in `execute()` gets before it is cancelled.
        step_timeout_s: seconds that `execute()` may take from one `yield` to the next.
        deadline: moment on Trio's clock at which the harness must have ended.
    """

    __slots__ = (
        "_deadline",
        "_gate",
        "_limit",
        "_naps",
        "_overworked",
        "_parked",
        "_scope",
        "_step_until",
        "aborted",
        "ending",
        "failure",
        "grace_s",
        "held",
        "parked_s",
        "paused",
        "step_timeout_s",
        "stopping",
        "timed",
        "watch",
        "work_until",
    )

    def __init__(self, *, grace_s: float = 5.0, step_timeout_s: float | None = None, deadline: float = inf) -> None:
        self.grace_s = grace_s
        self.step_timeout_s = step_timeout_s
        self.paused = False
        self.stopping = False
        self.aborted = False
        self.ending: Ending | None = None
        """What the loop has decided; it stands although clean-up may be cancelled after it."""
        self.failure: BaseException | None = None
        """The error that ended the loop; it stands likewise."""
        self.held = False
        """Whether the loop has an order to look at before it resumes `execute()`."""
        self.timed = step_timeout_s is not None or deadline != inf
        """Whether there is a limit on time to arm and to look at."""
        self.watch = Stopwatch()
        """What the time of the step being made has gone into."""
        self._scope: trio.CancelScope | None = None
        self._deadline = self._limit = deadline
        self._gate: trio.lowlevel.Task | None = None
        self._naps: set[trio.CancelScope] | None = None
        self.work_until = inf
        """Moment on Trio's clock at which the working time reserved for the step is over."""
        self._overworked = False
        self._step_until = inf
        self._parked: _Parked | None = None
        self.parked_s = 0.0
        """Seconds for which a person was waited for: by so much the deadline was put off."""

    @property
    def is_parked(self) -> bool:
        """Whether a person is waited for, and so no clock of the harness runs."""
        return self._parked is not None

    @property
    def is_waiting(self) -> bool:
        """Whether the harness is in a wait of its own, for a message, a moment or a person, or is held between two steps."""
        return bool(self._naps) or self._gate is not None

    @property
    def deadline(self) -> float:
        """The moment on Trio's clock at which the harness must have ended."""
        return self._deadline

    @property
    def attached(self) -> bool:
        """Whether somebody has taken charge of the scope."""
        return self._scope is not None

    def detach(self) -> None:
        """Let go of the scope: the attempt is over."""
        self._scope = None

    def attach(self, scope: trio.CancelScope) -> None:
        """Take `scope`, which the attempt runs in, to be the one that orders and limits act on."""
        self._scope = scope
        scope.deadline = min(scope.deadline, self._limit)
        if self.aborted:
            scope.cancel()

    # orders, from any task

    def pause(self) -> None:
        """Hold the harness at its next step boundary."""
        self.paused = self.held = True

    def resume(self) -> None:
        """Let a held harness go on."""
        self.paused = False
        self.held = self.stopping
        self.wake()

    def stop(self, grace_s: float | None = None) -> None:
        """End the harness at its next step boundary or wait of its own; cancel it when `grace_s` seconds are over."""
        grace_s = self.grace_s if grace_s is None else grace_s
        self.grace_s = min(grace_s, self.grace_s) if self.stopping else grace_s
        self.stopping = self.held = True
        self._set_limit(min(self._limit, trio.current_time() + self.grace_s))
        for nap in self._naps or ():
            nap.cancel()
        self.wake()

    def abort(self) -> None:
        """Cancel the harness at once."""
        self.aborted = self.stopping = self.held = True
        self.grace_s = 0.0
        if self._scope is not None:
            self._scope.cancel()
        self.wake()

    def expire(self) -> None:
        """Let a harness whose deadline has passed find that out, although it is held."""
        self.timed = self.held = True
        self._limit = min(self._limit, trio.current_time())
        self._deadline = min(self._deadline, self._limit)
        self.wake()

    # the loop's side

    def begin_step(self) -> None:
        """Arm the limits for the time until the next `yield`."""
        if self._scope is not None and (self.step_timeout_s is not None or self.work_until != inf):
            timeout_s = inf if self.step_timeout_s is None else self.step_timeout_s
            self._step_until = trio.current_time() + timeout_s
            self._scope.deadline = min(self._limit, self._step_until, self.work_until)

    def end_step(self) -> None:
        """Disarm the step's limit: what the recorder and the gate take is not the step's time."""
        limited = self.step_timeout_s is not None or self.work_until != inf
        if self._scope is not None and limited and not self._scope.cancel_called:
            self._scope.deadline = self._limit

    def begin_work(self, until: float) -> None:
        """Limit the step about to be made to the working time reserved for it."""
        self.work_until, self.timed, self._overworked = until, True, False

    def extend_work(self, until: float) -> None:
        """Let the step being made work for longer."""
        self.work_until = until
        if self._scope is not None and not self._scope.cancel_called:
            self._scope.deadline = min(self._limit, self._step_until, until)

    def end_work(self) -> None:
        """Note whether the step has worked for longer than it was to."""
        self._overworked = self._overworked or trio.current_time() >= self.work_until
        self.work_until = inf

    def overdue(self) -> bool:
        """Return whether the harness has used up its time, or was cancelled for it and went on nevertheless."""
        if self._scope is not None and self._scope.cancel_called:
            return True
        return self._limit != inf and trio.current_time() >= self._limit

    def end(self, ending: Ending) -> Ending:
        """Note what the loop has decided, and return it."""
        self.ending = ending
        return ending

    def begin_close(self) -> None:
        """Give the clean-up of `execute()` its grace period."""
        if not self.aborted:
            self._set_limit(min(self._limit, trio.current_time() + self.grace_s))

    async def gate(self) -> None:
        """Wait while paused. Not cancellable: `resume`, `stop` and `abort` end it."""
        await self.hold(lambda: not self.paused)

    async def hold(self, released: Callable[[], object]) -> None:
        """Wait until `released()`, which is asked after each `wake`. Not cancellable: `stop` and `abort` end it."""
        while not released() and not self.stopping and not self.overdue():
            self._gate = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(_never)

    def wake(self) -> None:
        """Have a held loop look again."""
        task, self._gate = self._gate, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def wait(self, wait: Callable[..., Awaitable[object]], *args: object) -> None:
        """Await `wait(*args)`, or raise `Stopping` as soon as the harness is to stop."""
        with trio.CancelScope() as nap:
            if self._naps is None:
                self._naps = set()
            self._naps.add(nap)
            since = self.watch.begin()
            try:
                if self.stopping:
                    nap.cancel()
                await wait(*args)
            finally:
                self.watch.end("waiting", since)
                self._naps.discard(nap)
        if nap.cancelled_caught:
            raise Stopping

    async def wait_deadline(self) -> None:
        """Return when the deadline has come, which is put off for as long as a person is waited for."""
        while self._parked is not None or self._deadline > trio.current_time():
            await (self._parked.over.wait() if self._parked is not None else trio.sleep_until(self._deadline))

    def park(self) -> None:
        """Stop the clocks of the harness: its step, its deadline, its working time. As often as called, `unpark`."""
        if self._parked is None:
            watched = self.watch.begin()
            self._parked = _Parked(
                trio.current_time(), self._deadline, self._limit, self._step_until, self.work_until, watched
            )
            self._deadline = self._step_until = self.work_until = inf
            if not self.stopping:
                self._limit = inf
            self._set_scope()
        self._parked.times += 1

    def unpark(self) -> float:
        """Let the clocks go on; return for how many seconds they have stood still, 0 while others still wait."""
        parked = self._parked
        assert parked is not None
        parked.times -= 1
        if parked.times:
            return 0.0
        self._parked = None
        parked.over.set()
        stood_s = trio.current_time() - parked.since
        self.parked_s += stood_s
        self.watch.end("waiting", parked.watched)
        # What was ordered meanwhile counts if it is sooner.
        self._deadline = min(self._deadline, parked.deadline + stood_s)
        self._limit = min(self._limit, parked.limit + stood_s)
        self._step_until = parked.step_until + stood_s
        self.work_until = parked.work_until + stood_s
        self._set_scope()
        return stood_s

    def _set_scope(self) -> None:
        if self._scope is not None and not self._scope.cancel_called:
            self._scope.deadline = min(self._limit, self._step_until, self.work_until)

    async def sleep(self, seconds: float) -> None:
        """Sleep, or raise `Stopping` as soon as the harness is to stop."""
        await self.wait(trio.sleep, seconds)

    def why_cancelled(self) -> HarnessError | None:
        """Return the error that the cancellation of the scope stands for; None for a stop that was ordered."""
        if self.stopping:
            return None
        if trio.current_time() >= self._deadline:
            return DeadlineExceeded("its deadline has passed: give it a later `deadline_s`, or have it stop in time")
        if self._overworked or trio.current_time() >= self.work_until:
            return BudgetExhausted(
                "its working time is used up; raise the budget, then `orchestrator start NAME`, or `orchestrator run FILE`"
            )
        if self.step_timeout_s is not None:
            return StepTimeout(
                f"no step within {self.step_timeout_s} s: expected a `yield` by then; "
                "raise `step_timeout_s` or shorten the step"
            )
        return ScopeError(
            "execute() was cancelled by itself: expected it to cancel only scopes that it has opened, and closes"
        )

    def _set_limit(self, limit: float) -> None:
        self._limit, self.timed = limit, True
        if self._scope is not None:
            self._scope.deadline = min(self._scope.deadline, limit)


def _never(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED
