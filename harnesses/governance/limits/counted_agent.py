"""Counts the tool calls and messages of agents, and stops an agent at its limits.

    limited(agent, guardrails)   for a command-line agent: each output line is counted before it is logged; at the limit its
                                 processes are killed. For any other: counts `counted` tools, and reports to the tally
    counted(tool)                wraps a function that an agent calls: the call beyond the limit is refused before it is made;
                                 each call is also charged to the budget of the calling harness
    with tallying(guardrails) as tally:          one tally for all agent calls in the block
        answer = await self.run_agent(agent, …)
    checks += telemetry_checks(contract, guardrails, tally)

Invariants: counts are based on observation. A call beyond the limit is not made if it goes through a counted tool; if it is
only observed in the output, it ends the agent. An agent's own report counts too if it is higher.

Not counted: actions that a program does not print. For a program with human-readable output, the report in its contract is the
only source.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

from attrs import evolve

from harnesses.agent import Agent, AgentRun
from harnesses.agent_bill import current_bill, enter_counter, leave_counter
from harnesses.agents.command.agent_output import Reading, Reply
from harnesses.agents.command.command_agent import CommandAgent
from harnesses.agents.command.stream_counts import Counter, Deeds, counter_for
from harnesses.agents.errors import AgentFailed
from harnesses.governance.contracts.contract import BuilderContract, Check, failed, passed
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.governor import Finding
from harnesses.step import InputT, OutputT, StateT

_current: ContextVar[Tally | None] = ContextVar("harnesses.governance.limits.agent_counts", default=None)


class AgentStopped(AgentFailed):
    """An agent reached its limit of tool calls or messages and was stopped, with all its processes.

    Args:
        finding: to attach to the step, as `guardrail`.
    """

    def __init__(self, message: str, *, finding: Finding, session: str | None = None) -> None:
        super().__init__(message, session=session)
        self.finding = finding


class Tally:
    """The counts of one attempt."""

    def __init__(self, guardrails: Guardrails) -> None:
        self._guardrails = guardrails
        self.tool_calls = 0
        self.messages = 0
        self.is_counting = False
        """Whether anything could be counted; False for programs with human-readable output."""
        self.stopped: AgentStopped | None = None
        """Set when the agent was stopped, even if the error was caught."""

    def tool_call(self, name: str = "") -> None:
        """Count a tool call, if possible before it is made.

        Raises:
            AgentStopped: it exceeds the limit.
        """
        self.tool_calls = self._count("max_tool_calls_per_task", "tool calls", self.tool_calls, name)

    def message(self) -> None:
        """Count a message of the agent.

        Raises:
            AgentStopped: it exceeds the limit.
        """
        self.messages = self._count("max_messages_per_task", "messages", self.messages, "")

    def _count(self, limit_name: str, what: str, count: int, name: str) -> int:
        self.is_counting = True
        most: int = getattr(self._guardrails, limit_name)
        if count < most and self.stopped is None:
            return count + 1
        if self.stopped is None:
            which = f" ({name!r:.60})" if name else ""
            reason = f"the agent was stopped before it exceeded its {most} {what}{which}"
            finding = Finding(limit_name=limit_name, current_value=str(count + 1), limit_value=str(most), reason=reason)
            place = "(`guardrails` of the run file, or `Guardrails(…)`)"
            told = f"expected at most {most} {what}, got one more{which}; give it a smaller task"
            text = f"guardrail {limit_name} = {most} {place}: {told}"
            self.stopped = AgentStopped(text, finding=finding)
        raise self.stopped


@contextmanager
def tallying(guardrails: Guardrails) -> Generator[Tally, None, None]:
    """Count all agent activity in the block together; inside another tally, continue that one."""
    tally = _current.get()
    if tally is not None:
        yield tally
        return
    tally = Tally(guardrails)
    token, counting = _current.set(tally), enter_counter(tally.tool_call)
    try:
        yield tally
    finally:
        leave_counter(counting)
        _current.reset(token)


def current_tally() -> Tally | None:
    """Return the active tally; None if there is none."""
    return _current.get()


def telemetry_checks(contract: BuilderContract, guardrails: Guardrails, tally: Tally | None = None) -> tuple[Check, ...]:
    """Check that the counted numbers, and those that the agent reports in `execution`, are within the limits."""
    counted = tally if tally is not None and tally.is_counting else None
    return (
        _check(contract, "tool_calls", "max_tool_calls_per_task", guardrails, None if counted is None else counted.tool_calls),
        _check(contract, "messages", "max_messages_per_task", guardrails, None if counted is None else counted.messages),
    )


def _check(contract: BuilderContract, name: str, limit_name: str, guardrails: Guardrails, counted: int | None) -> Check:
    said = (contract.execution or {}).get(name)
    reported = said if isinstance(said, int) and not isinstance(said, bool) else None
    told = f"counted {_or(counted)}, reported {_or(reported)}"
    most: int = getattr(guardrails, limit_name)
    if max(counted or 0, reported or 0) > most:
        return failed(limit_name, f"expected at most {most}, {told}; give it a smaller task")
    return passed(limit_name, f"{told}, of at most {most}")


def _or(count: int | None) -> str:
    return "none" if count is None else str(count)


P = ParamSpec("P")
T = TypeVar("T")


class LimitedAgent(Agent[StateT, InputT, OutputT], Generic[StateT, InputT, OutputT]):
    """Wraps an agent to enforce its guardrails. Each turn has its own tally, unless one is active."""

    def __init__(
        self, inner: Agent[StateT, InputT, OutputT], guardrails: Guardrails, *, counter: Counter | None = None
    ) -> None:
        super().__init__(self._turn, name=inner.name, is_complete=inner.is_complete, reports=inner.reports)
        self.inner = inner
        """The wrapped agent; its validator must be another one."""
        self._guardrails = guardrails
        self._heard: Any = _heard(inner, counter) if isinstance(inner, CommandAgent) else inner

    async def _turn(self, run: AgentRun[StateT, InputT]) -> OutputT:
        with tallying(self._guardrails) as tally:
            answer: OutputT = await self._heard.answer(run)
            if tally.stopped is not None:
                # A stopped agent returns no answer, even if it caught the error.
                raise tally.stopped
            return answer


def limited(
    agent: Agent[StateT, InputT, OutputT], guardrails: Guardrails, *, counter: Counter | None = None
) -> LimitedAgent[StateT, InputT, OutputT]:
    """Wrap an agent to enforce `max_tool_calls_per_task` and `max_messages_per_task`.

    Args:
        counter: extracts tool calls and messages from an output line; None for the one of the agent's dialect.
    """
    return LimitedAgent(agent, guardrails, counter=counter)


def counted(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Wrap a tool so that its calls are counted by the active tally and charged to the active bill.

    A call beyond the limit raises `AgentStopped` or `BudgetExhausted` before the tool is called. An agent whose tools are all
    counted declares it, `Agent(work, reports=["tool_calls"])`, and need not report the calls itself.
    """

    @wraps(tool)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        tally = current_tally()
        if tally is not None:
            tally.tool_call(getattr(tool, "__name__", "tool"))
        if (bill := current_bill()) is not None:
            await bill.count_call()
        return await tool(*args, **kwargs)

    return call


def _heard(agent: CommandAgent, counter: Counter | None) -> CommandAgent:
    read = agent.dialect.reading

    def reading() -> Reading:
        inner, tally = read(), current_tally()
        tells = counter or counter_for(inner)
        return inner if tells is None or tally is None else _CountedReading(inner, tells, tally)

    return agent.speaking(evolve(agent.dialect, reading=reading))


class _CountedReading:
    """Reads the output of one program run and counts its tool calls and messages; duplicates count once."""

    def __init__(self, inner: Reading, tells: Counter, tally: Tally) -> None:
        self.inner = inner
        self._tells = tells
        self._tally = tally
        self._tally.is_counting = True
        self._told = Deeds()

    def line(self, text: str) -> str:
        """Count a line, then read it. Raises at the limit, which ends the program."""
        shown = self.inner.line(text)
        try:
            for deed in self._tells(text):
                if not self._told.is_new(deed):
                    continue
                self._tally.tool_call(deed.name) if deed.is_tool else self._tally.message()
        except AgentStopped as stopped:
            stopped.session = self.inner.reply().session
            raise
        return shown

    def reply(self) -> Reply:
        return self.inner.reply()
