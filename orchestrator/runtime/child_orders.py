"""The orders given to one harness (pause, resume, stop, abort, take down) and its restarts.

Invariant: an order takes effect at once, whatever the harness is doing. The running attempt gets it through its `Control`; a
later attempt, and a wait between two attempts, find it here.

    decision     what follows
    LEAVE        the exit ends the harness
    GIVE_UP      the exit ends it, and the siblings that are given up with it are stopped
    RESTART      siblings are taken down ──► all idle ──► back-off ──► they are released

There is no `await` between a decision and the orders that follow from it, so two crashes at the same moment are two
decisions, one after the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf
from typing import Protocol, cast

import trio
from attrs import define, evolve, field, frozen

from harnesses.control import Control
from orchestrator import events
from orchestrator.child_spec import ChildSpec
from orchestrator.recording.commit_queue import Condition, Receipt
from orchestrator.restart import Restart, delay_s
from orchestrator.runtime.failure_events import failed, sentence
from orchestrator.runtime.status_record import StatusRecord
from orchestrator.runtime.supervisor import ExitAction, ExitDecision, Supervisor


@define(eq=False, repr=False)
class Takedown:
    """A restart because of a sibling."""

    restarting: events.Restarting
    released: bool = False


@define(eq=False, repr=False)
class ChildOrders:
    """The orders to one harness, over all its attempts."""

    _record: StatusRecord
    _bell: Condition
    _grace_s: float
    deadline: float
    """Time on Trio's clock by which it must have ended, as of the end of the last attempt."""
    step_timeout_s: float | None = None
    """Limit on the seconds of each step."""
    _since: float = field(factory=trio.current_time)
    """When it was started, on Trio's clock: the deadline counts from here."""
    _parked_s: float = 0.0
    """Seconds for which earlier attempts have waited for a person."""
    _until_due: trio.CancelScope | None = None
    """The wait for the deadline."""
    stopping: str | None = None
    """Why it has to end; None if it does not."""
    program_ends: bool = False
    """Whether the program ends: the next run restores its pause and its back-off."""
    is_expired: bool = False
    takedown: Takedown | None = None
    then: Callable[[], None] | None = None
    """Called when this life ends, unless the harness is told to stop afterwards."""
    control: Control | None = None
    """Control of the running attempt."""
    _paused: bool | None = None
    """Whether it is to be paused; None until the store or an operator has decided."""

    @property
    def is_paused(self) -> bool:
        return bool(self._paused)

    @property
    def is_to_end(self) -> bool:
        return self.stopping is not None or self.is_expired

    def restore_pause(self, paused: bool) -> None:
        """Restore the recorded pause, unless an operator has given an order since."""
        if self._paused is None:
            self._paused = paused

    def begin_attempt(self) -> Control:
        """Return the control of another attempt, to which orders apply from now on."""
        self.control = Control(grace_s=self._grace_s, step_timeout_s=self.step_timeout_s, deadline=self.deadline)
        if self._paused:
            self.control.pause()
        return self.control

    def end_attempt(self) -> None:
        if self.control is not None:
            self.deadline += self.control.parked_s
            self._parked_s += self.control.parked_s
        self.control = None
        self._bell.ring()

    def pause(self) -> Receipt | None:
        """Pause the harness at its next step boundary; return the receipt of the record, None if nothing is recorded."""
        if self._paused or self._record.outcome is not None:
            return None
        self._paused = True
        if self.control is not None:
            self.control.pause()
        return self._record.submit(events.Paused())

    def resume(self) -> Receipt | None:
        """Resume a paused harness; see `pause`."""
        if self._paused is False or self._record.outcome is not None:
            return None
        self._paused = False
        if self.control is not None:
            self.control.resume()
        return self._record.submit(events.Resumed())

    def stop(self, grace_s: float | None = None, cause: str = "stopped by order", *, program_ends: bool = False) -> None:
        """Stop the harness at its next step boundary, or when the grace period is over."""
        self.then = None
        if self.stopping is None:
            self.stopping, self.program_ends = cause, program_ends
        if grace_s is not None:
            self._grace_s = grace_s
        self._stop_attempt()

    def abort(self, cause: str) -> None:
        """Cancel the harness at once, because the program ends."""
        if self.stopping is None:
            self.stopping, self.program_ends = cause, True
        if self.control is not None:
            self.control.abort()
        self._bell.ring()

    async def expire_at_deadline(self) -> None:
        """End the harness when its deadline has passed. Time spent waiting for a person extends the deadline."""
        while ((control := self.control) is not None and control.is_parked) or self._due() > trio.current_time():
            with trio.CancelScope() as self._until_due:
                await (trio.sleep_until(self._due()) if control is None or not control.is_parked else control.wait_deadline())
        self._until_due = None
        self.is_expired = True
        if self.control is not None:
            self.control.expire()
        self._bell.ring()

    def set_step_timeout(self, step_timeout_s: float | None) -> None:
        """Change the step timeout, of the step in progress too."""
        self.step_timeout_s = step_timeout_s
        if self.control is not None:
            self.control.set_step_timeout(step_timeout_s)

    def set_deadline(self, deadline_s: float | None) -> None:
        """Change the deadline, in seconds from its start. The caller sees to it that `expire_at_deadline` runs."""
        self.deadline = inf if deadline_s is None else self._since + deadline_s + self._parked_s
        if self.control is not None:
            self.control.set_deadline(self.deadline)
        if self._until_due is not None:
            self._until_due.cancel()

    def _due(self) -> float:
        return self.deadline if self.control is None else self.control.deadline

    @property
    def has_deadline(self) -> bool:
        return self.deadline != inf

    def take_down(self, restarting: events.Restarting) -> Takedown:
        """End the running attempt because of a sibling's restart, and hold the next one until `release`."""
        self.takedown = Takedown(restarting)
        self._stop_attempt()
        return self.takedown

    def release(self, takedown: Takedown) -> None:
        """Let a harness that was taken down continue."""
        takedown.released = True
        self._bell.ring()

    def stopped(self) -> events.Stopped:
        """Return the event for a stop by order."""
        # A restart by order keeps the pause; a stop ends it.
        paused = self.is_paused and (self.program_ends or self.then is not None)
        return events.Stopped(self.stopping or "stopped", paused=paused, program_ended=self.program_ends)

    async def wait(self, seconds: float, ready: Callable[[], bool]) -> None:
        """Wait until `ready()` is true, the harness has to end, or the time is over."""
        with trio.move_on_after(seconds):
            await self._bell.until(lambda: ready() or self.is_to_end)

    async def wait_idle(self) -> None:
        """Wait until no attempt is running."""
        await self._bell.until(lambda: self.control is None)

    def _stop_attempt(self) -> None:
        if self.control is not None:
            self.control.stop(self._grace_s)
        self._bell.ring()


class Sibling(Protocol):
    """Another child of the supervisor, with the operations that a restart needs."""

    spec: ChildSpec
    record: StatusRecord
    orders: ChildOrders


@frozen(eq=False)
class ChildRestarts:
    """Carries out the restarts of one harness that its supervisor decided, including siblings where the strategy requires it.

    Args:
        parent: its supervisor.
        lag_s: wall time minus Trio time.
        redacted: whether secrets are removed from what is recorded.
    """

    _spec: ChildSpec
    _parent: Supervisor
    _record: StatusRecord
    _orders: ChildOrders
    _lag_s: float
    _redacted: bool

    async def obey(self, decision: ExitDecision, error: BaseException | None, conclusion: str = "") -> None:
        """Carry out the decision on the harness's exit."""
        ended: events.Event = events.Finished(conclusion) if error is None else self.failed(error)
        found = cast(tuple[Sibling, ...], decision.harnesses)
        others = [child for child in found if child.record is not self._record and child.record.outcome is None]
        match decision.action:
            case ExitAction.LEAVE:
                await self._record.finish(ended, error)
            case ExitAction.GIVE_UP:
                cause = self.sentence(error)
                for child in others:
                    child.orders.stop(cause=f"its supervisor gave up when {self._spec.name!r} ended: {cause}")
                await self._record.note(ended)
                count, period_s = len(decision.restarts), self._parent.intensity.period_s
                gave_up = events.GaveUp(f"{count} restarts within {period_s:g} s; {cause}", count, period_s)
                await self._record.finish(gave_up, error)
            case ExitAction.RESTART:
                await self._restart(self._restarting(error, decision), ended, others)

    async def _restart(self, restarting: events.Restarting, ended: events.Event, others: list[Sibling]) -> None:
        takedowns = [(child, _take_down(child, restarting)) for child in reversed(others)]
        try:
            await self._record.note(ended)
            await self._record.note(restarting)
            await self._record.note_pause(paused=self._orders.is_paused)
            for child, _ in takedowns:
                await child.orders.wait_idle()
            await self.back_off(restarting.delay_s)
        finally:
            for child, takedown in reversed(takedowns):
                if takedown is not None:
                    child.orders.release(takedown)

    def _restarting(self, error: BaseException | None, decision: ExitDecision) -> events.Restarting:
        delay = delay_s(self._spec.backoff, len(decision.restarts), random.random())
        due = trio.current_time() + delay + self._lag_s
        restarts = tuple(moment + self._lag_s for moment in decision.restarts)
        return events.Restarting(self.sentence(error), delay, due, restarts, paused=self._orders.is_paused)

    async def follow_takedown(self) -> None:
        """Record the restart that a sibling's crash caused, and wait to be released."""
        orders = self._orders
        while (takedown := orders.takedown) is not None and not orders.is_to_end:
            await self._record.note(evolve(takedown.restarting, paused=orders.is_paused))
            await orders.wait(inf, lambda of=takedown: of.released or orders.takedown is not of)  # type: ignore[misc]
            if orders.takedown is takedown:
                orders.takedown = None
        orders.takedown = None

    async def back_off(self, seconds: float) -> None:
        """Wait before the next attempt; an order ends the wait early."""
        if seconds > 0:
            await self._orders.wait(seconds, lambda: self._orders.takedown is not None)

    def failed(self, error: BaseException) -> events.Failed:
        """Return the event for a crash after which the harness may continue."""
        return evolve(failed(error, redacted=self._redacted), paused=self._orders.is_paused)

    def sentence(self, error: BaseException | None) -> str:
        return "finished" if error is None else sentence(error, redacted=self._redacted)


def _take_down(child: Sibling, restarting: events.Restarting) -> Takedown | None:
    if child.spec.restart is not Restart.TEMPORARY:
        return child.orders.take_down(restarting)
    child.orders.stop(cause=f"a sibling crashed: {restarting.cause}")
    return None
