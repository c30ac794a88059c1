"""One supervised harness over all its attempts: claim it, run it, record how it ended, start it again or not.

What is done about an exit it has from `supervisor.judge`. Everything it does is an event in the store. Between a verdict and
the orders that follow from it there is no `await`, so two crashes at the same moment are two verdicts, one after the other.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, cast

import trio
from attrs import define, evolve, frozen

from harnesses.base import BaseHarness
from harnesses.clock import WallClock
from harnesses.control import Control, Ending
from harnesses.errors import (
    ApprovalDenied,
    BudgetExhausted,
    DeadlineExceeded,
    OrchestratorError,
    Unstorable,
    Waiting,
)
from harnesses.governor import Governor
from harnesses.once import Effects
from harnesses.record_size import MAX_RECORD_BYTES, check_size
from harnesses.requests import limit_of, types_of
from harnesses.runtime import ApprovalRule
from harnesses.step import Step
from harnesses.ticks import TickBook
from orchestrator import events
from orchestrator.activity import Doing, Live
from orchestrator.actor import Actor, Exit
from orchestrator.approvals import Approvals
from orchestrator.bell import Bell
from orchestrator.children import Birth, Families, Family
from orchestrator.codec import encode_private
from orchestrator.declared import HarnessTypes
from orchestrator.errors import OwnershipError, StateChanged, StoreError, UsageError
from orchestrator.failure import failed, found, is_lasting, parted, sentence
from orchestrator.lifecycle import Status, follow, may_follow
from orchestrator.mailbox import Mailbox
from orchestrator.migrating import Readied, ready, version_for
from orchestrator.outcome import Outcome, OutcomeKind
from orchestrator.post import PostOffice
from orchestrator.queries import ask_query
from orchestrator.recorder import Recorder
from orchestrator.restart import Restart, delay_s
from orchestrator.savings import Savings
from orchestrator.slot import Receipt
from orchestrator.store.protocol import Append, Claim, Claimed, Migrate
from orchestrator.supervisor import Action, Supervisor, Verdict, judge
from orchestrator.terms import Terms, restart_of, terms_of
from orchestrator.till import StoreTill, Teller


@frozen
class Common:
    """What all children of a run share."""

    recorder: Recorder
    post: PostOffice
    check_latch: Callable[[str], None]
    """Raises `Latched` if no effect of the harness called so may begin."""
    clock: WallClock
    teller: Teller
    approvals: Approvals
    families: Families
    lag_s: float
    """Wall time less Trio's time: one value for a run, so that one restart of many children is one moment."""
    redacted: bool = True
    """Whether secrets are taken out of what is recorded."""
    most: int = MAX_RECORD_BYTES
    """Bytes that one record may have."""
    why_cancelled: Callable[[], str] = lambda: "cancelled"
    """Says why everything is cancelled from outside."""


@define(eq=False)
class _Order:
    """A restart for the sake of a sibling."""

    restarting: events.Restarting
    released: bool = False


class Child:
    """A leaf of the supervision tree."""

    __slots__ = (
        "_backing_off",
        "_claim",
        "_claiming",
        "_common",
        "_control",
        "_deadline",
        "_effects",
        "_epoch",
        "_expired",
        "_governor",
        "_grace_s",
        "_idle",
        "_number",
        "_ordered",
        "_paused",
        "_pending",
        "_pools",
        "_program_ends",
        "_recorded_step",
        "_reopened",
        "_restored",
        "_rule",
        "_savings",
        "_stopping",
        "_terms",
        "attempt",
        "bell",
        "by_order",
        "family",
        "harness",
        "has_begun",
        "let_go",
        "mailbox",
        "name",
        "outcome",
        "parent",
        "renew",
        "restart",
        "restarts",
        "status",
        "then",
        "types",
    )

    def __init__(
        self,
        name: str,
        harness: BaseHarness[Any, Any, Any],
        terms: Terms,
        parent: Supervisor,
        common: Common,
        pools: tuple[str, ...] = (),
        governor: Governor | None = None,
        rule: ApprovalRule | None = None,
        ancestors: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.family = Family(common.families, name, ancestors)
        self.harness = harness
        self.types = HarnessTypes.of(harness)
        self.restart = terms.restart
        self.restarts: tuple[float, ...] = ()
        self.parent = parent
        self.status = Status.NEW
        self.attempt = 0
        self.outcome: Outcome | None = None
        self.bell = Bell()
        accepts, limit = types_of(type(harness)), limit_of(type(harness))
        self.mailbox = Mailbox(self.bell, common.post.reader_of(name), accepts, limit)
        self._terms = terms
        self._pools = pools
        self._governor = governor
        self._rule = rule
        self._common = common
        self._control: Control | None = None
        self._claiming: Receipt | None = None
        self._claim: Claim | None = None
        self._reopened = False
        self._number = self._epoch = 0
        self._savings = Savings()
        self._effects = Effects(common.most)
        self._pending: Receipt | None = None
        self._deadline = inf if terms.deadline_s is None else trio.current_time() + terms.deadline_s
        self._expired = False
        self._stopping: str | None = None
        self._program_ends = False
        self._grace_s = terms.grace_s
        self._paused: bool | None = None
        """Whether it is to be held; None until the store or an operator has said so."""
        self._idle = True
        self._backing_off = False
        """Whether a restart is on record and its attempt has not begun."""
        self._ordered: _Order | None = None
        self._restored = False
        self._recorded_step = 0
        """The last step, as the store has it when the harness is claimed."""
        self.renew: Any = None
        """Makes the harness anew for another life; see `orchestrator.again`."""
        self.then: Callable[[], None] | None = None
        """What is done in the moment in which this life ends."""
        self.by_order = False
        """Whether an operator has started it again: then no earlier restart counts, and it does not back off."""
        self.let_go: Callable[[Child], None] | None = None
        """Lets it go when it has ended, if another harness has started it: nobody but this program has its object."""
        self.has_begun = False
        """Whether an attempt of this life is on record."""

    def anew(self) -> Child:
        """Return another life of the same object, on the same terms. It is claimed, and does not run yet."""
        own = (self._terms, self.parent, self._common, self._pools, self._governor, self._rule)
        made = Child(self.name, self.harness, *own, self.family.ancestors)
        made.claim()
        return made

    @property
    def pools(self) -> tuple[str, ...]:
        """The names of the pools that it is charged to, the nearest first."""
        return self._pools

    @property
    def has_deadline(self) -> bool:
        """Whether it is to have ended by some moment."""
        return self._deadline != inf

    @property
    def doing(self) -> Live | None:
        """What it is at; None between attempts."""
        control = self._control
        if control is None:
            return None
        doing = Doing.APPROVAL if control.is_parked else Doing.WAITING if control.is_waiting else Doing.WORKING
        return Live(doing, control.watch.age_s, control.step_timeout_s, _halted(self.harness))

    @property
    def done(self) -> bool:
        """Whether there is an outcome."""
        return self.outcome is not None

    @property
    def step(self) -> int:
        """The number of the last recorded step; 0 until the store has said which it is."""
        if self.outcome is not None:
            return self.outcome.step  # the object may be at work under another name by now
        return self.harness.current_step if self._restored else self._recorded_step

    def query(self, name: str, args: Sequence[Any]) -> Any:
        """Return what a query of the harness says; see `Handle.query`."""
        if not self._restored:
            raise UsageError(f"query {name!r}: harness {self.name!r} has not been taken up yet: expected a moment later")
        return ask_query(self.harness, name, args)

    async def wait_done(self) -> Outcome:
        """Return the outcome when there is one."""
        await self.bell.until(lambda: self.outcome)
        assert self.outcome is not None
        return self.outcome

    async def wait_begun(self) -> None:
        """Return when its first attempt is on record, or it has ended without one."""
        await self.bell.until(lambda: self.has_begun or self.outcome)

    async def wait_idle(self) -> None:
        """Return when no attempt is under way."""
        await self.bell.until(lambda: self._idle)

    # orders: they take effect at once, whatever the child is waiting for

    def pause(self) -> Receipt | None:
        """Hold the harness at its next step boundary; return the receipt of the record, None if there is none to make."""
        if self._paused or self.done:
            return None
        self._paused = True
        if self._control is not None:
            self._control.pause()
        return self._submit(events.Paused())

    def resume(self) -> Receipt | None:
        """Let a held harness go on."""
        if self._paused is False or self.done:
            return None
        self._paused = False
        if self._control is not None:
            self._control.resume()
        return self._submit(events.Resumed())

    def stop(self, grace_s: float | None = None, cause: str = "stopped by order", *, program_ends: bool = False) -> None:
        """End the harness: at its next step boundary, or when the grace period is over.

        Args:
            program_ends: whether it is to go on as it was, still paused, still backing off, when it is started again.
        """
        self.then = None
        if self._stopping is None:
            self._stopping, self._program_ends = cause, program_ends
        if grace_s is not None:
            self._grace_s = grace_s
        if self._control is not None:
            self._control.stop(self._grace_s)
        self.bell.ring()

    def abort(self, cause: str) -> None:
        """Cancel the harness at once: the program ends."""
        if self._stopping is None:
            self._stopping, self._program_ends = cause, True
        if self._control is not None:
            self._control.abort()
        self.bell.ring()

    async def wait_deadline(self) -> None:
        """Return when the deadline has come, which is put off for as long as a person is waited for."""
        while ((control := self._control) is not None and control.is_parked) or self._due() > trio.current_time():
            await (trio.sleep_until(self._due()) if control is None or not control.is_parked else control.wait_deadline())

    def _due(self) -> float:
        return self._deadline if self._control is None else self._control.deadline

    def expire(self) -> None:
        """End the harness because its deadline has passed, also while it is held or backing off."""
        self._expired = True
        if self._control is not None:
            self._control.expire()
        self.bell.ring()

    def take_down(self, restarting: events.Restarting) -> _Order | None:
        """End the attempt under way for the sake of a sibling, and hold the next one until the order is released."""
        if self.restart is Restart.TEMPORARY:
            self.stop(cause=f"a sibling crashed: {restarting.cause}")
            return None
        self._ordered = _Order(restarting)
        if self._control is not None:
            self._control.stop(self._grace_s)
        self.bell.ring()
        return self._ordered

    def release(self, order: _Order) -> None:
        """Let a child that was taken down go on."""
        order.released = True
        self.bell.ring()

    # life

    def bear(self, birth: Birth, own: tuple[str, ...]) -> Child:
        """Return a child that this harness has started: under its supervisor, on its terms, charged to its budgets too.

        Args:
            own: the pool of the child itself, if it has one.
        """
        spec, terms = birth.spec, self._terms
        terms = terms_of(
            restart_of(spec.restart),
            terms.backoff,
            terms.grace_s if spec.grace_s is None else spec.grace_s,
            spec.step_timeout_s,
            spec.deadline_s,
            # Whoever takes a harness from another process takes what it has started there as well.
            terms.take_over and birth.resumed,
        )
        pools = tuple(dict.fromkeys((*own, *birth.pools, *self._pools)))
        return Child(
            spec.child, birth.harness, terms, self.parent, self._common, pools, rule=self._rule, ancestors=birth.ancestors
        )

    def reject(self, error: BaseException) -> None:
        """End it before it has begun: it can not be claimed."""
        self.outcome = Outcome(OutcomeKind.FAILED, str(error), error=error)
        self.status = Status.FAILED
        self.bell.ring()

    def claim(self) -> None:
        """Ask the store for the harness.

        Raises:
            Unstorable: its initial state can not be stored.
        """
        cls = type(self.harness)
        try:
            initial = encode_private(self.harness.state)
            check_size("the state", initial, self._common.most)
        except Unstorable as error:
            raise type(error)(f"harness {self.name!r}: its initial state can not be stored: {error}") from error
        try:
            self.types.check(initial)
        except UsageError as error:
            raise Unstorable(f"harness {self.name!r}: its initial state can be stored, but not read back: {error}") from error
        try:
            version = version_for(self.types)
        except StateChanged as error:
            raise StateChanged(f"harness {self.name!r}: {error}") from error
        class_name = f"{cls.__module__}:{cls.__qualname__}"
        own: dict[str, Any] = {"state_version": version, "mailbox_limit": self.mailbox.limit}
        self._claim = Claim(self.name, initial, class_name, self._terms.take_over, **own)
        self._claiming = self._common.recorder.submit(self._claim)
        self.harness.runs_as = self.name

    async def live(self) -> None:
        """Run attempts until there is an outcome. Raises nothing but `Cancelled`."""
        try:
            await self._take_up()
            while self.outcome is None:
                if self._stopping is not None:
                    await self._finish(self._stopped())
                elif self._expired:
                    await self._fail(DeadlineExceeded(f"harness {self.name!r}: its deadline has passed"))
                elif self._ordered is not None:
                    await self._follow_order()
                else:
                    actor = await self._begin()
                    exit = await actor.run()
                    self._end()
                    await self._settle(exit)
        except BaseException as error:
            cancelled, rest = parted(error)
            await self._break_off(rest)
            if cancelled is not None:
                raise
        finally:
            self._control, self._idle, self.harness.runs_as = None, True, None
            self._settle_pending()
            if self.then is not None:
                self.then()
            if self.let_go is not None:
                self.let_go(self)
            self.bell.ring()

    async def _take_up(self) -> None:
        """Take the harness over and give it its recorded past; wait for a restart that was due in an earlier run."""
        claimed = await self._claimed()
        self._savings = Savings(claimed.unsaved_steps, 0, len(claimed.state))
        if ticks := claimed.kept.get("ticks"):
            self._savings.ticks = TickBook()
            self._savings.ticks.restore(ticks)
        self._savings.governance = claimed.kept.get("governance", {})
        self._effects.restore(claimed.marks)
        restarts = () if self.by_order else claimed.supervision.get("restarts", ())
        now = trio.current_time()
        self.parent.recall(self, [min(wall - self._common.lag_s, now) for wall in restarts])
        self._restored = True
        self.bell.ring()
        if claimed.status is Status.COMPLETED and not self._reopened:
            self.outcome = self._outcome(OutcomeKind.COMPLETED)
        elif not self.by_order:
            left = claimed.supervision.get("due", 0) - time.time()
            self._backing_off = left > 0
            # Not longer than it was to be, though the wall clock may have been set back meanwhile.
            await self._back_off(min(left, claimed.supervision.get("delay_s", 0)))

    async def _claimed(self) -> Claimed:
        """Return what the store has of the harness, which has its recorded past then; one that reopens is taken."""
        assert self._claiming is not None
        assert self._claim is not None
        claimed: Claimed = await self._claiming
        self.family.take_up(claimed.children)
        readied = self._readied(claimed, self._claim)
        await self._restore(claimed, self._claim, readied)
        if claimed.status is Status.COMPLETED and self.harness.reopens():
            self._reopened = True
            claimed = await self._common.recorder.submit(evolve(self._claim, reopen=True))
            # What it was readied to before it reopened: a migration runs once.
            await self._restore(claimed, self._claim, readied)
        self._claim = self._claiming = None
        return claimed

    async def _restore(self, claimed: Claimed, claim: Claim, readied: Readied) -> None:
        if readied.migrated is not None and self._holds(claimed):
            await self._note_migration(claimed, claim.state_version, readied.migrated)
        self._take_over(claimed)
        whole = readied.is_whole or claimed.migrated
        self.harness.restore(readied.state, claimed.step, self._load_steps, whole=whole)

    def _readied(self, claimed: Claimed, claim: Claim) -> Readied:
        """Return the state to go on with: the one in the store counts, also if its harness died before its first attempt."""
        if (claimed.state, claimed.state_version) == (claim.initial_state, claim.state_version):
            return Readied(self.harness.state)
        try:
            return ready(self.types, claimed.state, claimed.state_version)
        except UsageError as error:
            self._take_over(claimed)  # so that its end is recorded
            raise type(error)(f"harness {self.name!r}: {error}") from error

    def _holds(self, claimed: Claimed) -> bool:
        """Return whether the store has given it to this run: one that is completed it has not, unless it reopens."""
        return claimed.status is not Status.COMPLETED or self._reopened

    def _take_over(self, claimed: Claimed) -> None:
        self.status, self.attempt, self._recorded_step = claimed.status, claimed.attempt, claimed.step
        if self._holds(claimed):
            self._number, self._epoch = claimed.harness, claimed.epoch
        if self._paused is None:
            self._paused = claimed.status is Status.PAUSED or bool(claimed.event.get("paused"))

    async def _note_migration(self, claimed: Claimed, version: int, state: str) -> None:
        """Have the migrated state recorded: from here on it is what the harness goes on with."""
        check_size("its migrated state", state, self._common.most)
        now = time.time_ns() // 1000
        row = (claimed.harness, claimed.epoch, claimed.attempt, claimed.step, now)
        await self._common.recorder.do(Migrate(*row, claimed.state_version, version, state))

    def _load_steps(self, after: int, limit: int) -> list[Step[Any, Any]]:
        records = self._common.recorder.store.steps(self.name, after=after, limit=limit)
        return [self.types.step(record) for record in records]

    async def _begin(self) -> Actor:
        """Record the start of another attempt and return what runs it."""
        self.attempt += 1
        self.harness.rewind()
        # Before the first `await`: an order that comes from here on must find something to act on.
        control = Control(grace_s=self._grace_s, step_timeout_s=self._terms.step_timeout_s, deadline=self._deadline)
        self._control, self._idle, self._backing_off = control, False, False
        is_held = bool(self._paused)
        if is_held:
            control.pause()
        till = self._till(control)
        await self._note(events.Started(self.step, self.harness.max_context_steps, paused=is_held))
        if is_held:
            # Also if it was resumed meanwhile: what is on record last would hold it again.
            await self._note(events.Paused())
        await self._note_pause()
        if not self.has_begun:
            self.has_begun = True
            self.bell.ring()
        return Actor(
            self._common.recorder,
            self.harness,
            name=self.name,
            number=self._number,
            epoch=self._epoch,
            attempt=self.attempt,
            control=control,
            mailbox=self.mailbox,
            post=self._common.post,
            savings=self._savings,
            effects=self._effects,
            check_latch=self._common.check_latch,
            clock=self._common.clock,
            till=till if self._pools else None,
            charger=till,
            governor=self._governor,
            approvals=self._common.approvals,
            family=self.family,
            rule=self._rule,
            redacted=self._common.redacted,
            most=self._common.most,
        )

    def _till(self, control: Control) -> StoreTill:
        of: Any = {"name": self.name, "number": self._number, "epoch": self._epoch, "attempt": self.attempt}
        return StoreTill(self._common.teller, self._pools, self.harness, control, **of)

    def _end(self) -> None:
        if self._control is not None:
            self._deadline += self._control.parked_s
        self._control, self._idle = None, True
        self.bell.ring()

    async def _settle(self, exit: Exit) -> None:
        """Record how an attempt ended, and find out what follows."""
        error = exit.error
        if exit.lost and error is not None:
            raise error
        hindrance = found(error, BudgetExhausted, Waiting, ApprovalDenied) if error is not None else None
        if exit.ending is Ending.COMPLETED:
            await self._finish(events.Completed())
        elif hindrance is not None:
            await self._finish(_hindered(hindrance, self._sentence(hindrance)), hindrance)
        elif self._ordered is not None and self._stopping is None:
            if error is not None:
                await self._note(self._failed(error))
            await self._follow_order()
        elif exit.ending is Ending.STOPPED or (error is None and self._program_ends):
            # Also one that has returned because it is to stop: nobody knows whether there is more for it to do.
            await self._finish(self._stopped())
        elif error is not None and (is_lasting(error) or self._stopping is not None):
            await self._fail(error)
        else:
            await self._obey(judge(self, crashed=error is not None, now=trio.current_time()), error)

    async def _obey(self, verdict: Verdict, error: BaseException | None) -> None:
        """Do what the verdict on this child's exit says."""
        ended: events.Event = events.Exhausted() if error is None else self._failed(error)
        others = [child for child in cast(tuple[Child, ...], verdict.harnesses) if child is not self and not child.done]
        match verdict.action:
            case Action.LEAVE:
                await self._finish(ended, error)
            case Action.GIVE_UP:
                cause = self._sentence(error)
                for child in others:
                    child.stop(cause=f"its supervisor gave up when {self.name!r} ended: {cause}")
                await self._note(ended)
                count, period_s = len(verdict.restarts), self.parent.intensity.period_s
                await self._finish(events.GaveUp(f"{count} restarts within {period_s:g} s; {cause}", count, period_s), error)
            case Action.RESTART:
                restarting = self._restarting(error, verdict)
                orders = [(child, child.take_down(restarting)) for child in reversed(others)]
                try:
                    await self._note(ended)
                    await self._note(restarting)
                    await self._note_pause()
                    for child, _ in orders:
                        await child.wait_idle()
                    await self._back_off(restarting.delay_s)
                finally:
                    for child, order in reversed(orders):
                        if order is not None:
                            child.release(order)

    def _restarting(self, error: BaseException | None, verdict: Verdict) -> events.Restarting:
        delay = delay_s(self._terms.backoff, len(verdict.restarts), random.random())
        due = trio.current_time() + delay + self._common.lag_s
        cause = self._sentence(error)
        restarts = tuple(moment + self._common.lag_s for moment in verdict.restarts)
        return events.Restarting(cause, delay, due, restarts, paused=bool(self._paused))

    def _failed(self, error: BaseException) -> events.Failed:
        return evolve(failed(error, redacted=self._common.redacted), paused=bool(self._paused))

    def _sentence(self, error: BaseException | None) -> str:
        return "exhausted" if error is None else sentence(error, redacted=self._common.redacted)

    async def _follow_order(self) -> None:
        """Record the restart that a sibling's crash has brought about, and wait to be let go on."""
        while (order := self._ordered) is not None and not self._is_to_end():
            await self._note(evolve(order.restarting, paused=bool(self._paused)))
            await self._wait(inf, lambda order=order: order.released or self._ordered is not order)  # type: ignore[misc]
            if self._ordered is order:
                self._ordered = None
        self._ordered = None

    async def _back_off(self, seconds: float) -> None:
        """Wait before the next attempt; an order ends the wait."""
        if seconds > 0:
            await self._wait(seconds, lambda: self._ordered is not None)

    async def _wait(self, seconds: float, ready: Callable[[], bool]) -> None:
        """Wait until `ready()`, told to end, or the time is over."""
        with trio.move_on_after(seconds):
            await self.bell.until(lambda: ready() or self._is_to_end())

    def _is_to_end(self) -> bool:
        return self._stopping is not None or self._expired

    # records

    async def _finish(self, event: events.Event, error: BaseException | None = None) -> None:
        """Record the event that ends this child, and give it back."""
        await self._note(event, release=True)
        self.outcome = self._outcome(OutcomeKind(self.status.value), getattr(event, "cause", ""), error)

    async def _fail(self, error: BaseException) -> None:
        await self._finish(failed(error, redacted=self._common.redacted), error)

    async def _note(self, event: events.Event, *, release: bool = False) -> None:
        """Record an event, if it may follow; it counts when this returns."""
        if may_follow(self.status, event) or release:
            self.status = follow(self.status, event, backing_off=self._backing_off)
            self._backing_off = self._backing_off or isinstance(event, events.Restarting)
            await self._common.recorder.do(self._append(event, release))

    async def _note_pause(self) -> None:
        """Record that the child is held, or is no longer, where the record does not say so yet."""
        if self._paused and self.status is not Status.PAUSED:
            await self._note(events.Paused())
        elif not self._paused and self.status is Status.PAUSED:
            await self._note(events.Resumed())
        self._settle_pending()

    def _settle_pending(self) -> None:
        if self._pending is not None:
            self._pending.settle(None)
            self._pending = None

    def _submit(self, event: events.Event) -> Receipt:
        """Have an operator's order recorded; where it may not follow now, the next attempt records it."""
        if not self._epoch or not may_follow(self.status, event):
            self._pending = self._pending or Receipt()
            return self._pending
        self.status = follow(self.status, event, backing_off=self._backing_off)
        return self._common.recorder.submit(self._append(event, release=False))

    def _append(self, event: events.Event, release: bool) -> Append:
        now = time.time_ns() // 1000
        return Append(self._number, self._epoch, self.attempt, self.step, now, event, self.status, release)

    def _stopped(self) -> events.Stopped:
        # A restart by order is no end to the pause; a stop is.
        paused = bool(self._paused) and (self._program_ends or self.then is not None)
        return events.Stopped(self._stopping or "stopped", paused=paused, program_ended=self._program_ends)

    async def _break_off(self, error: BaseException | None) -> None:
        """Come to an outcome although this task was cancelled (no error), or could not go on."""
        if self._stopping is None and error is None:
            self._stopping, self._program_ends = self._common.why_cancelled(), True
        event = self._stopped() if error is None else self._failed(error)
        recordable = self._epoch and not isinstance(error, StoreError | OwnershipError) and may_follow(self.status, event)
        kind = OutcomeKind.STOPPED if error is None else OutcomeKind.FAILED
        try:
            if recordable:
                with trio.CancelScope(shield=True):
                    await self._note(event, release=True)
        except OrchestratorError as second:
            error = error or second
        self.outcome = self._outcome(kind, event.cause if error is None else str(error), error)
        self.status = Status(kind)

    def _outcome(self, kind: OutcomeKind, cause: str = "", error: BaseException | None = None) -> Outcome:
        return Outcome(kind, cause, self.step, self.attempt, error)


def _halted(harness: BaseHarness[Any, Any, Any]) -> str:
    """Return what a harness says of itself; whoever looks at a harness is not to fail because its code does."""
    try:
        said: object = getattr(harness, "halted", "")
    except Exception:
        return ""
    return said if isinstance(said, str) else ""


def _hindered(error: BaseException, cause: str) -> events.Event:
    """Return the event for a harness that can not go on, though it did not crash."""
    if isinstance(error, BudgetExhausted):
        return events.BudgetSpent(cause)
    return events.Blocked(cause)
