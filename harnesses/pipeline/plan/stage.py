"""A stage: one artifact that has to come to be, who makes it, and what it is for the checks that look at it. Pure.

The laws: no two stages have one id or one artifact of one place; stages wait for each other in no ring.
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
"""Files whose text the checks get, the first ones that the contract names."""
MAX_FILE_BYTES = 65_536
"""Bytes of each."""
MAX_ARTIFACT_BYTES = 1_000_000
"""Of an artifact; a larger one is refused."""


@frozen(kw_only=True)
class Artifact:
    """One stage's artifact, and what its builder has said and changed."""

    stage: str
    """The id of the stage."""
    path: str
    """Of the artifact, for people."""
    artifact: object = None
    """Its content: plain data for one in JSON, else its text; None if there is nothing that can be read."""
    problem: str = ""
    """Why it cannot be read."""
    tests_run: tuple[str, ...] = ()
    """What the builder says it has tested."""
    files_modified: tuple[str, ...] = ()
    """What the builder says it has changed."""
    files: Mapping[str, str] = field(factory=dict[str, str])
    """Text of the first of them, by path; one that is not there is missing here."""


def read_artifact(name: str, content: bytes | None) -> tuple[object, str]:
    """Return what is in an artifact, and what is wrong with it; one of the two is empty."""
    if content is None:
        return None, "it is not there"
    if len(content) > MAX_ARTIFACT_BYTES:
        return None, f"it is too large: expected at most {MAX_ARTIFACT_BYTES} bytes, was {len(content)}"
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return None, f"it is no text in UTF-8: {error.reason} at byte {error.start}"
    if not name.endswith(".json"):
        return (text, "") if text.strip() else (None, "it is empty")
    try:
        return cast(object, json.loads(text, parse_constant=_refused)), ""
    except ValueError as error:
        return None, f"it is no JSON: {error}"
    except RecursionError:
        return None, "it is no JSON that can be read: it is nested too deep"


def _refused(word: str) -> object:
    raise ValueError(f"{word} is no number of JSON")


StageCheck: TypeAlias = Callable[[Artifact], Sequence[Check]]
"""Looks at what a stage has made. It is a function of what it is given; what it raises is a failed check."""


@frozen(kw_only=True)
class Stage:
    """One stage of a pipeline."""

    id: StageId = field(converter=stage_id)
    title: str
    artifact: str
    """The name of the file that it makes, in the stage's own directory."""
    agent: str
    """What its agent is known by."""
    after: tuple[StageId, ...] = field(default=(), converter=stage_ids)
    """Stages that have to be proven before."""
    checks: StageCheck | None = None
    """What its artifact has to satisfy, besides being there."""
    goal: str = ""
    """What it is for, in a sentence."""
    criterion: str = ""
    """What its artifact has to have, in a sentence."""
    command: tuple[str, ...] = field(default=(), converter=texts)
    """A command that is run in a copy of the workspace to see whether the work is good; empty if there is none."""
    expects: str = ""
    """A regular expression that has to be found in the last of what the command writes, line by line, such as
    `^Ran 12 tests`; empty if its exit code is enough."""


_NEEDED = ("id", "title", "artifact", "agent")


def check_stages(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return stages that can be worked.

    Raises:
        PipelineInvalid: they cannot; with the id of the first that is wrong.
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
            raise PipelineInvalid(f"{where} is there twice: expected each id once; rename one")
        if other := next((one for one in known.values() if one.artifact == stage.artifact), None):
            was = f"artifact {stage.artifact!r} is that of stage {str(other.id)!r} too"
            raise PipelineInvalid(f"{where}: {was}: expected one of its own; rename one")
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
        was = f"was {stage.artifact!r:.100}; directories are made for it"
        raise PipelineInvalid(f"{where}: artifact: expected the name of a file, {was}")


def _check_order(known: dict[StageId, Stage]) -> None:
    for stage in known.values():
        for other in stage.after:
            if other not in known:
                wanted = f"expected one of {', '.join(map(str, known)):.400}, was {str(other)!r}"
                raise PipelineInvalid(f"stage {str(stage.id)!r}: after: {wanted}; correct it")
    if ring := cycle_in({stage.id: stage.after for stage in known.values()}):
        raise PipelineInvalid(f"stages wait for each other: expected no ring, was {' → '.join(map(str, ring))}; break it")


def check_sequence(stages: Sequence[Stage], ids: Sequence[str]) -> tuple[Stage, ...]:
    """Return stages that are exactly those with these ids, in this order.

    Raises:
        PipelineInvalid: they are not, or one lacks something.
    """
    if len(stages) != len(ids):
        raise PipelineInvalid(f"Expected {len(ids)} stages, was {len(stages)}; restore the list")
    for place, (stage, id) in enumerate(zip(stages, ids, strict=True)):
        if str(stage.id) != id:
            raise PipelineInvalid(
                f"order mismatch at {place}: expected stage {id!r}, was {str(stage.id)!r}; restore the order"
            )
    return check_stages(stages)
