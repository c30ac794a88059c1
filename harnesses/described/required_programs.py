"""The programs that a described harness needs, so that somebody can look whether they are there before it runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from harnesses.described.coding_parts import dialect_of
from harnesses.described.table_reading import placed
from harnesses.errors import OrchestratorError

_ELSEWHERE = ("validator", "stages", "tasks", "deeds", "init_plan")
"""Keys whose commands run in a place of their own: a path in them is none of this machine."""


def missing_programs(table: Mapping[str, object], beside: Path) -> Iterator[str]:
    """Yield a sentence for each program that a table names and that is not there.

    Args:
        table: the keys of a ready-made harness.
        beside: the directory that paths are relative to.
    """
    for place, program in sorted(set(_programs(table, "", beside, here=True))):
        if not (Path(program).exists() if "/" in program else shutil.which(program)):
            yield f"{place}: program {program!r} is not there: expected it on PATH, or a path; install it, or correct the name"


def _programs(value: object, place: str, beside: Path, *, here: bool) -> Iterator[tuple[str, str]]:
    """Yield each program that is run by name, or by a path on this machine, with its place."""
    if isinstance(value, list):
        for one in cast(list[object], value):
            yield from _programs(one, place, beside, here=here)
    if not isinstance(value, Mapping):
        return
    for key, inner in cast(Mapping[str, object], value).items():
        at = f"{place}: {key}" if place else key
        found = _program(key, inner)
        if found and "/" not in found:
            yield at, found
        elif found and here and not found.startswith("{"):
            yield at, str(placed(found, beside))
        elif found is None:
            yield from _programs(inner, at, beside, here=here and key not in _ELSEWHERE)


def _program(key: str, value: object) -> str | None:
    """Return the program that a key names; None if it names none."""
    if key == "command" and isinstance(value, list) and value:
        return str(cast(list[object], value)[0])
    if key == "python" and isinstance(value, str):
        return value
    if key == "dialect" and isinstance(value, str | Mapping):
        try:
            command = dialect_of(cast("str | dict[str, object]", value)).command
        except OrchestratorError:
            return None
        return command[0] if command else None
    return None
