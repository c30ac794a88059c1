"""The options that a harness is started with, and their validation. Pure."""

from __future__ import annotations

import re
from math import isfinite
from types import NoneType, UnionType

from attrs import field, frozen

from harnesses.budgets.budget import Budget
from harnesses.data.record_size import CEILING_BYTES
from harnesses.effects.approval import ApprovalRule
from harnesses.governor import Governor
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
    """The options that a harness was started with; they apply to all its attempts in this program.

    Raises, on construction:
        UsageError: a number of seconds is invalid, or `restart` is not one of its values.
    """

    name: str
    restart: Restart = field(default=Restart.TRANSIENT, converter=restart_of)
    backoff: Backoff = field(factory=Backoff)
    grace_s: float = 5.0
    step_timeout_s: float | None = None
    deadline_s: float | None = None
    take_over: bool = False
    durability: str | None = None
    """`step`, or `group`: steps are accepted at once, and are on disk within `group_s` seconds. None for what the harness
    prefers."""
    group_s: float | None = None
    pools: tuple[str, ...] = ()
    """Names of the pools that the harness is charged to, nearest first."""
    governor: Governor | None = None
    rule: ApprovalRule | None = None
    """Decides which of the harness's effects need approval."""
    ancestors: tuple[str, ...] = ()
    """Names of the harnesses that started this one, directly or indirectly, oldest first."""

    def __attrs_post_init__(self) -> None:
        subject = f"start {self.name!r}"
        check_kind(f"{subject}: backoff", self.backoff, Backoff, "a Backoff; pass Backoff(base_s=…)")
        check_kind(f"{subject}: take_over", self.take_over, bool, "True or False")
        check_callable(f"{subject}: approve", self.rule, "a function of key and arguments, or None")
        if self.governor is not None and not callable(getattr(self.governor, "look", None)):
            check_kind(f"{subject}: governor", self.governor, NoneType, "a Governor, such as a Watch, or None")
        check_durability(self.durability, self.group_s)
        check_seconds(grace_s=self.grace_s, step_timeout_s=self.step_timeout_s, deadline_s=self.deadline_s)


def is_name(text: str) -> bool:
    """Return whether a text is a valid durable name: safe as a file name and on a command line."""
    return _NAME.fullmatch(text) is not None


def check_name(name: object) -> None:
    """Raise if `name` is not a valid durable name.

    Raises:
        UsageError: it is not text that is safe as a file name and on a command line.
    """
    if not isinstance(name, str) or not is_name(name):
        raise UsageError(f"name {name!r}: expected letters, digits, '.', '_' and '-', beginning with a letter or digit")


def check_supervisor_name(name: object) -> None:
    """Raise if `name` would make this supervisor's pool collide with that of a nested supervisor.

    Raises:
        UsageError: it is not text, or contains `/`.
    """
    if not isinstance(name, str) or not name or "/" in name:
        raise UsageError(
            f"supervisor {name!r}: expected text without '/', since '/' stands between levels; "
            "nest it with `parent=`, which keeps the name in the store and what was spent"
        )


def check_budget(subject: str, budget: object) -> None:
    """Raise if `budget` is not a `Budget`.

    Raises:
        UsageError: names the subject that the budget was meant for.
    """
    if not isinstance(budget, Budget):
        raise UsageError(f"budget of {subject}: expected a Budget, was {budget!r:.200}")


def check_kind(option: str, value: object, kind: type | UnionType, wanted: str) -> None:
    """Refuse an option of another type.

    Args:
        wanted: what is expected, in words, and after a `;` what to do.

    Raises:
        UsageError: naming the option, what was expected and what it is.
    """
    if not isinstance(value, kind):
        expected, _, remedy = wanted.partition("; ")
        raise UsageError(f"{option}: expected {expected}, got {value!r:.100}; {remedy or 'correct it'}")


def check_callable(option: str, value: object, wanted: str) -> None:
    """Refuse what cannot be called and is not None; see `check_kind`."""
    if value is not None and not callable(value):
        check_kind(option, value, NoneType, wanted)


def check_seconds(**given: object) -> None:
    """Raise if a value is neither a number of seconds from 0 up nor None, which means no limit.

    Raises:
        UsageError: names the option.
    """
    for name, value in given.items():
        number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0
        if value is not None and not number:
            raise UsageError(f"{name}: expected a number of seconds from 0 up, was {value!r}")


def check_durability(durability: object, group_s: object) -> None:
    """Raise unless both are valid options of a harness.

    Raises:
        UsageError: names the option, what was expected and what it is.
    """
    if durability not in (None, "step", "group"):
        raise UsageError(f"durability: expected 'step' or 'group', got {durability!r:.100}; leave it out for 'step'")
    check_seconds(group_s=group_s)


def check_record_bytes(value: object) -> int:
    """Return `value` as the limit on the size of one record, bytes.

    Raises:
        UsageError: it is not a whole number in the allowed range.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 1_000 <= value <= CEILING_BYTES:
        raise UsageError(f"max_record_bytes: expected a whole number from 1,000 to {CEILING_BYTES:,}, was {value!r:.100}")
    return value


def intensity_of(restarts: int, period_s: float) -> Intensity:
    """Return the restart intensity made of these two numbers.

    Raises:
        UsageError: one of them is out of range.
    """
    return Intensity(restarts, period_s)


def strategy_of(word: Strategy | str) -> Strategy:
    try:
        return Strategy(word)
    except ValueError:
        raise UsageError(f"strategy: expected one_for_one, one_for_all or rest_for_one, was {word!r}") from None
