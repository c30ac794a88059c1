"""Agents whose tool calls and messages are counted by us, and that are stopped at the limit.

    limited(agent, guardrails)   a command-line agent: each line of its output is read before it is logged; at the limit its
                                 processes are killed. Any other: what it does through `counted` tools, or tells the tally
    counted(tool)                a function that an agent calls: refused, before it is called, when it is one too many; each
                                 call is charged to the budget of the harness that asks the agent, too

Not counted: what a program does without writing of it. Of one that writes text for people nothing is known; what it reports in
its contract is all there is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

from attrs import evolve

from harnesses.agent import Agent, AgentRun
from harnesses.agent_bill import current_bill
from harnesses.agents.agent_output import Reading, Reply
from harnesses.agents.command_agent import CommandAgent
from harnesses.agents.stream_counts import Counter, Deeds, counter_for
from harnesses.governance.limits.agent_counts import AgentStopped, Tally, current_tally, tallying
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.step import InputT, OutputT, StateT

P = ParamSpec("P")
T = TypeVar("T")


class LimitedAgent(Agent[StateT, InputT, OutputT], Generic[StateT, InputT, OutputT]):
    """Another agent, within the limits of its guardrails. Each turn has a tally of its own, unless one is under way."""

    def __init__(
        self, inner: Agent[StateT, InputT, OutputT], guardrails: Guardrails, *, counter: Counter | None = None
    ) -> None:
        super().__init__(self._turn, name=inner.name, is_complete=inner.is_complete, reports=inner.reports)
        self.inner = inner
        """The agent itself: who judges it must be another one."""
        self._guardrails = guardrails
        self._heard: Any = _heard(inner, counter) if isinstance(inner, CommandAgent) else inner

    async def _turn(self, run: AgentRun[StateT, InputT]) -> OutputT:
        with tallying(self._guardrails) as tally:
            answer: OutputT = await self._heard.answer(run)
            if tally.stopped is not None:
                # Whoever was stopped does not answer, also if it has caught the error.
                raise tally.stopped
            return answer


def limited(
    agent: Agent[StateT, InputT, OutputT], guardrails: Guardrails, *, counter: Counter | None = None
) -> LimitedAgent[StateT, InputT, OutputT]:
    """Return an agent within `max_tool_calls_per_task` and `max_messages_per_task`.

    Args:
        counter: tells the deeds in a line of a program's output; None is by its dialect.
    """
    return LimitedAgent(agent, guardrails, counter=counter)


def counted(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Return a tool whose calls are counted, if anybody counts, and charged, if anybody charges.

    One too many raises `AgentStopped`, or `BudgetExhausted`, before it is called. An agent whose tools are all counted reports
    `tool_calls`: it says so, `Agent(work, reports=["tool_calls"])`, and need not tell of them itself.
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
    """Reads the output of one run of a program, and counts what it tells of. What is told twice counts once."""

    def __init__(self, inner: Reading, tells: Counter, tally: Tally) -> None:
        self.inner = inner
        self._tells = tells
        self._tally = tally
        self._tally.is_counting = True
        self._told = Deeds()

    def line(self, text: str) -> str:
        """Count, then read. The error of one too many ends the program."""
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
