"""The run folder: what a pipeline has done, as files. Rendered from what is on record, and from nothing else. Pure.

    manifest.json                       what the run is, and where it stands
    pipeline-state.json                 where each stage stands: status, attempts, what was wrong, artifact
    events.jsonl                        what happened: {ts, type, …}, a line each
    evidence.jsonl                      what was seen: {ts, task_id, kind, status, evidence, …}, a line each
    tasks/<task_id>/prompt.md           what its agent was asked last
    tasks/<task_id>/builder.json        the contract that was handed in last
    tasks/<task_id>/validation.json     what came of judging it
    artifacts/stages/<stage-id>/        what each stage has made; all of the directories are there from the beginning

The laws: the same record gives the same files, byte for byte; and no name in them is an agent's.
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
"""What stands where readers of this layout expect the version of the program that has written it."""
MAX_SLUG = 64
NO_SLUG = "sdlc-run"


@frozen(kw_only=True)
class Folder:
    """The files of a run folder, and the directories that are there though empty."""

    files: Mapping[str, str]
    """Text by path, with slashes."""
    directories: tuple[str, ...]


def run_id_of(goal: str, when: datetime) -> str:
    """Return what a run is known by: when it began, and the first words of what it is for."""
    return f"{re.sub('[:.]', '-', stamp(when) or '')}-{slug(goal)}"


def slug(text: str) -> str:
    """Return words for a name: lower-case letters, digits and dashes, at most 64."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub("[^a-z0-9]+", "-", plain).strip("-")[:MAX_SLUG].strip("-") or NO_SLUG


def stamp(when: datetime | None) -> str | None:
    """Return a moment as it stands in the files."""
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
        evidence: likewise.
        kept: whether the artifacts that are kept on record are written too: not where the agents write them.
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
    """Return what the run is, and where it stands."""
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
    """Return where each stage stands, by the task that covers it; of several tasks, the one that is furthest from its end."""
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
    """Return a JSON file."""
    return inert_json(json.dumps(value, ensure_ascii=False, indent=2)) + "\n"


def as_lines(rows: Iterable[Mapping[str, object]]) -> str:
    """Return a file with a JSON object in each line."""
    return "".join(map(as_line, rows))


def as_line(row: Mapping[str, object]) -> str:
    """Return an object as a line."""
    # ASCII: so no reader takes a character of a text for the end of the line.
    return json.dumps(dict(row), separators=(",", ":")) + "\n"


def event(type: str, when: datetime, **fields: object) -> dict[str, object]:
    """Return a line of `events.jsonl`; a field that is None is left out."""
    return {"ts": stamp(when), "type": type} | {name: value for name, value in fields.items() if value is not None}
