"""The activity of a harness: finer than its status, decided by one table. Pure; time is an argument.

    blocked       a guardrail stopped it                                         halted
    running       it waits for approval                                          waiting_for_approval
                  it works, for longer on this step than usual                   hung
                  it runs, but is not doing its task                             halted
                  it waits for a message, a moment, or room in a budget          waiting
                  it works                                                       working
                  unknown, because only its program knows                        running
    any other     same as its status: interrupted, paused, backing_off, blocked, …

Invariants: a waiting harness is never hung, however long it waits; a reader without live data calls nothing hung.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeAlias

import msgspec
from attrs import frozen

LEAST_S = 60.0
"""Age in seconds below which no step is called hung, unless it has a `step_timeout_s`."""
UNKNOWN_S = 600.0
"""Age in seconds below which no step is called hung while fewer than `FEWEST` steps are known."""
TIMES = 10.0
"""A step is hung when it takes this many times the usual duration."""
FEWEST = 3
"""How many steps are needed to estimate the usual duration."""


class Doing(StrEnum):
    """The activity of a harness, as its program sees it."""

    WORKING = "working"
    WAITING = "waiting"
    APPROVAL = "approval"


APPROVAL, WAITING, WORKING = Doing.APPROVAL, Doing.WAITING, Doing.WORKING
"""Looking up a member of an enumeration takes as long as making a `Live`."""


class Live(msgspec.Struct, frozen=True, gc=False):
    """Live data on a harness from the program that runs it."""

    doing: Doing
    age_s: float
    """Seconds since the last recorded step, the beginning of the attempt, or a resume."""
    timeout_s: float | None = None
    """The harness's `step_timeout_s`."""
    halted: str = ""
    """Why the harness is not doing its task although it runs."""


Doings: TypeAlias = tuple[Doing, float | None, float | None, str]
"""What a `Live` has, with the time on Trio's clock from which `age_s` counts instead of it; None for an age of 0."""


class ToldLives(msgspec.Struct):
    """What a program tells of its harnesses since it was last asked; see `orchestrator.control.live_board`."""

    token: str
    version: int
    is_whole: bool
    lives: list[tuple[str, Doing, float, float | None, str]]
    """Name, and the fields of `Live`, of each harness that has another activity, or another step under way, than before."""
    gone: list[str]
    """Harnesses that are between two attempts, or have ended."""


@frozen
class Facts:
    """What is known of a harness."""

    status: str
    """The status as it is shown."""
    cause: str = ""
    asks: bool = False
    """Whether the step in progress has a pending approval request."""
    live: Live | None = None
    limit_s: float = UNKNOWN_S
    """Age in seconds from which a step is hung; see `limit_of`."""


_GUARDRAIL = "GuardrailTripped"
_TABLE: Sequence[tuple[str, Callable[[Facts], bool], str]] = (
    ("blocked", lambda facts: facts.cause.startswith(_GUARDRAIL), "halted"),
    ("running", lambda facts: facts.asks or _does(facts, Doing.APPROVAL), "waiting_for_approval"),
    ("running", lambda facts: _does(facts, Doing.WORKING) and _is_late(facts), "hung"),
    ("running", lambda facts: facts.live is not None and bool(facts.live.halted), "halted"),
    ("running", lambda facts: _does(facts, Doing.WAITING), "waiting"),
    ("running", lambda facts: _does(facts, Doing.WORKING), "working"),
)


def activity(facts: Facts) -> str:
    """Return the activity of a harness: the first row of the table that applies, else its status."""
    return next((word for status, holds, word in _TABLE if status == facts.status and holds(facts)), facts.status)


def known_activity(live: Live, limit_s: float | None = None) -> str | None:
    """Return the activity of a harness that runs and has no pending request; None where only `activity` can tell.

    Args:
        limit_s: as in `Facts`; None if it is not known yet.
    """
    if live.halted or live.doing is Doing.APPROVAL:
        return None
    if live.doing is Doing.WAITING:
        return "waiting"
    if live.timeout_s is not None:
        limit_s = live.timeout_s
    if live.age_s <= (LEAST_S if limit_s is None else limit_s):
        return "working"
    return None if limit_s is None else "hung"


def limit_of(timeout_s: float | None, recent: Sequence[float]) -> float:
    """Return the age in seconds from which a step is hung: its own limit, or `TIMES` the usual duration, at least a minute.

    Args:
        recent: times of the last steps, seconds, oldest first.
    """
    if timeout_s is not None:
        return timeout_s
    if len(recent) < FEWEST:
        return UNKNOWN_S
    return max(LEAST_S, TIMES * (recent[-1] - recent[0]) / (len(recent) - 1))


def span(seconds: float) -> str:
    """Return a duration as text, such as `14 min`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _does(facts: Facts, doing: Doing) -> bool:
    return facts.live is not None and facts.live.doing is doing


def _is_late(facts: Facts) -> bool:
    return facts.live is not None and facts.live.age_s > facts.limit_s
