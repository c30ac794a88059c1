"""Differences between two harnesses, or two groups of them, and whether they exceed chance. Pure.

    figure                                    repeated by             test
    step_interval_s work_s agent_s commit_s   batches of the steps    permutation, studentised
    try_agent_s try_tokens try_money          tries                   permutation, studentised
    failures restarts                         steps                   binomial
    set_backs                                 features                binomial
    features_passed                           features of one id      sign test
    tries_to_pass                             features of one id      permutation of signs
    day_return                                days of one date        permutation of signs, of batches
    any of these, between groups              harnesses               permutation, studentised
    gain_share max_drawdown_share             nothing: one each       none

Invariant: figures without repetition are reported and not judged; the more figures, the stricter the level for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isclose

from attrs import evolve, frozen

from orchestrator.analysis.answers.statistics import (
    LEVEL,
    Interval,
    batches,
    chance_of_counts,
    chance_of_difference,
    chance_of_pairs,
    interval_of_ratio,
    judged,
    mean,
)
from orchestrator.analysis.questions.compare_sides import STEPWISE, Side

BETTER, WORSE, SAME, CHANCE, ALONE = "better", "worse", "same", "within chance", "not judged"
_MORE_IS_BETTER = frozenset({"features_passed", "day_return", "gain_share"})
_ALIKE = 0.1
"""A relative difference whose whole interval is smaller than this counts as none."""


@frozen(kw_only=True)
class Finding:
    """One figure of both sides."""

    what: str
    """The harness, or the group."""
    figure: str
    before: float | None
    after: float | None
    chance: float | None = None
    """P-value of the difference; None without a test."""
    ratio: Interval | None = None
    """Interval of the ratio of the second value to the first, at the level."""
    repeats: tuple[int, int] = (1, 1)
    by: str = ""
    """Name of the repetitions, such as `steps`."""

    @property
    def change(self) -> float | None:
        """Relative change from before to after; None where it is undefined, as for losses."""
        if self.before is None or self.after is None or self.before <= 0 or self.after < 0:
            return None
        return self.after / self.before - 1

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference at all."""
        if self.before is None or self.after is None:
            return self.before is self.after
        # Means of the same figures may differ by the order in which they were summed.
        return isclose(self.before, self.after, rel_tol=1e-9)

    @property
    def verdict(self) -> str:
        """The verdict on the finding. Valid when all findings are judged together."""
        if self.is_equal:
            return SAME
        if self.chance is None:
            return ALONE
        if self.chance < LEVEL:
            return BETTER if ((self.after or 0) > (self.before or 0)) is (self.figure in _MORE_IS_BETTER) else WORSE
        alike = self.ratio is not None and 1 - _ALIKE < self.ratio.low <= self.ratio.high < 1 + _ALIKE
        return SAME if alike else CHANCE


def between(before: Side, after: Side) -> Iterator[Finding]:
    """Yield the findings on two harnesses, each by itself."""
    for figure in STEPWISE:
        if figure in before.means and figure in after.means:
            means = (before.means[figure], after.means[figure])
            one, other = before.batches.get(figure, []), after.batches.get(figure, [])
            yield _lots(after.name, figure, one, other, "batches of steps", means)
    for figure, counts in (
        ("failures", (before.failures, after.failures)),
        ("restarts", (before.restarts, after.restarts)),
    ):
        if any(counts):
            yield _counts(after.name, figure, counts, (before.steps, after.steps), "steps")
    yield from _features(before, after)
    for figure in sorted(before.tries.keys() & after.tries.keys()):
        yield _lots(after.name, figure, before.tries[figure], after.tries[figure], "tries")
    yield from _books(before, after)


def between_lots(what: str, before: Sequence[Side], after: Sequence[Side]) -> Iterator[Finding]:
    """Yield the findings on two groups of harnesses, whose members are repetitions."""
    figures: dict[str, Callable[[Side], float | None]] = {
        **{figure: lambda side, figure=figure: side.means.get(figure) for figure in STEPWISE},  # type: ignore[misc]
        "failures": lambda side: side.failures,
        "restarts": lambda side: side.restarts,
        "features_passed": lambda side: side.passed if side.features else None,
        "set_backs": lambda side: sum(one.set_backs for one in side.features.values()) if side.features else None,
        "tries_to_pass": lambda side: mean(passes) if (passes := side.passes) else None,
        **{
            figure: lambda side, figure=figure: mean(side.tries[figure]) if figure in side.tries else None  # type: ignore[misc]
            for figure in ("try_agent_s", "try_tokens", "try_money")
        },
        "gain_share": lambda side: side.books.gain if side.books else None,
        "max_drawdown_share": lambda side: side.books.max_drawdown if side.books else None,
    }
    for figure, of in figures.items():
        one = [value for side in before if (value := of(side)) is not None]
        other = [value for side in after if (value := of(side)) is not None]
        if one and other and (any(one) or any(other)):
            yield _lots(what, figure, one, other, "harnesses")


def judged_together(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with their p-values adjusted for the number of findings."""
    # Equal figures need no test, so they do not count towards the adjustment.
    chances = judged([None if one.is_equal else one.chance for one in findings])
    return [one if one.is_equal else evolve(one, chance=chance) for one, chance in zip(findings, chances, strict=True)]


def _lots(
    what: str, figure: str, one: Sequence[float], other: Sequence[float], by: str, means: tuple[float, float] | None = None
) -> Finding:
    repeats = (len(one), len(other))
    found = _finding(what, figure, means or (mean(one), mean(other)), chance_of_difference(one, other), repeats, by)
    return evolve(found, ratio=interval_of_ratio(one, other))


def _finding(
    what: str, figure: str, sides: tuple[float, float], chance: float | None, repeats: tuple[int, int], by: str
) -> Finding:
    before, after = sides
    return Finding(what=what, figure=figure, before=before, after=after, chance=chance, repeats=repeats, by=by)


def _counts(what: str, figure: str, counts: tuple[int, int], exposures: tuple[int, int], by: str) -> Finding:
    return _finding(what, figure, counts, chance_of_counts(*counts, *exposures), exposures, by)


def _features(before: Side, after: Side) -> Iterator[Finding]:
    shared = sorted(before.features.keys() & after.features.keys())
    if not shared:
        return
    pairs = [(before.features[id], after.features[id]) for id in shared]
    lost = sum(one.is_passed and not other.is_passed for one, other in pairs)
    won = sum(other.is_passed and not one.is_passed for one, other in pairs)
    repeats, by = (len(pairs), len(pairs)), "features of one id"
    passed = (sum(one.is_passed for one, _ in pairs), sum(other.is_passed for _, other in pairs))
    yield _finding(after.name, "features_passed", passed, chance_of_counts(lost, won, 1, 1), repeats, by)
    tries = [(one.tries_to_pass, other.tries_to_pass) for one, other in pairs if one.tries_to_pass and other.tries_to_pass]
    if tries:
        means = mean([one for one, _ in tries if one]), mean([other for _, other in tries if other])
        chance = chance_of_pairs([(other or 0) - (one or 0) for one, other in tries])
        yield _finding(after.name, "tries_to_pass", means, chance, (len(tries), len(tries)), by)
    backs = (sum(one.set_backs for one, _ in pairs), sum(other.set_backs for _, other in pairs))
    if any(backs):
        yield _counts(after.name, "set_backs", backs, (len(pairs), len(pairs)), "features")


def _books(before: Side, after: Side) -> Iterator[Finding]:
    if before.books is None or after.books is None:
        return
    one, other = before.books.returns, after.books.returns
    days = sorted(one.keys() & other.keys())
    if days:
        moved = batches([other[day] - one[day] for day in days])
        means = mean([one[day] for day in days]), mean([other[day] for day in days])
        yield _finding(after.name, "day_return", means, chance_of_pairs(moved), (len(days), len(days)), "days of one date")
    for figure, first, second in (
        ("gain_share", before.books.gain, after.books.gain),
        ("max_drawdown_share", before.books.max_drawdown, after.books.max_drawdown),
    ):
        yield Finding(what=after.name, figure=figure, before=first, after=second)
