"""`Runtime`: the services that a harness uses, and the in-memory ones of a harness that runs alone.

`harnesses` never imports `orchestrator`: the orchestrator passes in its own durable `Runtime`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import Any, Protocol, TypeAlias

import trio
from trio.lowlevel import cancel_shielded_checkpoint

from harnesses.agent_bill import Charger
from harnesses.agent_spans import SpanSink
from harnesses.attachments import MAX_ATTACHED, Attachment, turns_of
from harnesses.budgets.budget import UNLIMITED, Budget
from harnesses.budgets.spending import BudgetAccount, LocalBudgetAccount
from harnesses.budgets.step_meter import Meter, meter_of
from harnesses.config import ChildOrder
from harnesses.control import Control
from harnesses.data.delta import Delta
from harnesses.effects.approval import Action, ApprovalRule, Grant
from harnesses.effects.effect import Journal
from harnesses.effects.once import Effects
from harnesses.errors import ApprovalDenied, HarnessMisuse, Waiting
from harnesses.governor import Governor
from harnesses.messages.local_mailbox import LocalMail
from harnesses.messages.requests import Request
from harnesses.step import NewStep
from harnesses.timing.clock import WallClock
from harnesses.timing.interval import TickBook

Approver: TypeAlias = Callable[[str, Action], bool | Awaitable[bool]]


class Mail(Protocol):
    """The messages of one attempt; those sent in the step in progress are held until it is recorded."""

    async def receive(self, kinds: Sequence[type], *, in_execute: bool) -> Any:
        """Take the oldest message, of one of these types if any are given, waiting for one.

        Args:
            in_execute: whether the waiting task is the one that runs `execute()`, so that no step can be made meanwhile.

        Raises:
            Stopping: the harness is being stopped.
            HarnessMisuse: `execute()` would wait while it has unsent messages.
        """
        ...

    def receive_nowait(self, kinds: Sequence[type]) -> Any:
        """Take the oldest message from the mailbox; raises `trio.WouldBlock` if there is none."""
        ...

    async def send(self, to: str, message: object) -> None:
        """Queue a message for the harness called `to`, sent with the step in progress."""
        ...

    async def ask(self, to: str, message: object, timeout_s: float, key: str) -> Any:
        """Send a request to the harness called `to` and return its reply."""
        ...

    def reply(self, request: Request, answer: object) -> None:
        """Queue a reply, sent with the step in progress."""
        ...

    @property
    def unsent(self) -> Sequence[str]:
        """Recipients of messages that no step has sent yet."""
        ...


class Runtime(Journal, Protocol):
    """The services of one attempt of a harness."""

    name: str
    """The harness's durable name."""
    control: Control
    """Where orders to this attempt arrive."""
    effects: Effects
    """The effects of the step in progress."""
    clock: WallClock
    """The wall clock."""
    resumed: bool
    """Whether the harness was restored from a store: if it is already complete, it then ends without another step."""

    @property
    def till(self) -> BudgetAccount | None:
        """The account its spends are charged to; None if it has no budget."""
        ...

    @property
    def charger(self) -> Charger | None:
        """Charges the usage of its agents; None if usage is not recorded."""
        ...

    @property
    def meter(self) -> Meter | None:
        """Reserves budget and working time for its steps; None without limits."""
        ...

    @property
    def ticks(self) -> TickBook:
        """The positions of its tickers."""
        ...

    @property
    def governor(self) -> Governor | None:
        """The guardrails that watch its steps; None if there are none."""
        ...

    def attach(self, attached: Attachment) -> None:
        """Store an attachment in the same commit as the next step."""
        ...

    def start_child(self, order: ChildOrder) -> str:
        """Start another harness with the next step; return its name."""
        ...

    @property
    def rule(self) -> ApprovalRule | None:
        """Decides which effects need human approval, in addition to those that request it themselves."""
        ...

    def has_asked(self) -> bool:
        """Return whether an approval was requested for the step in progress, in this attempt or an earlier one."""
        ...

    def end_attempt(self) -> None:
        """Release what was taken for an unrecorded step: the attempt is over."""
        ...

    async def commit(self, step: NewStep[object, object], delta: Delta, state: Callable[[], object]) -> None:
        """Record the step and wait until it is stored. Never raises `Cancelled`, so a yielded step is never in doubt.

        Args:
            delta: the state changes since the previous step, by value.
            state: returns the whole state after the step, for a snapshot.
        """
        ...

    def log(self, line: str, source: str = "") -> None:
        """Record a line of output, without waiting. `source` names what wrote it."""
        ...

    def tell(self, event: object, agent: str, call: str) -> None:
        """Pass on a streamed event of a call of an agent. Neither waits nor raises."""
        ...

    @property
    def spans(self) -> SpanSink | None:
        """Called with each span of an agent call that has ended; None without telemetry."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep on Trio's clock; raises `Stopping` as soon as the harness is stopped."""
        ...

    @property
    def mail(self) -> Mail:
        """The messages of this attempt; made when they are first asked for."""
        ...

    @property
    def unsent(self) -> Sequence[str]:
        """Recipients of the messages that no step has sent yet."""
        ...


class LocalRuntime:
    """Runtime of a harness that runs alone: nothing is durable, and its mailbox is in memory.

    Args:
        budget: what the harness may spend during the lifetime of this object.
        governor: guardrails that watch its steps.
        rule: decides which effects need an approval.
        approver: called with the key and the action to approve; returns whether it is approved. Without it, an effect that
            needs approval blocks the harness.
        after: the runtime of an earlier run, whose effect records are taken over.
    """

    def __init__(
        self,
        name: str,
        control: Control | None = None,
        *,
        budget: Budget | None = None,
        governor: Governor | None = None,
        rule: ApprovalRule | None = None,
        approver: Approver | None = None,
        after: LocalRuntime | None = None,
    ) -> None:
        self.name = name
        self.control = control or Control()
        self.effects: Effects = Effects() if after is None else after.effects
        self.clock = WallClock()
        self.ticks = TickBook()
        self.till: LocalBudgetAccount | None = None if budget is None else LocalBudgetAccount(name, budget)
        self.charger: LocalBudgetAccount = self.till or LocalBudgetAccount(name, UNLIMITED)
        # No other spender: all the working time that is left is one slice.
        self.meter: Meter | None = meter_of(self.till, self.control, slice_s=inf)
        self.resumed = False
        self.governor = governor
        self.rule = rule
        self.spans: SpanSink | None = None
        self._approver = approver
        self.attached: list[tuple[int, Attachment]] = []
        """What was attached to each step, by its number."""
        self._attaching: list[Attachment] = []
        self.mail = LocalMail(name, self.control)

    @property
    def unsent(self) -> Sequence[str]:
        return self.mail.unsent

    async def commit(self, step: NewStep[object, object], delta: Delta, state: Callable[[], object]) -> None:
        """Yield to the other tasks; nothing is stored."""
        self.ticks.settle()
        self.mail.settle()
        self.attached += [(step.step_number, attached) for attached in self._attaching]
        self._attaching.clear()
        await cancel_shielded_checkpoint()

    def end_attempt(self) -> None:
        """Forget what an attempt left unfinished: reservations, ticks, messages and attachments."""
        self.effects.end_attempt()
        self.ticks.put_back()
        self.mail.end_attempt()
        self._attaching.clear()
        if self.till is not None:
            self.till.end_attempt()

    async def note(self, kind: str, body: str) -> None:
        """Yield to the other tasks; intents and outcomes are kept in memory for the lifetime of this object."""
        await cancel_shielded_checkpoint()

    def note_soon(self, kind: str, body: str) -> None:
        """Do nothing."""

    async def redact(self, text: str) -> str:
        """Return the text: nothing of it is stored."""
        return text

    def log(self, line: str, source: str = "") -> None:
        """Do nothing."""

    def tell(self, event: object, agent: str, call: str) -> None:
        """Do nothing."""

    def attach(self, attached: Attachment) -> None:
        """Keep an attachment for the next step.

        Raises:
            HarnessMisuse: one step has too many.
        """
        if len(self._attaching) >= MAX_ATTACHED and attached.kind != "guardrail":
            raise HarnessMisuse(f"attach: expected at most {MAX_ATTACHED} to one step, got one more; yield in between")
        self._attaching.append(attached)

    def session(self, id: str) -> tuple[Mapping[str, object], ...]:
        """Return the recorded turns of a conversation; see `AgentRun.session`."""
        return turns_of([*(attached for _, attached in self.attached), *self._attaching], id)

    def start_child(self, order: ChildOrder) -> str:
        """Refuse: a harness that runs alone has no children.

        Raises:
            HarnessMisuse: always.
        """
        raise HarnessMisuse(
            f"start_child {order.name!r}: {self.name!r} runs alone and cannot start children: "
            f"start {self.name!r} in an Orchestrator"
        )

    async def approve(self, key: str, action: Action) -> Grant:
        """Ask the `approver` and return its approval.

        Raises:
            Waiting: there is no `approver`.
            ApprovalDenied: it did not return True.
        """
        if self._approver is None:
            raise Waiting(
                f"{key!r} needs an approval ({action.category}: {action.summary}), and {self.name!r} runs alone: "
                "start it in an Orchestrator, or give its LocalRuntime an `approver`"
            )
        self.control.park()
        try:
            answer = self._approver(key, action)
            given = await answer if isinstance(answer, Awaitable) else answer
        finally:
            self.control.unpark()
        if given is not True:
            raise ApprovalDenied(f"{key!r}: {action.summary}: approval was denied")
        return Grant("", "approver")

    def has_asked(self) -> bool:
        """Return False: what was asked of an approver does not outlive the attempt."""
        return False

    def check_latch(self) -> None:
        """Do nothing: a harness that runs alone has no kill switch."""

    async def sleep(self, seconds: float) -> None:
        """Sleep, or raise `Stopping` as soon as the harness is stopped."""
        await self.control.sleep(seconds)

    async def send(self, to: str, message: object) -> None:
        """Put a message in the mailbox at once, as an operator does."""
        self.mail.check(to)
        self.mail.deliver([message])
        await trio.lowlevel.checkpoint()

    async def receive(self) -> object:
        """Take the oldest message from the mailbox, waiting for one."""
        return await self.mail.receive((), in_execute=False)

    def receive_nowait(self) -> object:
        """Take the oldest message from the mailbox; raises `trio.WouldBlock` if there is none."""
        return self.mail.receive_nowait(())
