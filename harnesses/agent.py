"""Agents: what a harness asks to decide or act within a step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic

from attrs import field, frozen

from harnesses.step import Constraints, InputT, LoadedContext, OutputT, StateT, Step, no_constraints


def _unheard(line: str) -> None:
    """Do nothing."""


@frozen(kw_only=True)
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
    log: Callable[[str], None] = field(default=_unheard, repr=False, eq=False)
    """Has a line of output recorded, and shown in the log, while the step is being made."""


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
        log: Callable[[str], None] = _unheard,
    ) -> OutputT:
        """Run the agent once and return what it answers."""
        return await self._run(
            AgentRun(
                input=input,
                context=context,
                step_number=step_number,
                step_history=step_history,
                constraints={} if constraints is None else constraints,
                log=log,
            )
        )

    def is_complete(self, state: StateT) -> bool:
        """Return whether the agent regards its work on `state` as done."""
        return bool(self._is_complete(state)) if self._is_complete is not None else False
