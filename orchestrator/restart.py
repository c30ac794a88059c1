"""Restart or not, in OTP's words. Pure: the time is an argument, and so is chance.

    restart      crashed   ended normally
    permanent    again     again
    transient    again     stop
    temporary    stop      stop

`again` becomes `give up` when there were `intensity.restarts` restarts within `intensity.period_s` seconds already.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeAlias

from attrs import field, frozen, validators


class Restart(StrEnum):
    """When a harness that has ended is started again."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    TEMPORARY = "temporary"


class Strategy(StrEnum):
    """Which siblings are restarted with a harness that crashed."""

    ONE_FOR_ONE = "one_for_one"
    ONE_FOR_ALL = "one_for_all"
    REST_FOR_ONE = "rest_for_one"
    """It and those started after it."""


@frozen
class Intensity:
    """How many restarts within how long are put up with."""

    restarts: int = field(default=5, validator=validators.ge(0))
    period_s: float = field(default=60.0, validator=validators.gt(0))


@frozen
class Backoff:
    """How long to wait before a restart: `base_s`, then `factor` times as long each time, up to `cap_s`."""

    base_s: float = field(default=0.1, validator=validators.ge(0))
    factor: float = field(default=2.0, validator=validators.ge(1))
    cap_s: float = field(default=30.0, validator=validators.ge(0))
    jitter: float = field(default=0.2, validator=[validators.ge(0), validators.le(1)])
    """Share of the delay that chance may take away, so that harnesses which fell together do not rise together."""


@frozen
class Again:
    """Start it again."""

    restarts: tuple[float, ...]
    """The restarts still within the period, oldest first, this one included."""


@frozen
class Stop:
    """Leave it ended."""


@frozen
class GiveUp:
    """It has crashed too often."""


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
    """Return whether a child that has just exited is started again.

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
    """Return the seconds to wait before the `restarts`-th restart in a row (from 1); `chance` is in [0, 1)."""
    doublings = min(restarts - 1, 64)
    delay = min(backoff.cap_s, backoff.base_s * backoff.factor**doublings)
    return delay * (1 - backoff.jitter * chance)


def affected(strategy: Strategy, children: Sequence[str], crashed: str) -> tuple[str, ...]:
    """Return which of `children` (in the order they were started) are restarted when one has crashed, in that order."""
    match strategy:
        case Strategy.ONE_FOR_ONE:
            return (crashed,)
        case Strategy.ONE_FOR_ALL:
            return tuple(children)
        case Strategy.REST_FOR_ONE:
            return tuple(children[children.index(crashed) :])
