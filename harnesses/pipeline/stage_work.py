"""The inputs of a pipeline's agents, and the parsing of their answers.

Both inputs extend the assignment of a feature list, so that a `CommandAgent` can be a builder or a validator.

A builder answers with its contract: a `BuilderContract`, an object, JSON text (also in a fence within other text), or a
`TurnResult` with such a message. If the answer is not a contract, it is read from `builder.json` in the run folder. It is
stored without secrets, with its artifacts and the hashes of the files it names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

from attrs import frozen

from harnesses.agent import Agent
from harnesses.diagnostics.control_characters import inert_json
from harnesses.features.agent_text import storable
from harnesses.features.feature import Feature, TurnResult
from harnesses.features.feature_record import Assignment
from harnesses.features.turn_results import describe_error
from harnesses.governance.contracts.contract import BuilderContract, ValidatorContract
from harnesses.governance.contracts.contract_fields import MAX_DOCUMENT
from harnesses.governance.contracts.contract_json import plain, read_builder
from harnesses.governance.errors import ContractError, EvidenceError
from harnesses.governance.evidence.attempt_verdict import Claim
from harnesses.governance.evidence.file_binding import Bound, bind
from harnesses.pipeline.judging.inspection import read_below
from harnesses.pipeline.judging.read_only_copy import ReadOnly
from harnesses.pipeline.pipeline_state import (
    MAX_CONTRACT,
    MAX_KEPT,
    Built,
    Kept,
    PipelineState,
    TaskNote,
    artifact_path,
    artifact_paths,
    builder_name,
    own_artifact_path,
    record_of,
)
from harnesses.pipeline.plan.stage import MAX_ARTIFACT_BYTES
from harnesses.redaction.redactor import redact, redact_text

PipelineAgent: TypeAlias = Agent[Any, Any, Any]
MAX_NONCE = 200
_MAX_ERROR = 1_000
"""Maximum characters kept of an agent's error."""
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL)


@frozen(kw_only=True)
class StageWork(Assignment):
    """The input of a builder. `directory` is the project's root."""

    task: TaskNote
    claim: Claim
    """The attempt; its nonce must be in the contract."""
    agent: str
    """Name of the builder."""
    artifacts: Mapping[str, str]
    """Paths of the stages' artifacts, below the directory, by stage id."""
    own_artifact: str = ""
    """Path of the task's own artifact, if it has one."""
    builder_json: str = ""
    """Path where the contract may be left, below the directory."""


@frozen(kw_only=True)
class Inspection(Assignment):
    """The input of a validator. It has no directory, unless the validator is a program, which gets its own copy."""

    task: TaskNote
    claim: Claim
    validator: str
    """Name of the validator."""
    contract: BuilderContract
    """The builder's contract."""
    artifacts: Mapping[str, str]
    project: ReadOnly
    """A copy of the project, to read and to run commands in."""


def builder_json(state: PipelineState, task: TaskNote) -> str:
    """Return the path where a builder may leave its contract, below the project's root."""
    return f"{state.run_folder}/tasks/{task.id}/builder.json"


def stage_work(workspace: Path, state: PipelineState, task: TaskNote, claim: Claim) -> StageWork:
    """Return the input of a task's builder."""
    record, folder = record_of(state, task.id), workspace / state.run_folder
    return StageWork(
        feature=Feature(str(task.id), task.title, steps=task.acceptance_criteria),
        turn=claim.attempt,
        prompt=record.prompt,
        objective=state.goal,
        last_failure="\n".join(record.failed) or None,
        directory=str(workspace),
        readable=(str(folder),),
        writable=(str(folder / "artifacts"), str(folder / "tasks" / str(task.id))),
        task=task,
        claim=claim,
        agent=builder_name(state, task),
        artifacts={str(id): artifact_path(state, id) for id in task.stages},
        own_artifact=own_artifact_path(state, task),
        builder_json=builder_json(state, task),
    )


def contract_in(answer: object, file: bytes | None) -> Mapping[str, object] | str | None:
    """Return the contract in an agent's answer, or else in its file; None if there is none."""
    if isinstance(answer, TurnResult):
        answer = answer.message
    if isinstance(answer, BuilderContract | ValidatorContract):
        return plain(answer)
    if isinstance(answer, Mapping):
        return cast(Mapping[str, object], answer)
    if isinstance(answer, bytes):
        answer = answer.decode("utf-8", errors="replace")
    if isinstance(answer, str) and (found := _json_in(answer)) is not None:
        return found
    return None if file is None else file.decode("utf-8", errors="replace")


def _json_in(text: str) -> str | None:
    """Return the JSON object in a text: the whole text, or the content of its last fence."""
    text = text[-MAX_CONTRACT:].strip()
    if text.startswith("{"):
        return text
    fences = [one.strip() for one in _FENCE.findall(text)]
    return next((one for one in reversed(fences) if one.startswith("{")), None)


def as_text(data: object) -> str:
    """Return plain data as JSON text for storing."""
    return inert_json(json.dumps(data, ensure_ascii=False, indent=2))


def read_submission(workspace: Path, state: PipelineState, task: TaskNote, answer: object) -> Built:
    """Return an agent's submission: its contract in stored form, and the content that it names."""
    found = contract_in(answer, read_below(workspace, builder_json(state, task), MAX_DOCUMENT + 1))
    if found is None:
        return Built(contract="", problems=("nothing was submitted: expected a contract, as the answer or in builder.json",))
    paths = artifact_paths(state, task)
    kept = tuple(one for path in paths if (one := _keep(workspace, state.run_folder, path)) is not None)
    try:
        read_builder(found, task_id=str(task.id), agent=builder_name(state, task))
    except ContractError as error:
        return Built(contract="", problems=tuple(redact_text(one) for one in error.problems[:20]), kept=kept)
    data = _redacted(found)
    text = as_text(data)
    if len(text) > MAX_CONTRACT:
        problem = f"builder: expected at most {MAX_CONTRACT} characters, was {len(text)}"
        return Built(contract="", problems=(problem,), kept=kept)
    named: Any = data.get("files_modified")
    files = [path for path in cast("list[object]", named) if isinstance(path, str)] if isinstance(named, list) else []
    # The judge reports a file that cannot be read.
    subject = tuple(one for path in (*paths, *files[:10_000]) for one in _bind(workspace, path))
    return Built(contract=text + "\n", subject=subject, kept=kept)


def error_text(error: Exception) -> str:
    """Return the text of an agent's error in stored form: without secrets, cut to size."""
    return redact_text(storable(describe_error(error)).replace("\0", ""))[:_MAX_ERROR]


def _redacted(found: Mapping[str, object] | str) -> dict[str, object]:
    """Return a contract as plain data without secrets."""
    data: dict[str, object] = json.loads(found if isinstance(found, str) else json.dumps(dict(found)))
    nonce = data.get("nonce")
    # The nonce may look like a key, but is the pipeline's own.
    return redact(data) | ({"nonce": nonce} if isinstance(nonce, str) and len(nonce) <= MAX_NONCE else {})


def _keep(workspace: Path, folder: str, path: str) -> Kept | None:
    content = read_below(workspace, path, MAX_ARTIFACT_BYTES + 1)
    bound = () if content is None else _bind(workspace, path)
    if content is None or not bound:
        return None
    try:
        text: str | None = redact_text(content.decode("utf-8"))
    except UnicodeDecodeError:
        text = None
    if text is not None and (len(text) > MAX_KEPT or "\0" in text):
        text = None
    return Kept(path=path.removeprefix(f"{folder}/"), sha256=bound[0].sha256, text=text)


def _bind(workspace: Path, path: str) -> tuple[Bound, ...]:
    try:
        return bind(workspace, (path,))
    except EvidenceError:
        return ()
