"""The plan of a pipeline, validated before any work."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from attrs import fields, frozen

from harnesses.governance.limits.guardrails import Guardrails
from harnesses.pipeline.pipeline_state import Mode, PipelineState, StageNote, TaskNote, TaskRecord
from harnesses.pipeline.plan.ids import PipelineInvalid, StageId, TaskId
from harnesses.pipeline.plan.stage import Stage
from harnesses.pipeline.plan.task import Task, check_tasks, find_waits
from harnesses.redaction.redactor import redact_text

FOLDER = ".pipeline/runs"
"""Default parent of the run folders, below the workspace."""
_NOTED = tuple(one.name for one in fields(TaskNote) if one.name not in ("after", "deeds"))
"""Fields of a task that are recorded unchanged."""


@frozen(kw_only=True)
class PipelinePlan:
    """Stages, the tasks that cover them, and the workspace."""

    stages: Mapping[StageId, Stage]
    tasks: Mapping[TaskId, Task]
    stage_notes: tuple[StageNote, ...]
    task_notes: tuple[TaskNote, ...]
    workspace: Path
    run_folder: str
    """Path below the workspace; "" for a new one in `FOLDER`."""
    goal: str
    mode: Mode
    guardrails: Guardrails

    def first_state(self, run_id: str, now: datetime) -> PipelineState:
        """Return the initial state of a run, in which no task is ready yet."""
        return PipelineState(
            run_id=run_id,
            goal=redact_text(self.goal),
            mode=self.mode,
            project_root=str(self.workspace),
            run_folder=self.run_folder or f"{FOLDER}/{run_id}",
            created_at=now,
            updated_at=now,
            stages=self.stage_notes,
            plan=self.task_notes,
            tasks=tuple(TaskRecord(id=note.id) for note in self.task_notes),
            guardrails="\n".join(self.guardrails.summary()),
        )

    def check_same(self, state: PipelineState) -> None:
        """Check that the plan is the one with which the run began.

        Raises:
            PipelineInvalid: it is another one.
        """
        if (state.stages, state.plan) != (self.stage_notes, self.task_notes):
            known = {note.id: note for note in state.plan}
            other = [str(note.id) for note in self.task_notes if known.get(note.id) != note]
            raise PipelineInvalid(
                f"the pipeline given is not the one being worked ({', '.join(other[:5]) or 'its stages'} differ): expected "
                "the same; start it under a name of its own"
            )
        if state.project_root != str(self.workspace):
            raise PipelineInvalid(
                f"workspace: expected {state.project_root!r}, where this run has begun, was {str(self.workspace)!r}; "
                "start it there, or under a name of its own"
            )


def make_plan(
    stages: Sequence[Stage],
    tasks: Sequence[Task],
    *,
    workspace: Path | str,
    run_folder: Path | str | None,
    goal: str,
    mode: Mode | str,
    guardrails: Guardrails,
) -> PipelinePlan:
    """Return the plan of a pipeline.

    Raises:
        PipelineInvalid: an argument is invalid.
    """
    known = {task.id: task for task in check_tasks(tasks, stages)}
    after, place = find_waits(tasks, stages), Path(os.path.abspath(workspace))
    folder = "" if run_folder is None else _below(place, run_folder)
    if not goal.strip():
        raise PipelineInvalid(f"goal: expected what the whole is for, in a sentence, was {goal!r}; say it")
    return PipelinePlan(
        stages={stage.id: stage for stage in stages},
        tasks=known,
        stage_notes=tuple(StageNote(id=one.id, title=one.title, agent=one.agent, artifact=one.artifact) for one in stages),
        task_notes=tuple(
            TaskNote(after=after[task.id], deeds=len(task.deeds), **{name: getattr(task, name) for name in _NOTED})
            for task in tasks
        ),
        workspace=place,
        run_folder=folder,
        goal=goal,
        mode=Mode(mode),
        guardrails=guardrails,
    )


def _below(workspace: Path, folder: Path | str) -> str:
    """Return the path of a run folder below the workspace."""
    place = os.path.relpath(os.path.abspath(workspace / folder), workspace)
    if place == "." or place.split(os.sep)[0] == "..":
        raise PipelineInvalid(
            f"run_folder: expected a directory of its own below the workspace {str(workspace)!r}, was "
            f"{str(folder)!r}; agents in a sandbox could not write elsewhere"
        )
    return place
