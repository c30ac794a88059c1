"""Progress of feature lists and pipeline tasks: status, burn-up, pace, and a projection of the rest.

Invariant: a projection is derived from observations and states its uncertainty, or is not made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from attrs import field, frozen

from orchestrator.analysis.answers.statistics import Interval, interval_of_sum, quantile
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.text.terminal_text import one_line

PROJECTED = 0.2
"""The chance that the actual time is outside of the projected interval."""
_TASKS = ("judge", "act", "reclaim", "block")
_GOING_ON = ("running", "backing_off", "paused")


@frozen
class Feature:
    """One feature or task, and its status."""

    id: str
    status: str
    tries: int
    tries_to_pass: int | None
    interruptions: int
    regressions: int
    passed_step: int | None
    last_step: int | None
    last_failure: str


@frozen
class Change:
    """A feature that passed, or was set back."""

    at: datetime
    step: int
    feature: str
    event: str
    """`passed` or `set_back`."""
    passing: int
    """Number of features that pass then."""
    listed: int


@frozen
class Worked:
    """The progress of one harness."""

    harness: str
    what: str
    """`features` or `tasks`."""
    features: tuple[Feature, ...] = field(converter=tuple[Feature, ...])
    changes: tuple[Change, ...] = field(converter=tuple[Change, ...])
    begin: datetime
    """Time of the first step."""
    end: datetime
    """Time of the last step."""
    is_going_on: bool
    projected: Interval | None
    """Seconds until the remaining features have passed, at the pace so far; None if there are too few observations."""

    def of(self, status: str) -> list[Feature]:
        """Return the features with a status."""
        return [one for one in self.features if one.status == status]

    @property
    def regressed(self) -> list[Feature]:
        """Return the features that passed and were set back, whatever their status now."""
        return [one for one in self.features if one.regressions]

    @property
    def tries_to_pass(self) -> list[int]:
        """Return the number of tries of each feature that has passed."""
        return [one.tries_to_pass for one in self.features if one.tries_to_pass is not None]

    @property
    def tries_median(self) -> float | None:
        """Median number of tries of the features that have passed."""
        return quantile(self.tries_to_pass, 0.5) if self.tries_to_pass else None

    @property
    def per_hour(self) -> float | None:
        """Features that passed for good, per hour of wall time."""
        hours = (self.end - self.begin).total_seconds() / 3600
        return len(self.of("passed")) / hours if hours > 0 else None

    @property
    def left(self) -> int:
        """Number of features that can still be worked on."""
        return len(self.of("pending"))


def has_lists(run: Run) -> bool:
    """Return whether a run may work on feature lists or tasks; a fast check, while the frames need full passes."""
    return bool(run.rows("SELECT 1 FROM step_results WHERE json_type(input, '$.kind') = 'VARCHAR' LIMIT 1"))


def worked(run: Run, harness: str | None = None) -> list[Worked]:
    """Return the progress of each harness with a feature list, by name."""
    if not has_lists(run):
        return []
    standings = run.rows(
        """SELECT harness, feature, status, tries, tries_to_pass, interruptions, regressions, passed_step, last_step,
                   coalesce(last_failure, ''), listed_step
            FROM feature_standing WHERE harness = coalesce(?, harness)
           ORDER BY harness, coalesce(listed_step, first_step), first_step, feature""",
        [harness],
    )
    if not standings:
        return []
    tries = run.rows(
        f"""SELECT harness, "timestamp", step_number, feature, passed, kind FROM features
            WHERE harness = coalesce(?, harness) AND (passed OR regressed OR kind IN {_TASKS}) ORDER BY harness, seq""",
        [harness],
    )
    spans = {
        name: (begin, end, status in _GOING_ON)
        for name, begin, end, status in run.rows(
            """SELECT harness, min(s."timestamp"), max(s."timestamp"), any_value(status) FROM step_heads s
               JOIN harnesses h USING (harness) WHERE list_contains(?, harness) GROUP BY harness""",
            [sorted({row[0] for row in standings})],
        )
    }
    of_each, tries_of = _by_harness(standings), _by_harness(tries)
    return [_of_one(name, of_each[name], tries_of.get(name, []), *span) for name, span in sorted(spans.items())]


def _by_harness(rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Return rows that are in the order of their harnesses, by harness."""
    return {name: list(group) for name, group in groupby(rows, key=itemgetter(0))}


def _of_one(
    name: str,
    standings: Sequence[tuple[str, str, str, int, int | None, int, int, int | None, int | None, str, int | None]],
    tries: Sequence[tuple[str, datetime, int, str, bool | None, str]],
    begin: datetime,
    end: datetime,
    is_going_on: bool,
) -> Worked:
    listed = sorted(row[10] or 0 for row in standings)
    passing: set[str] = set()
    changes: list[Change] = []
    for _, at, step, feature, passed, kind in tries:
        if passed is False or (passed is None and kind in _TASKS):
            continue
        if bool(passed) is (feature in passing):
            continue
        passing ^= {feature}
        changes.append(Change(at, step, feature, "passed" if passed else "set_back", len(passing), bisect_right(listed, step)))
    what = "tasks" if any(row[5] in _TASKS for row in tries) else "features"
    features = [Feature(*row[1:9], one_line(row[9], 300)) for row in standings]
    left = sum(one.status == "pending" for one in features)
    projected = _projected(begin, changes, left) if is_going_on and left else None
    return Worked(name, what, features, changes, begin, end, is_going_on, projected)


def _projected(begin: datetime, changes: Sequence[Change], left: int) -> Interval | None:
    passes = [change.at for change in changes if change.event == "passed"]
    gaps = [(after - before).total_seconds() for before, after in pairwise([begin, *passes])]
    return interval_of_sum(gaps, left, PROJECTED)
