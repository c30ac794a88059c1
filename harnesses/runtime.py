"""What a harness may ask of its surroundings, and the surroundings it has when it is run alone.

`harnesses` never imports `orchestrator`: the orchestrator hands in a `Runtime` of its own, durable where this one is not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Any, Protocol, TypeAlias

import trio
from trio.lowlevel import cancel_shielded_checkpoint

from harnesses.agent_bill import Charger
from harnesses.attachments import MAX_ATTACHED, Attachment
from harnesses.budgets.budget import UNLIMITED, Budget
from harnesses.budgets.spending import BudgetAccount, LocalBudgetAccount
from harnesses.budgets.step_meter import Meter, meter_of
from harnesses.config import ChildOrder
from harnesses.control import Control
from harnesses.data.delta import Delta
from harnesses.effects.approval import Action, Grant
from harnesses.effects.effect import Journal
from harnesses.effects.once import Effects
from harnesses.errors import ApprovalDenied, HarnessMisuse, Waiting
from harnesses.governor import Governor
from harnesses.messages.local_mailbox import LocalMail
from harnesses.messages.requests import Request
from harnesses.step import Step
from harnesses.timing.clock import WallClock
from harnesses.timing.interval import TickBook

ApprovalRule: TypeAlias = Callable[[str, tuple[Any, ...]], Action | str | None]
"""Gets key and arguments of an effect; returns the action that has to be approved, or its category, or None."""
Approver: TypeAlias = Callable[[str, Action], bool | Awaitable[bool]]


class Mail(Protocol):
    """The messages of one attempt of a harness: those that the step being made sends are kept until it is recorded."""

    async def receive(self, kinds: Sequence[type], *, in_execute: bool) -> Any:
        """Take the oldest message from the mailbox, of one of these types if any is named, waiting for one.

        Args:
            in_execute: whether the task that waits is the one that runs `execute()`, so that no step is made meanwhile.

        Raises:
            Stopping: the harness is to stop.
            HarnessMisuse: `execute()` would wait with messages that it has not sent yet.
        """
        ...

    def receive_nowait(self, kinds: Sequence[type]) -> Any:
        """Take the oldest message from the mailbox; raises `trio.WouldBlock` if there is none."""
        ...

    async def send(self, to: str, message: object) -> None:
        """Have a message put in the mailbox of the harness called `to`, with the step being made."""
        ...

    async def ask(self, to: str, message: object, timeout_s: float, key: str) -> Any:
        """Return what the harness called `to` replies."""
        ...

    def reply(self, request: Request, answer: object) -> None:
        """Have a reply sent with the step being made."""
        ...

    @property
    def unsent(self) -> Sequence[str]:
        """To whom messages are kept that no step has sent."""
        ...


class Runtime(Journal, Protocol):
    """The surroundings of one attempt of a harness."""

    name: str
    """The harness's durable name."""
    control: Control
    """Where orders to this attempt arrive."""
    effects: Effects
    """What has become of the effects of the step being made."""
    clock: WallClock
    """What says how late it is in the world."""
    resumed: bool
    """Whether the harness was restored from a store: one that is complete already then ends without another step."""

    @property
    def till(self) -> BudgetAccount | None:
        """Where its spends are charged; None if it has no budget."""
        ...

    @property
    def charger(self) -> Charger | None:
        """Where what its agents report is charged; None if that is not kept."""
        ...

    @property
    def meter(self) -> Meter | None:
        """What has its steps and its working time reserved; None if nothing limits them."""
        ...

    @property
    def ticks(self) -> TickBook:
        """How far its tickers have come."""
        ...

    @property
    def governor(self) -> Governor | None:
        """Who watches its steps; None if nobody does."""
        ...

    def attach(self, attached: Attachment) -> None:
        """Have something recorded in one commit with the next step."""
        ...

    def start_child(self, order: ChildOrder) -> str:
        """Have another harness started with the next step; return its name."""
        ...

    @property
    def rule(self) -> ApprovalRule | None:
        """Says which effects need a person's approval, besides those that say so themselves."""
        ...

    def end_attempt(self) -> None:
        """Give back what was taken for a step that was not recorded: the attempt is over."""
        ...

    async def commit(self, step: Step[object, object], delta: Delta, state: Callable[[], object]) -> None:
        """Return when the step is recorded. Never raises `Cancelled`: a yielded step is never in doubt.

        Args:
            delta: what changed since the previous step, by value.
            state: gives the whole state after the step, for a snapshot.
        """
        ...

    def log(self, line: str, source: str = "") -> None:
        """Have a line of output recorded, without waiting. `source` says whose it is."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep on Trio's clock; raises `Stopping` as soon as the harness is to stop."""
        ...

    @property
    def mail(self) -> Mail:
        """The messages of this attempt."""
        ...


class LocalRuntime:
    """Surroundings for a harness that runs alone: nothing is durable, and its mailbox is in memory.

    Args:
        budget: what the harness may spend while this object is used.
        governor: who watches its steps.
        rule: says which effects need an approval.
        approver: is asked for one, with the key and the action, and returns whether it is given. Without it nobody is there
            to ask: what needs an approval is blocked.
        after: the surroundings that it ran in before: what is known of its effects is taken over from there.
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
        # Nobody else spends from it, so all the working time that is left is one slice.
        self.meter: Meter | None = meter_of(self.till, self.control, slice_s=inf)
        self.resumed = False
        self.governor = governor
        self.rule = rule
        self._approver = approver
        self.attached: list[tuple[int, Attachment]] = []
        """What was attached to each step, by its number."""
        self._attaching: list[Attachment] = []
        self.mail = LocalMail(name, self.control)

    async def commit(self, step: Step[object, object], delta: Delta, state: Callable[[], object]) -> None:
        """Let the other tasks run."""
        self.ticks.settle()
        self.mail.settle()
        self.attached += [(step.step_number, attached) for attached in self._attaching]
        self._attaching.clear()
        await cancel_shielded_checkpoint()

    def end_attempt(self) -> None:
        self.effects.end_attempt()
        self.ticks.put_back()
        self.mail.end_attempt()
        self._attaching.clear()
        if self.till is not None:
            self.till.end_attempt()

    async def note(self, kind: str, body: str) -> None:
        """Let the other tasks run: intents and outcomes are kept in memory, for as long as this object is used."""
        await cancel_shielded_checkpoint()

    def note_soon(self, kind: str, body: str) -> None:
        """Do nothing."""

    def log(self, line: str, source: str = "") -> None:
        """Do nothing."""

    def attach(self, attached: Attachment) -> None:
        if len(self._attaching) >= MAX_ATTACHED and attached.kind != "guardrail":
            raise HarnessMisuse(f"attach: expected at most {MAX_ATTACHED} to one step; yield in between")
        self._attaching.append(attached)

    def start_child(self, order: ChildOrder) -> str:
        raise HarnessMisuse(
            f"start_child {order.name!r}: {self.name!r} runs alone, and nobody would run it: "
            f"start {self.name!r} in an Orchestrator"
        )

    async def approve(self, key: str, action: Action) -> Grant:
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
            stood_s = self.control.unpark()
            if self.meter is not None:
                self.meter.go_on(stood_s)
        if given is not True:
            raise ApprovalDenied(f"{key!r}: {action.summary}: it was denied")
        return Grant("", "approver")

    def check_latch(self) -> None:
        """Return: a harness that runs alone has no latch."""

    async def sleep(self, seconds: float) -> None:
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
