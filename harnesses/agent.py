"""Agents: what a harness asks to decide or act within a step, and which limits of a budget hold for them.

    steps, turns, working_time_s    for every agent: the harness counts them itself
    tokens, tool_calls, money       for agents that report them: `Agent.reports`

The law: a limit that would hold nothing is refused before anything is started.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, cast

from attrs import field, fields, frozen

from harnesses.budgets.budget import FIELDS, Budget
from harnesses.budgets.usage import REPORTABLE, Usage
from harnesses.errors import HarnessMisuse
from harnesses.step import Constraints, InputT, LoadedContext, OutputT, StateT, Step, no_constraints


@frozen(kw_only=True, eq=False)
class AgentRun(Generic[StateT, InputT]):
    """Everything an agent is told for one turn."""

    input: InputT
    context: LoadedContext[StateT]
    """State, recent steps and knowledge of the harness that asks."""
    step_number: int
    """The number of the step being made."""
    step_history: Sequence[Step[Any, Any]] = ()
    """The recent steps, oldest first; `run_agent` bounds them by `max_context_steps`."""
    constraints: Constraints = field(factory=no_constraints)

    def __eq__(self, other: object) -> bool:
        """Return whether an agent was told the same; whoever listens to it is no part of that."""
        if not isinstance(other, AgentRun):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(cast(object, other), each.name) for each in fields(AgentRun))

    def log(self, line: str) -> None:
        """Have a line of output recorded, and shown in the log, while the step is being made."""

    def charge(self, usage: Usage, *, thread: str = "") -> None:
        """Report what was used since the last report: it is charged at once, and at a limit the agent is cancelled.

        Args:
            thread: a conversation that is known by this name wherever it goes on, whose total `usage` is. What was charged
                for it before is not charged again.
        """


@frozen(kw_only=True, eq=False)
class _HeardRun(AgentRun[StateT, InputT]):
    """One whose lines and reports somebody listens to."""

    heard_by: Callable[[str], None] | None = field(repr=False)
    charged_by: Callable[..., None] | None = field(repr=False)

    def log(self, line: str) -> None:
        if self.heard_by is not None:
            self.heard_by(line)

    def charge(self, usage: Usage, *, thread: str = "") -> None:
        if self.charged_by is not None:
            self.charged_by(usage, thread=thread)


class Agent(Generic[StateT, InputT, OutputT]):
    """A named async function of one `AgentRun`.

    Args:
        run: is awaited once for each call of `Agent.run`; its error is the caller's.
        name: for logs and records.
        is_complete: asked by `Agent.is_complete`; without one the answer is no.
        reports: of `tokens`, `tool_calls` and `money`, what it reports by `AgentRun.charge`, or as the `usage` of its answer.
            A limit on any other is refused for it when its harness is started.
    """

    def __init__(
        self,
        run: Callable[[AgentRun[StateT, InputT]], Awaitable[OutputT]],
        *,
        name: str = "Agent",
        is_complete: Callable[[StateT], bool] | None = None,
        reports: Iterable[str] = (),
    ) -> None:
        self.reports = checked_reports(name, reports)
        """The limits of a budget that can be held for it, because it reports what it uses."""
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
        """Run the agent once and return what it answers.

        Args:
            log: gets its lines of output.
            charge: gets what it reports to have used; see `AgentRun.charge`.
        """
        told: dict[str, Any] = {
            "input": input,
            "context": context,
            "step_number": step_number,
            "step_history": step_history,
            "constraints": {} if constraints is None else constraints,
        }
        return await self.answer(
            AgentRun[StateT, InputT](**told)
            if log is None and charge is None
            else _HeardRun[StateT, InputT](**told, heard_by=log, charged_by=charge)
        )

    async def answer(self, run: AgentRun[StateT, InputT]) -> OutputT:
        """Run the agent once with what another was told: for agents that have others do their work."""
        return await self._run(run)

    def is_complete(self, state: StateT) -> bool:
        """Return whether the agent regards its work on `state` as done."""
        return bool(self._is_complete(state)) if self._is_complete is not None else False


def checked_reports(name: str, reports: Iterable[str]) -> frozenset[str]:
    """Return what an agent says that it reports.

    Raises:
        HarnessMisuse: something of it cannot be reported.
    """
    given = frozenset((reports,) if isinstance(reports, str) else reports)
    if unknown := given - REPORTABLE:
        wanted = ", ".join(sorted(REPORTABLE))
        raise HarnessMisuse(f"{name}: reports: expected some of {wanted}, got {min(map(str, unknown))!r}; correct it")
    return given


def unheld(agents: Iterable[Agent[Any, Any, Any]], budget: Budget) -> str:
    """Return why a budget cannot be held for one of the agents; empty if it can be for all of them."""
    limited = [name for name in FIELDS if name in REPORTABLE and getattr(budget, name) is not None]
    for agent in agents if limited else ():
        reports = getattr(agent, "reports", frozenset[str]())
        if missing := [name for name in limited if name not in reports]:
            return (
                f"its budget of {', '.join(missing)} cannot be held: expected agents that report what they use of it, "
                f"got {agent.name!r:.100}, which reports {', '.join(sorted(reports)) or 'nothing'}; "
                "limit turns, steps or time instead; of an agent of your own that reports it or uses none, say so by `reports`"
            )
    return ""
