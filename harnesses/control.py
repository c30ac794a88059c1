"""`Control`: orders to one attempt of a harness (pause, resume, stop, abort) and its time limits.

Orders wake waits by events and never cancel them. Between two resumptions of `execute()` a cancel scope of the user may be
open on the task, and a `Cancelled` raised in our own wait would land outside of it. The pause gate is therefore an
uncancellable wait, and whatever sees an outside cancellation calls `abort`.
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
    """How an attempt ended without failing."""

    COMPLETED = "completed"
    """`is_complete()` returned True."""
    FINISHED = "finished"
    """`execute()` returned."""
    EXHAUSTED = FINISHED
    """Earlier name of `FINISHED`."""
    STOPPED = "stopped"
    """The harness was stopped."""

    @classmethod
    def _missing_(cls, value: object) -> Ending | None:
        return cls.FINISHED if value == "exhausted" else None


@define
class _Parked:
    """The deadline saved while an approval is pending."""

    since: float
    deadline: float
    limit: float
    watched: float
    times: int = 0
    over: trio.Event = field(factory=trio.Event)


@define
class _Stood:
    """The limits of a step saved while its clocks stand still."""

    since: float
    step_until: float
    work_until: float
    reasons: int = 0
    """What they stand still for: approvals that are pending, a pause within the step."""


class Control:
    """Delivers orders and time limits to one running attempt.

    Args:
        grace_s: seconds that clean-up in `execute()` may take before it is cancelled.
        step_timeout_s: seconds that `execute()` may take from one `yield` to the next.
        deadline: time on Trio's clock by which the harness must have ended.
    """

    __slots__ = (
        "_deadline",
        "_gate",
        "_grace_until",
        "_limit",
        "_naps",
        "_overworked",
        "_parked",
        "_resumed",
        "_scope",
        "_step_until",
        "_stood",
        "aborted",
        "ending",
        "failure",
        "grace_s",
        "held",
        "is_making",
        "on_stood",
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
        """The loop's verdict; kept even if the clean-up after it is cancelled."""
        self.failure: BaseException | None = None
        """The error that ended the loop; kept even if the clean-up after it is cancelled."""
        self.held = False
        """Whether the loop must check for orders before it resumes `execute()`."""
        self.timed = step_timeout_s is not None or deadline != inf
        """Whether any time limit is set."""
        self.is_making = False
        """Whether `execute()` is making a step: it was resumed, and has not yielded."""
        self.watch = Stopwatch()
        """How the time of the step in progress was spent."""
        self._scope: trio.CancelScope | None = None
        self._deadline = self._limit = deadline
        self._grace_until = inf
        """Time by which it must have ended because it is being stopped or closed."""
        self._gate: trio.lowlevel.Task | None = None
        self._naps: set[trio.CancelScope] | None = None
        self.work_until = inf
        """Time on Trio's clock at which the working time reserved for the step is used up."""
        self._overworked = False
        self._step_until = inf
        self._parked: _Parked | None = None
        self._stood: _Stood | None = None
        self._resumed: trio.Event | None = None
        """Set when the pause is over that a task waits for within the step."""
        self.on_stood: Callable[[float], object] = float
        """Called with the seconds that the clocks of the step have stood still."""
        self.parked_s = 0.0
        """Seconds spent waiting for human approval; the deadline is extended by as much."""

    @property
    def is_parked(self) -> bool:
        """Whether a human approval is pending, so that the harness's clocks stand still."""
        return self._parked is not None

    @property
    def is_waiting(self) -> bool:
        """Whether the harness waits for a message, a time or an approval, or is held between two steps."""
        return bool(self._naps) or self._gate is not None

    @property
    def deadline(self) -> float:
        """The time on Trio's clock by which the harness must have ended."""
        return self._deadline

    @property
    def attached(self) -> bool:
        """Whether a cancel scope is attached, so that orders take effect."""
        return self._scope is not None

    def detach(self) -> None:
        """Detach the cancel scope: the attempt is over."""
        self._scope = None

    def attach(self, scope: trio.CancelScope) -> None:
        """Make `scope`, in which the attempt runs, the one that orders and limits act on."""
        self._scope = scope
        scope.deadline = min(scope.deadline, self._limit)
        if self.aborted:
            scope.cancel()

    # Orders: called from any task.

    def pause(self) -> None:
        """Hold the harness at its next step boundary."""
        self.paused = self.held = True

    def resume(self) -> None:
        """Release a paused harness."""
        self.paused = False
        self._end_pause()
        self.held = self.stopping
        self.wake()

    def stop(self, grace_s: float | None = None) -> None:
        """End the harness at its next step boundary or own wait; cancel it after `grace_s` seconds."""
        grace_s = self.grace_s if grace_s is None else grace_s
        self.grace_s = min(grace_s, self.grace_s) if self.stopping else grace_s
        self.stopping = self.held = True
        self._end_by(trio.current_time() + self.grace_s)
        self._end_pause()
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
        """Wake a held harness whose deadline has passed, so that it notices."""
        self.timed = self.held = True
        self._limit = min(self._limit, trio.current_time())
        self._deadline = min(self._deadline, self._limit)
        self.wake()

    def set_deadline(self, deadline: float) -> None:
        """Move the deadline, which is as of the beginning of the attempt: time spent waiting for approval is added to it.

        A later one saves the step in progress. A grace period that has begun is not extended.
        """
        self.timed = self.timed or deadline != inf
        if self._parked is not None:
            self._parked.deadline = deadline + self.parked_s
            self._parked.limit = min(self._parked.deadline, self._grace_until)
            return
        self._deadline = deadline + self.parked_s
        self._limit = min(self._deadline, self._grace_until)
        self._set_scope()

    def set_step_timeout(self, step_timeout_s: float | None) -> None:
        """Change the step timeout, of the step in progress too, which ends at once if it has taken longer already."""
        before, self.step_timeout_s = self.step_timeout_s, step_timeout_s
        self.timed = self.timed or step_timeout_s is not None
        if not self.is_making:
            return
        at, stood = self._step_until if self._stood is None else self._stood.step_until, self._stood
        now = trio.current_time()
        # Without a timeout so far, the time that clocks stood still in this step was not kept, and counts.
        began = now - self.watch.age_at(now) if before is None or at == inf else at - before
        until = inf if step_timeout_s is None else began + step_timeout_s
        if stood is None:
            self._step_until = until
            self._set_scope()
        else:
            stood.step_until = until

    # Called by the loop.

    def begin_step(self) -> None:
        """Start the step timeout and apply the deadline until the next `yield`."""
        if self._scope is not None and (self.step_timeout_s is not None or self.work_until != inf):
            timeout_s = inf if self.step_timeout_s is None else self.step_timeout_s
            self._step_until = trio.current_time() + timeout_s
            self._scope.deadline = min(self._limit, self._step_until, self.work_until)

    def end_step(self) -> None:
        """Disarm the step timeout: time in the recorder and at the pause gate does not count."""
        limited = self.step_timeout_s is not None or self.work_until != inf
        self._step_until = inf
        if self._scope is not None and limited and not self._scope.cancel_called:
            self._scope.deadline = self._limit

    def begin_work(self, until: float) -> None:
        """Limit the next step to the working time reserved for it."""
        self.work_until, self.timed, self._overworked = until, True, False

    def extend_work(self, until: float) -> None:
        """Extend the working time of the step in progress."""
        self.work_until = until
        if self._scope is not None and not self._scope.cancel_called:
            self._scope.deadline = min(self._limit, self._step_until, until)

    def end_work(self) -> None:
        """Note whether the step has exceeded its working time."""
        self._overworked = self._overworked or trio.current_time() >= self.work_until
        self.work_until = inf
        if self._stood is not None:
            self._stood.work_until = inf

    def overdue(self) -> bool:
        """Return whether the harness has run out of time, even if it caught the resulting cancellation and went on."""
        if self._scope is not None and self._scope.cancel_called:
            return True
        return self._limit != inf and trio.current_time() >= self._limit

    def end(self, ending: Ending) -> Ending:
        """Store the loop's verdict and return it."""
        self.ending = ending
        return ending

    def begin_close(self) -> None:
        """Start the grace period for the clean-up of `execute()`."""
        self.is_making = False
        if not self.aborted:
            self._end_by(trio.current_time() + self.grace_s)

    async def gate(self) -> None:
        """Wait while paused. Not cancellable: only `resume`, `stop` and `abort` end the wait."""
        await self.hold(lambda: not self.paused)

    async def wait_resumed(self) -> None:
        """Wait within a step while the harness is paused. Step timeout and working time stand still until it is resumed.

        Raises:
            Stopping: the harness is being stopped.
        """
        while self.paused:
            if self.stopping:
                raise Stopping
            if self._resumed is None:
                self._resumed = trio.Event()
                self._stop_clocks()
            await self.wait(self._resumed.wait)

    def _end_pause(self) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            self._run_clocks()
            resumed.set()

    async def hold(self, released: Callable[[], object]) -> None:
        """Wait until `released()` is true, checking after each `wake`. Not cancellable: only `stop` and `abort` end it
        early."""
        while not released() and not self.stopping and not self.overdue():
            self._gate = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(_never)

    def wake(self) -> None:
        """Make a held loop check its condition again."""
        task, self._gate = self._gate, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def wait(self, wait: Callable[..., Awaitable[object]], *args: object) -> None:
        """Await `wait(*args)`, or raise `Stopping` as soon as the harness is stopped."""
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
        """Wait for the deadline, which is extended while an approval is pending."""
        while self._parked is not None or self._deadline > trio.current_time():
            await (self._parked.over.wait() if self._parked is not None else trio.sleep_until(self._deadline))

    def park(self) -> None:
        """Stop the harness's clocks: step timeout, deadline, working time. Calls nest; each needs an `unpark`."""
        if self._parked is None:
            self._parked = _Parked(trio.current_time(), self._deadline, self._limit, self.watch.begin())
            self._deadline = inf
            if not self.stopping:
                self._limit = inf
            self._stop_clocks()
        self._parked.times += 1

    def unpark(self) -> None:
        """Restart the clocks, unless other approvals are pending."""
        parked = self._parked
        assert parked is not None
        parked.times -= 1
        if parked.times:
            return
        self._parked = None
        parked.over.set()
        stood_s = trio.current_time() - parked.since
        self.parked_s += stood_s
        self.watch.end("waiting", parked.watched)
        # An order given meanwhile applies if it is sooner.
        self._deadline = min(self._deadline, parked.deadline + stood_s)
        self._limit = min(self._limit, parked.limit + stood_s)
        self._run_clocks()
        self.wake()

    async def wait_unparked(self) -> None:
        """Wait until no approval is pending. Not cancellable: an approval that is given up is no longer pending."""
        while self._parked is not None:
            self._gate = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(_never)

    def _stop_clocks(self) -> None:
        """Stop step timeout and working time for one more reason."""
        if self._stood is None:
            self._stood = _Stood(trio.current_time(), self._step_until, self.work_until)
            self._step_until = self.work_until = inf
        self._stood.reasons += 1
        self._set_scope()

    def _run_clocks(self) -> None:
        """Run step timeout and working time on when the last reason to stop them has gone."""
        stood = self._stood
        assert stood is not None
        stood.reasons -= 1
        if not stood.reasons:
            self._stood = None
            stood_s = trio.current_time() - stood.since
            self._step_until = stood.step_until + stood_s
            self.work_until = stood.work_until + stood_s
            self.on_stood(stood_s)
        self._set_scope()

    def _set_scope(self) -> None:
        if self._scope is not None and not self._scope.cancel_called:
            self._scope.deadline = min(self._limit, self._step_until, self.work_until)

    async def sleep(self, seconds: float) -> None:
        """Sleep, or raise `Stopping` as soon as the harness is stopped."""
        await self.wait(trio.sleep, seconds)

    def why_cancelled(self) -> HarnessError | None:
        """Return the error behind the cancellation of the scope; None for an ordered stop."""
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

    def _end_by(self, moment: float) -> None:
        self._grace_until = min(self._grace_until, moment)
        self._limit, self.timed = min(self._limit, moment), True
        if self._scope is not None:
            self._scope.deadline = min(self._scope.deadline, self._limit)


def _never(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED
