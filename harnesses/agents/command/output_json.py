"""Reads JSON objects in the output of a program, without trusting it: what is missing or of another type is empty."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast


def parsed(text: str) -> Mapping[str, Any]:
    """Return the JSON object in a line; an empty mapping if the line is not one."""
    value, _ = loaded(text)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


@lru_cache(maxsize=1)
def loaded(text: str) -> tuple[object, Sequence[Mapping[str, Any]]]:
    """Return the JSON value of a line and all objects in it, including those hidden by a duplicate key.

    Returns None and no objects if the line is not JSON. The last line is cached, because several callers parse the same line
    in turn; do not mutate the result.
    """
    objects: list[Mapping[str, Any]] = []

    def take(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        objects.append(made)
        return made

    try:
        return json.loads(text, object_pairs_hook=take), objects
    except (ValueError, RecursionError):
        return None, ()


def string(event: Mapping[str, Any], key: str) -> str:
    """Return the string under a key, or ""."""
    value: object = event.get(key)
    return value if isinstance(value, str) else ""


def strings(event: Mapping[str, Any], key: str) -> list[str]:
    """Return the strings in the list under a key."""
    value: object = event.get(key)
    return [part for part in cast("list[object]", value) if isinstance(part, str)] if isinstance(value, list) else []


def inner(event: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object under a key, or an empty one."""
    value: object = event.get(key)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def total(usage: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    """Return the sum of the numbers under the given keys."""
    values: list[object] = [usage.get(key) for key in keys]
    return sum(value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0)


def objects_in(event: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return the objects in the list under a key."""
    value: object = event.get(key)
    parts = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", part) for part in parts if isinstance(part, dict)]


def as_text(value: object, most: int) -> str:
    """Return a value as text of at most `most` characters: a string as it is, anything else as JSON, None as ""."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value[:most]
    try:
        return json.dumps(value, ensure_ascii=False)[:most]
    except RecursionError:
        return ""
