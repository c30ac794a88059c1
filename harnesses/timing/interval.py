"""`Every`: ticks at a fixed period that continue after a crash or restart where they left off.

    every(5)                  follows Trio's clock while the process runs, so wall-clock adjustments have no effect; only the
                              time between two runs is taken from the wall clock
    every(86_400, anchor=…)   due at wall-clock times, whatever the clock is set to

Invariant: tick numbers only increase, and a tick is consumed by the step that follows it. The position of each ticker is
stored with the step, and a restarted ticker continues from the last stored position.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from weakref import ref

import attrs
import trio

from harnesses.errors import HarnessMisuse
from harnesses.timing.clock import WallClock
from harnesses.timing.schedule import (
    Anchored,
    Missed,
    Next,
    Steady,
    WallTimes,
    check_times,
    coming,
    is_aware,
    next_tick,
)

_Sleep = Callable[[float], Awaitable[None]]
_SET_S = 0.1
"""Difference in seconds between wall time and Trio's time from which the wall clock counts as adjusted."""
_MILLISECONDS = 1e12
"""Seconds since 1970 stay below it until the year 33658; milliseconds have been above it since 2001."""
_KEPT = 100
"""Positions kept per book: with `anchor=now()` every attempt would add another."""


class Tick(int):
    """The number of a tick, from 0, with its due time and how many ticks were missed before it."""

    due: datetime
    """When it was due, in UTC."""
    missed: int
    """How many ticks before it were skipped or coalesced into it."""

    def __new__(cls, number: int, due: datetime, missed: int = 0) -> Tick:
        tick = super().__new__(cls, number)
        tick.due, tick.missed = due, missed
        return tick

    def __getnewargs__(self) -> Any:
        return int(self), self.due, self.missed


@attrs.frozen
class TickPosition:
    """The position of a ticker, stored with a step."""

    number: int
    """Number of the last tick."""
    due: float
    """When the last tick was due by the wall clock, seconds since 1970."""


class TickBook:
    """The positions of one harness's tickers: those of the last recorded step, and those taken since."""

    __slots__ = ("_alive", "lines", "on_declared", "recorded", "set_period", "taken")

    def __init__(self) -> None:
        self.recorded: dict[str, TickPosition] = {}
        """Positions as of the last recorded step, by ticker."""
        self.taken: dict[str, TickPosition] = {}
        """Positions taken since the last recorded step, by ticker."""
        self._alive: dict[str, ref[Every]] = {}
        self.lines: dict[str, _Line] = {}
        self.set_period: SetPeriod | None = None
        """The period that an operator has set; None if there is none."""
        self.on_declared: Callable[[], object] = bool
        """Called when the harness declares another period than it did when the operator set one, which then ends."""

    def tickers(self) -> Sequence[Every]:
        """Return the tickers that the harness uses in this attempt."""
        return [owner for alive in self._alive.values() if (owner := alive()) is not None]

    def period_of(self, ticker: str, declared_s: float, *, is_named: bool) -> float:
        """Return the period of a ticker: what an operator has set, until the harness declares something else."""
        period = self.set_period
        if period is None:
            return declared_s
        if period.ticker == ticker and period.declared_s == declared_s:
            return period.period_s
        if period.ticker == ticker or not (is_named or period.is_named):
            self.set_period = None
            self.on_declared()
        return declared_s

    def settle(self, kept: Mapping[str, tuple[int, float]] | None = None) -> None:
        """Mark the ticks taken before a recorded step as consumed.

        Args:
            kept: the positions stored with the step, from `as_data`; a background task may have taken a tick since. By default
                all taken ones.
        """
        if not self.taken:
            return
        taken, used = self.taken, self.taken if kept is None else _positions(kept)
        for name in taken:
            if name in used:
                self.recorded.pop(name, None)  # Least recently used first.
                self.recorded[name] = used[name]
        self.taken = {name: at for name, at in taken.items() if used.get(name) != at}

    def put_back(self) -> None:
        """Return unconsumed ticks at the end of an attempt; they will be delivered again."""
        self.taken.clear()
        self._alive.clear()
        while len(self.recorded) > _KEPT:
            name = next(iter(self.recorded))
            del self.recorded[name]
            self.lines.pop(name, None)

    def as_data(self) -> dict[str, tuple[int, float]]:
        """Return all positions, including taken ones, as plain data to be stored with a step."""
        if not self.recorded and not self.taken:
            return {}
        return {name: (at.number, at.due) for name, at in [*self.recorded.items(), *self.taken.items()]}

    def restore(self, data: Mapping[str, Sequence[float]]) -> None:
        """Restore stored positions."""
        self.recorded = _positions(data)
        self.put_back()

    def position(self, ticker: str) -> TickPosition | None:
        """Return the position of a ticker; None if it has not started."""
        return self.taken.get(ticker) or self.recorded.get(ticker)

    def claim(self, ticker: str, owner: Every) -> None:
        """Claim a ticker for `owner`, until `release` or the owner is garbage-collected."""
        other = self._alive.get(ticker)
        if other is not None and other() not in (None, owner):
            raise HarnessMisuse(
                f"every: two iterators run as {ticker!r}: expected one; continue with the existing one, "
                "or give each a `name=` of its own"
            )
        self._alive[ticker] = ref(owner)

    def release(self, ticker: str, owner: Every) -> None:
        """Release a claimed ticker."""
        other = self._alive.get(ticker)
        if other is not None and other() is owner:
            del self._alive[ticker]


def _positions(data: Mapping[str, Sequence[float]]) -> dict[str, TickPosition]:
    return {name: TickPosition(int(number), float(due)) for name, (number, due) in data.items()}


@attrs.frozen
class SetPeriod:
    """A period that an operator has set for a ticker."""

    ticker: str
    is_named: bool
    """Whether the harness has named the ticker; otherwise its name has the declared period in it."""
    declared_s: float
    """What the harness declared then."""
    period_s: float


class Every:
    """An async iterator of ticks; see `BaseHarness.every`.

    Args:
        book: the positions of the harness's tickers.
        sleep: awaited with seconds to sleep on Trio's clock.
        harness: durable name of the harness; each harness has its own jitter.
    """

    def __init__(
        self,
        period_s: float,
        sleep: _Sleep,
        *,
        book: TickBook,
        clock: WallClock,
        harness: str,
        anchor: datetime | None = None,
        jitter_s: float = 0.0,
        missed: Missed | str = Missed.SKIP,
        name: str = "",
    ) -> None:
        check_times(period_s, anchor, jitter_s)
        period_s = float(period_s)
        self.name = name or _default_name(period_s, anchor)
        """Key of the ticker's position: the same call after a restart is the same ticker."""
        self.is_named = bool(name)
        self.declared_s = period_s
        """The period that the harness declares, in seconds."""
        self._missed = _policy(missed)
        self._book = book
        period_s = book.period_of(self.name, period_s, is_named=self.is_named)
        self._pace = _Pace(book, sleep, clock, self.name, f"{harness}/{self.name}", period_s, anchor, jitter_s)
        self._ruler: _ByTrio | _ByWall | None = None
        self._nap: trio.CancelScope | None = None
        self._late = True

    @property
    def period_s(self) -> float:
        """Seconds from tick to tick now: as declared, or as an operator has set it."""
        return self._pace.period_s

    def set_period(self, period_s: float) -> None:
        """Change the period: the next tick is due that long after the last one, and a wait for it begins anew.

        Raises:
            HarnessMisuse: it cannot be the period of this ticker; nothing is changed.
        """
        pace = self._pace
        check_times(period_s, pace.anchor, pace.jitter_s)
        self._pace, self._ruler, self._late = attrs.evolve(pace, period_s=period_s), None, True
        if self._nap is not None:
            self._nap.cancel()

    def __aiter__(self) -> Every:
        return self

    async def __anext__(self) -> Tick:
        self._book.claim(self.name, self)
        try:
            return await self._next()
        except BaseException:
            self._book.release(self.name, self)
            raise

    async def _next(self) -> Tick:
        while True:
            ruler = self._ruler = self._ruler or self._pace.ruler()
            at = self._book.position(self.name)
            last = -1 if at is None else at.number
            with trio.CancelScope() as self._nap:
                number = await self._wait(ruler, next_tick(self._missed, last, ruler.now(), ruler.times, late=self._late))
                break
            # The period was changed: the wait begins anew.
        self._nap, self._late = None, False
        due = ruler.wall_due(number)
        self._book.taken[self.name] = TickPosition(number, due)
        return Tick(number, datetime.fromtimestamp(due, UTC), number - last - 1)

    async def _wait(self, ruler: _ByTrio | _ByWall, tick: Next) -> int:
        """Wait for the tick, or for a later one if the clock was set forward in the meantime; return its number."""
        waits = tick.moment > ruler.now()
        await ruler.wait(tick.moment)
        if not (waits and ruler.can_be_set):
            return tick.number
        # Checked only once: a loop that always wakes a period late would otherwise never get a tick.
        other = next_tick(self._missed, tick.number - 1, ruler.now(), ruler.times, late=True)
        if other.number != tick.number:
            await ruler.wait(other.moment)
        return other.number


def parse_moment(when: datetime | float) -> float:
    """Convert an aware datetime, or seconds since 1970, to seconds since 1970."""
    given = cast(object, when)
    if isinstance(given, datetime):
        if is_aware(given):
            return given.timestamp()
        wrong = "a datetime without a time zone is ambiguous"
    elif isinstance(given, int | float) and not isinstance(given, bool) and abs(given) < _MILLISECONDS:
        return float(given)
    else:
        wrong = "not a time"
    raise HarnessMisuse(
        f"sleep_until: {wrong}: expected an aware datetime, or seconds (not milliseconds) since 1970, got {when!r}; "
        "make one with `datetime.now(UTC)` or `datetime(…, tzinfo=…)`"
    )


def _policy(missed: Missed | str) -> Missed:
    try:
        return Missed(missed)
    except ValueError as error:
        expected = ", ".join(repr(str(each)) for each in Missed)
        raise HarnessMisuse(f"every: expected `missed` to be one of {expected}, got {missed!r}") from error


def _default_name(period_s: float, anchor: datetime | None) -> str:
    if anchor is None:
        return f"{period_s} s"
    zone = getattr(anchor.tzinfo, "key", "")
    return f"{period_s} s from {anchor.isoformat()} {zone}".rstrip()


@attrs.frozen
class _Pace:
    """The settings of one ticker, and its clocks."""

    book: TickBook
    sleep: _Sleep
    clock: WallClock
    ticker: str
    seed: str
    period_s: float
    anchor: datetime | None
    jitter_s: float

    def ruler(self) -> _ByTrio | _ByWall:
        """Return the timeline that the ticker follows."""
        return _ByTrio(self) if self.anchor is None else _ByWall(self, self.anchor)


class _ByWall:
    """Timeline of the wall clock, whatever it is set to."""

    can_be_set = True

    def __init__(self, pace: _Pace, anchor: datetime) -> None:
        self._pace = pace
        schedule = Anchored(anchor, pace.period_s)
        at = pace.book.position(pace.ticker)
        shift = 0 if at is None else _shift(schedule, at)
        self.times = WallTimes(schedule, shift, pace.seed, pace.jitter_s)
        if at is None:
            # Ticks count from now on, so that one between two attempts is not lost.
            before = max(0, coming(self.now(), self.times, self.times.latest(self.now()))) - 1
            pace.book.recorded[pace.ticker] = TickPosition(before, self.wall_due(before))

    def now(self) -> float:
        return self._pace.clock.now()

    async def wait(self, moment: float) -> None:
        await self._pace.clock.sleep_until(moment, self._pace.sleep)

    def wall_due(self, number: int) -> float:
        """Return when a tick is or was due, by the wall clock."""
        return self.times.due(number)


def _shift(schedule: Anchored, at: TickPosition) -> int:
    """Return the offset of a ticker's numbers from its schedule's: it may have started under another schedule.

    A difference below half a period counts as 0: it comes from a change of daylight-saving rules.
    """
    due = datetime.fromtimestamp(at.due, UTC)
    if abs(schedule.due(at.number) - due) < timedelta(seconds=schedule.period_s / 2):
        return 0
    return at.number - max(-1, schedule.index_at(due))


@attrs.frozen
class _Line:
    """The position of a ticker's numbers on Trio's clock and on the wall clock."""

    run: trio.lowlevel.TrioToken
    """The Trio run that the clock belongs to."""
    times: Steady
    wall: float
    """When `times.number` was due by the wall clock."""


class _ByTrio:
    """Timeline of Trio's clock; only the time between two runs is taken from the wall clock."""

    can_be_set = False

    def __init__(self, pace: _Pace) -> None:
        self._pace = pace
        at = pace.book.position(pace.ticker)
        line = pace.book.lines.get(pace.ticker)
        run = trio.lowlevel.current_trio_token()
        if at is None or line is None or line.run is not run or line.times.period_s != pace.period_s:
            line = pace.book.lines[pace.ticker] = self._begin(at, run)
        self._at = line
        self.times = line.times

    def now(self) -> float:
        return trio.current_time()

    async def wait(self, moment: float) -> None:
        await self._pace.sleep(max(0.0, moment - trio.current_time()))

    def wall_due(self, number: int) -> float:
        """Return when a tick is or was due, by the wall clock."""
        line = self._at
        # In whole microseconds, so that rounding errors do not accumulate over many runs.
        counted = round(line.wall + (number - line.times.number) * line.times.period_s, 6)
        measured = self._pace.clock.now() - (self.now() - line.times.due(number))
        return measured if abs(measured - counted) > _SET_S else counted

    def _begin(self, at: TickPosition | None, run: trio.lowlevel.TrioToken) -> _Line:
        pace, now, wall = self._pace, self.now(), round(self._pace.clock.now(), 6)
        if at is None:
            return _Line(run, Steady(0, now, pace.period_s, pace.seed, pace.jitter_s), wall)
        due = min(at.due, wall)  # If the clock was set back, wait at most one period.
        return _Line(run, Steady(at.number, now - (wall - due), pace.period_s, pace.seed, pace.jitter_s), due)
