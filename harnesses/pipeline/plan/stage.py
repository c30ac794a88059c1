"""A stage: the artifact to produce, its agent, and the input of the checks that validate it. No I/O.

Invariants: ids and artifact paths are unique; stages do not depend on each other in a cycle.
"""

from __future__ import annotations

import json
import re
from collections.abc import (
    Callable,
    Iterable,  # noqa: F401 # pyright: ignore[reportUnusedImport] - for `get_type_hints`: a converter names it
    Mapping,
    Sequence,
)
from typing import TypeAlias, cast

from attrs import field, frozen

from harnesses.features.planning.feature_list import cycle_in
from harnesses.governance.contracts.contract import Check
from harnesses.pipeline.plan.ids import PipelineInvalid, StageId, is_id, stage_id, stage_ids, texts

MAX_FILES = 50
"""Maximum files whose text the checks receive, the first ones that the contract names."""
MAX_FILE_BYTES = 65_536
"""Maximum bytes of each file."""
MAX_ARTIFACT_BYTES = 1_000_000
"""Maximum bytes of an artifact; a larger one is refused."""


@frozen(kw_only=True)
class Artifact:
    """One stage's artifact, with what its builder reported and changed."""

    stage: str
    """The id of the stage."""
    path: str
    """Path of the artifact, for messages."""
    artifact: object = None
    """Its content: plain data for JSON, otherwise its text; None if it cannot be read."""
    problem: str = ""
    """Why it cannot be read."""
    tests_run: tuple[str, ...] = ()
    """Tests that the builder reports to have run."""
    files_modified: tuple[str, ...] = ()
    """Files that the builder reports to have changed."""
    files: Mapping[str, str] = field(factory=dict[str, str])
    """Text of the first changed files, by path; missing files are left out."""


def read_artifact(name: str, content: bytes | None) -> tuple[object, str]:
    """Return the content of an artifact and its problem; one of the two is empty."""
    if content is None:
        return None, "it does not exist"
    if len(content) > MAX_ARTIFACT_BYTES:
        return None, f"it is too large: expected at most {MAX_ARTIFACT_BYTES} bytes, was {len(content)}"
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return None, f"it is not text in UTF-8: {error.reason} at byte {error.start}"
    if not name.endswith(".json"):
        return (text, "") if text.strip() else (None, "it is empty")
    try:
        return cast(object, json.loads(text, parse_constant=_refused)), ""
    except ValueError as error:
        return None, f"it is not valid JSON: {error}"
    except RecursionError:
        return None, "it is nested too deep to be read as JSON"


def _refused(word: str) -> object:
    raise ValueError(f"{word} is not a number in JSON")


StageCheck: TypeAlias = Callable[[Artifact], Sequence[Check]]
"""Checks an artifact. It depends only on its argument; an error it raises is a failed check."""


@frozen(kw_only=True)
class Stage:
    """One stage of a pipeline."""

    id: StageId = field(converter=stage_id)
    title: str
    artifact: str
    """File name of its artifact, in the stage's own directory."""
    agent: str
    """Name of its agent."""
    after: tuple[StageId, ...] = field(default=(), converter=stage_ids)
    """Stages that must be proven first."""
    checks: StageCheck | None = None
    """Checks of its artifact, in addition to its existence."""
    goal: str = ""
    """The purpose of the stage, in a sentence."""
    criterion: str = ""
    """What its artifact must contain, in a sentence."""
    command: tuple[str, ...] = field(default=(), converter=texts)
    """A command run in a copy of the workspace to validate the work; empty if there is none."""
    expects: str = ""
    """A regular expression that must match a line at the end of the command's output, such as `^Ran 12 tests`; empty to check
    only the exit code."""


_NEEDED = ("id", "title", "artifact", "agent")


def check_stages(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages if they are valid.

    Raises:
        PipelineInvalid: they are invalid; names the first wrong stage.
    """
    if not stages:
        raise PipelineInvalid("stages: expected at least one, was an empty list; name some")
    known: dict[StageId, Stage] = {}
    for stage in stages:
        if not isinstance(cast(object, stage), Stage):
            raise PipelineInvalid(f"stages: expected Stage(…), was {stage!r:.100}; make one")
        _check_stage(stage)
        where = f"stage {str(stage.id)!r}"
        if stage.id in known:
            raise PipelineInvalid(f"{where} occurs twice: expected unique ids; rename one")
        if other := next((one for one in known.values() if one.artifact == stage.artifact), None):
            was = f"artifact {stage.artifact!r} is also that of stage {str(other.id)!r}"
            raise PipelineInvalid(f"{where}: {was}: expected a unique one; rename one")
        known[stage.id] = stage
    _check_order(known)
    return tuple(stages)


def _check_stage(stage: Stage) -> None:
    where = f"stage {str(stage.id)!r}"
    for name in _NEEDED:
        value: object = getattr(stage, name)
        if not str(value).strip():
            raise PipelineInvalid(f"{where}: missing field {name!r}: expected a text, was {value!r}; give it")
    try:
        re.compile(stage.expects)
    except re.error as error:
        was = f"was {stage.expects!r:.100} ({error})"
        raise PipelineInvalid(f"{where}: expects: expected a regular expression, {was}") from None
    if not is_id(stage.artifact):
        was = f"was {stage.artifact!r:.100}; directories are created for it"
        raise PipelineInvalid(f"{where}: artifact: expected the name of a file, {was}")


def _check_order(known: dict[StageId, Stage]) -> None:
    for stage in known.values():
        for other in stage.after:
            if other not in known:
                wanted = f"expected one of {', '.join(map(str, known)):.400}, was {str(other)!r}"
                raise PipelineInvalid(f"stage {str(stage.id)!r}: after: {wanted}; correct it")
    if ring := cycle_in({stage.id: stage.after for stage in known.values()}):
        raise PipelineInvalid(
            f"stages depend on each other: expected no cycle, was {' → '.join(map(str, ring))}; remove one dependency"
        )


def check_sequence(stages: Sequence[Stage], ids: Sequence[str]) -> tuple[Stage, ...]:
    """Return the stages if they are exactly those with these ids, in this order.

    Raises:
        PipelineInvalid: they are not, or a stage is incomplete.
    """
    if len(stages) != len(ids):
        raise PipelineInvalid(f"Expected {len(ids)} stages, was {len(stages)}; restore the list")
    for place, (stage, id) in enumerate(zip(stages, ids, strict=True)):
        if str(stage.id) != id:
            raise PipelineInvalid(
                f"order mismatch at {place}: expected stage {id!r}, was {str(stage.id)!r}; restore the order"
            )
    return check_stages(stages)
