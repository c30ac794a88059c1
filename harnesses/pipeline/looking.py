"""What a contract speaks of, seen with our own eyes: its files and artifacts, as they are in a copy.

The laws: what can not be looked at is a failed check or a missing one, never a passed one; links lead nowhere.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from harnesses.features.texts import one_line
from harnesses.governance.claiming import Claim
from harnesses.governance.contract_nouns import BuilderContract, Check, failed, passed
from harnesses.governance.contracts import read_builder
from harnesses.governance.errors import ContractError, EvidenceError
from harnesses.governance.evidence import Bound, bind
from harnesses.governance.guardrails import Guardrails
from harnesses.governance.judging import unreadable
from harnesses.governance.tally import Tally
from harnesses.pipeline.assignments import PipelineAgent
from harnesses.pipeline.ids import StageId
from harnesses.pipeline.material import MAX_ARTIFACT_BYTES, MAX_FILE_BYTES, MAX_FILES, Material, read_artifact
from harnesses.pipeline.prompts import artifact_path, own_artifact_path
from harnesses.pipeline.record import Built, PipelineState, TaskNote

_SLACK_S = 2.0
"""By which the times of files may be behind the clock."""
_KEPT_BY_OTHERS = (".db", ".db-wal", ".db-shm", ".db-head", ".db-journal", ".log")


@frozen(kw_only=True)
class Case:
    """What is judged."""

    state: PipelineState
    task: TaskNote
    claim: Claim
    built: Built
    builder: PipelineAgent
    agent: str
    """What the builder is known by."""


def contract_of(case: Case) -> tuple[BuilderContract | None, list[Check]]:
    """Return the contract that was handed in, and why it is none."""
    built = case.built
    if built.failure:
        return None, [failed("builder_finished", built.failure)]
    if built.problems:
        return None, [failed("builder_contract_json", problem) for problem in built.problems]
    if not built.contract:
        return None, []
    try:
        contract = read_builder(built.contract, task_id=str(case.task.id), agent=case.agent)
    except ContractError as error:
        return None, list(unreadable(error))
    folder = f"{case.state.run_folder}/tasks/"
    # A view of ours, which is written anew: it is handed in, and not part of the work.
    files = tuple(path for path in contract.files_modified if not plain_name(path).startswith(folder))
    return evolve(contract, files_modified=files), []


def spoken_of(case: Case, contract: BuilderContract) -> tuple[str, ...]:
    """Return the files that a contract speaks of, by their plain names."""
    own = (own_artifact_path(case.state, case.task),) if case.task.artifact else ()
    return tuple(
        dict.fromkeys(
            plain_name(path)
            for path in (*(artifact_path(case.state, id) for id in case.task.stages), *own, *contract.files_modified)
        )
    )


def plain_name(path: str) -> str:
    return os.path.normpath(path)


def written_since(workspace: Path, copy: Path, state: PipelineState) -> tuple[str, ...]:
    """Return the files of a copy that were written since the pipeline began, whoever names them.

    Left out are the run folder, what is hidden (`.git`), and stores and logs: those that watch the work write them.
    """
    began = 0.0 if state.created_at is None else state.created_at.timestamp() - _SLACK_S
    # A clock that is ahead of the machine's tells nothing: then all of them count.
    since = began if began <= time.time() else 0.0
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


def tally(built: Built, guardrails: Guardrails) -> Tally:
    """Return what was counted while it was built."""
    tally = Tally(guardrails)
    tally.tool_calls, tally.messages = built.tool_calls or 0, built.messages or 0
    tally.is_counting = built.tool_calls is not None
    return tally


def bound(root: Path, paths: Sequence[str]) -> tuple[tuple[Bound, ...], list[Check]]:
    try:
        return bind(root, paths), []
    except EvidenceError as error:
        return (), [failed("content_bound", one_line(str(error), 300))]


def as_handed_in(built: Built, subject: Sequence[Bound]) -> Check:
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


def material(root: Path, path: str, id: StageId, contract: BuilderContract, files: Mapping[str, str]) -> Material:
    content = read_below(root, path, MAX_ARTIFACT_BYTES + 1)
    artifact, problem = read_artifact(path, content)
    return Material(
        stage=str(id),
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
