"""One supervised harness over all its attempts: claim it, run it, record how it ended, start it again or not.

Everything it decides it has from `supervisor.judge`; everything it does is an event in the store first or at once after.
"""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, cast

import trio
from attrs import define, field, frozen

from harnesses.base import BaseHarness
from harnesses.control import Control
from harnesses.driver import Ending
from harnesses.errors import DeadlineExceeded, OrchestratorError, Unstorable
from harnesses.step import Step
from orchestrator import events
from orchestrator.actor import Actor, Exit, Mailbox
from orchestrator.codec import HarnessTypes, encode
from orchestrator.errors import OwnershipError, OwnershipLost, StoreError, UsageError
from orchestrator.lifecycle import ENDED, Status, follow
from orchestrator.outcome import Outcome, OutcomeKind
from orchestrator.recorder import Receipt, Recorder
from orchestrator.restart import Backoff, Restart, delay_s
from orchestrator.store.protocol import Append, Claim, Claimed
from orchestrator.supervisor import Action, Supervisor, judge


@frozen(kw_only=True)
class Terms:
    """On what terms a harness is run."""

    restart: Restart = Restart.TRANSIENT
    backoff: Backoff = field(factory=Backoff)
    grace_s: float = 5.0
    step_timeout_s: float | None = None
    deadline_s: float | None = None
    take_over: bool = False


@define(eq=False)
class _Order:
    """A restart for the sake of a sibling."""

    restarting: events.Restarting
    released: bool = False


class Child:
    """A leaf of the supervision tree."""

    def __init__(
        self,
        name: str,
        harness: BaseHarness[Any, Any, Any],
        terms: Terms,
        parent: Supervisor,
        recorder: Recorder,
        post: Callable[[str, str, object], Receipt],
        restarting: trio.Lock,
    ) -> None:
        self.name = name
        self.harness = harness
        self.types = HarnessTypes(harness)
        self.restart = terms.restart
        self.restarts: tuple[float, ...] = ()
        self.parent = parent
        self.mailbox = Mailbox()
        self.status = Status.NEW
        self.attempt = 0
        self.outcome: Outcome | None = None
        self.done = trio.Event()
        self._terms = terms
        self._recorder = recorder
        self._post = post
        self._restarting = restarting
        self._control: Control | None = None
        self._claiming: Receipt | None = None
        self._number = self._epoch = 0
        self._unsaved = 0
        self._deadline = inf if terms.deadline_s is None else trio.current_time() + terms.deadline_s
        self._stopping: str | None = None
        self._grace_s = terms.grace_s
        self._paused = False
        self._gave_up: str | None = None
        self._idle = trio.Event()
        self._wake = trio.Event()
        self._ordered: _Order | None = None

    # orders

    @property
    def step(self) -> int:
        """The number of the last recorded step."""
        return self.harness.current_step

    def pause(self) -> Receipt | None:
        """Hold the harness at its next step boundary; return the receipt of the record, None if it is held or ended."""
        if self._paused or self.status in ENDED:
            return None
        self._paused = True
        if self._control is not None:
            self._control.pause()
        return self._submit(events.Paused())

    def resume(self) -> Receipt | None:
        """Let a held harness go on."""
        if not self._paused or self.status in ENDED:
            return None
        self._paused = False
        receipt = self._submit(events.Resumed())
        if self._control is not None:
            self._control.resume()
        return receipt

    def stop(self, grace_s: float | None = None, cause: str = "stopped by order") -> None:
        """End the harness: at its next step boundary, or when the grace period is over."""
        self._stopping = self._stopping or cause
        if grace_s is not None:
            self._grace_s = grace_s
        if self._control is not None:
            self._control.stop(self._grace_s)
        self._wake.set()

    def abort(self, cause: str = "cancelled") -> None:
        """Cancel the harness at once."""
        self._stopping = self._stopping or cause
        if self._control is not None:
            self._control.abort()
        self._wake.set()

    # life

    def claim(self) -> None:
        """Ask the store for the harness.

        Raises:
            Unstorable: its initial state can not be stored.
        """
        cls = type(self.harness)
        try:
            initial = encode(self.harness.state)
        except Unstorable as error:
            raise Unstorable(f"harness {self.name!r}: its initial state can not be stored: {error}") from error
        known_as, recent = f"{cls.__module__}:{cls.__qualname__}", self.harness.max_context_steps
        self._claiming = self._recorder.submit(Claim(self.name, initial, known_as, recent, self._terms.take_over))

    async def live(self) -> None:
        """Run attempts until there is an outcome."""
        try:
            self.outcome = await self._live()
        except (OwnershipError, StoreError, UsageError) as error:
            self._idle.set()
            self.outcome = self._outcome(OutcomeKind.FAILED, str(error), error)
        except trio.Cancelled:
            self.outcome = await self._cancelled()
            raise
        finally:
            self._idle.set()
            if self.outcome is not None:
                self.status = Status(self.outcome.kind)
            self.done.set()

    async def _live(self) -> Outcome:
        claimed = await self._claim()
        if claimed.status is Status.COMPLETED:
            return self._outcome(OutcomeKind.COMPLETED)
        if claimed.supervision and self.status in (Status.BACKING_OFF, Status.PAUSED, Status.FAILED):
            await self._back_off(claimed.supervision["due"] - time.time())
        while True:
            if self._stopping is not None:
                return await self._ended(events.Stopped(self._stopping))
            outcome = await self._settle(await self._run_attempt())
            if outcome is not None:
                return outcome

    async def _claim(self) -> Claimed:
        """Take the harness over and give it its recorded past."""
        assert self._claiming is not None
        claimed: Claimed = await self._claiming
        self._number, self._epoch = claimed.harness, claimed.epoch
        self.status, self.attempt, self._unsaved = claimed.status, claimed.attempt, claimed.unsaved_steps
        self._paused = self._paused or claimed.status is Status.PAUSED
        self.mailbox.merge(claimed.mailbox)
        lag = time.time() - trio.current_time()
        self.parent.recall(self, [wall - lag for wall in claimed.supervision.get("restarts", ())])
        self._restore(claimed)
        return claimed

    def _restore(self, claimed: Claimed) -> None:
        """Give the harness its recorded past."""
        try:
            state = self.harness.state if claimed.status is Status.NEW else self.types.state(claimed.state)
        except UsageError as error:
            raise UsageError(f"harness {self.name!r}: {error}") from error
        steps = [self.types.step(record) for record in claimed.recent]
        self.harness.restore(state, claimed.step, steps, self._load_steps)

    def _load_steps(self, after: int, limit: int) -> list[Step[Any, Any]]:
        records = self._recorder.store.steps(self.name, after=after, limit=limit)
        return [self.types.step(record) for record in records]

    async def _run_attempt(self) -> Exit:
        self.attempt += 1
        self.harness.rewind()
        control = Control(grace_s=self._grace_s, step_timeout_s=self._terms.step_timeout_s, deadline=self._deadline)
        actor = Actor(
            self._recorder,
            self.harness,
            name=self.name,
            number=self._number,
            epoch=self._epoch,
            attempt=self.attempt,
            control=control,
            mailbox=self.mailbox,
            post=self._post,
            unsaved_steps=self._unsaved,
        )
        await self._note(events.Started(self.step))
        if self._paused:
            control.pause()
            if self.status is not Status.PAUSED:
                await self._note(events.Paused())
        if self._stopping is not None:
            control.stop(self._grace_s)
        self._control, self._idle = control, trio.Event()
        try:
            return await actor.run()
        finally:
            self._control, self._unsaved = None, actor.unsaved_steps
            self._idle.set()

    async def _settle(self, exit: Exit) -> Outcome | None:
        """Record how an attempt ended; return the outcome, or None to start another attempt."""
        error = exit.error
        if isinstance(error, StoreError | OwnershipLost):
            raise error
        if exit.ending is Ending.COMPLETED:
            return await self._ended(events.Completed())
        if self._ordered is not None and self._stopping is None:
            await self._follow_order(error)
            return None
        if exit.ending is Ending.STOPPED:
            cause = self._gave_up or self._stopping or "stopped"
            return await self._ended(events.Stopped(cause))
        if isinstance(error, DeadlineExceeded) or (error is not None and self._stopping is not None):
            return await self._ended(_failed(error), error)
        return await self._after_exit(error)

    async def _after_exit(self, error: BaseException | None) -> Outcome | None:
        """Have an exit judged, and do what the verdict says."""
        async with self._restarting:
            if self._ordered is not None:
                verdict = None
            else:
                verdict = judge(self, crashed=error is not None, now=trio.current_time())
                if verdict.action is Action.RESTART:
                    restarting = self._restarting_event(error, verdict.restarts)
                    others = await self._take_down(cast(tuple[Child, ...], verdict.harnesses), restarting)
        if verdict is None:
            await self._follow_order(error)
            return None
        ended: events.Event = events.Exhausted() if error is None else _failed(error)
        if verdict.action is Action.LEAVE:
            return await self._ended(ended, error)
        await self._note(ended)
        if verdict.action is Action.GIVE_UP:
            return await self._give_up(cast(tuple[Child, ...], verdict.harnesses), error, len(verdict.restarts))
        await self._note(restarting)
        await self._back_off(restarting.delay_s)
        for other, order in others:
            other.release(order)
        return None

    def _restarting_event(self, error: BaseException | None, restarts: tuple[float, ...]) -> events.Restarting:
        delay = delay_s(self._terms.backoff, len(restarts), random.random())
        now = time.time()
        lag = now - trio.current_time()
        cause = "exhausted" if error is None else _sentence(error)
        return events.Restarting(cause, delay, now + delay, tuple(moment + lag for moment in restarts))

    async def _take_down(self, children: tuple[Child, ...], restarting: events.Restarting) -> list[tuple[Child, _Order]]:
        """End the siblings that are restarted with this one, the last first; return their orders, the first first."""
        others = [child for child in children if child is not self and child.outcome is None]
        orders = [(child, child.order(restarting)) for child in reversed(others)]
        for child, _ in orders:
            await child.wait_idle()
        return orders[::-1]

    def order(self, restarting: events.Restarting) -> _Order:
        """End the attempt under way for the sake of a sibling, and hold the next one until the order is released."""
        self._ordered = _Order(restarting)
        if self._control is not None:
            self._control.stop(self._grace_s)
        self._wake.set()
        return self._ordered

    def release(self, order: _Order) -> None:
        """Let a child that was taken down go on."""
        order.released = True
        self._wake.set()

    async def wait_idle(self) -> None:
        """Return when no attempt is under way."""
        await self._idle.wait()

    async def _follow_order(self, error: BaseException | None = None) -> None:
        """Record the restart that a sibling's crash has brought about, and wait to be let go on."""
        if error is not None:
            await self._note(_failed(error))
        while (order := self._ordered) is not None and self._stopping is None:
            await self._note(order.restarting)
            await self._wait(inf, partial(self._superseded, order))
            if self._ordered is order:
                self._ordered = None
        self._ordered = None

    def _superseded(self, order: _Order) -> bool:
        return order.released or self._ordered is not order

    async def _back_off(self, seconds: float) -> None:
        """Wait before the next attempt; an order ends the wait."""
        await self._wait(seconds, lambda: self._ordered is not None)
        await self._follow_order()

    async def _wait(self, seconds: float, ready: Callable[[], bool]) -> None:
        """Wait until `ready()`, told to stop, or the time is over."""
        with trio.move_on_after(max(0.0, seconds)):
            while not ready() and self._stopping is None:
                self._wake = trio.Event()
                await self._wake.wait()

    async def _give_up(self, children: tuple[Child, ...], error: BaseException | None, restarts: int) -> Outcome:
        cause = "exhausted again and again" if error is None else _sentence(error)
        for child in children:
            if child is not self:
                child._gave_up = f"its supervisor gave up when {self.name!r} failed: {cause}"
                child.stop(cause=child._gave_up)
        period = self.parent.intensity.period_s
        await self._note(events.GaveUp(cause, restarts, period), release=True)
        return self._outcome(OutcomeKind.GAVE_UP, f"{restarts} restarts within {period:g} s; {cause}", error)

    # records

    async def _ended(self, event: events.Event, error: BaseException | None = None) -> Outcome:
        await self._note(event, release=True)
        return self._outcome(OutcomeKind(self.status.value), getattr(event, "cause", ""), error)

    async def _note(self, event: events.Event, *, release: bool = False) -> None:
        """Record an event; it counts when this returns."""
        self.status = follow(self.status, event)
        await self._recorder.do(self._append(event, release))

    def _submit(self, event: events.Event) -> Receipt | None:
        if not self._epoch:
            return None
        self.status = follow(self.status, event)
        return self._recorder.submit(self._append(event, release=False))

    def _append(self, event: events.Event, release: bool) -> Append:
        now = time.time_ns() // 1000
        return Append(self._number, self._epoch, self.attempt, self.step, now, event, self.status, release)

    async def _cancelled(self) -> Outcome:
        """Record that the program was cancelled around this harness."""
        cause = self._stopping or "cancelled"
        if self._epoch and self.status not in ENDED:
            with trio.CancelScope(shield=True):
                try:
                    return await self._ended(events.Stopped(cause))
                except OrchestratorError as error:
                    return self._outcome(OutcomeKind.STOPPED, f"{cause}, and not recorded: {error}")
        return self._outcome(OutcomeKind.STOPPED, cause)

    def _outcome(self, kind: OutcomeKind, cause: str = "", error: BaseException | None = None) -> Outcome:
        return Outcome(kind, cause, self.step, self.attempt, error)


def _failed(error: BaseException) -> events.Failed:
    lines = "".join(traceback.format_exception(error))
    return events.Failed(type(error).__name__, _sentence(error), _text(lines[-8000:]))


def _sentence(error: BaseException) -> str:
    """Return an error in one line; of a group, what is in it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_sentence(inner) for inner in error.exceptions)[:2000]
    return _text(f"{type(error).__name__}: {error}"[:2000])


def _text(text: str) -> str:
    """Return text that can be stored whatever the harness put into its error."""
    return text.encode(errors="replace").decode()
