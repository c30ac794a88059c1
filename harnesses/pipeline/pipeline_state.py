"""What is on record of a pipeline: the state, and the input and output of a step. Nouns.

The laws: everything that the pipeline decides, it decides from `PipelineState`; a claim is on record before any work under it
begins; whatever an agent has said is held without its secrets, and cut to a bound.
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
"""Characters of a contract; a longer one is refused."""
MAX_PROMPT = 40_000
"""Characters of what an agent is asked."""
MAX_KEPT = 64_000
"""Characters of an artifact that are kept in the store; of a longer one, only what it hashes to."""
MAX_FAILED = 20
"""Failed checks that are kept of a try, and told to the next one."""
MAX_FAILED_TEXT = 400
"""Characters of each."""
MAX_ANSWER = 4_000
"""Characters of what a person answers."""
MAX_ANSWERS = 10

Json: TypeAlias = dict[str, Any]


class RunStatus(StrEnum):
    """Where the whole stands."""

    STARTED = "STARTED"
    CLARIFYING = "CLARIFYING"
    """Nothing goes on before a person has answered."""
    PLANNED = "PLANNED"
    IN_PROGRESS = "IN_PROGRESS"
    BLOCKED = "BLOCKED"
    DONE = "DONE"


class Mode(StrEnum):
    """Whether people are asked before tasks that have a gate."""

    INTERACTIVE = "interactive"
    EXPRESS = "express"
    """They are not. Dangerous actions need an approval all the same."""


@frozen(kw_only=True)
class StageNote:
    """A stage as it was when the run began."""

    id: StageId
    title: str
    agent: str
    artifact: str


@frozen(kw_only=True)
class TaskNote:
    """A task as it was when the run began."""

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
    """Not compared: a run goes on with the gates that it began with."""
    deeds: int = 0
    """How many it has."""
    domains: tuple[str, ...] = field(default=(), eq=False)
    """What it belongs to. Not compared: a run that began before tasks had domains goes on."""


@frozen(kw_only=True)
class Kept:
    """An artifact as it was when it was handed in."""

    path: str
    """Below the run folder."""
    sha256: str
    text: str | None = None
    """Its content, without its secrets; None if it is too long, or no text."""


@frozen(kw_only=True)
class Built:
    """What a builder has handed in under a claim."""

    contract: str
    """JSON, as it was read; empty if it was none. In the state it stands in the record of the task."""
    problems: tuple[str, ...] = ()
    """Why it is no contract."""
    failure: str = ""
    """What the agent raised."""
    subject: tuple[Bound, ...] = ()
    """Files that it speaks of, as they were then."""
    kept: tuple[Kept, ...] = ()
    tool_calls: int | None = None
    """Counted by us; None where nothing could be counted."""
    messages: int | None = None
    finding: Finding | None = None
    """The limit at which the agent was stopped, if it was."""


@frozen(kw_only=True)
class TaskRecord:
    """What is known of a task beside what it is."""

    id: TaskId
    status: TaskStatus = TaskStatus.PENDING
    attempts: int = 0
    """Claims there were, those included that were cut off."""
    granted: int = 0
    """Further attempts that people have allowed."""
    released: bool = False
    """Whether a person has let it go on, though it was blocked."""
    claim: Claim | None = None
    """The one under way. Nothing is judged but what was built under it."""
    claimed_at: datetime | None = None
    built: Built | None = None
    """What was handed in under it."""
    proven: bool = False
    """Whether that was found good, and its deeds have to be done."""
    done: int = 0
    """Deeds that are done."""
    prompt: str = ""
    """What the agent was asked last."""
    builder: str = ""
    """The last contract that was handed in, as JSON."""
    validation: str = ""
    """What came of judging it, as JSON."""
    failed: tuple[str, ...] = ()
    """What was wrong with the last try: the next one is told."""
    note: str = ""
    """Why it is blocked, or what a person is asked."""
    answers: tuple[str, ...] = ()
    """What people have said, the last ones."""
    proof: tuple[Evidence, ...] = ()
    """What it passes by."""
    kept: tuple[Kept, ...] = ()
    """Its artifacts, of the last try."""
    set_backs: int = 0
    """How often its proof has turned stale."""
    remembered: bool = False
    """Whether the memory has been told of its pass."""
    passed_step: int = 0
    """The step that it passed at last."""


@frozen(kw_only=True)
class PipelineState:
    """Everything a pipeline needs to go on."""

    layout: str = "pipeline/1"
    """What the state is written as."""
    run_id: str = ""
    """Empty until it is planned."""
    goal: str = ""
    mode: Mode = Mode.INTERACTIVE
    project_root: str = ""
    run_folder: str = ""
    """Below the project's root."""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    stages: tuple[StageNote, ...] = ()
    plan: tuple[TaskNote, ...] = ()
    tasks: tuple[TaskRecord, ...] = ()
    """One for each of the plan, in the same order."""
    guardrails: str = ""
    """In words, as agents are told them."""


class MoveKind(StrEnum):
    """What a step is about."""

    PLAN = "plan"
    CLAIM = "claim"
    """An attempt begins."""
    BUILD = "build"
    """An agent has handed in its work."""
    JUDGE = "judge"
    """It was judged."""
    ACT = "act"
    """What it needed to have done was done, or refused."""
    RECLAIM = "reclaim"
    """A claim that was cut off is given back."""
    SET_BACK = "set_back"
    """What was proven is so no longer: its content has changed."""
    ORDERS = "orders"
    """A person's words were followed."""
    BLOCK = "block"
    """A guard does not let a task be claimed."""
    REMEMBER = "remember"
    """The memory was told of what has passed."""


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
    """Of the task; without one, of the whole."""
    note: str = ""
    events: tuple[Json, ...] = field(default=(), converter=_jsons)
    """What has happened, for `events.jsonl`."""
    evidence: tuple[Json, ...] = field(default=(), converter=_jsons)
    """What was seen, for `evidence.jsonl`."""


PipelineStep: TypeAlias = StepYield[PipelineInput, PipelineOutput]


@frozen(kw_only=True)
class StepDraft:
    """A step that is decided and not written yet."""

    state: PipelineState
    """The state that it leads to."""
    kind: MoveKind
    task: TaskId | None = None
    note: str = ""
    events: Sequence[Json] = ()
    evidence: Sequence[Evidence] = ()
    findings: Sequence[Finding] = ()


_GOING_ON = (TaskStatus.READY, TaskStatus.IN_PROGRESS, TaskStatus.FAIL)


def run_status(state: PipelineState) -> RunStatus:
    """Return where the whole stands."""
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
    """Return what is known of a task."""
    return next(task for task in state.tasks if task.id == id)


def note_of(state: PipelineState, id: TaskId) -> TaskNote:
    """Return what a task is."""
    return next(note for note in state.plan if note.id == id)


def agents_of(state: PipelineState, task: TaskNote) -> dict[StageId, str]:
    """Return the name of the agent of each stage of a task; whoever builds the task goes by the first."""
    names = {stage.id: stage.agent for stage in state.stages}
    return {id: names[id] for id in task.stages}


def builder_name(state: PipelineState, task: TaskNote) -> str:
    """Return the name that the builder of a task goes by."""
    return agents_of(state, task)[task.stages[0]]


def artifact_path(state: PipelineState, stage: StageId) -> str:
    """Return where the artifact of a stage is, below the project's root."""
    note = next(one for one in state.stages if one.id == stage)
    return f"{state.run_folder}/artifacts/stages/{stage}/{note.artifact}"


def own_artifact_path(state: PipelineState, task: TaskNote) -> str:
    """Return where the artifact of a task itself is, below the project's root; "" if it has none."""
    return f"{state.run_folder}/artifacts/{task.artifact}" if task.artifact else ""


def artifact_paths(state: PipelineState, task: TaskNote) -> tuple[str, ...]:
    """Return where the artifacts of a task are: those of its stages, then its own."""
    own = own_artifact_path(state, task)
    return (*(artifact_path(state, stage) for stage in task.stages), *((own,) if own else ()))
