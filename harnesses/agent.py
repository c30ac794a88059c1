"""Agents: named async functions that a harness calls within a step, and the budget limits that apply to them.

    steps, turns, working_time_s    for every agent: the harness counts them itself
    tokens, tool_calls, money       for agents that report them: `Agent.reports`

Invariant: a limit that cannot be enforced is refused before anything starts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, Generic, TypeVar, cast, overload

from attrs import field, fields, frozen

from harnesses.agent_services import AgentServices, enter_services, leave_services, take_services
from harnesses.agent_spans import AgentSpan, NoSpan, SpanValue
from harnesses.budgets.budget import FIELDS, NOTHING, Budget, Spend
from harnesses.budgets.spending import Spending
from harnesses.budgets.usage import REPORTABLE, Usage
from harnesses.effects.approval import Action
from harnesses.effects.charged_intent import IntentCharge
from harnesses.effects.effect import Effect, Errors, Reconcile
from harnesses.errors import HarnessMisuse
from harnesses.messages.requests import ASK_TIMEOUT_S
from harnesses.step import Constraints, InputT, LoadedContext, OutputT, StateT, Step, no_constraints

AnswerT = TypeVar("AnswerT")


@frozen(kw_only=True, eq=False, slots=False)
class AgentRun(Generic[StateT, InputT]):
    """The arguments of one agent call."""

    input: InputT
    """What the agent is asked: the value that the harness gave to `run_agent`."""
    context: LoadedContext[StateT]
    """State, recent steps and knowledge of the calling harness."""
    step_number: int
    """The number of the step in progress."""
    step_history: Sequence[Step[Any, Any]] = ()
    """The recent steps, oldest first; `run_agent` bounds them by `max_context_steps`."""
    constraints: Constraints = field(factory=no_constraints)
    """The harness's constraints by name, which the agent's work must keep."""

    def __eq__(self, other: object) -> bool:
        """Return whether two runs carry the same input and context; their listeners are not compared."""
        if not isinstance(other, AgentRun):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(cast(object, other), each.name) for each in fields(AgentRun))

    def log(self, line: str) -> None:
        """Record a line of output while the step is in progress, and show it in the log."""

    def charge(self, usage: Usage, *, thread: str = "") -> None:
        """Report usage since the last report: it is charged at once, and the agent is cancelled when a limit is reached.

        Args:
            thread: id of a conversation that outlives this call; `usage` is then its running total, and only what has not been
                charged for it yet is charged.
        """

    def recall(self, usage: Usage) -> None:
        """Add usage that an earlier attempt at the step has charged to the usage of this call, without charging it again."""

    @overload
    async def once(
        self,
        key: str,
        function: Callable[..., Awaitable[AnswerT]],
        *args: Any,
        reconcile: Reconcile | None = None,
        idempotent: bool = False,
        timeout_s: float | None = None,
        approval: Action | str | None = None,
        errors: Errors = "raise",
        dangerous: bool = False,
        verbatim: Sequence[str] = (),
        charge: IntentCharge | None = None,
    ) -> AnswerT: ...

    @overload
    async def once(
        self,
        key: str,
        function: Callable[..., AnswerT],
        *args: Any,
        reconcile: Reconcile | None = None,
        idempotent: bool = False,
        timeout_s: float | None = None,
        approval: Action | str | None = None,
        errors: Errors = "raise",
        dangerous: bool = False,
        verbatim: Sequence[str] = (),
        charge: IntentCharge | None = None,
    ) -> AnswerT: ...

    async def once(
        self,
        key: str,
        function: Callable[..., Any],
        *args: Any,
        reconcile: Reconcile | None = None,
        idempotent: bool = False,
        timeout_s: float | None = None,
        approval: Action | str | None = None,
        errors: Errors = "raise",
        dangerous: bool = False,
        verbatim: Sequence[str] = (),
        charge: IntentCharge | None = None,
    ) -> Any:
        """Run an effect of this call as part of the step in progress, and return its result; see `BaseHarness.once`.

        Without a harness the function is called once for each key of this run, and nothing is stored.

        Args:
            key: identity of the effect within this agent call. Other calls of the same agent may use it too.
            idempotent: for what may be repeated if it is cut off, such as a model call. Its intent is stored without waiting,
                so that it costs one commit that is waited for; once its result is stored it is never repeated.
            verbatim: parts of the result that are stored as they are, although results are stored without secrets, since
                something else would be done if they were changed: `response.message.calls.arguments`. A name below a list is
                that of each item.
            charge: charged in the commit of the intent, unless the effect is on record: what a tool call counts for.
        """
        how: dict[str, Any] = {"reconcile": reconcile, "idempotent": idempotent, "timeout_s": timeout_s, "approval": approval}
        how |= {"errors": errors, "dangerous": dangerous, "verbatim": verbatim, "charge": charge}
        return await self._services().once(key, function, args, **how)

    def recorded(self, key: str) -> Effect | None:
        """Return the recorded effect of this call with that key; None if there is none. Only this one is decoded."""
        return self._services().recorded(key)

    def is_confused(self, key: str, belongs: Callable[[Effect], bool]) -> bool:
        """Return whether a recorded effect that is not of this call's input may be that of another call of the same agent.

        Calls without a key of their own are told apart by the order in which they begin, which a restart may change if they
        run side by side.

        Args:
            key: of the effect.
            belongs: whether the effect of another call is of this call's input.
        """
        return self._services().is_confused(key, belongs)

    def attach(self, kind: str, value: object) -> None:
        """Record something beside the step in progress, such as the transcript of a turn; see `BaseHarness.attach`."""
        self._services().attach(kind, value)

    def session(self, id: str) -> tuple[Mapping[str, object], ...]:
        """Return the recorded turns of a conversation of this harness, oldest first, as plain data.

        Turns before the last one with a compaction may be left out. `harnesses.agents.model.transcript` reads them.
        """
        return self._services().session(id)

    @property
    def model_override(self) -> str:
        """The model that agents ask instead of their own, `provider:model` or a name; empty for their own.

        A fork of a harness may have one, to see what another model would have done.
        """
        return self._services().model_override

    @property
    def scope(self) -> str:
        """The prefix of the keys of this call's effects, which identifies the call within the step: `coder#1/`."""
        return self._services().scope

    def spending(
        self,
        *,
        tokens: int = 0,
        money: Decimal = NOTHING.money,
        tool_calls: int = 0,
        turns: int = 0,
        on_cutoff: Spend | None = None,
    ) -> Spending:
        """Reserve budget for the duration of an `async with` block; see `BaseHarness.spending`."""
        most = Spend(turns=turns, tool_calls=tool_calls, tokens=tokens, money=money)
        return self._services().spending(most, on_cutoff)

    def turn(self) -> Spending:
        """Return an `async with` block that charges a turn, for agents that charge their turns themselves: `charges_turns`.

        The charge joins the next commit. Within the function of an effect that is the commit of its outcome, so that a turn
        resumed from its records is charged once.

        Raises:
            BudgetExhausted: on entering, if no turn is left. Do not catch it.
        """
        return self._services().turn()

    async def give_up(self, key: str, why: str) -> bool:
        """Record that this call fails, before the error is raised; or return that the harness has tried again since.

        After a kill or a stop the failure is still on record, so that the harness goes on as it did. If the attempt of the
        harness itself fails, its next one is told True, and may try again with keys of its own.

        Args:
            key: of the record, unique within the call.
        """
        return await self._services().give_up(key, why)

    @property
    def limits(self) -> Budget:
        """The tightest limits of the budgets that this call is charged to, but for what a `spending` block has reserved."""
        return self._services().limits

    async def ask(self, to: str, message: object, *, timeout_s: float = ASK_TIMEOUT_S, key: str) -> Any:
        """Send a request to the harness called `to` and return its reply, as plain data; see `BaseHarness.ask`.

        Args:
            key: identity of the question within this agent call: after a crash it is the same request, with the same reply.

        Raises:
            HarnessMisuse: the agent runs alone.
        """
        return await self._services().ask(to, message, timeout_s, key)

    def tell(self, event: object) -> None:
        """Pass on a streamed event, such as a piece of text, to whoever follows the harness. Neither waits nor raises."""
        self._services().tell(event)

    def watched_by(self, watch: Callable[[object], None]) -> AgentRun[StateT, InputT]:
        """Return this run, whose streamed events are also passed to `watch`, which must neither wait nor raise."""
        told: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(AgentRun)}
        services = self._services().watched_by(watch)
        return _HeardRun[StateT, InputT](**told, heard_by=self.log, charged_by=self.charge, services=services)

    def span(self, name: str, attributes: Mapping[str, SpanValue] | None = None) -> AgentSpan | NoSpan:
        """Return a context manager for a part of this call, such as a round, that telemetry shows as a span.

        Spans nest, also in tasks that the agent starts. Without telemetry it does nothing.
        """
        return self._services().span(name, attributes or {})

    def _services(self) -> AgentServices:
        return self._alone

    @cached_property
    def _alone(self) -> AgentServices:
        return AgentServices("")


@frozen(kw_only=True, eq=False)
class _HeardRun(AgentRun[StateT, InputT]):
    """An agent run with listeners for its output lines and usage reports, and the services of a harness."""

    heard_by: Callable[[str], None] | None = field(repr=False)
    charged_by: Callable[..., None] | None = field(repr=False)
    services: AgentServices | None = field(repr=False)

    def log(self, line: str) -> None:
        if self.heard_by is not None:
            self.heard_by(line)

    def charge(self, usage: Usage, *, thread: str = "") -> None:
        if self.charged_by is not None:
            self.charged_by(usage, thread=thread)

    def recall(self, usage: Usage) -> None:
        # Only a bill of `run_agent` knows of attempts.
        if (recall := getattr(getattr(self.charged_by, "__self__", None), "recall", None)) is not None:
            recall(usage)

    def _services(self) -> AgentServices:
        return self.services or self._alone


class Agent(Generic[StateT, InputT, OutputT]):
    """A named async function of one `AgentRun`.

    Args:
        run: awaited once for each call of `Agent.run`; its exceptions propagate to the caller.
        name: shown in logs and records.
        is_complete: called by `Agent.is_complete`; without it the answer is False.
        reports: which of `tokens`, `tool_calls` and `money` the agent reports through `AgentRun.charge`, or as the `usage` of
            its answer. A limit on any other is refused when the harness starts.
    """

    charges_turns = False
    """Whether it charges its turns itself, through `AgentRun.turn`, because it resumes them after a restart."""
    remedy = ""
    """What to do if a limit cannot be enforced for the agent because it does not report it; for the error message."""

    def __init__(
        self,
        run: Callable[[AgentRun[StateT, InputT]], Awaitable[OutputT]],
        *,
        name: str = "Agent",
        is_complete: Callable[[StateT], bool] | None = None,
        reports: Iterable[str] = (),
    ) -> None:
        self.reports = checked_reports(name, reports)
        """The budget limits that can be enforced for this agent, because it reports its usage of them."""
        self._run = run
        self.name = name
        self._is_complete = is_complete

    def __repr__(self) -> str:
        return f"<Agent {self.name!r}>"

    async def run(
        self,
        *,
        input: InputT,
        context: LoadedContext[StateT],
        step_number: int,
        step_history: Sequence[Step[Any, Any]] = (),
        constraints: Constraints | None = None,
        log: Callable[[str], None] | None = None,
        charge: Callable[..., None] | None = None,
    ) -> OutputT:
        """Run the agent once and return its answer.

        Args:
            log: called with each line of output.
            charge: called with each usage report; see `AgentRun.charge`.
        """
        told: dict[str, Any] = {
            "input": input,
            "context": context,
            "step_number": step_number,
            "step_history": step_history,
            "constraints": {} if constraints is None else constraints,
        }
        services = take_services(self.name)
        if services is None:
            if log is None and charge is None:
                return await self.answer(AgentRun(**told))
            return await self.answer(_HeardRun(**told, heard_by=log, charged_by=charge, services=None))
        token = enter_services(services)
        try:
            return await self.answer(_HeardRun(**told, heard_by=log, charged_by=charge, services=services))
        finally:
            leave_services(token)

    async def answer(self, run: AgentRun[StateT, InputT]) -> OutputT:
        """Run the agent with an existing `AgentRun`: for agents that delegate to other agents."""
        return await self._run(run)

    def is_complete(self, state: StateT) -> bool:
        """Return whether the agent considers its work on `state` done."""
        return bool(self._is_complete(state)) if self._is_complete is not None else False


def checked_reports(name: str, reports: Iterable[str]) -> frozenset[str]:
    """Validate the `reports` of an agent and return them.

    Raises:
        HarnessMisuse: a name is not reportable.
    """
    given = frozenset((reports,) if isinstance(reports, str) else reports)
    if unknown := given - REPORTABLE:
        wanted = ", ".join(sorted(REPORTABLE))
        raise HarnessMisuse(f"{name}: reports: expected some of {wanted}, got {min(map(str, unknown))!r}; correct it")
    return given


_REMEDY = "limit turns, steps or time instead, or set `reports` on your own agent if it reports it or uses none"


def unheld(agents: Iterable[Agent[Any, Any, Any]], budget: Budget) -> str:
    """Return why a budget cannot be enforced for one of the agents; empty if it can be for all."""
    limited = [name for name in FIELDS if name in REPORTABLE and getattr(budget, name) is not None]
    for agent in agents if limited else ():
        reports = getattr(agent, "reports", frozenset[str]())
        if missing := [name for name in limited if name not in reports]:
            return (
                f"its budget of {', '.join(missing)} cannot be enforced: expected agents that report their usage of it, "
                f"got {agent.name!r:.100}, which reports {', '.join(sorted(reports)) or 'nothing'}; "
                f"{getattr(agent, 'remedy', '') or _REMEDY}"
            )
    return ""
