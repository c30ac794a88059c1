"""What a pipeline is made of, and where it works. Checked before anything is done."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from harnesses.agent import Agent
from harnesses.base import BaseHarness
from harnesses.governance.completeness import independent
from harnesses.governance.guardrails import Guardrails
from harnesses.governance.policy import EvidencePolicy
from harnesses.governance.retry import TaskStatus
from harnesses.pipeline.assignments import PipelineAgent
from harnesses.pipeline.changes import note_of, record_of
from harnesses.pipeline.copies import MAX_COPY_BYTES
from harnesses.pipeline.court import Court
from harnesses.pipeline.errors import PipelineInvalid
from harnesses.pipeline.ids import StageId, TaskId
from harnesses.pipeline.memory import PipelineMemory
from harnesses.pipeline.preset import SDLC_STAGES
from harnesses.pipeline.record import (
    Mode,
    PipelineInput,
    PipelineOutput,
    PipelineState,
    StageNote,
    TaskNote,
    TaskRecord,
)
from harnesses.pipeline.stage import Stage
from harnesses.pipeline.task import Task, check_tasks, each_stage, waits
from harnesses.step import Constraints

FOLDER = ".pipeline/runs"
"""Where run folders are, below the workspace, if no other place is named."""
ANY = "*"
"""The key of the agent that does what no other is named for."""
Builders = PipelineAgent | Sequence[PipelineAgent]
"""Who builds a task: one agent, or one for each attempt; the last does all further ones."""
Agents = PipelineAgent | Mapping[str, Builders]
Validators = PipelineAgent | Mapping[str, PipelineAgent] | None


def new_nonce() -> str:
    """Return what no other attempt has."""
    return secrets.token_hex(16)


class PipelineParts(BaseHarness[PipelineState, PipelineInput, PipelineOutput]):
    """Stages, tasks, agents, validators, the workspace; see `PipelineHarness`."""

    def __init__(
        self,
        stages: Sequence[Stage] = SDLC_STAGES,
        tasks: Sequence[Task] | None = None,
        *,
        agents: Agents,
        validators: Validators = None,
        workspace: Path | str,
        goal: str,
        run_folder: Path | str | None = None,
        guardrails: Guardrails | None = None,
        evidence_policy: EvidencePolicy | None = None,
        memory: PipelineMemory | None = None,
        mode: Mode | str = Mode.INTERACTIVE,
        max_parallel: int = 3,
        agent_limit_s: float = 1_800.0,
        command_limit_s: float = 600.0,
        unseen: Iterable[str] = (),
        max_copy_bytes: int = MAX_COPY_BYTES,
        nonce: Callable[[], str] = new_nonce,
        max_context_steps: int = 10,
        constraints: Constraints | None = None,
    ) -> None:
        super().__init__(PipelineState(), max_context_steps=max_context_steps, constraints=constraints)
        given = each_stage(stages) if tasks is None else tasks
        self._tasks = {task.id: task for task in check_tasks(given, stages)}
        self._stages = {stage.id: stage for stage in stages}
        self._notes = tuple(StageNote(id=one.id, title=one.title, agent=one.agent, artifact=one.artifact) for one in stages)
        self._plan = tuple(_noted(task, waits(given, stages)[task.id]) for task in given)
        self._workspace = Path(os.path.abspath(workspace))
        self._named_folder = None if run_folder is None else self._below(run_folder)
        self._goal = goal
        if not goal.strip():
            raise PipelineInvalid(f"goal: expected what the whole is for, in a sentence, was {goal!r}; say it")
        self._guardrails = guardrails or Guardrails()
        self._policy = evidence_policy or EvidencePolicy()
        self._memory = memory
        self._mode = Mode(mode)
        self._agent_limit_s, self._nonce = agent_limit_s, nonce
        if isinstance(max_parallel, bool) or not isinstance(cast(object, max_parallel), int) or max_parallel < 1:
            raise PipelineInvalid(f"max_parallel: expected a whole number from 1 up, was {max_parallel!r}; correct it")
        self._most = max_parallel
        if isinstance(max_copy_bytes, bool) or not isinstance(cast(object, max_copy_bytes), int) or max_copy_bytes < 1:
            raise PipelineInvalid(f"max_copy_bytes: expected a whole number from 1 up, was {max_copy_bytes!r}; correct it")
        for name, limit_s in (("agent_limit_s", agent_limit_s), ("command_limit_s", command_limit_s)):
            if isinstance(limit_s, bool) or not limit_s > 0:
                raise PipelineInvalid(f"{name}: expected seconds above 0, was {limit_s!r}; correct it")
        self._builders = {id: self._builders_of(task, agents) for id, task in self._tasks.items()}
        self._judges = {id: self._judge_of(task, validators) for id, task in self._tasks.items()}
        self._court = Court(
            workspace=self._workspace,
            stages=self._stages,
            guardrails=self._guardrails,
            policy=self._policy,
            limit_s=command_limit_s,
            unseen=tuple(unseen),
            most_bytes=max_copy_bytes,
        )

    # who does what

    def _builders_of(self, task: Task, agents: object) -> tuple[PipelineAgent, ...]:
        """Return who builds a task, in the order of its attempts."""
        found = self._found(task, agents, "agents")
        return found if isinstance(found, tuple) else (found,)

    def _builder(self, id: TaskId, attempt: int) -> PipelineAgent:
        """Return who builds a task in an attempt, from 1."""
        builders = self._builders[id]
        return builders[min(attempt, len(builders)) - 1]

    def _found(self, task: Task, agents: object, what: str) -> PipelineAgent | tuple[PipelineAgent, ...]:
        """Return the agent for a task: named by its id, its first stage's agent, one of its domains, or for any task."""
        if isinstance(agents, Agent):
            return cast(PipelineAgent, agents)  # type: ignore[redundant-cast]
        known: Mapping[str, object] = cast(Mapping[str, object], agents) if isinstance(agents, Mapping) else {}
        keys = (str(task.id), self._stages[task.stages[0]].agent, *(f"domain:{one}" for one in task.domains), ANY)
        found = next((known[key] for key in keys if key in known), None)
        if isinstance(found, Sequence) and found and all(isinstance(one, Agent) for one in cast("Sequence[object]", found)):
            return tuple(cast("Sequence[PipelineAgent]", found))
        if not isinstance(found, Agent):
            raise PipelineInvalid(
                f"task {str(task.id)!r} has nobody in `{what}`: expected an Agent for one of {', '.join(keys)}, was "
                f"{found!r:.80}"
            )
        return cast(PipelineAgent, found)  # type: ignore[redundant-cast]

    def _judge_of(self, task: Task, validators: Validators) -> PipelineAgent | None:
        if validators is None:
            if self._guardrails.require_validator_contract:
                raise PipelineInvalid(
                    f"task {str(task.id)!r} has nobody to judge it: expected `validators`; or say that rules are enough by "
                    "Guardrails(require_validator_contract=False)"
                )
            return None
        found = self._found(task, validators, "validators")
        if isinstance(found, tuple):
            raise PipelineInvalid(f"task {str(task.id)!r}: validators: expected one Agent, got {len(found)}; name one")
        for builder in self._builders[task.id]:
            apart = independent(builder, found)
            if not apart.ok:
                raise PipelineInvalid(f"task {str(task.id)!r}: {apart.evidence}; give the two agents names of their own")
        return found

    def asked_agents(self) -> Sequence[PipelineAgent]:
        builders = [one for several in self._builders.values() for one in several]
        return tuple(dict.fromkeys([*builders, *(judge for judge in self._judges.values() if judge is not None)]))

    def _agent_name(self, task: TaskNote) -> str:
        """Return what the builder of a task is known by."""
        return self._stages[task.stages[0]].agent

    # where

    def _below(self, folder: Path | str) -> str:
        """Return where a run folder is, below the workspace."""
        place = os.path.relpath(os.path.abspath(self._workspace / folder), self._workspace)
        if place == "." or place.split(os.sep)[0] == "..":
            raise PipelineInvalid(
                f"run_folder: expected a directory of its own below the workspace {str(self._workspace)!r}, was "
                f"{str(folder)!r}; agents in walls could not write elsewhere"
            )
        return place

    def _root(self) -> Path:
        """Return the run folder."""
        return self._workspace / self.state.run_folder

    # looking things up

    def _record(self, id: TaskId) -> TaskRecord:
        return record_of(self.state, id)

    def _note(self, id: TaskId) -> TaskNote:
        return note_of(self.state, id)

    def _agents_of(self, task: TaskNote) -> dict[StageId, str]:
        return {id: self._stages[id].agent for id in task.stages}

    def _same_plan(self) -> None:
        """Make sure that what is being worked is what was given.

        Raises:
            PipelineInvalid: it is not.
        """
        state = self.state
        if (state.stages, state.plan) != (self._notes, self._plan):
            known = {note.id: note for note in state.plan}
            other = [str(note.id) for note in self._plan if known.get(note.id) != note]
            raise PipelineInvalid(
                f"the pipeline given is not the one being worked ({', '.join(other[:5]) or 'its stages'} differ): expected "
                "the same; start it under a name of its own"
            )
        if state.project_root != str(self._workspace):
            raise PipelineInvalid(
                f"workspace: expected {state.project_root!r}, where this run has begun, was {str(self._workspace)!r}; "
                "start it there, or under a name of its own"
            )

    def _unpassed(self) -> list[TaskRecord]:
        return [task for task in self.state.tasks if task.status is not TaskStatus.PASS]


def _noted(task: Task, after: tuple[TaskId, ...]) -> TaskNote:
    return TaskNote(
        id=task.id,
        title=task.title,
        stages=task.stages,
        after=after,
        description=task.description,
        goal=task.goal,
        acceptance_criteria=task.acceptance_criteria,
        validation_checks=task.validation_checks,
        artifact=task.artifact,
        destructive=task.destructive,
        gate=task.gate,
        deeds=len(task.deeds),
        domains=task.domains,
    )
