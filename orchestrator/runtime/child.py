"""`Child`: one supervised harness over all its attempts.

    live:  take up ──► attempt ──► settle ──► outcome
              │           ▲           │
              └─ back-off ┘ ◄─────────┘ restart

`record` holds its recorded status, `orders` the orders given to it. `supervisor.decide_exit` decides what follows an exit,
and `restarts` carries it out. Everything that happens is an event in the store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import islice
from math import inf
from typing import Any, cast

import trio
from attrs import evolve

from harnesses.base import BaseHarness
from harnesses.control import Ending
from harnesses.effects.once import Effects
from harnesses.errors import ApprovalDenied, BudgetExhausted, DeadlineExceeded, OrchestratorError, Waiting
from harnesses.messages.requests import limit_of, types_of
from harnesses.timing.clock import now_s
from orchestrator import events
from orchestrator.child_spec import ChildSpec
from orchestrator.errors import OwnershipError, StoreError
from orchestrator.lifecycle import Status
from orchestrator.outcome import Outcome, OutcomeKind
from orchestrator.recording.budget_account import StoredBudgetAccount
from orchestrator.recording.commit_queue import Condition
from orchestrator.recording.grouped_steps import GroupedSteps
from orchestrator.recording.snapshot_policy import SnapshotPolicy
from orchestrator.runtime.activity import APPROVAL, WAITING, WORKING, Doings, Live
from orchestrator.runtime.actor import Actor, Carried, Exit, RunContext
from orchestrator.runtime.child_orders import ChildOrders, ChildRestarts
from orchestrator.runtime.failure_events import conclusion_of, failed, found, is_lasting, parted
from orchestrator.runtime.harness_claim import HarnessClaim
from orchestrator.runtime.started_children import ChildStart, Family
from orchestrator.runtime.status_record import StatusRecord
from orchestrator.runtime.supervisor import Supervisor, count_restarts, decide_exit
from orchestrator.runtime.time_limits import TimeLimits
from orchestrator.runtime.turn_feed import TurnFeed
from orchestrator.states.state_types import HarnessTypes


class Child:
    """A leaf of the supervision tree.

    Args:
        parent: its supervisor.
    """

    __slots__ = (
        "_carried",
        "_claim",
        "_context",
        "bell",
        "by_order",
        "family",
        "has_begun",
        "is_deadline_watched",
        "let_go",
        "mailbox",
        "name",
        "orders",
        "parent",
        "record",
        "recorded",
        "renew",
        "restart",
        "restarts",
        "spec",
        "time_limits",
        "types",
    )

    def __init__(self, spec: ChildSpec, harness: BaseHarness[Any, Any, Any], parent: Supervisor, context: RunContext) -> None:
        self.spec, self.name, self.restart = spec, spec.name, spec.restart
        self.types = HarnessTypes.of(harness)
        self.parent = parent
        self.restarts: tuple[float, ...] = ()
        """Times of its restarts, where its supervisor counts each child separately."""
        self.bell = Condition()
        """Notified when its status or its orders change."""
        self.recorded = Condition()
        """Notified at every recorded step, and when its status changes."""
        self.record = StatusRecord(spec.name, harness, context.recorder)
        deadline = inf if spec.deadline_s is None else trio.current_time() + spec.deadline_s
        self.orders = ChildOrders(self.record, self.bell, spec.grace_s, deadline, spec.step_timeout_s)
        accepts, limit = types_of(type(harness)), limit_of(type(harness))
        self.mailbox = context.post.mailbox_of(spec.name, self.bell, accepts, limit)
        self.family = Family(context.families, spec.name, spec.ancestors)
        """The harnesses that it has started."""
        effects = Effects(context.most)
        own = spec.name, context.redacted
        self._carried = Carried(self.recorded, self.mailbox, self.family, effects, SnapshotPolicy(), *own)
        if (spec.durability or harness.preferred_durability) == "group":
            group = self._carried.group = GroupedSteps(context.recorder, spec.group_s, self.recorded.ring)
            self.record.group = group
        self._context = context
        self._claim: HarnessClaim | None = None
        self.renew: Any = None
        """Makes the harness anew for another life; see `orchestrator.operator_restart`."""
        self.by_order = False
        """Whether an operator restarted it: earlier restarts then do not count, and there is no back-off."""
        self.let_go: Callable[[Child], None] | None = None
        """Called when it has ended, if another harness started it, so that its object can be released."""
        self.has_begun = False
        """Whether an attempt of this life is recorded."""
        self.is_deadline_watched = False
        self.time_limits: TimeLimits | None = None
        """The time limits that an operator has set or asked for; None before."""

    def _ring(self) -> None:
        self.bell.ring()
        self.recorded.ring()
        if self._carried.feed is not None:
            self._carried.feed.ring()

    @property
    def _restarts(self) -> ChildRestarts:
        context = self._context
        return ChildRestarts(self.spec, self.parent, self.record, self.orders, context.lag_s, context.redacted)

    # interface for others

    def turns(self) -> TurnFeed:
        """Return the streamed events of its agents."""
        return self._carried.turns()

    def saying(self) -> str:
        """Return the end of the text that an agent is saying. May be called in any thread."""
        feed = self._carried.feed
        return "" if feed is None else feed.saying()

    @property
    def harness(self) -> BaseHarness[Any, Any, Any]:
        return self.record.harness

    @property
    def outcome(self) -> Outcome | None:
        return self.record.outcome

    @property
    def done(self) -> bool:
        """Whether there is an outcome."""
        return self.record.outcome is not None

    @property
    def doing(self) -> Live | None:
        """Its current activity; None between attempts."""
        return self.doing_at(trio.current_time())

    def doing_at(self, now: float) -> Live | None:
        """Return its activity at this moment, which is `now` on Trio's clock; None between attempts."""
        control = self.orders.control
        if control is None:
            return None
        doing = APPROVAL if control.is_parked else WAITING if control.is_waiting else WORKING
        return Live(doing, control.watch.age_at(now), control.step_timeout_s, _halted(self.record.harness))

    def doing_since(self) -> Doings | None:
        """Return its activity without reading a clock: the same values for as long as nothing changes."""
        control = self.orders.control
        if control is None:
            return None
        doing = APPROVAL if control.is_parked else WAITING if control.is_waiting else WORKING
        return doing, control.watch.since, control.step_timeout_s, _halted(self.record.harness)

    @property
    def gauges(self) -> Mapping[str, float]:
        """Numbers that the harness tells of its work; none between attempts."""
        return {} if self.orders.control is None else _gauges(self.record.harness)

    async def wait_done(self) -> Outcome:
        """Wait for the outcome and return it."""
        await self.bell.until(lambda: self.outcome)
        assert self.outcome is not None
        return self.outcome

    async def wait_begun(self) -> None:
        """Wait until its first attempt is recorded, or it has ended without one."""
        await self.bell.until(lambda: self.has_begun or self.outcome)

    def limits(self) -> TimeLimits:
        """Return the time limits, to read or to set."""
        if self.time_limits is None:
            context, carried = self._context, self._carried
            self.time_limits = TimeLimits(self.spec, self, lambda: carried.savings.ticks, context.recorder, context.redacted)
        return self.time_limits

    def set_step_timeout(self, step_timeout_s: float | None) -> None:
        """Change the step timeout; see `TimeLimits`."""
        self.orders.set_step_timeout(step_timeout_s)

    def set_deadline(self, deadline_s: float | None) -> None:
        """Change the deadline; see `TimeLimits`."""
        self.orders.set_deadline(deadline_s)
        if self.outcome is None:
            self.guard_deadline()

    def guard_deadline(self) -> None:
        """Have the harness ended at its deadline, if it has one."""
        if self.orders.has_deadline and not self.is_deadline_watched:
            self.is_deadline_watched = True
            self._context.start_beside(self.watch_deadline)

    async def watch_deadline(self) -> None:
        """End it at its deadline; return when it has ended."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.orders.expire_at_deadline)
            await self.wait_done()
            nursery.cancel_scope.cancel()

    # start

    def renewed(self) -> Child:
        """Return another life of the same object with the same options: claimed, not running yet."""
        made = Child(self.spec, self.harness, self.parent, self._context)
        made.claim()
        return made

    def bear(self, birth: ChildStart, own: tuple[str, ...]) -> Child:
        """Return a child that this harness started, with its supervisor and options, charged to its budgets too.

        Args:
            own: the child's own pool, if it has one.
        """
        stored = birth.spec
        spec = evolve(
            self.spec,
            name=stored.child,
            restart=stored.restart,
            grace_s=self.spec.grace_s if stored.grace_s is None else stored.grace_s,
            step_timeout_s=stored.step_timeout_s,
            deadline_s=stored.deadline_s,
            # Taking a harness over from another process also takes over its children there.
            take_over=self.spec.take_over and birth.resumed,
            pools=tuple(dict.fromkeys((*own, *birth.pools, *self.spec.pools))),
            governor=None,
            ancestors=birth.ancestors,
        )
        return Child(spec, birth.harness, self.parent, self._context)

    def reject(self, error: BaseException) -> None:
        """End it before it has begun, because it cannot be claimed."""
        self.record.conclude(OutcomeKind.FAILED, str(error), error)
        self._ring()

    def claim(self) -> None:
        """Claim the harness in the store; raises what `HarnessClaim` raises."""
        self._claim = HarnessClaim(self.spec, self.harness, self.types, self.mailbox.limit, self._context, self._carried.group)
        self.harness.runs_as = self.name

    # life

    async def live(self) -> None:
        """Run attempts until there is an outcome. Raises only `Cancelled`."""
        record, orders = self.record, self.orders
        try:
            await self._take_up()
            while record.outcome is None:
                if orders.stopping is not None:
                    await record.finish(orders.stopped())
                elif orders.is_expired:
                    await self._fail(DeadlineExceeded(f"harness {self.name!r}: its deadline has passed"))
                elif orders.takedown is not None:
                    await self._restarts.follow_takedown()
                else:
                    actor = await self._begin()
                    exit = await actor.run()
                    orders.end_attempt()
                    self._context.burst.has_ended()
                    await self._settle(exit)
        except BaseException as error:
            cancelled, rest = parted(error)
            await self._break_off(rest)
            if cancelled is not None:
                raise
        finally:
            orders.control, self.harness.runs_as = None, None
            if self._carried.is_starting:
                self._context.burst.has_begun()
            self._context.burst.has_ended()
            record.settle_pending()
            if orders.then is not None:
                orders.then()
            if self.let_go is not None:
                self.let_go(self)
            self._ring()

    async def _take_up(self) -> None:
        """Take the harness over and load its recorded history; wait for a restart that was due in an earlier run."""
        claim, self._claim = self._claim, None
        assert claim is not None
        claimed, reopened = await claim.take_up(self.record, self.orders, self.family), claim.is_reopened
        self._carried.restore(claimed, self._context.recorder.store)
        if claimed.time_limits and (claimed.status is not Status.COMPLETED or reopened):
            self.limits().restore(claimed.time_limits, self._carried.tick_book)
        supervision = claimed.supervision
        restarts = () if self.by_order else supervision.get("restarts", ())
        now = trio.current_time()
        self.parent.recall(self, [min(wall - self._context.lag_s, now) for wall in restarts])
        self.record.is_restored = True
        self._ring()
        if claimed.status is Status.COMPLETED and not reopened:
            self.record.conclude(OutcomeKind.COMPLETED, self._conclusion())
        elif not self.by_order:
            left = supervision.get("due", 0) - now_s()
            self.record.is_backing_off = left > 0
            # At most the planned delay, even if the wall clock was set back meanwhile.
            await self._restarts.back_off(min(left, supervision.get("delay_s", 0)))

    async def _begin(self) -> Actor:
        """Record the start of another attempt and return its actor."""
        record, orders = self.record, self.orders
        record.attempt += 1
        self._context.burst.spare_collector()
        self.harness.rewind()
        # Before the first `await`: an order that arrives from here on must find the control.
        control, is_held = orders.begin_attempt(), orders.is_paused
        record.is_backing_off = False
        group, id = self._carried.group, record.id
        before = None if group is None else group.push
        till = StoredBudgetAccount(self._context.teller, self.spec.pools, self.harness, control, id, before)
        context_steps = self.harness.max_context_steps
        await record.note(events.Started(record.step, context_steps, paused=is_held, supervisor=self.parent.path))
        if is_held:
            # Also if it was resumed meanwhile: the last record would otherwise pause it again.
            await record.note(events.Paused())
        await record.note_pause(paused=orders.is_paused)
        if not self.has_begun:
            self.has_begun = True
            self._ring()
        self._context.burst.spare_collector()
        return Actor(self._context, self.spec, self.harness, id, self._carried, control, till)

    async def _settle(self, exit: Exit) -> None:
        """Record how an attempt ended, and decide what follows."""
        error, record, orders = exit.error, self.record, self.orders
        if exit.lost and error is not None:
            raise error
        hindrance = found(error, BudgetExhausted, Waiting, ApprovalDenied) if error is not None else None
        if exit.ending is Ending.COMPLETED:
            await record.finish(events.Completed(self._conclusion()))
        elif hindrance is not None:
            event = events.BudgetSpent if isinstance(hindrance, BudgetExhausted) else events.Blocked
            await record.finish(event(self._restarts.sentence(hindrance)), hindrance)
        elif orders.takedown is not None and orders.stopping is None:
            if error is not None:
                await record.note(self._restarts.failed(error))
            await self._restarts.follow_takedown()
        elif exit.ending is Ending.STOPPED or (error is None and orders.program_ends):
            # Also one that returned because it has to stop: whether it had more to do is unknown.
            await record.finish(orders.stopped())
        elif error is not None and (is_lasting(error) or orders.stopping is not None):
            await self._fail(error)
        else:
            decision = decide_exit(self, crashed=error is not None, now=trio.current_time())
            count_restarts(decision)
            await self._restarts.obey(decision, error, self._conclusion() if error is None else "")

    def _conclusion(self) -> str:
        return conclusion_of(self.harness, redacted=self._context.redacted)

    async def _fail(self, error: BaseException) -> None:
        await self.record.finish(failed(error, redacted=self._context.redacted), error)

    async def _break_off(self, error: BaseException | None) -> None:
        """Reach an outcome although this task was cancelled (no error), or could not continue."""
        orders = self.orders
        if orders.stopping is None and error is None:
            orders.stopping, orders.program_ends = self._context.why_cancelled(), True
        event = orders.stopped() if error is None else self._restarts.failed(error)
        kind = OutcomeKind.STOPPED if error is None else OutcomeKind.FAILED
        try:
            if not isinstance(error, StoreError | OwnershipError) and self.record.may_end_with(event):
                with trio.CancelScope(shield=True):
                    await self.record.note(event, release=True)
        except OrchestratorError as second:
            error = error or second
        self.record.conclude(kind, event.cause if error is None else str(error), error)


def _halted(harness: BaseHarness[Any, Any, Any]) -> str:
    """Return the harness's own reason for being halted; an error in its code does not reach the caller."""
    try:
        said: object = getattr(harness, "halted", "")
    except Exception:
        return ""
    return said if isinstance(said, str) else ""


_GAUGE = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MOST_GAUGES = 32


def _gauges(harness: BaseHarness[Any, Any, Any]) -> Mapping[str, float]:
    """Return the numbers of the harness's attribute `gauges`; an error in its code does not reach the caller."""
    try:
        said: object = getattr(harness, "gauges", None)
        if not isinstance(said, Mapping):
            return {}
        told = cast(Mapping[object, Any], said)
        return {name: float(told[name]) for name in islice(told, _MOST_GAUGES) if _GAUGE.fullmatch(str(name))}  # type: ignore[misc]
    except Exception:
        return {}
