"""What a harness is started with, and checks of the options that say so. Pure."""

from __future__ import annotations

import re
from math import isfinite

from attrs import field, frozen

from harnesses.budgets.budget import Budget
from harnesses.data.record_size import CEILING_BYTES
from harnesses.governor import Governor
from harnesses.runtime import ApprovalRule
from orchestrator.errors import UsageError
from orchestrator.restart import Backoff, Intensity, Restart, Strategy

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def restart_of(word: Restart | str) -> Restart:
    try:
        return Restart(word)
    except ValueError:
        raise UsageError(f"restart: expected permanent, transient or temporary, was {word!r}") from None


@frozen(kw_only=True)
class ChildSpec:
    """What a harness was started with: every life that it has in this program has the same.

    Raises, when made:
        UsageError: a number of seconds is none, or `restart` is not one of its words.
    """

    name: str
    restart: Restart = field(default=Restart.TRANSIENT, converter=restart_of)
    backoff: Backoff = field(factory=Backoff)
    grace_s: float = 5.0
    step_timeout_s: float | None = None
    deadline_s: float | None = None
    take_over: bool = False
    pools: tuple[str, ...] = ()
    """The names of the pools that it is charged to, the nearest first."""
    governor: Governor | None = None
    rule: ApprovalRule | None = None
    """Says which of its effects need an approval."""
    ancestors: tuple[str, ...] = ()
    """Who has started it, and who has started that one: names, oldest first."""

    def __attrs_post_init__(self) -> None:
        check_seconds(grace_s=self.grace_s, step_timeout_s=self.step_timeout_s, deadline_s=self.deadline_s)


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


def strategy_of(word: Strategy | str) -> Strategy:
    try:
        return Strategy(word)
    except ValueError:
        raise UsageError(f"strategy: expected one_for_one, one_for_all or rest_for_one, was {word!r}") from None
