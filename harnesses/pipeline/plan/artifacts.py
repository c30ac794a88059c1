"""What a stage has made, as values, for the checks that look at it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from attrs import field, frozen

MAX_FILES = 50
"""Files whose text the checks get, the first ones that the contract names."""
MAX_FILE_BYTES = 65_536
"""Bytes of each."""
MAX_ARTIFACT_BYTES = 1_000_000
"""Of an artifact; a larger one is refused."""


def _texts() -> Mapping[str, str]:
    return {}


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
    files: Mapping[str, str] = field(factory=_texts)
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
