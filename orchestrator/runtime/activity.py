"""What a harness is at, told apart where its status alone does not: one table, and a loop over it. Pure; time is an argument.

    blocked       a guardrail has stopped it                                     halted
    running       it waits for a person's approval                               waiting_for_approval
                  it works, for longer on this step than is usual                hung
                  it runs, and does nothing of what it is for                    halted
                  it waits for a message, a moment, or room in a budget          waiting
                  it works                                                       working
                  nobody has said, for only its program knows                    running
    any other     as its status: interrupted, paused, backing_off, blocked, …

The law: what waits is never hung, however long; and nothing is called hung that only a reader of the store has looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from attrs import frozen

LEAST_S = 60.0
"""No step that is younger is called hung where there is no `step_timeout_s`."""
UNKNOWN_S = 600.0
"""The same, where fewer than `FEWEST` steps say what is usual."""
TIMES = 10.0
"""As many times the usual time of a step make it hung."""
FEWEST = 3
"""Steps that say what is usual."""


class Doing(StrEnum):
    """What a harness is at, as its program sees it."""

    WORKING = "working"
    WAITING = "waiting"
    APPROVAL = "approval"


@frozen
class Live:
    """What the program that runs a harness says of it."""

    doing: Doing
    age_s: float
    """Since the last step was recorded, or the attempt began, or it was let go on."""
    timeout_s: float | None = None
    """Its `step_timeout_s`."""
    halted: str = ""
    """Why it does nothing of what it is for, although it runs."""


@frozen
class Facts:
    """What is known of a harness."""

    status: str
    """As it is shown."""
    cause: str = ""
    asks: bool = False
    """Whether it has a request of the step under way that nobody has answered."""
    live: Live | None = None
    limit_s: float = UNKNOWN_S
    """Of the age of a step; see `limit_of`."""


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
    """Return the word for what a harness is at: of the table, the first row that holds, else its status."""
    return next((word for status, holds, word in _TABLE if status == facts.status and holds(facts)), facts.status)


def limit_of(timeout_s: float | None, recent: Sequence[float]) -> float:
    """Return the age from which a step is called hung: its own limit, or `TIMES` what is usual, and at least a minute.

    Args:
        recent: when the last steps were made, seconds, oldest first.
    """
    if timeout_s is not None:
        return timeout_s
    if len(recent) < FEWEST:
        return UNKNOWN_S
    return max(LEAST_S, TIMES * (recent[-1] - recent[0]) / (len(recent) - 1))


def span(seconds: float) -> str:
    """Return a length of time in words, such as `14 min`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _does(facts: Facts, doing: Doing) -> bool:
    return facts.live is not None and facts.live.doing is doing


def _is_late(facts: Facts) -> bool:
    return facts.live is not None and facts.live.age_s > facts.limit_s
