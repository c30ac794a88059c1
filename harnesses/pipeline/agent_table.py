"""Which agents build and judge each task, settled before anything begins. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from attrs import frozen

from harnesses.agent import Agent
from harnesses.governance.contracts.completeness import independent
from harnesses.pipeline.errors import PipelineInvalid
from harnesses.pipeline.plan.ids import TaskId
from harnesses.pipeline.plan.pipeline_plan import PipelinePlan
from harnesses.pipeline.plan.task import Task
from harnesses.pipeline.stage_work import PipelineAgent

ANY = "*"
"""The key of the agent that does what no other is named for."""
Builders: TypeAlias = PipelineAgent | Sequence[PipelineAgent]
"""Who builds a task: one agent, or one for each attempt; the last does all further ones."""
Agents: TypeAlias = PipelineAgent | Mapping[str, Builders]
Validators: TypeAlias = PipelineAgent | Mapping[str, PipelineAgent] | None


@frozen
class AgentTable:
    """The agents of each task."""

    builders: Mapping[TaskId, tuple[PipelineAgent, ...]]
    """In the order of the attempts."""
    validators: Mapping[TaskId, PipelineAgent | None]

    def builder(self, id: TaskId, attempt: int) -> PipelineAgent:
        """Return who builds a task in an attempt, from 1."""
        builders = self.builders[id]
        return builders[min(attempt, len(builders)) - 1]

    def every(self) -> tuple[PipelineAgent, ...]:
        """Return all of them, each once."""
        builders = [one for several in self.builders.values() for one in several]
        return tuple(dict.fromkeys([*builders, *(one for one in self.validators.values() if one is not None)]))


def assign_agents(plan: PipelinePlan, agents: Agents, validators: Validators) -> AgentTable:
    """Return which agents build and judge each task.

    Raises:
        PipelineInvalid: nobody does, or who builds would judge.
    """
    found = {id: _find(plan, task, agents, "agents") for id, task in plan.tasks.items()}
    builders = {id: one if isinstance(one, tuple) else (one,) for id, one in found.items()}
    judges = {id: _validator(plan, task, validators, builders[id]) for id, task in plan.tasks.items()}
    return AgentTable(builders, judges)


def _find(plan: PipelinePlan, task: Task, agents: object, argument: str) -> PipelineAgent | tuple[PipelineAgent, ...]:
    """Return who is named for a task by its id, its first stage's agent, one of its domains, or for any task."""
    if isinstance(agents, Agent):
        return cast(PipelineAgent, agents)  # type: ignore[redundant-cast]
    known: Mapping[str, object] = cast(Mapping[str, object], agents) if isinstance(agents, Mapping) else {}
    keys = (str(task.id), plan.stages[task.stages[0]].agent, *(f"domain:{one}" for one in task.domains), ANY)
    found = next((known[key] for key in keys if key in known), None)
    if isinstance(found, Sequence) and found and all(isinstance(one, Agent) for one in cast("Sequence[object]", found)):
        return tuple(cast("Sequence[PipelineAgent]", found))
    if not isinstance(found, Agent):
        raise PipelineInvalid(
            f"task {str(task.id)!r} has nobody in `{argument}`: expected an Agent for one of {', '.join(keys)}, was "
            f"{found!r:.80}"
        )
    return cast(PipelineAgent, found)  # type: ignore[redundant-cast]


def _validator(
    plan: PipelinePlan, task: Task, validators: Validators, builders: Sequence[PipelineAgent]
) -> PipelineAgent | None:
    if validators is None:
        if plan.guardrails.require_validator_contract:
            raise PipelineInvalid(
                f"task {str(task.id)!r} has nobody to judge it: expected `validators`; or say that rules are enough by "
                "Guardrails(require_validator_contract=False)"
            )
        return None
    found = _find(plan, task, validators, "validators")
    if isinstance(found, tuple):
        raise PipelineInvalid(f"task {str(task.id)!r}: validators: expected one Agent, got {len(found)}; name one")
    for builder in builders:
        apart = independent(builder, found)
        if not apart.ok:
            raise PipelineInvalid(f"task {str(task.id)!r}: {apart.evidence}; give the two agents names of their own")
    return found
