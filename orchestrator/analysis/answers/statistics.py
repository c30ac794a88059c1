"""Whether two samples differ by more than chance, with the standard library alone. Pure and deterministic.

    chance_of_difference    two samples                     studentised permutation test
    chance_of_pairs         paired figures                  the same, by flipping signs
    chance_of_counts        events in two exposures         exact binomial test
    interval_of_ratio       how much larger                 bootstrap, percentiles
    judged                  many tests at once              Holm: the chance of one false statement among all of them

Random draws use a fixed seed. Consecutive figures of one harness are not independent: combine them into `batches` first, whose
means nearly are.

Sources: studentised permutation: Chung and Romano, Annals of Statistics 41 (2013) 484; stopping early: Besag and Clifford,
Biometrika 78 (1991) 301; Holm, Scandinavian Journal of Statistics 6 (1979) 65; batch means: Law and Carson, OR 27 (1979) 1011.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import combinations, pairwise, product
from math import comb, exp, inf, lgamma, log, sqrt
from random import Random
from statistics import NormalDist
from typing import Any

from attrs import frozen

LEVEL = 0.05
"""The chance that noise is reported as a difference, over all statements of one answer."""
RESAMPLES = 4_999
"""Limit on the resamples; fewer where it is soon clear that there is no difference."""
INTERVAL_RESAMPLES = 999
BATCHES = 30
"""Limit on the batches of one harness."""
LENGTH = 10
"""Minimum number of figures in a batch: closer ones may depend on each other."""
LEAST = 4
"""Minimum number of figures on each side: with fewer, no test can be significant."""
_ENOUGH = 30
"""When this many resampled differences are as large as the observed one, it is not significant, and resampling stops."""
_EXACT = 3_000
"""Limit on the divisions of the figures that are all enumerated."""
_SEED = 20_011


@frozen
class Interval:
    """A confidence interval."""

    low: float
    high: float


def mean(values: Sequence[float]) -> float:
    """Return the mean; 0 of no values."""
    return sum(values) / len(values) if values else 0.0


def quantile(values: Sequence[float], part: float) -> float:
    """Return a quantile, interpolated linearly."""
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    at = int(place)
    rest = place - at
    return ordered[at] if not rest else ordered[at] * (1 - rest) + ordered[at + 1] * rest


def batches(values: Sequence[float]) -> list[float]:
    """Return the means of at most `BATCHES` parts of a sequence, in order, of nearly equal length and at least `LENGTH`."""
    number = min(BATCHES, len(values) // LENGTH)
    bounds = [len(values) * place // number for place in range(number + 1)] if number else []
    return [mean(values[begin:end]) for begin, end in pairwise(bounds)]


def chance_of_difference(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the two-sided p-value for a difference of means; None of too few figures.

    Exact where there are few divisions of the figures, otherwise over random ones.
    """
    if min(len(one), len(other)) < LEAST:
        return None
    centre = mean([*one, *other])
    pooled = [value - centre for value in (*one, *other)]
    if min(pooled) == max(pooled):
        return 1.0
    size, rest = len(one), len(other)
    total, squares = sum(pooled), sum(value * value for value in pooled)

    def apart(part: Sequence[float]) -> float:
        return _apart(sum(part), sum([value * value for value in part]), size, total, squares, rest)

    seen = apart(pooled[:size])
    if comb(size + rest, size) <= _EXACT:
        return _part_of_all(seen, map(apart, combinations(pooled, size)))
    random = Random(_SEED)
    return _sampled(seen, lambda: apart(random.sample(pooled, size)))


def chance_of_pairs(differences: Sequence[float]) -> float | None:
    """Return the two-sided p-value for paired differences; None if too few of them differ from 0."""
    moved = [one for one in differences if one]
    if not moved:
        return 1.0 if differences else None
    if len(moved) < LEAST:
        return None
    seen = abs(sum(moved))
    if 2 ** len(moved) <= _EXACT:
        ways = (
            abs(sum(sign * one for sign, one in zip(signs, moved, strict=True)))
            for signs in product((1, -1), repeat=len(moved))
        )
        return _part_of_all(seen, ways)
    random = Random(_SEED)
    return _sampled(seen, lambda: abs(sum(one if random.random() < 0.5 else -one for one in moved)))


def chance_of_counts(one: int, other: int, exposure: float, other_exposure: float) -> float | None:
    """Return the p-value for two counts of independent events, if their rates are equal; None without exposure.

    Args:
        exposure: what the first events were counted in: steps, hours.
    """
    count = one + other
    if not count or exposure <= 0 or other_exposure <= 0:
        return None
    part = exposure / (exposure + other_exposure)
    odds = [_binomial(count, hits, part) for hits in range(count + 1)] if count <= _EXACT else []
    if not odds:
        spread = sqrt(count * part * (1 - part))
        return 2 * NormalDist().cdf(-abs(one - count * part) / spread)
    # As likely as the observation, or less, except for a rounding error.
    return min(1.0, sum(each for each in odds if each <= odds[one] * (1 + 1e-9)))


def interval_of_ratio(one: Sequence[float], other: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Return how many times larger the other mean is, by bootstrap; None of too few figures, or a mean below 0."""
    if min(len(one), len(other)) < LEAST or min(*one, *other) < 0 or not any(one):
        return None
    random = Random(_SEED)
    ratios: list[float] = []
    for _ in range(INTERVAL_RESAMPLES):
        below = mean(random.choices(one, k=len(one)))
        above = mean(random.choices(other, k=len(other)))
        ratios.append(above / below if below else inf)
    low, high = quantile(ratios, level / 2), quantile(ratios, 1 - level / 2)
    return Interval(low, high) if high < inf else None


def interval_of_sum(values: Sequence[float], count: int, level: float) -> Interval | None:
    """Return the sum of `count` further such values, by bootstrap; None of fewer than five."""
    if len(values) < 5 or not count:
        return None
    sums = _drawn_sums(values, count)
    return Interval(quantile(sums, level / 2), quantile(sums, 1 - level / 2))


_DRAWN = 1 << 16
"""Number of values that are drawn at a time."""


def _drawn_sums(values: Sequence[float], count: int) -> list[float]:
    """Return sums of `count` values drawn with replacement, one for each resample.

    NumPy, which comes with pandas, draws the same numbers ten times as fast.
    """
    try:
        numpy: Any = import_module("numpy")
    except ImportError:
        random = Random(_SEED)
        return [sum(random.choices(values, k=count)) for _ in range(INTERVAL_RESAMPLES)]
    random, known = numpy.random.RandomState([_SEED]), numpy.array(values)
    sums: list[float] = []
    while len(sums) < INTERVAL_RESAMPLES:
        some = min(INTERVAL_RESAMPLES - len(sums), _DRAWN // count + 1)
        draws = (random.random_sample((some, count)) * len(values)).astype(int)
        sums += numpy.cumsum(known[draws], axis=1)[:, -1].tolist()
    return sums


def judged(chances: Sequence[float | None], level: float = LEVEL) -> list[float | None]:
    """Return p-values adjusted for the number of tests."""
    known = sorted((chance, at) for at, chance in enumerate(chances) if chance is not None)
    result: list[float | None] = [None] * len(chances)
    least = 0.0
    for place, (chance, at) in enumerate(known):
        least = max(least, min(1.0, chance * (len(known) - place)))
        result[at] = least
    return result


def _apart(part: float, part_squares: float, size: int, total: float, squares: float, rest: int) -> float:
    """Return the distance between the means of a part and of the rest, in standard errors; all computed from their sums."""
    other, other_squares = total - part, squares - part_squares
    first, second = part / size, other / rest
    spread = (part_squares - part * first) / (size - 1) / size + (other_squares - other * second) / (rest - 1) / rest
    # A rounding error among equal figures is not spread.
    if spread <= squares * 1e-15:
        return 0.0 if abs(first - second) <= sqrt(squares) * 1e-9 else inf
    return abs(first - second) / sqrt(spread)


def _part_of_all(seen: float, ways: Iterator[float]) -> float:
    all_of_them = as_far = 0
    for way in ways:
        all_of_them += 1
        as_far += way >= seen * (1 - 1e-12)
    return as_far / all_of_them


def _sampled(seen: float, draw: Callable[[], float]) -> float:
    as_far = 0
    for number in range(1, RESAMPLES + 1):
        as_far += draw() >= seen * (1 - 1e-12)
        if as_far == _ENOUGH:
            return as_far / number
    return (as_far + 1) / (RESAMPLES + 1)


def _binomial(count: int, hits: int, part: float) -> float:
    ways = lgamma(count + 1) - lgamma(hits + 1) - lgamma(count - hits + 1)
    return exp(ways + hits * log(part) + (count - hits) * log(1 - part))
