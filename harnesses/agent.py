"""Agents: what a harness asks to decide or act within a step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, cast

from attrs import field, fields, frozen

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


@frozen(kw_only=True, eq=False)
class _HeardRun(AgentRun[StateT, InputT]):
    """One whose lines somebody listens to."""

    heard_by: Callable[[str], None] = field(repr=False)

    def log(self, line: str) -> None:
        self.heard_by(line)


class Agent(Generic[StateT, InputT, OutputT]):
    """A named async function of one `AgentRun`.

    Args:
        run: is awaited once for each call of `Agent.run`; its error is the caller's.
        name: for logs and records.
        is_complete: asked by `Agent.is_complete`; without one the answer is no.
    """

    def __init__(
        self,
        run: Callable[[AgentRun[StateT, InputT]], Awaitable[OutputT]],
        *,
        name: str = "Agent",
        is_complete: Callable[[StateT], bool] | None = None,
    ) -> None:
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
    ) -> OutputT:
        """Run the agent once and return what it answers."""
        told: dict[str, Any] = {
            "input": input,
            "context": context,
            "step_number": step_number,
            "step_history": step_history,
            "constraints": {} if constraints is None else constraints,
        }
        return await self.answer(
            AgentRun[StateT, InputT](**told) if log is None else _HeardRun[StateT, InputT](**told, heard_by=log)
        )

    async def answer(self, run: AgentRun[StateT, InputT]) -> OutputT:
        """Run the agent once with what another was told: for agents that have others do their work."""
        return await self._run(run)

    def is_complete(self, state: StateT) -> bool:
        """Return whether the agent regards its work on `state` as done."""
        return bool(self._is_complete(state)) if self._is_complete is not None else False
