"""Laws of `restart`: the truth table, the intensity window and its edges, back-off with cap and chance, whom it concerns."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import UsageError
from orchestrator.restart import Again, Backoff, GiveUp, Intensity, Restart, Stop, Strategy, affected, decide, delay_s

TABLE = [
    (Restart.PERMANENT, True, True),
    (Restart.PERMANENT, False, True),
    (Restart.TRANSIENT, True, True),
    (Restart.TRANSIENT, False, False),
    (Restart.TEMPORARY, True, False),
    (Restart.TEMPORARY, False, False),
]
CHILDREN = ("a", "b", "c", "d")


@pytest.mark.parametrize(("restart", "crashed", "again"), TABLE)
def test_the_truth_table_is_that_of_otp(restart: Restart, crashed: bool, again: bool) -> None:
    decision = decide(restart, Intensity(), crashed=crashed, restarts=(), now=0.0)

    assert isinstance(decision, Again if again else Stop)


@pytest.mark.parametrize(("restart", "crashed", "again"), TABLE)
def test_a_child_that_is_left_ended_never_gives_up_whatever_came_before(restart: Restart, crashed: bool, again: bool) -> None:
    decision = decide(restart, Intensity(2, 10.0), crashed=crashed, restarts=(7.0, 8.0), now=9.0)

    assert isinstance(decision, GiveUp if again else Stop)


def test_as_many_restarts_as_the_intensity_says_are_put_up_with_and_one_more_is_not() -> None:
    decisions: list[Again | Stop | GiveUp] = []
    restarts: tuple[float, ...] = ()
    for now in (0.0, 1.0, 2.0, 3.0):
        decision = decide(Restart.TRANSIENT, Intensity(3, 60.0), crashed=True, restarts=restarts, now=now)
        restarts = decision.restarts if isinstance(decision, Again) else restarts
        decisions.append(decision)

    assert decisions == [Again((0.0,)), Again((0.0, 1.0)), Again((0.0, 1.0, 2.0)), GiveUp()]


def test_an_intensity_of_no_restarts_gives_up_at_the_first_crash() -> None:
    assert decide(Restart.PERMANENT, Intensity(0), crashed=True, restarts=(), now=0.0) == GiveUp()


@pytest.mark.parametrize(("now", "expected"), [(10.0, GiveUp()), (10.001, Again((10.001,)))])
def test_a_restart_counts_up_to_the_very_end_of_the_period(now: float, expected: Again | GiveUp) -> None:
    assert decide(Restart.TRANSIENT, Intensity(1, 10.0), crashed=True, restarts=(0.0,), now=now) == expected


def test_only_restarts_inside_the_period_are_kept() -> None:
    decision = decide(Restart.TRANSIENT, Intensity(5, 10.0), crashed=True, restarts=(0.0, 5.0, 14.0), now=15.0)

    assert decision == Again((5.0, 14.0, 15.0))


@given(st.integers(0, 4), st.floats(0.1, 100), st.lists(st.floats(0, 300), max_size=40))
def test_there_are_never_more_restarts_within_a_period_than_the_intensity(
    most: int, period_s: float, gaps: list[float]
) -> None:
    now, done = 0.0, list[float]()
    restarts: tuple[float, ...] = ()
    for gap in gaps:
        now += gap
        decision = decide(Restart.PERMANENT, Intensity(most, period_s), crashed=True, restarts=restarts, now=now)
        if isinstance(decision, Again):
            restarts = decision.restarts
            done.append(now)

    assert all(sum(0 <= moment - other <= period_s for other in done) <= most for moment in done)


def test_each_delay_is_longer_by_the_factor_until_the_cap() -> None:
    backoff = Backoff(base_s=1.0, factor=3.0, cap_s=10.0, jitter=0.0)

    assert [delay_s(backoff, restarts, 0.5) for restarts in (1, 2, 3, 4)] == [1.0, 3.0, 9.0, 10.0]


def test_a_million_restarts_in_a_row_do_not_overflow_the_delay() -> None:
    assert delay_s(Backoff(base_s=1.0, factor=10.0, cap_s=30.0, jitter=0.0), 1_000_000, 0.0) == 30.0


@given(st.integers(1, 100), st.floats(0, 1, exclude_max=True), st.floats(0, 1))
def test_chance_only_shortens_a_delay_and_by_no_more_than_its_share(restarts: int, chance: float, jitter: float) -> None:
    steady = delay_s(Backoff(jitter=0.0), restarts, chance)

    delay = delay_s(Backoff(jitter=jitter), restarts, chance)

    assert steady * (1 - jitter) - 1e-9 <= delay <= steady


@pytest.mark.parametrize(
    ("strategy", "crashed", "expected"),
    [
        (Strategy.ONE_FOR_ONE, "b", ("b",)),
        (Strategy.ONE_FOR_ALL, "b", CHILDREN),
        (Strategy.REST_FOR_ONE, "a", CHILDREN),
        (Strategy.REST_FOR_ONE, "b", ("b", "c", "d")),
        (Strategy.REST_FOR_ONE, "d", ("d",)),
    ],
)
def test_the_strategy_says_whom_a_crash_concerns_in_the_order_of_their_start(
    strategy: Strategy, crashed: str, expected: tuple[str, ...]
) -> None:
    assert affected(strategy, CHILDREN, crashed) == expected


@pytest.mark.parametrize("options", [{"restarts": -1}, {"period_s": 0.0}, {"period_s": "5"}])
def test_an_intensity_that_makes_no_sense_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        Intensity(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"base_s": -1.0}, {"factor": 0.5}, {"cap_s": -inf}, {"jitter": 1.5}, {"base_s": "1"}])
def test_a_back_off_that_makes_no_sense_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        Backoff(**options)
