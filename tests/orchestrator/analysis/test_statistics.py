"""Whether figures differ by more than chance: exact where it can be, never more often wrong than the level says."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from orchestrator.analysis.answers.statistics import (
    LEVEL,
    batches,
    chance_of_counts,
    chance_of_difference,
    chance_of_pairs,
    interval_of_ratio,
    interval_of_sum,
    judged,
    quantile,
)


def wandering(random: Random, count: int, hold: float = 0.8) -> list[float]:
    """Return figures of which each depends on the one before."""
    values, at = [], 0.0
    for _ in range(count):
        at = hold * at + random.gauss(0, 1)
        values.append(10 + at)
    return values


def test_the_same_distribution_twice_is_called_different_about_as_often_as_the_level_says() -> None:
    alarms = 0
    for seed in range(200):
        random = Random(seed)
        one, other = ([random.lognormvariate(0, 1) for _ in range(8)] for _ in range(2))
        alarms += (chance_of_difference(one, other) or 0) < LEVEL

    # 200 draws at 5 %: more than 19 come once in a thousand times.
    assert alarms <= 19


def test_steps_that_depend_on_each_other_are_no_more_often_called_different() -> None:
    alarms = 0
    for seed in range(200):
        random = Random(seed)
        chance = chance_of_difference(batches(wandering(random, 1_500)), batches(wandering(random, 1_500)))
        alarms += (chance or 0) < LEVEL

    assert alarms <= 19


def test_without_batches_they_would_be() -> None:
    alarms = 0
    for seed in range(12):
        random = Random(seed)
        alarms += (chance_of_difference(wandering(random, 60), wandering(random, 60)) or 0) < LEVEL

    assert alarms >= 4


def test_a_true_difference_is_found() -> None:
    random = Random(1)
    one, other = wandering(random, 2_000), [value * 1.2 for value in wandering(random, 2_000)]

    chance, ratio = chance_of_difference(batches(one), batches(other)), interval_of_ratio(batches(one), batches(other))

    assert chance is not None
    assert chance < 0.001
    assert ratio is not None
    assert 1.1 < ratio.low < 1.2 < ratio.high < 1.3


def test_of_few_figures_all_ways_to_divide_them_are_looked_at() -> None:
    # 70 ways, of which two are as far apart: this one and its mirror.
    assert chance_of_difference([1, 2, 3, 4], [11, 12, 13, 14]) == pytest.approx(2 / 70)


@pytest.mark.parametrize(("one", "other"), [([1, 2, 3], [7, 8, 9, 10]), ([], []), ([1.0], [2.0])])
def test_of_too_few_figures_nothing_is_said(one: list[float], other: list[float]) -> None:
    assert chance_of_difference(one, other) is None
    assert interval_of_ratio(one, other) is None


def test_equal_figures_are_no_difference() -> None:
    assert chance_of_difference([3.0] * 9, [3.0] * 9) == 1.0
    assert chance_of_pairs([0.0] * 5) == 1.0


def test_pairs_are_judged_by_flipping_signs() -> None:
    assert chance_of_pairs([1, 1, 1, 1, 1]) == pytest.approx(2 / 32)
    assert chance_of_pairs([1, -1, 1, -1]) == 1.0
    assert chance_of_pairs([1, 2, 3]) is None


def test_counts_are_judged_by_the_binomial_distribution() -> None:
    assert chance_of_counts(0, 5, 1, 1) == pytest.approx(2 / 32)
    assert chance_of_counts(3, 3, 1, 1) == pytest.approx(1)
    assert chance_of_counts(2, 20, 100, 1_000) == pytest.approx(1, abs=0.5)
    assert chance_of_counts(0, 0, 1, 1) is None
    assert chance_of_counts(5, 0, 0, 9) is None
    assert chance_of_counts(10_000, 10_500, 1, 1) == pytest.approx(0.0005, abs=0.0003)


def test_of_many_tests_each_has_to_show_more() -> None:
    assert judged([0.01, 0.04, None, 0.03]) == [pytest.approx(0.03), pytest.approx(0.06), None, pytest.approx(0.06)]


def test_batches_hold_all_figures_in_order() -> None:
    means = batches([float(number) for number in range(95)])

    assert len(means) == 9
    assert all(before < after for before, after in pairwise(means))
    assert batches([1.0] * 9) == []


def test_what_is_drawn_at_random_is_the_same_every_time() -> None:
    random = Random(5)
    one, other = ([random.random() for _ in range(30)] for _ in range(2))

    assert chance_of_difference(one, other) == chance_of_difference(one, other)
    assert interval_of_sum(one, 4, 0.2) == interval_of_sum(one, 4, 0.2)


def test_a_quantile_lies_between_its_neighbours() -> None:
    assert quantile([3, 1, 2], 0.5) == 2
    assert quantile([1, 2], 0.25) == 1.25
