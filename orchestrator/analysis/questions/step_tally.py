"""The figures of each harness and of all together, read in one pass.

work     from the resumption of `execute()` to its yield: in agents, in effects, waiting, and in its own code
commit   from the yield to being on disk          held     at the pause gate
alive    from the start of an attempt to its end, or to the last record of its program; if its first steps are gone, from the
         oldest one
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from attrs import frozen

from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import gather, look
from orchestrator.analysis.questions.record_scan import Stand, harnesses, open_approvals, said, standings

_TOOK = ("work", "agent", "effects", "waiting", "commit", "held")
_OWN = "(SELECT g.* FROM gathered g JOIN remaining USING (harness) WHERE coalesce(g.last_step > copied, true))"
_QUANTILES = "[0.5, 0.95, 0.99, 1]"
_COUNTS = """
    SELECT harness, sum(steps)::BIGINT, count(*) FILTER (is_started),
           coalesce(sum(date_diff('microsecond', since, until)), 0) / 1e6, min(began), max(last),
           coalesce(sum(rated), 0)::BIGINT, min(since), max(until)
    FROM lives LEFT JOIN kept USING (harness, attempt) WHERE {where} GROUP BY GROUPING SETS ((harness), ())
"""
_TIMES = """
    SELECT harness, coalesce(sum(len(works)), 0)::BIGINT, {sums}
    FROM {own} WHERE {where} GROUP BY GROUPING SETS ((harness), ())
"""
_LATENCIES = """
    SELECT harness, list_transform(quantile_cont(took, {quantiles}), lambda one: one / 1e6)
    FROM (SELECT harness, unnest({column}) AS took FROM {own} WHERE {where}) GROUP BY GROUPING SETS ((harness), ())
"""
_SINCE = """
    SELECT harness, quantile_cont(took, {quantiles}) FROM (
        SELECT harness, date_diff('microsecond', coalesce(lag("timestamp") OVER one, began), "timestamp") / 1e6 AS took
        FROM (SELECT seq, "timestamp", harness, attempt FROM step_heads)
        JOIN (SELECT harness, attempt, began FROM lives WHERE is_started) USING (harness, attempt)
        WHERE {where} WINDOW one AS (PARTITION BY harness, attempt ORDER BY seq)
    ) GROUP BY GROUPING SETS ((harness), ())
"""
_OUTCOMES = """
    SELECT harness, sum(intents)::BIGINT, list(outcomes) FILTER (outcomes IS NOT NULL)
    FROM gathered WHERE {where} GROUP BY harness
"""


@frozen
class Tally:
    """The figures of one harness, or of all together."""

    harness: str | None
    """Name of the harness; None for all together."""
    stand: Stand | None
    steps: int
    timed: int
    """Number of steps with recorded times."""
    attempts: int
    alive_s: float
    restarts: int
    failures: int
    approvals_open: int
    first: datetime | None
    last: datetime | None
    rated: int
    """Number of steps within `alive_s`: its own; in attempts whose first steps are gone, those after the oldest one."""
    span_s: float
    """Seconds from the first to the last moment covered by `rated` steps."""
    work: tuple[float, ...] | None
    """p50, p95, p99 and maximum, seconds; for steps without recorded times, the time since the record before."""
    commit: tuple[float, ...] | None
    took_us: Mapping[str, int]
    """Sums of `work`, `agent`, `effects`, `waiting`, `commit`, `held`, microseconds."""
    effects: Mapping[str, int]
    """Number of effects, by outcome."""

    @property
    def total_us(self) -> int:
        """All measured time, microseconds."""
        return sum(self.took_us[part] for part in ("work", "commit", "held"))

    def share(self, part: str) -> float | None:
        """Return the share of the time spent in one of `agent`, `effects`, `waiting`, `own`, `commit`, `held`."""
        took = self.took_us
        own = max(0, took["work"] - took["agent"] - took["effects"] - took["waiting"])
        return (own if part == "own" else took[part]) / self.total_us if self.total_us else None

    @property
    def steps_per_s(self) -> float | None:
        """Steps per second while the harness was alive; of all together, from the first moment to the last."""
        during_s = self.span_s if self.harness is None else self.alive_s
        return self.rated / during_s if during_s else None


_NO_COUNTS = (0, 0, 0.0, None, None, 0, None, None)
_NO_TIMES = (0,) * 7
"""For a harness without steps of its own, such as a fork that was not started."""


def tallies(run: Run, harness: str | None = None) -> list[Tally]:
    """Return the figures of all together, then of each harness.

    Raises:
        UsageError: there is no such harness.
    """
    gather(run)
    names = harnesses(run, harness)
    where, given = ("harness = ?", [harness]) if harness is not None else ("harness <> ''", [])

    def keyed(query: str, **more: str) -> dict[str | None, Any]:
        filled = query.format(where=where, quantiles=_QUANTILES, own=_OWN, **more)
        return {row[0]: row[1:] for row in run.rows(filled, given)}

    told = said(run, names, fully=False)
    look(run)
    stands = standings(run, told, names)
    counts = keyed(_COUNTS)
    times = keyed(_TIMES, sums=", ".join(f"sum({part}_us)::BIGINT" for part in _TOOK))
    work, commit = (keyed(_LATENCIES, column=column) for column in ("works", "commits"))
    if any(count and not times.get(name, _NO_TIMES)[0] for name, (count, *_) in counts.items()):
        work = {**keyed(_SINCE), **work}
    effects = _effects(run, where, given)
    asked = [one.harness for one in open_approvals(run, told)]
    every = [one for events in told.values() for one in events]

    def tally(name: str | None) -> Tally:
        steps, attempts, alive_s, first, last, rated, since, until = counts.get(name, _NO_COUNTS)
        timed, *took = times.get(name, _NO_TIMES)
        kinds = [one.kind for one in (every if name is None else told.get(name, ()))]
        latencies = (one.get(name) for one in (work, commit))
        at_work, committed = (tuple(one[0]) if one and one[0] else None for one in latencies)
        return Tally(
            harness=name,
            stand=stands.get(name or ""),
            steps=steps or 0,
            timed=timed or 0,
            attempts=attempts,
            alive_s=alive_s,
            restarts=kinds.count("restarting"),
            failures=kinds.count("failed"),
            approvals_open=sum(name in (None, one) for one in asked),
            first=first,
            last=last,
            rated=rated,
            span_s=(until - since).total_seconds() if since and until else 0.0,
            work=at_work,
            commit=committed,
            took_us={part: us or 0 for part, us in zip(_TOOK, took, strict=True)},
            effects=_added(effects.values()) if name is None else effects.get(name, {}),
        )

    return [tally(name) for name in (None, *names)]


def _effects(run: Run, where: str, given: list[Any]) -> dict[str, dict[str, int]]:
    """Return the number of effects of each harness, by outcome; the frame is read only where an effect has several records."""
    rows = run.rows(_OUTCOMES.format(where=where), given)
    found = {name: _added(outcomes or ()) for name, _, outcomes in rows}
    if all(sum(found[name].values()) == intents and not found[name].keys() - _FINAL for name, intents, _ in rows):
        return {name: outcomes for name, outcomes in found.items() if outcomes}
    counted: dict[str, dict[str, int]] = {}
    for name, outcome, count in run.rows(f"SELECT harness, outcome, count(*) FROM effects WHERE {where} GROUP BY ALL", given):
        counted.setdefault(name, {})[outcome] = count
    return counted


_FINAL = frozenset({"confirmed", "refused", "failed", "interrupted"})


def _added(outcomes: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for one in outcomes:
        for outcome, count in one.items():
            sums[outcome] = sums.get(outcome, 0) + count
    return sums
