"""Schedules: when ticks are due, and which one comes next. Pure: the time is always an argument.

A tick has a number and a moment. The moment is its due time plus its jitter:

    Anchored   by the wall clock: due at `anchor + n * period_s`, in integers, so that a million ticks of 0.1 s do not drift
    Steady     by any clock that does not jump: due at `start + n * period_s`

Invariant: a tick's number and due time depend on the schedule alone, never on when an earlier one was delivered.
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
_SHORTEST_S, _LONGEST_S = 0.001, 100 * 366.0 * DAY_S  # A datetime counts microseconds and ends with the year 9999.
_MICROSECOND = timedelta(microseconds=1)


class Missed(StrEnum):
    """What to do with ticks whose time has passed."""

    SKIP = "skip"
    """Drop them: the next tick comes at its own time."""
    COALESCE = "coalesce"
    """Deliver one tick at once for all of them, with the number of the latest."""
    CATCH_UP = "catch_up"
    """Deliver each of them at once, one after the other."""


@attrs.frozen
class Next:
    """The tick to deliver next."""

    number: int
    moment: float
    """When it comes; at once if in the past."""
    missed: int
    """How many ticks before it were skipped or coalesced into it."""


def next_tick(missed: Missed, last: int, now: float, times: Times, *, late: bool) -> Next:
    """Return the tick that follows `last`.

    Args:
        late: whether the tick after `last` is still delivered while its period lasts, although its moment has passed. True if
            the ticker was not running at that moment; a loop that was merely busy has missed the tick.
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
    """Return the first tick whose moment has not passed; `latest` is the latest whose moment has come."""
    return latest if times.moment(latest) >= now - times.slack_s else latest + 1


def jitter(name: str, number: int, jitter_s: float) -> float:
    """Return the delay of a tick after its due time, in [0, `jitter_s`); always the same for the same tick."""
    if not jitter_s:
        return 0.0
    digest = blake2b(f"{name}\0{number}".encode(), digest_size=6).digest()
    return jitter_s * (int.from_bytes(digest, "big") / 2**48)


def check_times(period_s: float, anchor: datetime | None, jitter_s: float) -> None:
    """Raise `HarnessMisuse` if these do not make a valid schedule."""
    if not 0 < period_s < float("inf"):
        raise HarnessMisuse(f"every: expected a period above 0 seconds, got {period_s!r}")
    if not 0 <= jitter_s < period_s:
        raise HarnessMisuse(f"every: expected a jitter of at least 0 s and below the period of {period_s} s, got {jitter_s!r}")
    if anchor is None:
        return
    if not is_aware(anchor):
        raise HarnessMisuse(
            "every: the anchor is ambiguous: expected a datetime with a time zone, "
            f"got {anchor!r}; give it a `tzinfo`, say `ZoneInfo('Europe/Berlin')` or `UTC`"
        )
    if not _SHORTEST_S <= period_s <= _LONGEST_S:
        raise HarnessMisuse(
            f"every: expected a period from {_SHORTEST_S} s to 100 years with an anchor, got {period_s!r}; "
            "leave the anchor out"
        )


def is_aware(moment: object) -> bool:
    """Return whether it is a datetime with a time zone."""
    return isinstance(moment, datetime) and moment.utcoffset() is not None


@attrs.frozen
class Anchored:
    """Ticks due at `anchor + n * period_s` by the wall clock.

    A period of whole days keeps the time of day in the anchor's time zone, so a day of 23 or 25 hours also has one tick. A
    time of day that is skipped by a clock change is mapped as in PEP 495 to a moment after the change; of one that occurs
    twice the first is used. Any other period is elapsed time.
    """

    anchor: datetime
    period_s: float

    def due(self, number: int) -> datetime:
        """Return when the tick is due, in UTC."""
        if number == 0:
            return self.anchor.astimezone(UTC)
        if days := self._days:
            # Wall-clock arithmetic: the sum does not keep which of two repeated hours the anchor was in.
            return (self.anchor + timedelta(days=number * days)).astimezone(UTC)
        numerator, denominator = self._ratio
        micros = (2 * number * numerator * 1_000_000 + denominator) // (2 * denominator)
        return self.anchor.astimezone(UTC) + timedelta(microseconds=micros)

    def index_at(self, moment: datetime) -> int:
        """Return the largest tick number whose tick is due at or before `moment`; negative before the anchor."""
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
    """Moments of anchored ticks, in seconds since 1970."""

    schedule: Anchored
    shift: int
    """Offset of the tick numbers from the schedule's; not 0 if the ticker's period or anchor was changed."""
    name: str
    jitter_s: float

    slack_s: ClassVar[float] = 1e-6
    """Rounding tolerance in seconds: a time this far past a moment still counts as that moment."""

    def due(self, number: int) -> float:
        """Return when the tick is due, in seconds since 1970."""
        return self.schedule.due(number - self.shift).timestamp()

    def moment(self, number: int) -> float:
        """Return when the tick comes, in seconds since 1970."""
        return self.due(number) + jitter(self.name, number, self.jitter_s)

    def latest(self, now: float) -> int:
        """Return the number of the last tick whose moment has come; lower than any used number if there is none."""
        now += self.slack_s
        number = self.schedule.index_at(datetime.fromtimestamp(now, UTC)) + self.shift
        return number if self.moment(number) <= now else number - 1


@attrs.frozen
class Steady:
    """Moments of ticks on a clock that does not jump, in its seconds; tick `number` is due at `start`."""

    number: int
    start: float
    period_s: float
    name: str
    jitter_s: float

    @property
    def slack_s(self) -> float:
        """Rounding tolerance in seconds: a time this far past a moment still counts as that moment."""
        return min(1e-6, self.period_s / 1_000)

    def due(self, number: int) -> float:
        """Return when the tick is due, in seconds of the clock."""
        return self.start + (number - self.number) * self.period_s

    def moment(self, number: int) -> float:
        """Return when the tick comes, in seconds of the clock."""
        return self.due(number) + jitter(self.name, number, self.jitter_s)

    def latest(self, now: float) -> int:
        """Return the number of the last tick whose moment has come; lower than any used number if there is none."""
        now += self.slack_s
        number = self.number + floor((now - self.start) / self.period_s)
        return number if self.moment(number) <= now else number - 1


Times: TypeAlias = WallTimes | Steady
"""The moments of ticks, in seconds on one clock."""
