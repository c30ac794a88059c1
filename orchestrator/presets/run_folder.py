"""A harness exported as a run folder, from its records: of a live run or a dead one.

    a pipeline          the same as its own run folder, and the recorded artifacts
    a feature list      tasks/<feature>/{prompt.md,validation.json}, verdicts as evidence, all records as events
    any other           all records as events, and all attachments

Invariants: only the store is read; a file gets its name when it is complete; no file name is chosen by an agent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec

from harnesses.pipeline.pipeline_state import PipelineState, RunStatus
from harnesses.pipeline.plan.ids import PipelineInvalid, is_id
from harnesses.pipeline.run_folder.folder_files import write_folder, write_lines
from harnesses.pipeline.run_folder.folder_text import (
    EVENTS,
    EVIDENCE,
    MANIFEST,
    SCHEMA_VERSION,
    WRITER,
    Folder,
    as_json,
    as_line,
    render_folder,
    run_id_of,
    slug,
    stamp,
)
from harnesses.redaction.redactor import redact, redact_text
from harnesses.timing.clock import utc_now
from orchestrator.codec import decode
from orchestrator.errors import UsageError
from orchestrator.history.past_reader import find_harness, read_records
from orchestrator.lifecycle import Status
from orchestrator.records import HarnessRecord, Record
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

_NOT_SHOWN = ("delta", "ticks", "governance")
"""Fields of a step's body that are storage details and not exported."""
_STATUS = {
    Status.NEW: RunStatus.STARTED,
    Status.COMPLETED: RunStatus.DONE,
    Status.FINISHED: RunStatus.DONE,
    Status.FAILED: RunStatus.BLOCKED,
    Status.GAVE_UP: RunStatus.BLOCKED,
    Status.BLOCKED: RunStatus.BLOCKED,
    Status.BUDGET_SPENT: RunStatus.BLOCKED,
}


def export_run_folder(reader: SqliteReader, name: str, output: Path) -> int:
    """Write the run folder of a harness; return the number of its files.

    Raises:
        UsageError: the folder cannot be written, or holds something else.
        UnknownHarness: there is no such harness.
    """
    harness = find_harness(reader, name)
    state: Any = decode(reader.state_at(name, harness.current_step))
    pipeline = pipeline_of(state)
    folder = _folder_of(reader, harness, state) if pipeline is None else render_folder(pipeline, (), (), kept=True)
    _check_output(output, folder)
    files = {path: text for path, text in folder.files.items() if path not in (EVENTS, EVIDENCE)}
    try:
        write_folder(output, Folder(files=files, directories=folder.directories))
        write_lines(output, EVENTS, map(as_line, _events(reader, harness, pipeline)))
        write_lines(output, EVIDENCE, map(as_line, _evidence(reader, harness)))
    except (OSError, PipelineInvalid) as error:
        raise UsageError(f"{output} cannot be written: {error}; choose another folder") from error
    return len(files) + 2


def pipeline_of(state: object) -> PipelineState | None:
    """Return the state of a pipeline that has begun; None for any other state."""
    if not isinstance(state, dict) or not str(cast(dict[str, object], state).get("layout", "")).startswith("pipeline/"):
        return None
    try:
        found = msgspec.convert(state, PipelineState, str_keys=True)
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise UsageError(f"the stored state does not fit the current pipeline state: {error}") from error
    return found if found.run_id else None


def _check_output(output: Path, folder: Folder) -> None:
    """Raise unless a folder is new, empty, or an earlier export of the same run."""
    if not output.exists():
        return
    if output.is_symlink() or not output.is_dir():
        raise UsageError(f"{output} is not a directory: expected a new one; choose another")
    if not any(output.iterdir()):
        return
    try:
        known = json.loads((output / MANIFEST).read_text(encoding="utf-8")).get("run_id")
    except (OSError, ValueError, AttributeError):
        known = None
    wanted = json.loads(folder.files[MANIFEST])["run_id"]
    if known != wanted:
        raise UsageError(f"{output} has other files: expected a new or empty directory, or run {wanted}; choose another")


# events


def _records(reader: SqliteReader, harness: HarnessRecord) -> Iterator[Record]:
    """Yield the records of a harness that exist now."""
    for record in read_records(reader):
        if record.harness == harness.name and record.step <= harness.current_step + 1:
            yield record


def _events(reader: SqliteReader, harness: HarnessRecord, pipeline: PipelineState | None) -> Iterator[Mapping[str, object]]:
    """Yield the events: a pipeline's own events, or every record of any other harness."""
    for record in _records(reader, harness):
        if record.kind == "task" and record.step <= harness.current_step:
            yield _read_body(record)
        elif pipeline is None and record.kind not in ("task", "evidence"):
            yield _read_event(record)


def _read_body(record: Record) -> dict[str, object]:
    body = cast(dict[str, object], redact(decode(record.body)))
    first = {"ts": body.pop("ts", None) or _stamp(record), "type": body.pop("type", None) or record.kind}
    return {**first, **body}


def _read_event(record: Record) -> dict[str, object]:
    body = cast(dict[str, Any], redact(decode(record.body)))
    own = {name: value for name, value in body.items() if name not in (*_NOT_SHOWN, "ts", "type")}
    fixed = {"ts": _stamp(record), "type": f"harness.{record.kind}", "seq": record.seq, "attempt": record.attempt}
    return {**fixed, "step": record.step, **{name: value for name, value in own.items() if name not in fixed}}


def _evidence(reader: SqliteReader, harness: HarnessRecord) -> Iterator[Mapping[str, object]]:
    """Yield attached evidence, and the verdicts on the features of a list."""
    for record in _records(reader, harness):
        if record.step > harness.current_step:
            continue
        if record.kind == "evidence":
            body = cast(dict[str, object], decode(record.body))
            yield {**body, "evidence": redact_text(str(body.get("evidence", "")))}
        elif record.kind == "step" and (entry := _verdict(record)) is not None:
            yield entry


def _verdict(record: Record) -> dict[str, object] | None:
    """Return the verdict on a feature as an evidence entry; None if the step holds no verdict."""
    match decode(record.body):
        case {"input": {"feature_id": str(id)}, "output": {"verdict": {"passed": bool(passed), "evidence": str(said)}}}:
            status = "PASS" if passed else "FAIL"
            return {
                "ts": _stamp(record),
                "task_id": id,
                "kind": "validation",
                "status": status,
                "evidence": redact_text(said).strip() or "no words were given",
                "grade": "observed",
            }
        case _:
            return None


def _stamp(record: Record) -> str:
    return str(stamp(record.timestamp))


# harnesses without a run folder of their own


def _folder_of(reader: SqliteReader, harness: HarnessRecord, state: object) -> Folder:
    features = _features(state)
    files = {MANIFEST: as_json(_manifest(reader, harness, state, features))}
    for feature, standing in features:
        place = f"tasks/{_task_name(str(feature['id']))}"
        files[f"{place}/prompt.md"] = redact_text(_describe(feature))
        if (evidence := standing.get("evidence")) is not None:
            files[f"{place}/validation.json"] = as_json(redact(_validation(feature, evidence)))
    return Folder(files=files, directories=("artifacts/stages",))


def _manifest(reader: SqliteReader, harness: HarnessRecord, state: object, features: Iterable[object]) -> dict[str, object]:
    first = next(_records(reader, harness), None)
    began = utc_now() if first is None else first.timestamp
    match state:
        case {"manifest": {"current_objective": str(objective)}}:
            goal = redact_text(objective)
        case _:
            goal = harness.harness_class
    status = _STATUS.get(harness.status, RunStatus.IN_PROGRESS if harness.current_step else RunStatus.STARTED)
    updated = datetime.fromtimestamp(harness.last_time_us / 1e6, UTC) if harness.last_time_us else began
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id_of(harness.name, began),
        "created_at": stamp(began),
        "updated_at": stamp(updated),
        "goal": goal,
        "mode": "express",
        "status": str(status),
        "project_root": "",
        "rstack_version": WRITER,
        "stage_taxonomy": [],
        "harness": harness.name,
        "harness_class": harness.harness_class,
        "harness_status": str(harness.status),
        "steps": harness.current_step,
    }


def _features(state: object) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the features of a list with their status; empty for another state."""
    fields = cast(dict[str, Any], state) if isinstance(state, dict) else {}
    features, standings = fields.get("features"), fields.get("standings")
    if not isinstance(features, list) or not isinstance(standings, list):
        return []
    pairs: Any = zip(cast(Any, features), cast(Any, standings), strict=False)
    return [(one, other) for one, other in pairs if isinstance(one, dict) and isinstance(other, dict) and "id" in one]


def _task_name(id: str) -> str:
    """Return a directory name for a feature: its id if that is a valid name, else words of it and a hash."""
    return id if is_id(id) else f"{slug(id)[:48]}-{hashlib.sha256(id.encode(errors='replace')).hexdigest()[:12]}"


def _describe(feature: Mapping[str, Any]) -> str:
    steps = "\n".join(f"- {step}" for step in feature.get("steps", ()))
    return f"# {feature['id']}\n\n{feature.get('description', '')}\n\nIt works if:\n{steps}\n"


def _validation(feature: Mapping[str, Any], evidence: Mapping[str, Any]) -> dict[str, object]:
    status = "PASS" if evidence.get("passed") else "FAIL"
    check = {"name": "verdict", "status": status, "evidence": evidence.get("evidence", "")}
    return {
        "task_id": feature["id"],
        "validator": evidence.get("validator") or "validator",
        "status": status,
        "checks": [check],
        "issues": [] if status == "PASS" else [evidence.get("evidence", "")],
        "retry_recommendation": "none" if status == "PASS" else "retry_builder",
    }
