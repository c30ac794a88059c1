"""Finds the programs that the tables of a run file name and that do not exist, and interpreters that lack pytest."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from harnesses.diagnostics.program_interpreter import missing_interpreter
from harnesses.run_file_harnesses.coding_parts import read_dialect
from harnesses.run_file_harnesses.table_arguments import TableProblems, place_beside

_ELSEWHERE = ("validator", "stages", "tasks", "deeds", "init_plan")
"""Keys whose commands run in another directory, so that paths in them cannot be checked on this machine."""


_RUN_TESTS = ("pytest", "suite_kept", "failing_tests")
"""Keys, and short forms, of what runs pytest."""
_ASK_S = 10.0
"""Seconds to wait for an interpreter."""


def missing_programs(table: Mapping[str, object], beside: Path) -> Iterator[str]:
    """Yield a message for each program that a table names and that does not exist, or whose interpreter does not.

    Args:
        table: the keys of a ready-made harness.
        beside: the directory that paths are relative to.
    """
    for place, program in sorted(set(_programs(table, "", beside, here=True))):
        if not (Path(program).exists() if "/" in program else shutil.which(program)):
            yield f"{place}: program {program!r} not found: expected it on PATH, or a path; install it, or correct the name"
        elif interpreter := missing_interpreter(program):
            yield (
                f"{place}: program {program!r} cannot be run: expected the interpreter {interpreter!r} that its first line "
                "names, got none; install it, or correct the line"
            )


def missing_pytest(table: Mapping[str, object], beside: Path) -> Iterator[str]:
    """Yield a message for each interpreter that has to run tests for a harness and that has no pytest.

    Args:
        table: the keys of a ready-made harness.
        beside: the directory that paths are relative to.
    """
    for place, python in sorted(set(_interpreters(table, "", beside))):
        if not _has_pytest(python):
            install = f"{python} -m pip install pytest"
            yield f"{place}: {python} has no pytest: expected it, since it runs the tests; run `{install}`, or set `python`"


def _interpreters(value: object, place: str, beside: Path) -> Iterator[tuple[str, str]]:
    """Yield each interpreter that has to run tests, with its place in the table."""
    if isinstance(value, list):
        for one in cast(list[object], value):
            yield from _interpreters(one, place, beside)
    if not isinstance(value, Mapping):
        if value in _RUN_TESTS and place.endswith(("validator", "features")):
            yield place, sys.executable
        return
    table = cast(Mapping[str, object], value)
    for key, inner in table.items():
        at = f"{place}: {key}" if place else key
        if key in _RUN_TESTS and inner:
            given = str(table.get("python") or sys.executable)
            yield at, str(place_beside(given, beside)) if "/" in given else given
        else:
            yield from _interpreters(inner, at, beside)


def _has_pytest(python: str) -> bool:
    """Return whether an interpreter has pytest; also true if it does not start, which is another problem."""
    tried = [python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('pytest') is None)"]
    try:
        ran = subprocess.run(tried, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return True
    return ran.returncode != 1


def _programs(value: object, place: str, beside: Path, *, here: bool) -> Iterator[tuple[str, str]]:
    """Yield each program to check, a name or a path on this machine, with its place in the table."""
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
            yield at, str(place_beside(found, beside))
        elif found is None:
            yield from _programs(inner, at, beside, here=here and key not in _ELSEWHERE)


def _program(key: str, value: object) -> str | None:
    """Return the program that the value of a key names; None if it names none."""
    if key == "command" and isinstance(value, list) and value:
        return str(cast(list[object], value)[0])
    if key == "python" and isinstance(value, str):
        return value
    if key == "dialect" and isinstance(value, str | Mapping):
        dialect = read_dialect(cast(object, value), "", TableProblems("dialect"))
        return dialect.command[0] if dialect is not None and dialect.command else None
    return None
