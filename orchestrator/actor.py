"""One harness, one attempt: the durable surroundings in which `BaseHarness.run` runs.

Whatever the harness does ends here, as an `Exit`: it runs in a task of its own within a nursery of its own, so that a leaked
scope, a leaked nursery or a stray cancellation breaks that task and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, cast

import trio
from attrs import evolve, frozen

from harnesses.approval import Action, Grant
from harnesses.attachments import MAX_ATTACHED, Attachment
from harnesses.base import BaseHarness
from harnesses.bill import Charger
from harnesses.child_order import ChildOrder
from harnesses.clock import WallClock
from harnesses.control import Control, Ending
from harnesses.delta import Delta
from harnesses.errors import HarnessMisuse, MailboxFull, RecordTooLarge, ScopeError, UnknownHarness, Unstorable, located
from harnesses.governor import Governor
from harnesses.meter import Meter, meter_of
from harnesses.once import Effects
from harnesses.record_size import MAX_RECORD_BYTES, check_size
from harnesses.runtime import ApprovalRule
from harnesses.secrets import LineRedactor
from harnesses.spending import Till
from harnesses.step import Step
from harnesses.ticks import TickBook
from orchestrator.approvals import Approvals, Asker
from orchestrator.children import Family
from orchestrator.codec import encode_step
from orchestrator.correspondence import Correspondence, Sender
from orchestrator.failure import contained, parted
from orchestrator.mailbox import Mailbox
from orchestrator.output import Output
from orchestrator.post import PostOffice
from orchestrator.recorder import Recorder
from orchestrator.redaction import LARGE, weight
from orchestrator.savings import Savings
from orchestrator.slot import Slot, settled
from orchestrator.store.protocol import ConsumedRow, EffectRow, StepRow
from orchestrator.within import enter_attempt

_row: Callable[[type[StepRow], tuple[object, ...]], StepRow] = cast(Any, tuple).__new__
"""Makes a `StepRow` without the call in between."""

_REFUSALS = (MailboxFull, UnknownHarness, RecordTooLarge)
"""What a step sends cannot be put in a mailbox: the step is not recorded, and may be made again."""


@frozen
class Exit:
    """How an attempt ended: with an ending, or with an error."""

    ending: Ending | None = None
    error: BaseException | None = None
    lost: bool = False
    """Whether the error is that a step could not be recorded: the store, or the harness, is lost to this run."""


class Actor(Slot):
    """The `Runtime` of one attempt, and its place in the recorder's channel.

    Args:
        number, epoch: the store's name for the harness, and for its ownership.
        post: takes messages.
        savings: what the last snapshot weighed, and what has been recorded since.
        effects: those of the step being made; it outlives attempts.
        check_latch: raises `Latched` if no effect of the harness called so may begin.
        till: where its spends are charged.
        charger: where what its agents report is charged.
        governor: who watches its steps.
        approvals: where people are asked.
        family: the harnesses that it has started.
        rule: says which effects need an approval.
        redacted: whether secrets are taken out of what is recorded.
        most: bytes that one record may have.
    """

    __slots__ = (
        "_approvals",
        "_attached",
        "_attached_characters",
        "_attempt",
        "_check_latch",
        "_epoch",
        "_exit",
        "_family",
        "_harness",
        "_lost",
        "_mail",
        "_mailbox",
        "_most",
        "_number",
        "_output",
        "_post",
        "_recorder",
        "_redacted",
        "charger",
        "clock",
        "control",
        "effects",
        "governor",
        "meter",
        "name",
        "resumed",
        "rule",
        "savings",
        "till",
    )

    def __init__(
        self,
        recorder: Recorder,
        harness: BaseHarness[Any, Any, Any],
        *,
        name: str,
        number: int,
        epoch: int,
        attempt: int,
        control: Control,
        mailbox: Mailbox,
        post: PostOffice,
        savings: Savings,
        effects: Effects,
        check_latch: Callable[[str], None],
        clock: WallClock,
        till: Till | None = None,
        charger: Charger | None = None,
        governor: Governor | None = None,
        approvals: Approvals,
        family: Family,
        rule: ApprovalRule | None = None,
        redacted: bool = True,
        most: int = MAX_RECORD_BYTES,
    ) -> None:
        super().__init__()
        self._most = most
        self.name = name
        self._redacted = redacted
        self.control = control
        self.resumed = True
        self.savings = savings
        self._recorder = recorder
        self._harness = harness
        self._number, self._epoch, self._attempt = number, epoch, attempt
        self._mailbox = mailbox
        self._post = post
        self._mail: Correspondence | None = None
        self.effects = effects
        self.clock = clock
        self._check_latch = check_latch
        self.till = till
        self.charger = charger
        self.meter = meter_of(till, control)
        self.governor = governor
        if governor is not None:
            governor.restore(savings.governance, lambda: harness.state)
        self._attached: list[Attachment] | None = None
        self._attached_characters = 0
        self._approvals = approvals
        self._family = family
        self.rule = rule
        self._exit: Exit | None = None
        self._lost = False
        self._output: Output | None = None

    def run(self) -> Awaitable[Exit]:
        """Run one attempt to its end. Raises nothing but `Cancelled`, and that only for a cancellation from outside.

        A plain function: where nothing is metered there is no frame in between, for as long as the harness lives.
        """
        return self._run() if self.meter is None or not self.meter.is_timed else self._run_metered(self.meter)

    async def _run_metered(self, meter: Meter) -> Exit:
        async with trio.open_nursery() as beside:
            beside.start_soon(meter.extend)
            exit = await self._run()
            beside.cancel_scope.cancel()
        return exit

    async def _run(self) -> Exit:
        try:
            async with trio.open_nursery() as own:
                self.control.attach(own.cancel_scope)
                own.start_soon(self._attempt_once, name=self.name)
        except BaseException as error:
            # Trio ends a task that leaves a nursery open with an error of its own, past every handler in the task. And a
            # scope that was left open lets its `Cancelled` out.
            if trio.current_effective_deadline() == -inf:
                raise
            if self._exit is None or self._exit.error is None:
                self._exit = Exit(error=located(_leaked(error), f"harness {self.name!r}"))
        finally:
            self._mailbox.put_back()
        if self._exit is None:
            self._exit = self._exit_after_cancellation()
        if self._exit.error is not None:
            self._exit = evolve(self._exit, error=contained(self._exit.error))
        return self._exit

    def _exit_after_cancellation(self) -> Exit:
        """Return what the loop had decided before its clean-up was cancelled, or what the cancellation stands for."""
        control = self.control
        error = control.failure or (control.why_cancelled() if control.ending is None else None)
        if error is None:
            return Exit(ending=control.ending or Ending.STOPPED)
        return Exit(error=located(error, f"harness {self.name!r}, step {self._harness.current_step + 1}"))

    async def _attempt_once(self) -> None:
        enter_attempt(self.control)
        try:
            self._exit = Exit(ending=await self._harness.run(self))
        except BaseException as error:
            cancelled, rest = parted(error)
            if rest is not None:
                self._exit = Exit(error=rest, lost=self._lost)
            if cancelled is not None:
                raise cancelled from None

    async def commit(self, step: Step[Any, Any], delta: Delta, state: Callable[[], object]) -> None:
        """Return when the step is on disk; see `Runtime.commit`."""
        try:
            ticks = self.savings.ticks
            kept = None if ticks is None else ticks.as_data()
            governance = None if self.governor is None else self.governor.kept()
            used = tuple(self._mailbox.taken) if self._mailbox.taken else ()
            body = encode_step(
                step,
                delta,
                kept,
                governance,
                took_us=self.control.watch.took_us(),
                consumed=[message.seq for message in used] if used else (),
                most=self._most,
            )
            saved = self.savings.snapshot(body, delta, state)
            if saved is not None:
                check_size("its state", saved, self._most)
        except Unstorable as error:
            raise located(error, f"harness {self.name!r}, step {step.step_number}") from error
        time_us = int(step.timestamp.timestamp() * 1e6 + 0.5)
        self.row = _row(StepRow, (self._number, self._epoch, self._attempt, step.step_number, time_us, body, saved))
        if used:
            self.consumed = tuple(ConsumedRow(message.seq, self._number, step.step_number) for message in used)
        if self._attached:
            self.notes = tuple(self._row_of(attached.kind, attached.body, step.step_number) for attached in self._attached)
            self._attached = None
        mail = self._mail
        sent = None if mail is None else mail.outgoing(step.step_number, time_us)
        if sent is not None:
            self.sent = sent
        if self._output is not None:
            self._output.begin_recording()
        self.redacted = self._redacted
        try:
            if self.redacted and weight(self) > LARGE:
                await self._recorder.redact_aside(self)
            await self._sent(self)
        except BaseException as error:
            self._lost = not isinstance(error, _REFUSALS)
            if saved is not None:
                self.savings.miss()
            raise
        self.row, self.notes = None, ()
        if self._family.expected:
            self._family.settle()
        if governance is not None:
            self.savings.governance = governance
        if self._output is not None:
            for line, lines in self._output.end_recording():
                self._log_soon(line, lines, step.step_number + 1)
        if ticks is not None and kept is not None:
            ticks.settle(kept)
        if used:
            self.consumed = ()
            self._mailbox.settle(used)
        if mail is not None:
            self.sent = None
            mail.settle(sent)

    @property
    def ticks(self) -> TickBook:
        """How far its tickers have come."""
        if self.savings.ticks is None:
            self.savings.ticks = TickBook()
        return self.savings.ticks

    def attach(self, attached: Attachment) -> None:
        """Have something recorded in one commit with the next step."""
        if self._attached is None:
            self._attached, self._attached_characters = [], 0
        # What a governor has found comes when the step is made: there is always room for it.
        if len(self._attached) >= MAX_ATTACHED and attached.kind != "guardrail":
            raise HarnessMisuse(f"attach: expected at most {MAX_ATTACHED} to one step; yield in between")
        self._attached_characters += len(attached.body)
        if self._attached_characters > self._most and attached.kind != "guardrail":
            raise HarnessMisuse(f"attach: expected at most {self._most:,} characters to one step; yield in between")
        self._attached.append(attached)

    def start_child(self, order: ChildOrder) -> str:
        """Have a harness started with the next step; return its name."""
        return self._family.order(order, self.attach)

    def end_attempt(self) -> None:
        """Give back what was taken for a step that was not recorded."""
        self._family.drop()
        self._output = self._attached = None
        if self._mail is not None:
            self._mail.end_attempt()
        self.effects.end_attempt()
        if self.savings.ticks is not None:
            self.savings.ticks.put_back()

    async def note(self, kind: str, body: str) -> None:
        """Return when an intent or an outcome is on disk; see `Journal.note`."""
        try:
            await self._sent(self._noting(kind, body))
        except BaseException:
            self._lost = True
            raise

    def note_soon(self, kind: str, body: str) -> None:
        """Have an outcome recorded without waiting."""
        self._recorder.enqueue_soon(self._noting(kind, body))

    def log(self, line: str, source: str = "") -> None:
        """Have a line of output recorded without waiting."""
        if self._output is None:
            self._output = Output(self._log_soon, redacted=self._redacted)
        self._output.write(line, source)

    def _log_soon(self, body: str, lines: LineRedactor, step: int | None = None) -> None:
        slot = self._noting("output", body, step)
        slot.redacted, slot.lines = self._redacted, lines
        self._recorder.enqueue_soon(slot)

    async def approve(self, key: str, action: Action) -> Grant:
        """Return when a person has approved an action of the step being made; see `Journal.approve`."""
        asker = Asker(self.name, self._number, self._epoch, self._attempt, self.control, self.meter)
        return await self._approvals.wait(asker, self._harness.current_step + 1, key, action)

    def check_latch(self) -> None:
        """Raise `Latched` if no effect may begin."""
        self._check_latch(self.name)

    def _noting(self, kind: str, body: str, step: int | None = None) -> Slot:
        slot = Slot()
        slot.effect = self._row_of(kind, body, step or self._harness.current_step + 1)
        return slot

    def _row_of(self, kind: str, body: str, step: int) -> EffectRow:
        return EffectRow(self._number, self._epoch, self._attempt, step, time.time_ns() // 1000, body, kind)

    def _sent(self, slot: Slot) -> Awaitable[object]:
        """Have a row committed; return what to await for that. A plain function: a step passes here."""
        if self._recorder.commit_now(slot):
            return trio.lowlevel.cancel_shielded_checkpoint()  # noqa: ASYNC105 - the caller awaits it
        self._recorder.enqueue(slot)
        return settled()

    async def sleep(self, seconds: float) -> None:
        """Sleep, or raise `Stopping` as soon as the harness is to stop."""
        await self.control.sleep(seconds)

    @property
    def mail(self) -> Correspondence:
        """The messages of this attempt."""
        if self._mail is None:
            step, starting = lambda: self._harness.current_step + 1, lambda: self._family.expected
            of = Sender(self.name, self._number, step, self.log, self._attach_body, starting)
            self._mail = Correspondence(self._post, self._mailbox, of, self.control)
        return self._mail

    def _attach_body(self, kind: str, body: str) -> None:
        self.attach(Attachment(kind, body))


def _leaked(error: BaseException) -> BaseException:
    if parted(error)[0] is not None or "stack corrupted" in repr(error):
        return ScopeError(
            "execute() left a cancel scope or nursery open: expected the generator that opened it to close it; "
            "use `with` and `async with`, and let it end before execute() does"
        )
    return error
