"""How much a run may do, and when it gives up. Pure.

    mode                 features a run           what else ends it
    strict_incremental   exactly one              turns and retries of the run
    bounded_batch        `max_features_per_run`   turns and retries of the run
    unlimited_batch      all                      turns and retries of the run

A turn is one try at one feature; a retry is a turn at a feature whose turn before has failed.
"""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen


class RunMode(StrEnum):
    """How many features a run works."""

    STRICT_INCREMENTAL = "strict_incremental"
    BOUNDED_BATCH = "bounded_batch"
    UNLIMITED_BATCH = "unlimited_batch"


class OnExhausted(StrEnum):
    """What becomes of a feature whose tries are used up."""

    BLOCK = "block"
    """It is blocked until a person decides, and the others are worked."""
    STOP = "stop"
    """It stays pending, and the run ends."""


@frozen(kw_only=True)
class FailFast:
    """What ends a run at once."""

    on_health_check_error: bool = True
    on_chat_error: bool = False
    on_validation_failure: bool = True


@frozen(kw_only=True)
class RunPolicy:
    """The limits of a run. Limits of None do not limit."""

    mode: RunMode = RunMode.STRICT_INCREMENTAL
    max_features_per_run: int = 1
    """Looked at by the first two modes."""
    max_turns_per_feature: int = 1
    max_turns_per_run: int | None = None
    max_retries_per_feature: int = 0
    retry_budget_per_run: int | None = None
    max_set_backs_per_feature: int = 3
    """A feature that was set back more often is blocked: two features may break each other for ever."""
    fail_fast: FailFast = FailFast()
    on_exhausted: OnExhausted = OnExhausted.BLOCK
    recheck_sample: int = 1
    """Passing features, those most at risk, that are judged anew before each new feature."""
    recheck_all_at_end: bool = True
    """Whether each passing feature has to be seen to pass at the last version of the work."""
