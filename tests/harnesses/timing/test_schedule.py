"""Laws of schedules: due moments follow from the schedule alone, without drift and whatever the local clock does."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesses.errors import HarnessMisuse
from harnesses.timing.schedule import Anchored, Missed, Steady, Times, WallTimes, check_times, coming, jitter, next_tick

DAY_S = 86_400.0
NEW_YORK, BERLIN, LORD_HOWE = ZoneInfo("America/New_York"), ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Lord_Howe")
ZONES = [NEW_YORK, BERLIN, LORD_HOWE, ZoneInfo("Africa/Casablanca"), ZoneInfo("Asia/Kathmandu"), UTC]

moments = st.datetimes(datetime(1990, 1, 1), datetime(2035, 1, 1), timezones=st.sampled_from(ZONES))
periods = st.one_of(st.floats(0.001, 1e6), st.integers(1, 60).map(float), st.integers(1, 40).map(lambda days: days * DAY_S))


def local(moment: datetime, zone: tzinfo) -> str:
    return moment.astimezone(zone).isoformat(" ", "minutes")


@pytest.mark.parametrize("zone", ZONES, ids=str)
def test_a_daily_tick_keeps_its_time_of_day_through_400_days(zone: tzinfo) -> None:
    schedule = Anchored(datetime(2026, 1, 15, 9, 30, tzinfo=zone), DAY_S)

    days = [schedule.due(number).astimezone(zone) for number in range(400)]

    assert {(day.hour, day.minute) for day in days} == {(9, 30)}
    assert [day.date() for day in days] == [days[0].date() + timedelta(days=n) for n in range(400)]


@pytest.mark.parametrize("zone", ZONES, ids=str)
@pytest.mark.parametrize("minute", range(0, 180, 15))
def test_each_day_has_exactly_one_tick_also_in_the_hours_in_which_clocks_change(zone: tzinfo, minute: int) -> None:
    schedule = Anchored(datetime(2026, 1, 15, minute // 60, minute % 60, tzinfo=zone), DAY_S)

    per_day = Counter(schedule.due(number).astimezone(zone).date() for number in range(400))

    assert set(per_day.values()) == {1}
    assert len(per_day) == 400


@pytest.mark.parametrize(
    ("anchor", "day", "shown"),
    [
        (datetime(2026, 3, 1, 2, 30, tzinfo=NEW_YORK), 7, "2026-03-08 03:30-04:00"),
        (datetime(2026, 3, 22, 2, 30, tzinfo=BERLIN), 7, "2026-03-29 03:30+02:00"),
        (datetime(2026, 9, 27, 2, 15, tzinfo=LORD_HOWE), 7, "2026-10-04 02:45+11:00"),
    ],
)
def test_a_time_of_day_that_the_clock_jumps_over_is_the_one_it_shows_after(anchor: datetime, day: int, shown: str) -> None:
    schedule = Anchored(anchor, DAY_S)

    assert local(schedule.due(day), anchor.tzinfo or UTC) == shown
    assert schedule.due(day + 1).astimezone(anchor.tzinfo).time() == anchor.time()


@pytest.mark.parametrize(
    ("anchor", "shown"),
    [
        (datetime(2026, 10, 25, 1, 30, tzinfo=NEW_YORK), "2026-11-01 01:30-04:00"),
        (datetime(2026, 10, 18, 2, 30, tzinfo=BERLIN), "2026-10-25 02:30+02:00"),
        (datetime(2026, 3, 29, 1, 45, tzinfo=LORD_HOWE), "2026-04-05 01:45+11:00"),
    ],
)
def test_of_a_time_of_day_that_comes_twice_it_is_the_first(anchor: datetime, shown: str) -> None:
    assert local(Anchored(anchor, DAY_S).due(7), anchor.tzinfo or UTC) == shown


def test_an_anchor_in_the_second_of_two_such_hours_is_kept_and_the_others_are_the_first() -> None:
    schedule = Anchored(datetime(2025, 11, 2, 1, 30, tzinfo=NEW_YORK, fold=1), DAY_S)

    assert local(schedule.due(0), NEW_YORK) == "2025-11-02 01:30-05:00"
    assert local(schedule.due(364), NEW_YORK) == "2026-11-01 01:30-04:00"


def test_a_tick_whose_time_of_day_is_left_out_is_not_due_before_the_moment_in_its_place() -> None:
    schedule = Anchored(datetime(2026, 3, 1, 2, 30, tzinfo=NEW_YORK), DAY_S)

    assert schedule.index_at(datetime(2026, 3, 8, 3, 10, tzinfo=NEW_YORK)) == 6
    assert schedule.index_at(datetime(2026, 3, 8, 3, 30, tzinfo=NEW_YORK)) == 7


def test_a_period_that_is_not_of_whole_days_is_elapsed_time() -> None:
    anchor = datetime(2026, 3, 7, 12, tzinfo=NEW_YORK)

    due = [Anchored(anchor, DAY_S / 2).due(number) for number in range(800)]

    assert due == [anchor.astimezone(UTC) + number * timedelta(hours=12) for number in range(800)]


@pytest.mark.parametrize(("period_s", "number", "later"), [(0.1, 1_000_000, 100_000), (1 / 3, 3_000_000, 1_000_000)])
def test_a_million_ticks_do_not_drift(period_s: float, number: int, later: int) -> None:
    schedule = Anchored(datetime(2026, 1, 1, tzinfo=UTC), period_s)

    assert schedule.due(number) == schedule.anchor + timedelta(seconds=later)
    assert schedule.index_at(schedule.anchor + timedelta(seconds=later)) == number


@given(anchor=moments, period_s=periods, moment=moments)
def test_the_index_at_a_moment_is_the_last_that_is_due(anchor: datetime, period_s: float, moment: datetime) -> None:
    schedule = Anchored(anchor, period_s)

    index = schedule.index_at(moment)

    assert schedule.due(index) <= moment.astimezone(UTC) < schedule.due(index + 1)


@given(anchor=moments, period_s=periods, number=st.integers(-1_000, 1_000))
def test_the_index_when_a_tick_is_due_is_its_number(anchor: datetime, period_s: float, number: int) -> None:
    schedule = Anchored(anchor, period_s)

    assert schedule.index_at(schedule.due(number)) == number


def test_a_day_that_a_country_left_out_has_its_tick_with_the_next() -> None:
    apia = ZoneInfo("Pacific/Apia")
    schedule = Anchored(datetime(2011, 12, 29, 9, 30, tzinfo=apia), DAY_S)

    shown = [local(schedule.due(number), apia) for number in range(3)]

    assert shown == ["2011-12-29 09:30-10:00", "2011-12-31 09:30+14:00", "2011-12-31 09:30+14:00"]
    assert schedule.index_at(schedule.due(1)) == 2


# which tick comes next

EVERY_10_S = Steady(0, 100.0, 10.0, "", 0.0)


@pytest.mark.parametrize(
    ("missed", "late", "now", "number", "passed_over"),
    [
        # the last was number 3, due at 130
        (Missed.SKIP, False, 131, 4, 0),
        (Missed.SKIP, False, 140, 4, 0),
        (Missed.SKIP, False, 141, 5, 1),
        (Missed.SKIP, True, 141, 4, 0),
        (Missed.SKIP, True, 150, 5, 1),
        (Missed.SKIP, True, 151, 6, 2),
        (Missed.SKIP, False, 195, 10, 6),
        (Missed.COALESCE, False, 131, 4, 0),
        (Missed.COALESCE, False, 141, 4, 0),
        (Missed.COALESCE, False, 195, 9, 5),
        (Missed.COALESCE, True, 195, 9, 5),
        (Missed.CATCH_UP, False, 131, 4, 0),
        (Missed.CATCH_UP, False, 195, 4, 0),
        (Missed.CATCH_UP, True, 195, 4, 0),
        # the clock was set back
        (Missed.SKIP, True, 7, 4, 0),
        (Missed.COALESCE, True, 7, 4, 0),
        (Missed.CATCH_UP, True, 7, 4, 0),
    ],
)
def test_what_is_missed_is_skipped_joined_or_caught_up(
    missed: Missed, late: bool, now: float, number: int, passed_over: int
) -> None:
    tick = next_tick(missed, 3, now, EVERY_10_S, late=late)

    assert (tick.number, tick.moment, tick.missed) == (number, 100 + 10 * number, passed_over)


@st.composite
def times(draw: st.DrawFn) -> Times:
    period_s = draw(st.floats(0.01, 20 * DAY_S))
    jitter_s = draw(st.sampled_from([0.0, 0.5, 0.9])) * period_s
    if draw(st.booleans()):
        return Steady(draw(st.integers(0, 1_000)), draw(st.floats(0, 1e6)), period_s, "one", jitter_s)
    return WallTimes(Anchored(draw(moments), period_s), draw(st.integers(-5, 5)), "one", jitter_s)


@given(times=times(), number=st.integers(0, 100_000), part=st.floats(0, 1, exclude_max=True))
def test_the_latest_tick_is_the_last_whose_moment_has_come(times: Times, number: int, part: float) -> None:
    now = times.moment(number) + part * (times.moment(number + 1) - times.moment(number))

    latest = times.latest(now)

    assert times.moment(latest) <= now + times.slack_s
    assert times.moment(latest + 1) > now + times.slack_s / 2
    assert times.moment(coming(now, times, latest)) >= now - times.slack_s


def test_at_the_moment_of_a_tick_it_is_the_latest_whatever_floats_lose() -> None:
    steady = Steady(0, 1 / 3, 0.1, "", 0.0)

    assert [steady.latest(steady.moment(number)) for number in range(10_000)] == list(range(10_000))


@given(times=times(), missed=st.sampled_from(Missed), late=st.booleans(), last=st.integers(-1, 999), ahead=st.floats(-50, 50))
def test_whatever_the_time_the_next_tick_has_a_higher_number(
    times: Times, missed: Missed, late: bool, last: int, ahead: float
) -> None:
    now = times.moment(last) + ahead * (times.moment(1_000) - times.moment(0)) / 1_000

    tick = next_tick(missed, last, now, times, late=late)

    assert tick.number == last + 1 + tick.missed
    assert tick.missed == 0 or missed is not Missed.CATCH_UP
    assert tick.missed == 0 or times.moment(tick.number - 1) <= now + times.slack_s
    assert tick.moment >= now - times.slack_s or missed is not Missed.SKIP or tick.number == last + 1


# jitter


@given(name=st.text(), number=st.integers(-1, 2**60), jitter_s=st.floats(0, 1e9))
def test_a_jitter_is_the_same_each_time_and_below_its_limit(name: str, number: int, jitter_s: float) -> None:
    first = jitter(name, number, jitter_s)

    assert first == jitter(name, number, jitter_s)
    assert 0 <= first < jitter_s or first == jitter_s == 0


def test_jitters_are_spread_evenly_over_names_and_numbers() -> None:
    tenths = Counter(int(jitter(f"harness {name}", number, 10)) for name in range(100) for number in range(100))

    assert len(tenths) == 10
    assert all(850 < count < 1_150 for count in tenths.values())


# what no schedule can be made of


@pytest.mark.parametrize("period_s", [0, -1, float("nan"), float("inf")])
def test_a_period_that_is_not_above_0_is_refused(period_s: Any) -> None:
    with pytest.raises(HarnessMisuse, match="every: expected a period above 0 seconds, got"):
        check_times(period_s, None, 0)


@pytest.mark.parametrize("jitter_s", [-1, 5, 6, float("nan")])
def test_a_jitter_is_below_the_period(jitter_s: float) -> None:
    with pytest.raises(HarnessMisuse, match=r"expected a jitter of at least 0 s and below the period of 5 s, got"):
        check_times(5, None, jitter_s)


@pytest.mark.parametrize("anchor", [datetime(2026, 1, 1), "2026-01-01T09:30Z", 5.0])
def test_an_anchor_says_which_time_zone_it_is_in(anchor: Any) -> None:
    with pytest.raises(HarnessMisuse, match=r"the anchor is ambiguous.*expected a datetime with a time zone, got .*tzinfo"):
        check_times(5, anchor, 0)


@pytest.mark.parametrize("period_s", [1e-4, 1e12])
def test_a_period_that_no_calendar_can_count_needs_no_anchor(period_s: float) -> None:
    check_times(period_s, None, 0)

    with pytest.raises(HarnessMisuse, match=r"from 0\.001 s to 100 years"):
        check_times(period_s, datetime(2026, 1, 1, tzinfo=UTC), 0)
