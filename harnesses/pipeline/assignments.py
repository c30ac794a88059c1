"""What agents of a pipeline are handed, and what they hand in.

Both are assignments as agents of feature lists have them, so that a `CommandAgent` can do either.

A builder answers with its contract: a `BuilderContract`, an object, JSON text (also in a fence among other words), or a
`TurnResult` whose message is that. What is no contract leaves it to `builder.json` in the run folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from attrs import frozen

from harnesses.agent import Agent
from harnesses.control_characters import inert_json
from harnesses.features.feature import TurnResult
from harnesses.features.record import Assignment
from harnesses.governance.claiming import Claim
from harnesses.governance.contracts import BuilderContract, ValidatorContract, plain
from harnesses.pipeline.readonly import ReadOnly
from harnesses.pipeline.record import MAX_CONTRACT, TaskNote

PipelineAgent: TypeAlias = Agent[Any, Any, Any]
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL)


@frozen(kw_only=True)
class StageWork(Assignment):
    """What a builder is asked. `directory` is the project's root."""

    task: TaskNote
    claim: Claim
    """The attempt: its nonce goes into the contract."""
    agent: str
    """What the builder is known by."""
    artifacts: Mapping[str, str]
    """Where the artifact of each stage goes, below the directory, by stage id."""
    own_artifact: str = ""
    """Where that of the task itself goes, if it has one."""
    builder_json: str = ""
    """Where the contract may be left, below the directory."""


@frozen(kw_only=True)
class Inspection(Assignment):
    """What a validator is asked. It has no directory, unless it is a program: then a copy of its own."""

    task: TaskNote
    claim: Claim
    validator: str
    """What the validator is known by."""
    contract: BuilderContract
    """What the builder says."""
    artifacts: Mapping[str, str]
    project: ReadOnly
    """A copy of the project: to read, and to run commands in."""


def contract_in(answer: object, file: bytes | None) -> Mapping[str, object] | str | None:
    """Return the contract in what an agent has answered, else in the file it may have left; None if there is none."""
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
    """Return the JSON object in a text: all of it, or what is in its last fence."""
    text = text[-MAX_CONTRACT:].strip()
    if text.startswith("{"):
        return text
    fences = [one.strip() for one in _FENCE.findall(text)]
    return next((one for one in reversed(fences) if one.startswith("{")), None)


def as_text(data: object) -> str:
    """Return plain data as the JSON that is kept."""
    return inert_json(json.dumps(data, ensure_ascii=False, indent=2))
