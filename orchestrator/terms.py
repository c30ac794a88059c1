"""On what terms a harness is run, and the words in which they are given. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from math import isfinite
from typing import Any

from attrs import field, frozen

from harnesses.budget import Budget
from harnesses.record_size import CEILING_BYTES
from orchestrator.errors import UsageError
from orchestrator.restart import Backoff, Intensity, Restart, Strategy

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@frozen
class Terms:
    """On what terms a harness is run."""

    restart: Restart = Restart.TRANSIENT
    backoff: Backoff = field(factory=Backoff)
    grace_s: float = 5.0
    step_timeout_s: float | None = None
    deadline_s: float | None = None
    take_over: bool = False


def check_name(name: object) -> None:
    """Refuse what is not a durable name.

    Raises:
        UsageError: it is not text that a file or a command could take.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"name {name!r}: expected letters, digits, '.', '_' and '-', beginning with a letter or digit")


def check_supervisor_name(name: object) -> None:
    """Refuse what would make the pool of a supervisor that of another, nested one.

    Raises:
        UsageError: it is no text, or has a `/` in it.
    """
    if not isinstance(name, str) or not name or "/" in name:
        raise UsageError(
            f"supervisor {name!r}: expected text without '/', since '/' stands between levels; "
            "nest it with `parent=`, which keeps the name in the store and what was spent"
        )


def check_budget(subject: str, budget: object) -> None:
    """Refuse what is not a budget.

    Raises:
        UsageError: naming what it was to be the budget of.
    """
    if not isinstance(budget, Budget):
        raise UsageError(f"budget of {subject}: expected a Budget, was {budget!r:.200}")


def check_seconds(**given: object) -> None:
    """Refuse what is not a number of seconds, from 0 up; None stands for no limit.

    Raises:
        UsageError: naming the option.
    """
    for name, value in given.items():
        number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0
        if value is not None and not number:
            raise UsageError(f"{name}: expected a number of seconds from 0 up, was {value!r}")


def check_record_bytes(value: object) -> int:
    """Return the bytes that one record may have.

    Raises:
        UsageError: it is no such number.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 1_000 <= value <= CEILING_BYTES:
        raise UsageError(f"max_record_bytes: expected a whole number from 1,000 to {CEILING_BYTES:,}, was {value!r:.100}")
    return value


def intensity_of(restarts: int, period_s: float) -> Intensity:
    """Return the intensity.

    Raises:
        UsageError: one of the two is not a number that can be counted to.
    """
    check_seconds(period_s=period_s)
    try:
        return Intensity(restarts, period_s)
    except (ValueError, TypeError) as error:
        raise UsageError(f"intensity: expected restarts from 0 up within a period_s above 0: {error}") from error


def terms_of(
    restart: Restart,
    backoff: Backoff,
    grace_s: float,
    step_timeout_s: float | None,
    deadline_s: float | None,
    take_over: bool,
) -> Terms:
    """Return the terms; thousands of harnesses share the same ones.

    Raises:
        UsageError: a number of seconds is none.
    """
    check_seconds(grace_s=grace_s, step_timeout_s=step_timeout_s, deadline_s=deadline_s)
    return _shared(restart, backoff, grace_s, step_timeout_s, deadline_s, take_over)


@lru_cache(maxsize=128)
def _shared(*args: Any) -> Terms:
    return Terms(*args)


def restart_of(word: Restart | str) -> Restart:
    try:
        return Restart(word)
    except ValueError:
        raise UsageError(f"restart: expected permanent, transient or temporary, was {word!r}") from None


def strategy_of(word: Strategy | str) -> Strategy:
    try:
        return Strategy(word)
    except ValueError:
        raise UsageError(f"strategy: expected one_for_one, one_for_all or rest_for_one, was {word!r}") from None
