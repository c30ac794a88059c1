"""Values stored for a pipeline: the state, and the input and output of a step.

Invariants: every decision of the pipeline is based on `PipelineState`; a claim is recorded before its work begins; texts of
agents are stored without secrets, cut to a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from attrs import field, frozen

from harnesses.governance.evidence.attempt_verdict import Claim, TaskStatus
from harnesses.governance.evidence.evidence_ledger import Evidence
from harnesses.governance.evidence.file_binding import Bound
from harnesses.governor import Finding
from harnesses.pipeline.plan.ids import StageId, TaskId
from harnesses.step import StepYield

MAX_CONTRACT = 200_000
"""Maximum characters of a contract; a longer one is refused."""
MAX_PROMPT = 40_000
"""Maximum characters of a prompt."""
MAX_KEPT = 64_000
"""Maximum characters of an artifact that is kept in the store; of a longer one only the hash is kept."""
MAX_FAILED = 20
"""Maximum failed checks kept of an attempt, and shown to the next one."""
MAX_FAILED_TEXT = 400
"""Maximum characters of each failed check."""
MAX_ANSWER = 4_000
"""Maximum characters of a person's answer."""
MAX_ANSWERS = 10

Json: TypeAlias = dict[str, Any]


class RunStatus(StrEnum):
    """Status of the whole pipeline."""

    STARTED = "STARTED"
    CLARIFYING = "CLARIFYING"
    """Everything waits for a person's answer."""
    PLANNED = "PLANNED"
    IN_PROGRESS = "IN_PROGRESS"
    BLOCKED = "BLOCKED"
    DONE = "DONE"


class Mode(StrEnum):
    """Whether people are asked before tasks that have a gate."""

    INTERACTIVE = "interactive"
    EXPRESS = "express"
    """They are not asked. Dangerous actions need an approval in any case."""


@frozen(kw_only=True)
class StageNote:
    """Description of a stage at the beginning of the run."""

    id: StageId
    title: str
    agent: str
    artifact: str


@frozen(kw_only=True)
class TaskNote:
    """Description of a task at the beginning of the run."""

    id: TaskId
    title: str
    stages: tuple[StageId, ...]
    after: tuple[TaskId, ...] = ()
    description: str = ""
    goal: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    validation_checks: tuple[str, ...] = ()
    artifact: str = ""
    destructive: bool = False
    gate: str = field(default="", eq=False)
    """What a person must approve first. Not compared: a run keeps the gates with which it began."""
    deeds: int = 0
    """Number of its actions."""
    domains: tuple[str, ...] = field(default=(), eq=False)
    """Its domains. Not compared, so that runs from before tasks had domains continue."""


@frozen(kw_only=True)
class Kept:
    """An artifact at the time of its submission."""

    path: str
    """Path below the run folder."""
    sha256: str
    text: str | None = None
    """Its content without secrets; None if it is too long, or not text."""


@frozen(kw_only=True)
class Built:
    """A builder's submission under a claim."""

    contract: str
    """The contract as JSON; empty if none was readable. Within the state it is stored in the task's record instead."""
    problems: tuple[str, ...] = ()
    """Why the contract is invalid."""
    failure: str = ""
    """The agent's error."""
    subject: tuple[Bound, ...] = ()
    """Files that the contract names, with their hashes at submission."""
    kept: tuple[Kept, ...] = ()
    tool_calls: int | None = None
    """Number of tool calls counted by the pipeline; None if they could not be counted."""
    messages: int | None = None
    finding: Finding | None = None
    """The limit at which the agent was stopped, if any."""


@frozen(kw_only=True)
class TaskRecord:
    """The progress of a task."""

    id: TaskId
    status: TaskStatus = TaskStatus.PENDING
    attempts: int = 0
    """Number of claims so far, including interrupted ones."""
    granted: int = 0
    """Number of additional attempts allowed by people."""
    released: bool = False
    """Whether a person has released it after it was blocked."""
    claim: Claim | None = None
    """The open claim. Only what was built under it is validated."""
    claimed_at: datetime | None = None
    built: Built | None = None
    """The submission under the open claim."""
    proven: bool = False
    """Whether the submission passed validation, so that only its actions are left."""
    done: int = 0
    """Number of completed actions."""
    prompt: str = ""
    """The last prompt."""
    builder: str = ""
    """The last submitted contract, as JSON."""
    validation: str = ""
    """The result of its validation, as JSON."""
    failed: tuple[str, ...] = ()
    """Failed checks of the last attempt, which are shown to the next one."""
    note: str = ""
    """Why it is blocked, or the question to a person."""
    answers: tuple[str, ...] = ()
    """The latest answers of people."""
    proof: tuple[Evidence, ...] = ()
    """The evidence by which it passes."""
    kept: tuple[Kept, ...] = ()
    """The artifacts of its last attempt."""
    set_backs: int = 0
    """How often its proof has become stale."""
    remembered: bool = False
    """Whether its pass was stored in the memory."""
    passed_step: int = 0
    """Number of the step in which it last passed."""


@frozen(kw_only=True)
class PipelineState:
    """The complete state of a pipeline."""

    layout: str = "pipeline/1"
    """Format of the state."""
    run_id: str = ""
    """Empty until the run is planned."""
    goal: str = ""
    mode: Mode = Mode.INTERACTIVE
    project_root: str = ""
    run_folder: str = ""
    """Path below the project's root."""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    stages: tuple[StageNote, ...] = ()
    plan: tuple[TaskNote, ...] = ()
    tasks: tuple[TaskRecord, ...] = ()
    """One record for each task of the plan, in the same order."""
    guardrails: str = ""
    """The guardrails in words, as agents are told them."""


class MoveKind(StrEnum):
    """The kind of a step."""

    PLAN = "plan"
    CLAIM = "claim"
    """An attempt begins."""
    BUILD = "build"
    """An agent has submitted its work."""
    JUDGE = "judge"
    """A submission was validated."""
    ACT = "act"
    """An action was done, or refused."""
    RECLAIM = "reclaim"
    """An interrupted claim is given back."""
    SET_BACK = "set_back"
    """Proven content has changed, so its task is set back."""
    ORDERS = "orders"
    """Messages of people were processed."""
    BLOCK = "block"
    """A guard does not allow a task to be claimed."""
    REMEMBER = "remember"
    """Passed work was stored in the memory."""


@frozen(kw_only=True)
class PipelineInput:
    """The input of a step."""

    kind: MoveKind
    task: str = ""
    attempt: int = 0


def _jsons(values: Any) -> tuple[Json, ...]:
    return tuple(values)


@frozen(kw_only=True)
class PipelineOutput:
    """The output of a step."""

    status: str
    """Status of the task, or of the whole pipeline if there is no task."""
    note: str = ""
    events: tuple[Json, ...] = field(default=(), converter=_jsons)
    """Events, for `events.jsonl`."""
    evidence: tuple[Json, ...] = field(default=(), converter=_jsons)
    """Evidence, for `evidence.jsonl`."""


PipelineStep: TypeAlias = StepYield[PipelineInput, PipelineOutput]


@frozen(kw_only=True)
class StepDraft:
    """A step that is decided but not written yet."""

    state: PipelineState
    """The state after the step."""
    kind: MoveKind
    task: TaskId | None = None
    note: str = ""
    events: Sequence[Json] = ()
    evidence: Sequence[Evidence] = ()
    findings: Sequence[Finding] = ()


_GOING_ON = (TaskStatus.READY, TaskStatus.IN_PROGRESS, TaskStatus.FAIL)


def run_status(state: PipelineState) -> RunStatus:
    """Return the status of the whole pipeline."""
    statuses = [task.status for task in state.tasks]
    if not statuses:
        return RunStatus.STARTED
    if all(status is TaskStatus.PASS for status in statuses):
        return RunStatus.DONE
    if not any(task.attempts for task in state.tasks):
        return RunStatus.PLANNED
    if any(status in _GOING_ON for status in statuses) or any(task.released for task in state.tasks):
        return RunStatus.IN_PROGRESS
    if TaskStatus.NEEDS_CONTEXT in statuses and TaskStatus.BLOCKED not in statuses:
        return RunStatus.CLARIFYING
    return RunStatus.BLOCKED


def record_of(state: PipelineState, id: TaskId) -> TaskRecord:
    """Return the record of a task."""
    return next(task for task in state.tasks if task.id == id)


def note_of(state: PipelineState, id: TaskId) -> TaskNote:
    """Return the description of a task."""
    return next(note for note in state.plan if note.id == id)


def agents_of(state: PipelineState, task: TaskNote) -> dict[StageId, str]:
    """Return the name of the agent of each stage of a task; the task's builder goes by the first name."""
    names = {stage.id: stage.agent for stage in state.stages}
    return {id: names[id] for id in task.stages}


def builder_name(state: PipelineState, task: TaskNote) -> str:
    """Return the name that the builder of a task goes by."""
    return agents_of(state, task)[task.stages[0]]


def artifact_path(state: PipelineState, stage: StageId) -> str:
    """Return the path of a stage's artifact, below the project's root."""
    note = next(one for one in state.stages if one.id == stage)
    return f"{state.run_folder}/artifacts/stages/{stage}/{note.artifact}"


def own_artifact_path(state: PipelineState, task: TaskNote) -> str:
    """Return the path of a task's own artifact, below the project's root; "" if it has none."""
    return f"{state.run_folder}/artifacts/{task.artifact}" if task.artifact else ""


def artifact_paths(state: PipelineState, task: TaskNote) -> tuple[str, ...]:
    """Return the paths of a task's artifacts: those of its stages, then its own."""
    own = own_artifact_path(state, task)
    return (*(artifact_path(state, stage) for stage in task.stages), *((own,) if own else ()))
