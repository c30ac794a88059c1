"""The restart policy, in OTP's terms. Pure: time and the random number are arguments.

    restart      crashed   ended normally
    permanent    again     again
    transient    again     stop
    temporary    stop      stop

`again` becomes `give up` after `intensity.restarts` restarts within `intensity.period_s` seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import inf, isfinite
from typing import Any, TypeAlias, cast

from attrs import Attribute, field, frozen

from orchestrator.errors import UsageError


def is_number(value: object) -> bool:
    """Return whether a value is a finite number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _number(least: float, most: float = inf) -> Any:
    """Return a validator for a finite number within these bounds, both included."""

    def check(owner: object, attribute: Attribute[Any], value: object) -> None:
        if not is_number(value) or not least <= cast(float, value) <= most:
            wanted = f"a number from {least:g} up" if most == inf else f"a number from {least:g} to {most:g}"
            raise UsageError(f"{type(owner).__name__}: {attribute.name}: expected {wanted}, got {value!r:.100}; correct it")

    return check


class Restart(StrEnum):
    """When a harness that has ended is restarted."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    TEMPORARY = "temporary"


class Strategy(StrEnum):
    """Which siblings are restarted with a harness that crashed."""

    ONE_FOR_ONE = "one_for_one"
    ONE_FOR_ALL = "one_for_all"
    REST_FOR_ONE = "rest_for_one"
    """The crashed harness and those started after it."""


@frozen
class Intensity:
    """How many restarts are allowed within a period."""

    restarts: int = 5
    period_s: float = 60.0

    def __attrs_post_init__(self) -> None:
        restarts, period_s = self.restarts, self.period_s
        if not is_number(restarts) or not isinstance(cast(object, restarts), int) or restarts < 0:
            raise UsageError(f"intensity: expected a whole number of restarts from 0 up, got {restarts!r:.100}; correct it")
        if not is_number(period_s) or period_s <= 0:
            raise UsageError(f"period_s: expected a number of seconds above 0, got {period_s!r:.100}; correct it")


@frozen
class Backoff:
    """Delay before a restart: `base_s`, multiplied by `factor` for each further restart, at most `cap_s`."""

    base_s: float = field(default=0.1, validator=_number(0))
    factor: float = field(default=2.0, validator=_number(1))
    cap_s: float = field(default=30.0, validator=_number(0))
    jitter: float = field(default=0.2, validator=_number(0, 1))
    """Share of the delay, from 0 to 1, that is removed at random, so that harnesses which crashed together restart apart."""


@frozen
class Again:
    """Restart the harness."""

    restarts: tuple[float, ...]
    """Times of the restarts still within the period, oldest first, including this one."""


@frozen
class Stop:
    """Leave the harness ended."""


@frozen
class GiveUp:
    """The harness crashed too often."""


Decision: TypeAlias = Again | Stop | GiveUp

_AGAIN = {
    (Restart.PERMANENT, True): True,
    (Restart.PERMANENT, False): True,
    (Restart.TRANSIENT, True): True,
    (Restart.TRANSIENT, False): False,
    (Restart.TEMPORARY, True): False,
    (Restart.TEMPORARY, False): False,
}


def decide(restart: Restart, intensity: Intensity, *, crashed: bool, restarts: Sequence[float], now: float) -> Decision:
    """Decide whether to restart a child that has just exited.

    Args:
        restarts: times of earlier restarts, seconds, oldest first.
        now: same clock; not before the last of `restarts`.

    Returns:
        `Again` with the times still inside the period, `Stop`, or `GiveUp`.

    Source: OTP supervisor, do_restart/3 and add_restart/3.
    """
    if not _AGAIN[restart, crashed]:
        return Stop()
    recent = (*(time for time in restarts if now - time <= intensity.period_s), now)
    return Again(recent) if len(recent) <= intensity.restarts else GiveUp()


def delay_s(backoff: Backoff, restarts: int, chance: float) -> float:
    """Return the delay in seconds before the `restarts`-th restart in a row (from 1); `chance` is in [0, 1)."""
    doublings = min(restarts - 1, 64)
    delay = min(backoff.cap_s, backoff.base_s * backoff.factor**doublings)
    return delay * (1 - backoff.jitter * chance)


def affected(strategy: Strategy, children: Sequence[str], crashed: str) -> tuple[str, ...]:
    """Return which of `children`, in start order, are restarted when `crashed` has crashed, in the same order."""
    match strategy:
        case Strategy.ONE_FOR_ONE:
            return (crashed,)
        case Strategy.ONE_FOR_ALL:
            return tuple(children)
        case Strategy.REST_FOR_ONE:
            return tuple(children[children.index(crashed) :])
