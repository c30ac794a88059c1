"""How far lists of features, and the tasks of pipelines, have come: their standing, burn-up, pace and what is left.

The law: a projection is made of what was seen, says how sure it is, or is not made.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from attrs import field, frozen

from orchestrator.analysis.answers.statistics import Interval, interval_of_sum, quantile
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.text.terminal_text import one_line

PROJECTED = 0.2
"""The chance that the time a list takes is outside of what is projected, as far as the past tells."""
_TASKS = ("judge", "act", "reclaim", "block")
_GOING_ON = ("running", "backing_off", "paused")


@frozen
class Feature:
    """One feature or task, and where it stands."""

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
    """A feature has passed, or was set back."""

    at: datetime
    step: int
    feature: str
    event: str
    """`passed` or `set_back`."""
    passing: int
    """Features that pass then."""
    listed: int


@frozen
class Worked:
    """What the steps of one harness come to."""

    harness: str
    what: str
    """`features` or `tasks`."""
    features: tuple[Feature, ...] = field(converter=tuple[Feature, ...])
    changes: tuple[Change, ...] = field(converter=tuple[Change, ...])
    begin: datetime
    """Of the first step."""
    end: datetime
    """Of the last one."""
    is_going_on: bool

    def of(self, status: str) -> list[Feature]:
        """Return the features of a status."""
        return [one for one in self.features if one.status == status]

    @property
    def regressed(self) -> list[Feature]:
        """Return those that passed and were set back, whatever became of them."""
        return [one for one in self.features if one.regressions]

    @property
    def tries_to_pass(self) -> list[int]:
        """Return the number of tries of each that has passed."""
        return [one.tries_to_pass for one in self.features if one.tries_to_pass is not None]

    @property
    def tries_median(self) -> float | None:
        """Of those that have passed."""
        return quantile(self.tries_to_pass, 0.5) if self.tries_to_pass else None

    @property
    def per_hour(self) -> float | None:
        """Features that passed for good, for an hour of the clock on the wall."""
        hours = (self.end - self.begin).total_seconds() / 3600
        return len(self.of("passed")) / hours if hours > 0 else None

    @property
    def left(self) -> int:
        """Features that can still be worked."""
        return len(self.of("pending"))

    @property
    def projected(self) -> Interval | None:
        """Seconds until what is left has passed, if it goes on as it has; None if too little was seen to say so."""
        passes = [change.at for change in self.changes if change.event == "passed"]
        if not self.is_going_on or not self.left:
            return None
        gaps = [(after - before).total_seconds() for before, after in pairwise([self.begin, *passes])]
        return interval_of_sum(gaps, self.left, PROJECTED)


def has_lists(run: Run) -> bool:
    """Return whether a list of features or tasks may be worked in a run; it is soon told, where frames take passes over it."""
    return bool(run.rows("SELECT 1 FROM steps WHERE json_type(input, '$.kind') = 'VARCHAR' LIMIT 1"))


def worked(run: Run, harness: str | None = None) -> list[Worked]:
    """Return how far each harness that works a list has come, by name."""
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
            """SELECT harness, min(s."timestamp"), max(s."timestamp"), any_value(status) FROM steps s
               JOIN harnesses h USING (harness) WHERE list_contains(?, harness) GROUP BY harness""",
            [sorted({row[0] for row in standings})],
        )
    }
    return [
        _of_one(name, [row for row in standings if row[0] == name], [row for row in tries if row[0] == name], *span)
        for name, span in sorted(spans.items())
    ]


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
        known = sum(1 for first in listed if first <= step)
        changes.append(Change(at, step, feature, "passed" if passed else "set_back", len(passing), known))
    what = "tasks" if any(row[5] in _TASKS for row in tries) else "features"
    features = [Feature(*row[1:9], one_line(row[9], 300)) for row in standings]
    return Worked(name, what, features, changes, begin, end, is_going_on)
