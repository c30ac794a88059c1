"""Renders the files of a run folder from recorded data alone. No I/O.

    manifest.json                       what the run is, and its status
    pipeline-state.json                 the status of each stage, with attempts, problems and artifact
    events.jsonl                        events: {ts, type, …}, one on each line
    evidence.jsonl                      evidence: {ts, task_id, kind, status, evidence, …}, one on each line
    tasks/<task_id>/prompt.md           the last prompt of its agent
    tasks/<task_id>/builder.json        the last submitted contract
    tasks/<task_id>/validation.json     the result of its validation
    artifacts/stages/<stage-id>/        the artifacts of each stage; all directories exist from the beginning

Invariants: the same record gives the same files, byte for byte; no file name comes from an agent.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from attrs import frozen

from harnesses.diagnostics.control_characters import inert_json
from harnesses.governance.evidence.attempt_verdict import TaskStatus
from harnesses.pipeline.pipeline_state import PipelineState, run_status

MANIFEST, STAGES, EVENTS, EVIDENCE = "manifest.json", "pipeline-state.json", "events.jsonl", "evidence.jsonl"
SCHEMA_VERSION = 2
WRITER = "durable-harnesses/1"
"""Value of the field in which readers of this layout expect the version of the writing program."""
MAX_SLUG = 64
NO_SLUG = "sdlc-run"


@frozen(kw_only=True)
class Folder:
    """The files of a run folder, and its directories, including empty ones."""

    files: Mapping[str, str]
    """Texts by path, with slashes."""
    directories: tuple[str, ...]


def run_id_of(goal: str, when: datetime) -> str:
    """Return the id of a run: its start time, and the first words of its goal."""
    return f"{re.sub('[:.]', '-', stamp(when) or '')}-{slug(goal)}"


def slug(text: str) -> str:
    """Return a text as a name: lower-case letters, digits and dashes, at most 64."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub("[^a-z0-9]+", "-", plain).strip("-")[:MAX_SLUG].strip("-") or NO_SLUG


def stamp(when: datetime | None) -> str | None:
    """Return a time in the format of the files."""
    return None if when is None else when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def render_folder(
    state: PipelineState,
    events: Iterable[Mapping[str, object]],
    evidence: Iterable[Mapping[str, object]],
    *,
    kept: bool = False,
) -> Folder:
    """Return the run folder of a pipeline.

    Args:
        events: in the order in which they happened.
        evidence: in the order in which it was recorded.
        kept: whether to write the recorded artifacts too; not in the folder into which agents write them.
    """
    files = {
        MANIFEST: as_json(manifest(state)),
        STAGES: as_json(pipeline_state(state)),
        EVENTS: as_lines(events),
        EVIDENCE: as_lines(evidence),
    }
    for task in state.tasks:
        place = f"tasks/{task.id}"
        texts = {"prompt.md": task.prompt, "builder.json": task.builder, "validation.json": task.validation}
        files |= {f"{place}/{name}": text for name, text in texts.items() if text}
        files |= {one.path: one.text for one in task.kept if kept and one.text is not None}
    directories = [f"artifacts/stages/{stage.id}" for stage in state.stages] + [f"tasks/{task.id}" for task in state.tasks]
    return Folder(files=files, directories=tuple(directories))


def manifest(state: PipelineState) -> dict[str, object]:
    """Return the contents of `manifest.json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": state.run_id,
        "created_at": stamp(state.created_at),
        "updated_at": stamp(state.updated_at),
        "goal": state.goal,
        "mode": str(state.mode),
        "status": str(run_status(state)),
        "project_root": state.project_root,
        "rstack_version": WRITER,
        "stage_taxonomy": [
            {"id": str(stage.id), "title": stage.title, "agent": stage.agent, "artifact": stage.artifact}
            for stage in state.stages
        ],
    }


def pipeline_state(state: PipelineState) -> dict[str, object]:
    """Return the status of each stage by the task that covers it; of several tasks, the one furthest from its end."""
    order = (TaskStatus.BLOCKED, TaskStatus.NEEDS_CONTEXT, TaskStatus.FAIL, TaskStatus.IN_PROGRESS)
    records = {task.id: task for task in state.tasks}
    stages: list[dict[str, object]] = []
    for stage in state.stages:
        tasks = [records[note.id] for note in state.plan if stage.id in note.stages]
        unpassed = [task for task in tasks if task.status is not TaskStatus.PASS]
        worst = (task for status in order for task in unpassed if task.status is status)
        furthest = next(worst, unpassed[0] if unpassed else tasks[-1])
        stages.append(
            {
                "stage_id": str(stage.id),
                "title": stage.title,
                "task_id": str(furthest.id),
                "status": str(furthest.status),
                "attempts": furthest.attempts,
                "failed": list(furthest.failed),
                "note": furthest.note,
                "artifact": f"artifacts/stages/{stage.id}/{stage.artifact}",
            }
        )
    statuses = [one["status"] for one in stages]
    return {
        "schema_version": 1,
        "run_id": state.run_id,
        "updated_at": stamp(state.updated_at),
        "status": str(run_status(state)),
        "stages_total": len(stages),
        "stages_passed": statuses.count(str(TaskStatus.PASS)),
        "current": [str(task.id) for task in state.tasks if task.status is TaskStatus.IN_PROGRESS],
        "stages": stages,
    }


def as_json(value: object) -> str:
    """Return a value as the text of a JSON file."""
    return inert_json(json.dumps(value, ensure_ascii=False, indent=2)) + "\n"


def as_lines(rows: Iterable[Mapping[str, object]]) -> str:
    """Return objects as the text of a JSON Lines file."""
    return "".join(map(as_line, rows))


def as_line(row: Mapping[str, object]) -> str:
    """Return an object as one line."""
    # ASCII, so that no reader takes a character of a text for a line end.
    return json.dumps(dict(row), separators=(",", ":")) + "\n"


def event(type: str, when: datetime, **fields: object) -> dict[str, object]:
    """Return an event for `events.jsonl`; fields that are None are left out."""
    return {"ts": stamp(when), "type": type} | {name: value for name, value in fields.items() if value is not None}
