"""When ticks are due, and which of them comes next. Pure: the time is always an argument.

A tick has a number and a moment. The moment is when it is due, plus its jitter:

    Anchored   by the wall: due at `anchor + n * period_s`, in integers, so that a million ticks of 0.1 s do not drift
    Steady     by any clock that does not jump: due at `start + n * period_s`

The law: a tick's number and due moment follow from the schedule alone, never from when an earlier one was delivered.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from math import floor
from typing import ClassVar, TypeAlias

import attrs

from harnesses.errors import HarnessMisuse

DAY_S = 86_400
_SHORTEST_S, _LONGEST_S = 0.001, 100 * 366.0 * DAY_S  # a datetime counts microseconds, and ends with the year 9999
_MICROSECOND = timedelta(microseconds=1)


class Missed(StrEnum):
    """What becomes of ticks whose time has passed."""

    SKIP = "skip"
    """They are dropped: the next one comes at its time."""
    COALESCE = "coalesce"
    """One tick at once stands for all of them; it has the number of the latest."""
    CATCH_UP = "catch_up"
    """Each of them comes, one after the other, at once."""


@attrs.frozen
class Next:
    """The tick to deliver next."""

    number: int
    moment: float
    """When; in the past: at once."""
    missed: int
    """How many were passed over before it, or are coalesced into it."""


def next_tick(missed: Missed, last: int, now: float, times: Times, *, late: bool) -> Next:
    """Return the tick that follows `last`.

    Args:
        late: whether the tick after `last` comes although it is late, as long as its period lasts: so it is when nobody
            could have taken it in time. Otherwise whoever was busy past its moment has missed it.
    """
    following, latest = last + 1, times.latest(now)
    if latest < following or missed is Missed.CATCH_UP:
        number = following
    elif missed is Missed.COALESCE or (late and latest == following):
        number = latest
    else:
        number = coming(now, times, latest)
    return Next(number, times.moment(number), number - following)


def coming(now: float, times: Times, latest: int) -> int:
    """Return the first tick whose moment has not passed, given the latest whose moment has come."""
    return latest if times.moment(latest) >= now - times.slack_s else latest + 1


def jitter(name: str, number: int, jitter_s: float) -> float:
    """Return how long after its due moment a tick comes: the same each time it is asked, in [0, `jitter_s`)."""
    if not jitter_s:
        return 0.0
    digest = blake2b(f"{name}\0{number}".encode(), digest_size=6).digest()
    return jitter_s * (int.from_bytes(digest, "big") / 2**48)


def check_times(period_s: float, anchor: datetime | None, jitter_s: float) -> None:
    """Raise `HarnessMisuse` if no schedule can be made of these."""
    if not 0 < period_s < float("inf"):
        raise HarnessMisuse(f"every: expected a period above 0 seconds, was {period_s!r}")
    if not 0 <= jitter_s < period_s:
        raise HarnessMisuse(f"every: expected a jitter of at least 0 s and below the period of {period_s} s, was {jitter_s!r}")
    if anchor is None:
        return
    if not is_aware(anchor):
        raise HarnessMisuse(
            "every: the anchor is no moment in the world: expected a datetime with a time zone, "
            f"was {anchor!r}; give it a `tzinfo`, say `ZoneInfo('Europe/Berlin')` or `UTC`"
        )
    if not _SHORTEST_S <= period_s <= _LONGEST_S:
        raise HarnessMisuse(
            f"every: expected a period from {_SHORTEST_S} s to 100 years with an anchor, was {period_s!r}; "
            "leave the anchor out"
        )


def is_aware(moment: object) -> bool:
    """Return whether it is a datetime that says which time zone it is in."""
    return isinstance(moment, datetime) and moment.utcoffset() is not None


@attrs.frozen
class Anchored:
    """Ticks due at `anchor + n * period_s` by the wall.

    A period of whole days keeps the time of day in the anchor's time zone, so a day of 23 or 25 hours has one tick like any
    other. A time of day that the clock jumps over is the moment it shows after the jump as PEP 495 maps it; of one that
    comes twice it is the first. Any other period is elapsed time.
    """

    anchor: datetime
    period_s: float

    def due(self, number: int) -> datetime:
        """Return when the tick is due, in UTC."""
        if number == 0:
            return self.anchor.astimezone(UTC)
        if days := self._days:
            # this sum is of what clocks show, and forgets which of two hours the anchor was in
            return (self.anchor + timedelta(days=number * days)).astimezone(UTC)
        numerator, denominator = self._ratio
        micros = (2 * number * numerator * 1_000_000 + denominator) // (2 * denominator)
        return self.anchor.astimezone(UTC) + timedelta(microseconds=micros)

    def index_at(self, moment: datetime) -> int:
        """Return the largest number whose tick is due at or before `moment`; negative before the anchor."""
        if days := self._days:
            local = moment.astimezone(self.anchor.tzinfo).replace(tzinfo=None)
            guess = (local - self.anchor.replace(tzinfo=None)) // timedelta(days=days)
        else:
            numerator, denominator = self._ratio
            micros = (moment - self.anchor.astimezone(UTC)) // _MICROSECOND
            guess = micros * denominator // (numerator * 1_000_000)
        while self.due(guess + 1) <= moment:
            guess += 1
        while self.due(guess) > moment:
            guess -= 1
        return guess

    @property
    def _days(self) -> int:
        days, rest = divmod(self.period_s, DAY_S)
        return 0 if rest else int(days)

    @property
    def _ratio(self) -> tuple[int, int]:
        return self.period_s.as_integer_ratio()


@attrs.frozen
class WallTimes:
    """When anchored ticks come, in seconds since 1970."""

    schedule: Anchored
    shift: int
    """How far the numbers are ahead of the schedule's: not 0 for a ticker whose period or anchor was changed on its way."""
    name: str
    jitter_s: float

    slack_s: ClassVar[float] = 1e-6
    """How far past a moment still counts as that moment: what floats may lose."""

    def due(self, number: int) -> float:
        """Return when the tick is due."""
        return self.schedule.due(number - self.shift).timestamp()

    def moment(self, number: int) -> float:
        """Return when the tick comes."""
        return self.due(number) + jitter(self.name, number, self.jitter_s)

    def latest(self, now: float) -> int:
        """Return the number of the last tick whose moment has come; below all numbers in use if there is none."""
        now += self.slack_s
        number = self.schedule.index_at(datetime.fromtimestamp(now, UTC)) + self.shift
        return number if self.moment(number) <= now else number - 1


@attrs.frozen
class Steady:
    """When ticks come on a clock that does not jump, in seconds on it; number `number` is due at `start`."""

    number: int
    start: float
    period_s: float
    name: str
    jitter_s: float

    @property
    def slack_s(self) -> float:
        """How far past a moment still counts as that moment: what floats may lose."""
        return min(1e-6, self.period_s / 1_000)

    def due(self, number: int) -> float:
        """Return when the tick is due."""
        return self.start + (number - self.number) * self.period_s

    def moment(self, number: int) -> float:
        """Return when the tick comes."""
        return self.due(number) + jitter(self.name, number, self.jitter_s)

    def latest(self, now: float) -> int:
        """Return the number of the last tick whose moment has come; below all numbers in use if there is none."""
        now += self.slack_s
        number = self.number + floor((now - self.start) / self.period_s)
        return number if self.moment(number) <= now else number - 1


Times: TypeAlias = WallTimes | Steady
"""When each tick comes, in seconds on one clock."""
