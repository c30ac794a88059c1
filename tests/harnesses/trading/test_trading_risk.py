"""Risk: every state meets every event as the table says, a halt ends by a person's word alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest
from attrs import evolve

from harnesses import HarnessMisuse
from harnesses.trading.risk import (
    Concern,
    Limits,
    Risk,
    RiskState,
    after_loss,
    after_stop_loss,
    assess,
    flatten,
    limits_for,
    limits_from,
    reset,
    resume_entries,
    stop_entries,
    watch,
)

NOON = datetime(2024, 5, 6, 12, tzinfo=UTC)
DAY = timedelta(days=1)
LIMITS = Limits(
    max_drawdown=Decimal("0.2"),
    max_daily_loss=Decimal("0.05"),
    max_age_s=60.0,
    cooldown_s=3600.0,
    stop_loss=Decimal("0.1"),
    max_stop_losses=2,
    stop_loss_window_s=7200.0,
)


def at(equity: object, risk: Risk | None = None, *, time: datetime = NOON, limits: Limits = LIMITS) -> Risk:
    return assess(risk or Risk(Decimal(1000), Decimal(1000)), limits, equity=Decimal(str(equity)), time=time)


def twice_stopped(risk: Risk, limits: Limits = LIMITS) -> Risk:
    for symbol in "AB":
        risk = after_stop_loss(risk, limits, symbol, NOON)
    return risk


BEGIN = {
    Concern.DRAWDOWN: lambda risk: at(799, evolve(risk, day_start_equity=Decimal(799))),
    Concern.FLATTENED: lambda risk: flatten(risk, "enough", NOON),
    Concern.STOP_LOSSES: twice_stopped,
    Concern.DAILY_LOSS: lambda risk: at(949, evolve(risk, day_start_equity=Decimal(1000))),
    Concern.ENTRIES_STOPPED: lambda risk: stop_entries(risk, "the weekend", NOON),
    Concern.STALE: lambda risk: watch(risk, LIMITS, age_s=61, time=NOON),
}
STATE = {
    concern: RiskState.HALTED if concern in (Concern.DRAWDOWN, Concern.FLATTENED) else RiskState.REDUCING
    for concern in Concern
}
END = {
    "next day": (lambda risk: at(risk.equity, risk, time=NOON + DAY), {Concern.DAILY_LOSS, Concern.STOP_LOSSES}),
    "window over": (
        lambda risk: at(risk.equity, risk, time=NOON + timedelta(seconds=7201)),
        {Concern.STOP_LOSSES},
    ),
    "resume entries": (lambda risk: resume_entries(risk, NOON), {Concern.ENTRIES_STOPPED}),
    "fresh data": (lambda risk: watch(risk, LIMITS, age_s=60, time=NOON), {Concern.STALE}),
    "reset": (lambda risk: reset(risk, NOON), {Concern.DRAWDOWN, Concern.FLATTENED, Concern.STOP_LOSSES}),
}


def gravest(concerns: set[Concern]) -> RiskState:
    states = {STATE[concern] for concern in concerns}
    return next((state for state in (RiskState.HALTED, RiskState.REDUCING) if state in states), RiskState.ACTIVE)


def concerns(risk: Risk) -> set[Concern]:
    return {worry.concern for worry in risk.worries}


@pytest.mark.parametrize("event", Concern)
@pytest.mark.parametrize("first", [None, *Concern])
def test_what_begins_makes_the_state_graver_and_never_lighter(first, event):
    before = BEGIN[first](at(1000)) if first else at(1000)

    after = BEGIN[event](before)

    assert concerns(after) == {concern for concern in (first, event) if concern}
    assert after.state is gravest(concerns(after))


@pytest.mark.parametrize("event", END)
@pytest.mark.parametrize("first", [None, *Concern])
def test_what_ends_a_concern_ends_no_other(first, event):
    end, ended = END[event]
    before = BEGIN[first](at(1000)) if first else at(1000)

    after = end(before)

    assert concerns(after) == ({first} if first else set()) - ended
    assert after.state is gravest(concerns(after))


@pytest.mark.parametrize("event", END)
@pytest.mark.parametrize("second", Concern)
@pytest.mark.parametrize("first", Concern)
def test_of_two_concerns_the_one_that_remains_decides(first, second, event):
    end, ended = END[event]
    before = BEGIN[second](BEGIN[first](at(1000)))

    after = end(before)

    assert concerns(after) == {first, second} - ended
    assert after.state is gravest({first, second} - ended)


def test_a_drawdown_at_the_limit_does_not_halt_and_one_past_it_does():
    assert at(800, limits=Limits(max_drawdown=Decimal("0.2"))).state is RiskState.ACTIVE
    assert at("799.99", limits=Limits(max_drawdown=Decimal("0.2"))).state is RiskState.HALTED


def test_the_drawdown_is_measured_from_the_highest_equity():
    limits = Limits(max_drawdown=Decimal("0.2"))

    risk = at(1030, at(1300, limits=limits), limits=limits)

    assert (risk.high_water, risk.state) == (1300, RiskState.HALTED)
    assert risk.why == "drawdown: equity 1030.00 is 20.8% below its highest, 1300.00"


def test_a_halt_outlasts_a_recovery_a_new_day_and_the_disk():
    halted = at(700)

    stored = msgspec.json.decode(msgspec.json.encode(halted), type=Risk)
    later = at(5000, stored, time=NOON + 30 * DAY)

    assert stored == halted
    assert (later.state, later.since) == (RiskState.HALTED, NOON)


def test_after_a_reset_the_drawdown_counts_from_the_equity_there_is():
    risk = reset(at(700), NOON)

    assert (risk.high_water, at(561, risk, time=NOON + DAY).has(Concern.DRAWDOWN)) == (700, False)
    assert at(559, risk, time=NOON + DAY).has(Concern.DRAWDOWN)


def test_a_daily_loss_is_measured_from_the_end_of_the_day_before():
    evening = at(2000, at(1000, time=NOON), time=NOON + timedelta(hours=11))

    assert at(1901, evening, time=NOON + DAY).state is RiskState.ACTIVE
    assert at(1899, evening, time=NOON + DAY).state is RiskState.REDUCING


def test_a_daily_loss_counts_until_the_day_is_over_even_if_it_is_made_up():
    lost = at(949)

    assert at(1000, lost, time=NOON + timedelta(hours=11)).state is RiskState.REDUCING
    assert at(1000, lost, time=NOON + timedelta(hours=12)).state is RiskState.ACTIVE


def test_a_loss_cools_its_symbol_down_and_no_other():
    risk = after_loss(at(1000), LIMITS, "A", NOON)

    assert risk.cooldowns == {"A": NOON + timedelta(seconds=3600)}
    assert at(1000, risk, time=NOON + timedelta(seconds=3600)).cooldowns == {}


def test_the_guard_halts_if_it_is_to_and_only_a_reset_ends_that():
    limits = evolve(LIMITS, stop_loss_state=RiskState.HALTED)

    risk = at(1000, twice_stopped(at(1000), limits), time=NOON + 9 * DAY, limits=limits)

    assert risk.state is RiskState.HALTED
    assert reset(risk, NOON).state is RiskState.ACTIVE


def test_what_is_kept_of_stop_losses_is_bounded():
    risk = at(1000)

    for second in range(100):
        risk = after_stop_loss(risk, LIMITS, "A", NOON + timedelta(seconds=second))

    assert len(risk.stop_losses) == 2


def test_a_state_that_stays_keeps_the_time_it_began():
    risk = stop_entries(at(1000), "the weekend", NOON)

    graver = flatten(watch(risk, LIMITS, age_s=99, time=NOON + DAY), "enough", NOON + 2 * DAY)

    assert (graver.since, graver.why) == (NOON + 2 * DAY, "flattened: enough")
    assert stop_entries(risk, "again", NOON + DAY) == risk


@pytest.mark.parametrize(
    ("known", "age_s"),
    [
        ({"bar_s": 60.0, "gaps_s": (300.0, 300.0), "period_s": 5.0}, 180.0),
        ({"bar_s": None, "gaps_s": (60.0, 3600.0), "period_s": 5.0}, 180.0),
        ({"bar_s": None, "gaps_s": (), "period_s": 5.0}, 70.0),
    ],
)
def test_without_a_limit_of_its_own_a_live_feed_may_be_two_bars_old_and_a_recording_as_old_as_it_is(known, age_s):
    assert limits_for(Limits(), live=True, **known) == Limits(max_age_s=age_s)
    assert limits_for(Limits(), live=False, **known) == Limits()
    assert limits_for(LIMITS, live=True, **known) == LIMITS


def test_constraints_name_limits_as_numbers_or_text():
    limits = limits_from({"max_drawdown": "0.2", "max_age_s": 5, "mood": "good"}, Limits(max_position=Decimal("0.5")))

    assert limits == Limits(max_drawdown=Decimal("0.2"), max_age_s=5.0, max_position=Decimal("0.5"))


def test_constraints_name_the_guard_too():
    guard = {"max_stop_losses": "3", "stop_loss_state": "halted", "cash_margin": "0.01", "cooldown_s": None}

    limits = limits_from(guard)

    assert limits == Limits(max_stop_losses=3, stop_loss_state=RiskState.HALTED, cash_margin=Decimal("0.01"))


@pytest.mark.parametrize("name", ["max_drawdown", "max_daily_loss", "max_position", "max_jump", "stop_loss"])
@pytest.mark.parametrize("value", [0, -0.1, "1.1", "much", None, float("nan")])
def test_a_limit_that_is_no_part_is_refused(name, value):
    with pytest.raises(HarnessMisuse, match=f"limit '{name}': expected a part above 0 and at most 1"):
        limits_from({name: value})


@pytest.mark.parametrize("wrong", [{"max_age_s": -1.0}, {"cooldown_s": float("nan")}, {"max_stop_losses": 0}])
def test_a_limit_that_is_no_such_number_is_refused(wrong):
    with pytest.raises(HarnessMisuse, match="expected"):
        Limits(**wrong)


@pytest.mark.parametrize("wrong", ["panic", "active", None, 3])
def test_a_state_that_no_guard_leads_to_is_refused(wrong):
    with pytest.raises(HarnessMisuse, match="limit 'stop_loss_state': expected reducing or halted, was"):
        limits_from({"stop_loss_state": wrong})


def test_a_guard_that_leads_to_nothing_is_refused():
    with pytest.raises(HarnessMisuse, match="expected reducing or halted, was active"):
        Limits(stop_loss_state=RiskState.ACTIVE)
