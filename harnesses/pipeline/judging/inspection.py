"""Inspects the files and artifacts that a contract names, as they are in a copy.

Invariants: what cannot be inspected is a failed or missing check, never a passed one; links are never followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve

from harnesses.features.agent_text import one_line
from harnesses.governance.contracts.contract import BuilderContract, Check, failed, passed
from harnesses.governance.contracts.contract_json import read_builder
from harnesses.governance.errors import ContractError, EvidenceError
from harnesses.governance.evidence.attempt_verdict import unreadable
from harnesses.governance.evidence.file_binding import Bound, bind
from harnesses.governance.limits.counted_agent import Tally
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.pipeline.pipeline_state import Built, PipelineState, TaskNote, artifact_paths, builder_name
from harnesses.pipeline.plan.ids import StageId
from harnesses.pipeline.plan.stage import MAX_ARTIFACT_BYTES, MAX_FILE_BYTES, MAX_FILES, Artifact, read_artifact
from harnesses.timing.clock import now_s

_SLACK_S = 2.0
"""Maximum seconds by which file times may be behind the clock."""
_KEPT_BY_OTHERS = (".db", ".db-wal", ".db-shm", ".db-head", ".db-journal", ".log")


def contract_of(state: PipelineState, task: TaskNote, built: Built) -> tuple[BuilderContract | None, list[Check]]:
    """Return the submitted contract, and failed checks if it is invalid."""
    if built.failure:
        return None, [failed("builder_finished", built.failure)]
    if built.problems:
        return None, [failed("builder_contract_json", problem) for problem in built.problems]
    if not built.contract:
        return None, []
    try:
        contract = read_builder(built.contract, task_id=str(task.id), agent=builder_name(state, task))
    except ContractError as error:
        return None, list(unreadable(error))
    folder = f"{state.run_folder}/tasks/"
    # This file is submitted, but not part of the work: the run folder overwrites it.
    files = tuple(path for path in contract.files_modified if not os.path.normpath(path).startswith(folder))
    return evolve(contract, files_modified=files), []


def files_named(state: PipelineState, task: TaskNote, contract: BuilderContract) -> tuple[str, ...]:
    """Return the files that a contract names, each once, by normalised path."""
    return tuple(dict.fromkeys(map(os.path.normpath, (*artifact_paths(state, task), *contract.files_modified))))


def written_since(workspace: Path, copy: Path, state: PipelineState) -> tuple[str, ...]:
    """Return the files of a copy that were written since the pipeline began, whether they are named or not.

    Left out are the run folder, hidden files (`.git`), and stores and logs, because these are written by observers of the
    work.
    """
    began = 0.0 if state.created_at is None else state.created_at.timestamp() - _SLACK_S
    # If the pipeline's clock is ahead of the machine's, file times say nothing; then all files count.
    since = began if began <= now_s() else 0.0
    found: list[str] = []
    for directory, names, files in os.walk(copy):
        below = os.path.relpath(directory, copy)
        names[:] = sorted(one for one in names if not one.startswith(".") and _joined(below, one) != state.run_folder)
        for name in sorted(files):
            path = _joined(below, name)
            if not name.startswith(".") and not name.endswith(_KEPT_BY_OTHERS) and _is_newer(workspace / path, since):
                found.append(path)
    return tuple(found)


def _joined(below: str, name: str) -> str:
    return os.path.normpath(os.path.join(below, name))


def _is_newer(place: Path, since: float) -> bool:
    try:
        found = os.lstat(place)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_ctime >= since


def tally_of(built: Built, guardrails: Guardrails) -> Tally:
    """Return the counts taken during the build."""
    tally = Tally(guardrails)
    tally.tool_calls, tally.messages = built.tool_calls or 0, built.messages or 0
    tally.is_counting = built.tool_calls is not None
    return tally


def bind_files(root: Path, paths: Sequence[str]) -> tuple[tuple[Bound, ...], list[Check]]:
    """Return files with the hashes of their content, and a failed check if they cannot be read."""
    try:
        return bind(root, paths), []
    except EvidenceError as error:
        return (), [failed("content_bound", one_line(str(error), 300))]


def unchanged_check(built: Built, subject: Sequence[Bound]) -> Check:
    """Return a check on whether the files are unchanged since they were submitted."""
    then = {one.path: one.sha256 for one in built.subject}
    other = [one.path for one in subject if then.get(one.path, one.sha256) != one.sha256]
    if other:
        return failed("content_as_handed_in", f"changed since submission: {', '.join(other[:5])}; submit the current files")
    return passed("content_as_handed_in", f"{len(subject)} files")


def read_files(root: Path, paths: Sequence[str]) -> dict[str, str]:
    """Return the text of the first files, the beginning of each; missing files and links leading out are left out."""
    within = root.resolve()
    found: dict[str, str] = {}
    for path in paths[:MAX_FILES]:
        try:
            place = (root / path).resolve()
            if place.is_relative_to(within) and place.is_file():
                with place.open("rb") as file:
                    found[path] = file.read(MAX_FILE_BYTES).decode("utf-8", errors="replace")
        except (OSError, ValueError):
            continue
    return found


def read_artifact_below(
    root: Path, path: str, stage: StageId, contract: BuilderContract, files: Mapping[str, str]
) -> Artifact:
    """Return an artifact in the form in which the checks of its stage receive it."""
    content = read_below(root, path, MAX_ARTIFACT_BYTES + 1)
    artifact, problem = read_artifact(path, content)
    return Artifact(
        stage=str(stage),
        path=path,
        artifact=artifact,
        problem=problem,
        tests_run=contract.tests_run,
        files_modified=contract.files_modified,
        files=files,
    )


def read_below(root: Path, path: str, most: int) -> bytes | None:
    """Return the first bytes of a file below a directory; None if it is missing, not a file, or a link."""
    try:
        place = root / path
        if place.resolve() != root.resolve() / path or not place.is_file():
            return None
        with place.open("rb") as file:
            return file.read(most)
    except (OSError, ValueError):
        return None
