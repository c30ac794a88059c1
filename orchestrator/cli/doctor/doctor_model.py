"""The result of a check, and running checks so that a failing one does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from attrs import frozen

from orchestrator.errors import OrchestratorError
from orchestrator.text.terminal_text import one_line

MOST = 10
"""Findings of one kind that are reported one by one."""


class Level(StrEnum):
    """How well it is."""

    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"


@frozen
class Check:
    """One finding."""

    check: str
    """What was checked."""
    level: Level
    finding: str
    fix: str = ""
    """What to do about it: a command or a sentence; empty if it passed."""


def well(check: str, finding: str) -> Check:
    return Check(check, Level.PASS, finding)


def warn(check: str, finding: str, fix: str) -> Check:
    return Check(check, Level.WARN, finding, fix)


def fail(check: str, finding: str, fix: str) -> Check:
    return Check(check, Level.FAIL, finding, fix)


def examine(checks: Mapping[str, Callable[[], Iterable[Check]]]) -> Iterator[Check]:
    """Yield the findings of every check; one that raises is a finding itself, and does not stop the others."""
    for check, look in checks.items():
        try:
            yield from look()
        except OrchestratorError as error:
            yield of_error(check, error)
        except Exception as error:
            what = one_line(f"{type(error).__name__}: {error}", 500)
            yield fail(check, f"it could not be checked: {what}", "fix what it names; if it is not yours, report it")


def of_error(check: str, error: Exception) -> Check:
    """Return an error of this project as a finding: the fix is the text after the last semicolon of its message."""
    text = one_line(str(error), 1000)
    finding, _, fix = text.rpartition("; ")
    return fail(check, finding or text, fix if finding else "correct it")


def few(checks: Sequence[Check], otherwise: Check | None = None) -> Iterator[Check]:
    """Yield findings of one kind: the first ones and how many more there are, or `otherwise` if there is none."""
    if not checks and otherwise is not None:
        yield otherwise
    yield from checks[:MOST]
    if len(checks) > MOST:
        last = checks[-1]
        yield Check(last.check, last.level, f"… and {len(checks) - MOST} more of these", last.fix)
