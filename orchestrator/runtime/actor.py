"""`Actor`: one attempt of one harness, and the durable runtime in which `BaseHarness.run` runs.

Whatever the harness does ends here as an `Exit`. It runs in a task of its own in a nursery of its own, so that a leaked
scope, a leaked nursery or a stray cancellation breaks only that task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, cast

import trio
from attrs import define, evolve, field, frozen

from harnesses.agent_bill import Charger
from harnesses.agent_spans import AgentSpan, SpanSink
from harnesses.attachments import MAX_ATTACHED, Attachment, turns_of
from harnesses.base import BaseHarness
from harnesses.budgets.spending import BudgetAccount
from harnesses.budgets.step_meter import meter_of
from harnesses.config import ChildOrder
from harnesses.control import Control, Ending
from harnesses.data.delta import Delta
from harnesses.data.large_values import StoredText
from harnesses.data.record_size import MAX_RECORD_BYTES, check_size
from harnesses.diagnostics.program_log import at_work
from harnesses.effects.approval import Action, Grant
from harnesses.effects.once import Effects
from harnesses.errors import (
    HarnessMisuse,
    Latched,
    MailboxFull,
    OrchestratorError,
    RecordTooLarge,
    ScopeError,
    UnknownHarness,
    Unstorable,
    located,
)
from harnesses.redaction.redactor import LineRedactor
from harnesses.step import NewStep
from harnesses.timing.clock import WallClock, now_us
from harnesses.timing.interval import TickBook
from orchestrator.child_spec import ChildSpec
from orchestrator.codec import encode_step
from orchestrator.mail.attempt_messages import AttemptMessages, Sender
from orchestrator.mail.durable_mailbox import Mailbox
from orchestrator.mail.mail_delivery import MailDelivery
from orchestrator.recording.approval_waits import Approvals, Asker
from orchestrator.recording.attempt import AttemptId, enter_attempt
from orchestrator.recording.budget_account import StoredBudgetAccount, Teller
from orchestrator.recording.commit_queue import Condition, PendingWrite, settled
from orchestrator.recording.grouped_steps import GroupedSteps
from orchestrator.recording.recorder import Recorder
from orchestrator.recording.row_redaction import LARGE, Output, redact_result, weight
from orchestrator.recording.snapshot_policy import SnapshotPolicy
from orchestrator.runtime.failure_events import contained, parted
from orchestrator.runtime.start_burst import StartBurst
from orchestrator.runtime.started_children import Families, Family
from orchestrator.runtime.turn_feed import TurnFeed
from orchestrator.store.store_capabilities import reader_of, session_turns, stored_text
from orchestrator.store.store_protocol import AwaitedIntent, Claimed, ConsumedRow, EffectRow, StepRow, Store


@frozen(kw_only=True)
class RunContext:
    """What a child and its attempts get from the run."""

    recorder: Recorder
    post: MailDelivery
    check_latch: Callable[[str], None]
    """Raises `Latched` if no effect of the named harness may begin."""
    clock: WallClock
    teller: Teller
    approvals: Approvals
    families: Families
    lag_s: float
    """Wall time minus Trio time, seconds: one value for a run, so that several children restarted together share one time."""
    start_beside: Callable[[Callable[[], Awaitable[object]]], object]
    """Starts a task that ends with the run, or before."""
    burst: StartBurst = field(factory=StartBurst)
    redacted: bool = True
    """Whether secrets are removed from what is recorded."""
    most: int = MAX_RECORD_BYTES
    """Limit on the size of one record, bytes."""
    take_span: Callable[[], Callable[[str, int, int, AgentSpan], None] | None] = lambda: None
    """Returns what takes the spans of agents: name, attempt and step of the harness, and the span; None without traces."""
    why_cancelled: Callable[[], str] = lambda: "cancelled"
    """Returns why everything is cancelled from outside."""
    goes_on: Callable[[], bool] = lambda: False
    """Returns whether a harness that is claimed now is refused if it has ended."""


_row: Callable[[type[StepRow], tuple[object, ...]], StepRow] = cast(Any, tuple).__new__
"""Makes a `StepRow` without the cost of a constructor call."""

_REFUSALS = (MailboxFull, UnknownHarness, RecordTooLarge)
"""Errors that mean a message cannot be delivered: the step is not recorded, and may be made again."""


@frozen
class Exit:
    """How an attempt ended: with an ending, or with an error."""

    ending: Ending | None = None
    error: BaseException | None = None
    lost: bool = False
    """Whether the error is that a step could not be recorded, because the store or the harness was lost to this run."""


@define(eq=False, repr=False)
class Carried:
    """What a harness keeps from one attempt to the next."""

    recorded: Condition
    """Notified at every recorded step, and used only by followers of the steps: any other task woken here would be runnable
    when the next step checks whether it can commit inline."""
    mailbox: Mailbox
    family: Family
    """The harnesses that it has started."""
    effects: Effects
    """Effects of the step in progress."""
    savings: SnapshotPolicy
    """Size of the last snapshot and of the deltas recorded since."""
    name: str
    """Name of the harness."""
    redacted: bool
    """Whether secrets are removed from what is recorded."""
    group: GroupedSteps | None = None
    """Its accepted steps, if it has group durability."""
    is_starting: bool = True
    """Whether no attempt of this life has begun."""
    feed: TurnFeed | None = None
    """The streamed events of its agents; None before the first one."""
    model: str = ""
    """The model that its model agents ask instead of their own."""

    def turns(self) -> TurnFeed:
        """Return the streamed events of its agents."""
        if self.feed is None:
            self.feed = TurnFeed(self.name, redacted=self.redacted)
        return self.feed

    def tick_book(self) -> TickBook:
        """Return the progress of its tickers."""
        if self.savings.ticks is None:
            self.savings.ticks = TickBook()
        return self.savings.ticks

    def restore(self, claimed: Claimed, store: Store) -> None:
        """Load the recorded history of the harness."""
        self.savings = SnapshotPolicy(claimed.unsaved_steps, 0, len(claimed.state))
        if ticks := claimed.kept.get("ticks"):
            self.tick_book().restore(ticks)
        self.savings.governance = claimed.kept.get("governance", {})
        self.model = claimed.model
        if claimed.marks:
            self.effects.restore(claimed.marks, reader_of(store))


class Actor:
    """The `Runtime` of one attempt, connected to the recorder.

    Args:
        till: its budget account, which also records what its agents report.
    """

    __slots__ = (
        "_attached",
        "_attached_characters",
        "_carried",
        "_context",
        "_exit",
        "_family",
        "_group",
        "_harness",
        "_id",
        "_lost",
        "_mail",
        "_mailbox",
        "_output",
        "_recorded",
        "_recorder",
        "_slot",
        "charger",
        "clock",
        "control",
        "effects",
        "governor",
        "meter",
        "model_override",
        "name",
        "resumed",
        "rule",
        "savings",
        "till",
    )

    def __init__(
        self,
        context: RunContext,
        spec: ChildSpec,
        harness: BaseHarness[Any, Any, Any],
        id: AttemptId,
        carried: Carried,
        control: Control,
        till: StoredBudgetAccount,
    ) -> None:
        self._context = context
        self._recorder = context.recorder
        self._harness = harness
        self._id = id
        self._slot = PendingWrite()
        self._carried = carried
        self._recorded, self._mailbox, self._family = carried.recorded, carried.mailbox, carried.family
        self._group = carried.group
        self._mail: AttemptMessages | None = None
        self.name = spec.name
        self.control = control
        self.resumed = True
        self.savings, self.effects = carried.savings, carried.effects
        self.model_override = carried.model
        self.clock = context.clock
        self.charger: Charger = till
        self.till: BudgetAccount | None = till if spec.pools else None
        self.meter = meter_of(self.till, control)
        self.governor = spec.governor
        if self.governor is not None:
            self.governor.restore(self.savings.governance, lambda: harness.state)
        self.rule = spec.rule
        self._attached: list[Attachment] | None = None
        self._attached_characters = 0
        self._exit: Exit | None = None
        self._lost = False
        self._output: Output | None = None

    @property
    def spans(self) -> SpanSink | None:
        """Where spans of agents go; see `Runtime.spans`."""
        take = self._context.take_span()
        return None if take is None else partial(take, self.name, self._id.attempt, self._harness.current_step + 1)

    def run(self) -> Awaitable[Exit]:
        """Run one attempt to its end. Raises only `Cancelled`, and only for a cancellation from outside.

        Not a coroutine function itself: without metering this saves a frame for the whole life of the harness.
        """
        beside = [] if self.meter is None or not self.meter.is_timed else [self.meter.extend]
        if self._group is not None:
            beside.append(self._group.watch)
        return self._run_beside(beside) if beside else self._run()

    async def _run_beside(self, others: Iterable[Callable[[], Awaitable[None]]]) -> Exit:
        async with trio.open_nursery() as beside:
            for other in others:
                beside.start_soon(other)
            exit = await self._run()
            beside.cancel_scope.cancel()
        return exit

    async def _run(self) -> Exit:
        try:
            async with trio.open_nursery() as own:
                self.control.attach(own.cancel_scope)
                own.start_soon(self._attempt_once, name=self.name)
        except BaseException as error:
            # A task that leaves a nursery open is ended by Trio with an error that passes every handler in the task, and a
            # scope that was left open lets its `Cancelled` out.
            if trio.current_effective_deadline() == -inf:
                raise
            if self._exit is None or self._exit.error is None:
                self._exit = Exit(error=located(_leaked(error), f"harness {self.name!r}"))
        finally:
            self._mailbox.put_back()
            if self._group is not None:
                await self._end_group(self._group)
        if self._exit is None:
            self._exit = self._exit_after_cancellation()
        if self._exit.error is not None:
            self._exit = evolve(self._exit, error=contained(self._exit.error))
        return self._exit

    async def _end_group(self, group: GroupedSteps) -> None:
        """Wait until every accepted step is on disk, however the attempt has ended."""
        try:
            await group.flush()
        except OrchestratorError as error:
            self._exit = Exit(error=error, lost=True)

    def _exit_after_cancellation(self) -> Exit:
        """Return the ending that the loop decided on before its clean-up was cancelled, or what the cancellation means."""
        control = self.control
        error = control.failure or (control.why_cancelled() if control.ending is None else None)
        if error is None:
            return Exit(ending=control.ending or Ending.STOPPED)
        return Exit(error=located(error, f"harness {self.name!r}, step {self._harness.current_step + 1}"))

    async def _attempt_once(self) -> None:
        if self._carried.is_starting:
            self._carried.is_starting = False
            self._context.burst.has_begun()
        enter_attempt(self.control)
        at_work.set(self._place)
        try:
            self._exit = Exit(ending=await self._harness.run(self))
        except BaseException as error:
            cancelled, rest = parted(error)
            if rest is not None:
                self._exit = Exit(error=rest, lost=self._lost)
            if cancelled is not None:
                raise cancelled from None

    def _place(self) -> dict[str, object]:
        return {"harness": self.name, "attempt": self._id.attempt, "step": self._harness.current_step + 1}

    async def commit(self, step: NewStep[Any, Any], delta: Delta, state: Callable[[], object]) -> None:
        """Wait until the step is on disk; see `Runtime.commit`."""
        slot, savings = self._slot, self.savings
        ticks = savings.ticks
        kept = None if ticks is None else ticks.as_data()
        governance = None if self.governor is None else self.governor.kept()
        used = tuple(self._mailbox.taken) if self._mailbox.taken else ()
        number = step.step_number
        slot.row = row = self._row_of_step(step, delta, state, kept, governance, used)
        if used:
            slot.consumed = tuple(ConsumedRow(message.seq, row.harness, number) for message in used)
        is_seen = self._attached is not None
        if is_seen or self.effects.noted:
            slot.notes = self._take_notes(number)
        mail, sent = self._mail, None
        if mail is not None:
            sent = slot.sent = mail.outgoing(number, step.time_us)
        if self._output is not None:
            self._output.begin_recording()
        slot.redacted = self._context.redacted
        # Most steps: without the cost of another coroutine.
        is_plain = self._group is None and not slot.notes and len(row.body) <= LARGE
        try:
            await (self._sent(slot) if is_plain else self._record(slot, row, step, is_seen=is_seen))
        except BaseException as error:
            self._lost = not isinstance(error, _REFUSALS)
            if not self._lost:
                # They are on record: only the step was refused.
                self.effects.noted.clear()
            if row.state is not None:
                savings.miss()
            raise
        slot.row, slot.notes = None, ()
        # Followers of the steps run after this task, which shows the step before its next checkpoint.
        self._recorded.ring()
        if governance is not None:
            savings.governance = governance
        if ticks is not None and kept is not None:
            ticks.settle(kept)
        if used:
            slot.consumed = ()
            self._mailbox.settle(used)
        if self._family.expected:
            self._family.settle()
        if self._output is not None:
            for line, lines in self._output.end_recording():
                self._log_soon(line, lines, number + 1)
        if mail is not None:
            mail.settle(sent)
            slot.sent = None

    def _row_of_step(
        self,
        step: NewStep[Any, Any],
        delta: Delta,
        state: Callable[[], object],
        kept: Any,
        governance: Any,
        used: Sequence[Any],
    ) -> StepRow:
        """Return a step as it is stored, with a snapshot of the state if one is due."""
        most, id, number = self._context.most, self._id, step.step_number
        seqs = [message.seq for message in used] if used else ()
        try:
            body = encode_step(step, delta, kept, governance, took_us=self.control.watch.took_us(), consumed=seqs, most=most)
            saved = self.savings.snapshot(body, delta, state)
            if saved is not None:
                check_size("its state", saved, most)
        except Unstorable as error:
            raise located(error, f"harness {self.name!r}, step {number}") from error
        return _row(StepRow, (id.number, id.epoch, id.attempt, number, step.time_us, body, saved))

    def _take_notes(self, step: int) -> tuple[EffectRow, ...]:
        """Return what is recorded together with a step: its effects in memory, and its attachments."""
        effects = [self._row_of(*noted[:2], step, noted.time_us) for noted in self.effects.noted]
        attached, self._attached = self._attached or (), None
        return (*effects, *(self._row_of(one.kind, one.body, step) for one in attached))

    async def _record(self, slot: PendingWrite, row: StepRow, step: NewStep[Any, Any], *, is_seen: bool) -> None:
        """Wait until a step is accepted: on disk, or in a group.

        Args:
            is_seen: whether it has attachments, which others look for.
        """
        group = self._group
        is_large = slot.redacted and (len(row.body) > LARGE or (bool(slot.notes) and weight(slot) > LARGE))
        if group is not None:
            if not (is_seen or is_large) and self._may_go_ahead(slot):
                await group.accept(row, step, slot.notes, redacted=slot.redacted)
                return
            await group.clear()
        if is_large:
            await self._recorder.redact_aside(slot)
        await self._sent(slot)

    def _may_go_ahead(self, slot: PendingWrite) -> bool:
        """Return whether a step of a harness with group durability need not be on disk before the next one.

        Not one that others can see or depend on: it sends or consumes messages, starts children, is charged to a budget of
        steps, or has attachments; nor a large one, from which secrets are removed in a thread.
        """
        return not (slot.consumed or slot.sent is not None or self._family.expected or self.meter is not None)

    async def wait_stored(self) -> None:
        """Wait until every accepted step is on disk. Not cancellable."""
        if self._group is not None:
            try:
                await self._group.flush()
            except BaseException:
                self._lost = True
                raise

    @property
    def durable_step(self) -> int:
        """Number of the last step that is on disk."""
        accepted = self._harness.current_step
        return accepted if self._group is None else self._group.durable(accepted)

    @property
    def ticks(self) -> TickBook:
        """Progress of its tickers."""
        return self._carried.tick_book()

    def attach(self, attached: Attachment) -> None:
        """Record an attachment in the same commit as the next step."""
        if self._attached is None:
            self._attached, self._attached_characters = [], 0
        # A governor's findings come when the step is made, so there must always be room for them.
        if len(self._attached) >= MAX_ATTACHED and attached.kind != "guardrail":
            raise HarnessMisuse(f"attach: expected at most {MAX_ATTACHED} to one step; yield in between")
        self._attached_characters += attached.weight
        if self._attached_characters > self._context.most and attached.kind != "guardrail":
            raise HarnessMisuse(f"attach: expected at most {self._context.most:,} characters to one step; yield in between")
        self._attached.append(attached)

    def session(self, id: str) -> tuple[Mapping[str, object], ...]:
        """Return the recorded turns of a conversation, those of the step in progress last; see `AgentRun.session`."""
        return (*session_turns(self._recorder.store, self.name, id), *turns_of(self._attached or (), id))

    def start_child(self, order: ChildOrder) -> str:
        """Start a harness with the next step; return its name."""
        return self._family.order(order, self.attach)

    def end_attempt(self) -> None:
        """Release what was reserved for a step that was not recorded."""
        self._family.drop()
        self._output = self._attached = None
        if self._mail is not None:
            self._mail.end_attempt()
        for row in self._take_notes(self._harness.current_step + 1) if self.effects.noted else ():
            self._send_soon(_slot_of(row))
        self.effects.end_attempt()
        if self.savings.ticks is not None:
            self.savings.ticks.put_back()

    async def note(self, kind: str, body: str) -> StoredText | None:
        """Wait until an intent or an outcome is on disk; see `Journal.note`."""
        group = self._group
        try:
            if group is None:
                slot = self._noting(kind, body, is_awaited=True)
                sent = self._sent(slot)
            else:
                await group.hold()
                try:
                    slot = self._noting(kind, body, is_awaited=True)
                    sent = self._sent(slot)
                finally:
                    group.release()
            await sent
        except Latched:
            raise
        except BaseException:
            self._lost = True
            raise
        row = slot.effect
        return None if row is None or row.body is body else stored_text(self._recorder.store, kind, row.body)

    def note_soon(self, kind: str, body: str) -> None:
        """Record an intent or an outcome without waiting: an intent along with the next commit."""
        self._send_soon(self._noting(kind, body), rings=kind != "intent")

    def _send_soon(self, slot: PendingWrite, *, rings: bool = True) -> None:
        if self._group is not None:
            self._group.note_soon(slot, rings=rings)
        elif rings:
            self._recorder.enqueue_soon(slot)
        else:
            self._recorder.enqueue_along(slot)

    async def redact(self, text: str) -> str:
        """Return the result of an effect without secrets; see `Journal.redact`."""
        if not self._context.redacted:
            return text
        if len(text) <= LARGE:
            return redact_result(text)
        return await self._recorder.redact_result_aside(text)

    def log(self, line: str, source: str = "") -> None:
        """Record a line of output without waiting."""
        if self._output is None:
            self._output = Output(self._log_soon, redacted=self._context.redacted)
        self._output.write(line, source)

    def tell(self, event: object, agent: str, call: str) -> None:
        """Pass on a streamed event of an agent to those who follow the harness."""
        self._carried.turns().tell(event, agent, call.rstrip("/"), self._harness.current_step + 1)

    def _log_soon(self, body: str, lines: LineRedactor, step: int | None = None) -> None:
        slot = self._noting("output", body, step)
        slot.redacted, slot.lines = self._context.redacted, lines
        self._send_soon(slot)

    async def approve(self, key: str, action: Action) -> Grant:
        """Wait until an action of the step in progress is approved; see `Journal.approve`."""
        if self._group is not None:
            self._group.push()
        asker = Asker(self._id, self.control)
        return await self._context.approvals.wait(asker, self._harness.current_step + 1, key, action)

    def has_asked(self) -> bool:
        """Return whether an approval was requested for the step in progress; see `Runtime.has_asked`."""
        step = self._harness.current_step + 1
        return any(record.step_number == step for record in self._recorder.store.approvals(self.name))

    def check_latch(self) -> None:
        """Raise `Latched` if no effect may begin."""
        self._context.check_latch(self.name)

    def _noting(self, kind: str, body: str, step: int | None = None, *, is_awaited: bool = False) -> PendingWrite:
        row = self._row_of(kind, body, step or self._harness.current_step + 1)
        return _slot_of(AwaitedIntent(*row) if is_awaited and kind == "intent" else row)

    def _row_of(self, kind: str, body: str, step: int, time_us: int | None = None) -> EffectRow:
        id = self._id
        return EffectRow(id.number, id.epoch, id.attempt, step, now_us() if time_us is None else time_us, body, kind)

    def _sent(self, slot: PendingWrite) -> Awaitable[object]:
        """Submit a row; return an awaitable for its commit. Not a coroutine function, because every step passes here."""
        if self._recorder.commit_now(slot):
            return trio.lowlevel.cancel_shielded_checkpoint()  # noqa: ASYNC105 - the caller awaits it
        self._recorder.enqueue(slot)
        return settled()

    async def sleep(self, seconds: float) -> None:
        """Sleep, or raise `Stopping` as soon as the harness has to stop."""
        await self.control.sleep(seconds)

    @property
    def mail(self) -> AttemptMessages:
        """Messages of this attempt."""
        if self._mail is None:
            step, starting = lambda: self._harness.current_step + 1, lambda: self._family.expected
            before = None if self._group is None else self._group.push
            of = Sender(self.name, self._id.number, step, self.log, self._attach_body, starting, before)
            self._mail = AttemptMessages(self._context.post, self._mailbox, of, self.control)
        return self._mail

    @property
    def unsent(self) -> Sequence[str]:
        """Recipients of the messages that no step has sent yet."""
        return () if self._mail is None else self._mail.unsent

    def _attach_body(self, kind: str, body: str) -> None:
        self.attach(Attachment(kind, body))


def _slot_of(row: EffectRow) -> PendingWrite:
    slot = PendingWrite()
    slot.effect = row
    return slot


def _leaked(error: BaseException) -> BaseException:
    if parted(error)[0] is not None or "stack corrupted" in repr(error):
        return ScopeError(
            "execute() left a cancel scope or nursery open: expected the generator that opened it to close it; "
            "use `with` and `async with`, and let it end before execute() does"
        )
    return error
