"""`AgentServices`: what one agent call may use of its harness: effects, budget, streamed events and spans.

Invariant: the keys of its effects begin with the scope of the call, so that no two calls share a record and a resumed attempt
finds its own; see `harnesses.effects.effect_scopes`.

The services of an agent that is awaited alone keep everything in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from copy import copy
from typing import Any, Protocol

from attrs import evolve
from trio.lowlevel import cancel_shielded_checkpoint

from harnesses.agent_spans import NO_SPAN, AgentSpan, NoSpan, SpanSink
from harnesses.attachments import Attachment, attachment, turns_of
from harnesses.budgets.budget import NOTHING, UNLIMITED, Budget, Spend
from harnesses.budgets.spending import BudgetAccount, Spending, limits, settled_here
from harnesses.budgets.usage import overspent
from harnesses.control import Control
from harnesses.effects.approval import Action, ApprovalRule, Grant, action_of
from harnesses.effects.effect import Effect, EffectOutcome, Journal
from harnesses.effects.effect_scopes import scope_of, scoped
from harnesses.effects.once import Effects
from harnesses.errors import BudgetExhausted, HarnessError, HarnessMisuse, Waiting, located

_TURN = Spend(turns=1)


class EffectServices(Journal, Protocol):
    """The part of a `Runtime` that effects need."""

    effects: Effects
    control: Control

    @property
    def till(self) -> BudgetAccount | None: ...

    def attach(self, attached: Attachment) -> None: ...

    @property
    def rule(self) -> ApprovalRule | None: ...


async def run_effect(
    runtime: EffectServices,
    where: Callable[[], str],
    key: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    approval: Action | str | None = None,
    **how: Any,
) -> Any:
    """Run an effect of the step in progress; see `BaseHarness.once`.

    Args:
        where: names the harness and the step, for error messages.
    """
    needed = approval
    if needed is None and runtime.rule is not None:
        needed = runtime.rule(key, args)
    if needed is not None:
        how["approval"] = action_of(key, needed)
    since = runtime.control.watch.begin()
    try:
        return await runtime.effects.once(runtime, key, function, args, **how)
    except HarnessError as error:
        named = located(error, where())
        if named is error:
            raise
        raise named from error.__cause__
    finally:
        runtime.control.watch.end("effects", since)


class AgentServices:
    """The services of one agent call.

    Args:
        agent: name of the agent.
        scope: prefix of the keys of its effects; see `scope_of`.
        runtime: services of the harness; None for an agent that is awaited alone.
        where: names the harness and the step, for error messages.
        tell: called with each streamed event, the name of the agent and the scope of the call; must neither wait nor raise.
        spans: called with each span that has ended; None without telemetry.
    """

    __slots__ = ("_calls", "_runtime", "_spans", "_tell", "_where", "agent", "is_taken", "owes_turn", "scope")

    def __init__(
        self,
        agent: str,
        scope: str = "",
        runtime: EffectServices | None = None,
        *,
        where: Callable[[], str] | None = None,
        tell: Callable[[object, str, str], None] | None = None,
        spans: SpanSink | None = None,
    ) -> None:
        self.agent = agent
        self.scope = scope or scope_of(agent, 1)
        self.is_taken = False
        """Whether an `AgentRun` has these services: further agents called below it get services of their own."""
        self.owes_turn = False
        """Whether the agent charges its turns itself; see `AgentRun.turn`."""
        self._runtime: EffectServices = runtime or _Alone(agent)
        self._where = where or (lambda: f"agent {agent!r}")
        self._tell = tell
        self._spans = spans
        self._calls: dict[str, int] | None = None

    async def once(self, key: str, function: Callable[..., Any], args: tuple[Any, ...], **how: Any) -> Any:
        """Run an effect of this call; see `AgentRun.once`."""
        runtime, stored = self._runtime, self._scoped(key)
        await runtime.control.wait_resumed()
        if runtime.till is not None and runtime.effects.recorded(stored) is None:
            why = overspent(runtime.till.accounts())
            if why:
                raise BudgetExhausted(why)
        return await run_effect(runtime, self._where, stored, function, args, **how, of_agent=True)

    def recorded(self, key: str) -> Effect | None:
        """Return one recorded effect of this call; see `AgentRun.recorded`."""
        return self._runtime.effects.recorded(self._scoped(key))

    def is_confused(self, key: str, belongs: Callable[[Effect], bool]) -> bool:
        """Return whether this call may have got the record of another; see `AgentRun.is_confused`."""
        effects = self._runtime.effects
        others = effects.beside(self.scope, key)
        return any(effects.is_running(scope) or (record is not None and belongs(record)) for scope, record in others.items())

    def spending(self, most: Spend, on_cutoff: Spend | None) -> Spending:
        """Reserve budget for an `async with` block; see `AgentRun.spending`."""
        return Spending(self._runtime.till, most, self._runtime.control.watch, on_cutoff=on_cutoff)

    def turn(self) -> Spending:
        """Charge a turn; see `AgentRun.turn`."""
        spend = Spending(self._runtime.till if self.owes_turn else None, _TURN, self._runtime.control.watch, on_cutoff=NOTHING)
        spend.settle(turns=1, wait=False)
        return spend

    async def give_up(self, key: str, why: str) -> bool:
        """Record that this call fails, or return that it is tried again; see `AgentRun.give_up`."""
        known = self.recorded(key)
        if known is not None and known.outcome is EffectOutcome.NOT_DONE:
            return True
        await self.once(key, lambda: why, (), idempotent=True)
        self._runtime.effects.give_up(self._scoped(key))
        return False

    @property
    def limits(self) -> Budget:
        """The tightest limits of the call; see `AgentRun.limits`."""
        till = self._runtime.till
        return UNLIMITED if till is None else evolve(limits(till), **dict.fromkeys(settled_here()))

    def attach(self, kind: str, value: object) -> None:
        """Record something beside the step in progress; see `AgentRun.attach`."""
        self._runtime.attach(attachment(kind, value))

    def session(self, id: str) -> tuple[Mapping[str, object], ...]:
        """Return the recorded turns of a conversation; see `AgentRun.session`."""
        # An older runtime has none.
        read = getattr(self._runtime, "session", None)
        return () if read is None else tuple(read(id))

    async def ask(self, to: str, message: object, timeout_s: float, key: str) -> Any:
        """Ask another harness; see `AgentRun.ask`."""
        mail = getattr(self._runtime, "mail", None)
        if mail is None:
            raise HarnessMisuse(
                f"agent {self.agent!r} runs alone: it cannot ask {to!r}; call it with run_agent() of a harness"
            )
        return await mail.ask(to, message, timeout_s, scoped(self.scope, key))

    @property
    def model_override(self) -> str:
        """The model to ask instead of an agent's own; see `AgentRun.model_override`."""
        return getattr(self._runtime, "model_override", "")

    def tell(self, event: object) -> None:
        """Pass a streamed event on; see `AgentRun.tell`."""
        if self._tell is not None:
            self._tell(event, self.agent, self.scope)

    def watched_by(self, watch: Callable[[object], None]) -> AgentServices:
        """Return these services, whose events are also passed to `watch`."""
        tell = self._tell

        def both(event: object, agent: str, scope: str) -> None:
            watch(event)
            if tell is not None:
                tell(event, agent, scope)

        watched = copy(self)
        watched._tell = both
        return watched

    def span(self, name: str, attributes: Mapping[str, str | int | float | bool]) -> AgentSpan | NoSpan:
        """Return a context manager for a part of this call; see `AgentRun.span`."""
        return NO_SPAN if self._spans is None else AgentSpan(name, dict(attributes), self.scope, self._spans)

    def below(self, agent: str) -> AgentServices:
        """Return the services for the next call of another agent by this one."""
        if self._calls is None:
            self._calls = {}
        number = self._calls[agent] = self._calls.get(agent, 0) + 1
        scope = f"{self.scope}{scope_of(agent, number)}"
        services = AgentServices(agent, scope, self._runtime, where=self._where, tell=self._tell, spans=self._spans)
        services.is_taken = True
        return services

    def _scoped(self, key: str) -> str:
        # A key that is no text, or empty, is refused by `once`.
        return scoped(self.scope, key) if isinstance(key, str) and key else key  # pyright: ignore[reportUnnecessaryIsInstance]


_current: ContextVar[AgentServices | None] = ContextVar("harnesses.agent_services", default=None)
enter_services = _current.set
leave_services = _current.reset


def take_services(agent: str) -> AgentServices | None:
    """Return the services for an `AgentRun` that begins in this task; None outside of any harness."""
    services = _current.get()
    if services is None or services.is_taken:
        return None if services is None else services.below(agent)
    services.is_taken = True
    return services


class _Alone:
    """In-memory services of an agent that is awaited alone."""

    till = rule = None

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self.effects = Effects()
        self.control = Control()
        self._attached: list[Attachment] = []

    def attach(self, attached: Attachment) -> None:
        self._attached.append(attached)

    def session(self, id: str) -> tuple[Mapping[str, object], ...]:
        return turns_of(self._attached, id)

    async def note(self, kind: str, body: str) -> None:
        await cancel_shielded_checkpoint()

    def note_soon(self, kind: str, body: str) -> None: ...

    async def redact(self, text: str) -> str:
        return text

    async def approve(self, key: str, action: Action) -> Grant:
        raise Waiting(
            f"{key!r} needs an approval ({action.category}: {action.summary}), and agent {self._agent!r} runs alone: "
            "call it with run_agent() of a harness in an Orchestrator"
        )

    def check_latch(self) -> None: ...
