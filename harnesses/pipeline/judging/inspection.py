"""Looks at what a contract speaks of: its files and artifacts, as they are in a copy.

The laws: what cannot be looked at is a failed check or a missing one, never a passed one; links lead nowhere.
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
"""By which the times of files may be behind the clock."""
_KEPT_BY_OTHERS = (".db", ".db-wal", ".db-shm", ".db-head", ".db-journal", ".log")


def contract_of(state: PipelineState, task: TaskNote, built: Built) -> tuple[BuilderContract | None, list[Check]]:
    """Return the contract that was handed in, and why it is none."""
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
    # A view of ours, which is written anew: it is handed in, and not part of the work.
    files = tuple(path for path in contract.files_modified if not os.path.normpath(path).startswith(folder))
    return evolve(contract, files_modified=files), []


def files_named(state: PipelineState, task: TaskNote, contract: BuilderContract) -> tuple[str, ...]:
    """Return the files that a contract speaks of, each once, by their plain names."""
    return tuple(dict.fromkeys(map(os.path.normpath, (*artifact_paths(state, task), *contract.files_modified))))


def written_since(workspace: Path, copy: Path, state: PipelineState) -> tuple[str, ...]:
    """Return the files of a copy that were written since the pipeline began, whoever names them.

    Left out are the run folder, what is hidden (`.git`), and stores and logs: those that watch the work write them.
    """
    began = 0.0 if state.created_at is None else state.created_at.timestamp() - _SLACK_S
    # A clock that is ahead of the machine's tells nothing: then all of them count.
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
    """Return what was counted while it was built."""
    tally = Tally(guardrails)
    tally.tool_calls, tally.messages = built.tool_calls or 0, built.messages or 0
    tally.is_counting = built.tool_calls is not None
    return tally


def bind_files(root: Path, paths: Sequence[str]) -> tuple[tuple[Bound, ...], list[Check]]:
    """Return files with the hashes of their content, and a failed check if that cannot be had."""
    try:
        return bind(root, paths), []
    except EvidenceError as error:
        return (), [failed("content_bound", one_line(str(error), 300))]


def unchanged_check(built: Built, subject: Sequence[Bound]) -> Check:
    """Return whether the files are still what they were when they were handed in."""
    then = {one.path: one.sha256 for one in built.subject}
    other = [one.path for one in subject if then.get(one.path, one.sha256) != one.sha256]
    if other:
        return failed("content_as_handed_in", f"changed since it was handed in: {', '.join(other[:5])}; hand in what is there")
    return passed("content_as_handed_in", f"{len(subject)} files")


def read_files(root: Path, paths: Sequence[str]) -> dict[str, str]:
    """Return the text of the first files, the first part of each; one that is not there, or leads out, is left out."""
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
    """Return an artifact as the checks of its stage get it."""
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
    """Return the first bytes of a file below a directory; None if it is none, or a link."""
    try:
        place = root / path
        if place.resolve() != root.resolve() / path or not place.is_file():
            return None
        with place.open("rb") as file:
            return file.read(most)
    except (OSError, ValueError):
        return None
