"""The limits of a run, and when it gives up. No I/O.

    mode                 features per run         other limits that end it
    strict_incremental   exactly one              turns and retries of the run
    bounded_batch        `max_features_per_run`   turns and retries of the run
    unlimited_batch      all                      turns and retries of the run

A turn is one try at one feature; a retry is a turn at a feature whose previous turn failed. Limits of a feature apply over all
runs, those of a run only within it: the first turn of a run at a feature is not a retry.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from attrs import field, frozen

from harnesses.features.errors import InvalidRequest

EnumT = TypeVar("EnumT", bound=StrEnum)


class RunMode(StrEnum):
    """How many features a run works on."""

    STRICT_INCREMENTAL = "strict_incremental"
    BOUNDED_BATCH = "bounded_batch"
    UNLIMITED_BATCH = "unlimited_batch"


class OnExhausted(StrEnum):
    """What happens to a feature whose tries are used up."""

    BLOCK = "block"
    """It is blocked until a person decides; work continues on the others."""
    STOP = "stop"
    """It stays pending, and the run ends."""


@frozen(kw_only=True)
class FailFast:
    """Failures that end a run at once."""

    on_health_check_error: bool = True
    on_chat_error: bool = False
    on_validation_failure: bool = True


def _mode(mode: RunMode | str) -> RunMode:
    return _member(RunMode, "mode", mode)


def _on_exhausted(choice: OnExhausted | str) -> OnExhausted:
    return _member(OnExhausted, "on_exhausted", choice)


def _member(kind: type[EnumT], name: str, given: str) -> EnumT:
    try:
        return kind(given)
    except ValueError:
        choices = " or ".join(repr(str(member)) for member in kind)
        raise InvalidRequest(f"run policy has no such {name}: expected {choices}, was {given!r}; choose one of them") from None


@frozen(kw_only=True)
class RunPolicy:
    """The limits of a run. None means no limit.

    Raises:
        InvalidRequest: the limits contradict each other, or allow nothing at all.
    """

    mode: RunMode = field(default=RunMode.STRICT_INCREMENTAL, converter=_mode)
    max_features_per_run: int = 1
    """Maximum features in a run; used by the first two modes."""
    max_turns_per_feature: int = 1
    max_turns_per_run: int | None = None
    max_retries_per_feature: int = 0
    retry_budget_per_run: int | None = None
    max_set_backs_per_feature: int = 3
    """A feature set back more often is blocked, because two features could break each other forever."""
    fail_fast: FailFast = FailFast()
    on_exhausted: OnExhausted = field(default=OnExhausted.BLOCK, converter=_on_exhausted)
    recheck_sample: int = 1
    """Number of passing features, those most at risk, that are rechecked before each new feature."""
    recheck_all_at_end: bool = True
    """Whether each passing feature must be seen to pass at the last version of the work."""

    def __attrs_post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raise `InvalidRequest` if the limits contradict each other, or allow nothing at all."""
        for name, least in _LEAST.items():
            self._check_number(name, least)
        if self.mode is RunMode.STRICT_INCREMENTAL and self.max_features_per_run != 1:
            raise InvalidRequest(
                f"run policy contradicts itself: expected max_features_per_run 1 in mode {str(self.mode)!r}, "
                f"was {self.max_features_per_run!r}; leave it out, or choose mode {str(RunMode.BOUNDED_BATCH)!r}"
            )

    @property
    def features_per_run(self) -> int | None:
        """Maximum features that a run may work; None for all."""
        return None if self.mode is RunMode.UNLIMITED_BATCH else self.max_features_per_run

    @property
    def tries_per_feature(self) -> int:
        """Maximum tries of a feature."""
        return min(self.max_turns_per_feature, self.max_retries_per_feature + 1)

    def _check_number(self, name: str, least: int) -> None:
        given = getattr(self, name)
        if given is None and name in _MAY_BE_NONE:
            return
        if name == "max_features_per_run" and self.mode is RunMode.UNLIMITED_BATCH:
            return
        if type(given) is not int or given < least:
            raise InvalidRequest(
                f"run policy has an invalid {name}: expected a whole number of at least {least}, was {given!r}; correct it"
            )


_LEAST = {
    "max_features_per_run": 1,
    "max_turns_per_feature": 1,
    "max_turns_per_run": 1,
    "max_retries_per_feature": 0,
    "retry_budget_per_run": 0,
    "max_set_backs_per_feature": 0,
    "recheck_sample": 0,
}
_MAY_BE_NONE = ("max_turns_per_run", "retry_budget_per_run")
