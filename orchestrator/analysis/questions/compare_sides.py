"""The figures of each harness that are compared between runs; repeated figures as sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

from orchestrator.analysis.answers.statistics import BATCHES, LEAST, LENGTH
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import OWN_TIMES, look
from orchestrator.analysis.presets.coding_questions import has_lists
from orchestrator.analysis.presets.trading_questions import accounts

STEPWISE = ("step_interval_s", "work_s", "agent_s", "commit_s")
"""Figures of each step. The interval is from the step before in the same attempt, without pauses by an operator; work is
without waiting.
"""


@frozen
class Standing:
    """The status of one feature."""

    is_passed: bool
    tries_to_pass: int | None
    set_backs: int


@frozen
class Books:
    """The course of an account."""

    gain: float
    max_drawdown: float
    returns: Mapping[str, float]
    """Return by day."""


@define
class Side:
    """One harness of one run."""

    name: str
    status: str
    attempts: int
    steps: int
    """Number of its own steps, without those copied by a fork."""
    failures: int = 0
    """Attempts that failed. Those that were killed are the doing of whoever ended the program."""
    restarts: int = 0
    means: dict[str, float] = field(factory=dict[str, float])
    """Mean of each of `STEPWISE` that is known."""
    batches: dict[str, list[float]] = field(factory=dict[str, list[float]])
    """Means of batches of steps, in order; none where there are too few."""
    features: dict[str, Standing] = field(factory=dict[str, Standing])
    tries: dict[str, list[float]] = field(factory=dict[str, list[float]])
    """Figures of each try, as far as known: `try_agent_s`, `try_tokens`, `try_money`."""
    books: Books | None = None

    @property
    def passed(self) -> int:
        """Number of features that pass."""
        return sum(one.is_passed for one in self.features.values())

    @property
    def passes(self) -> list[int]:
        """Number of tries of each passed feature."""
        return [one.tries_to_pass for one in self.features.values() if one.tries_to_pass]

    @property
    def what(self) -> str:
        """Kind of harness, as far as its records show it."""
        return "features" if self.features else "trading" if self.books else "steps"


def sides(run: Run, harness: str | None = None) -> dict[str, Side]:
    """Return the compared figures of each harness, by name."""
    look(run)
    found = {
        name: Side(name, status, attempts, steps)
        for name, status, attempts, steps in run.rows(
            f"""SELECT harness, status, attempt, coalesce(steps, 0) FROM (SELECT harness, status, attempt FROM harnesses)
                LEFT JOIN (SELECT harness, count(*) AS steps FROM {OWN_TIMES} GROUP BY harness) USING (harness)
                ORDER BY harness"""
        )
        if harness in (None, name)
    }
    for name, failures, restarts in run.rows(
        """SELECT harness, count(*) FILTER (ended_by IN ('failed', 'gave_up')),
                  count(*) FILTER (restart_delay_s IS NOT NULL) FROM attempts GROUP BY harness"""
    ):
        if name in found:
            found[name].failures, found[name].restarts = failures, restarts
    _add_steps(run, found)
    _add_features(run, found)
    _add_books(run, found, harness)
    return found


def _add_steps(run: Run, found: Mapping[str, Side]) -> None:
    for name, batch, *figures in run.rows(
        f"""
        WITH taken AS (
            SELECT harness, step_number,
                   epoch("timestamp" - lag("timestamp") OVER (PARTITION BY harness, attempt ORDER BY step_number))
                       - coalesce(held_s, 0) AS step_interval_s,
                   work_s - waiting_s AS work_s, nullif(agent_s, 0) AS agent_s, previous_commit_s AS commit_s
            FROM {OWN_TIMES}
        ), placed AS (
            SELECT *, row_number() OVER (PARTITION BY harness ORDER BY step_number) - 1 AS place,
                   count(*) OVER (PARTITION BY harness) AS every FROM taken
        )
        SELECT harness, CASE WHEN grouping(batch) = 0 THEN batch END, {", ".join(f"favg({name})" for name in STEPWISE)}
        FROM (SELECT *, place * least({BATCHES}, every // {LENGTH}) // every AS batch FROM placed)
        GROUP BY GROUPING SETS ((harness, batch), (harness)) ORDER BY harness, batch
        """
    ):
        if (side := found.get(name)) is None:
            continue
        for figure, value in zip(STEPWISE, figures, strict=True):
            if value is None:
                continue
            if batch is None:
                side.means[figure] = value
            elif side.steps // LENGTH >= LEAST:
                side.batches.setdefault(figure, []).append(value)


def _add_features(run: Run, found: Mapping[str, Side]) -> None:
    if not has_lists(run):
        return
    for name, feature, status, tries_to_pass, set_backs in run.rows(
        "SELECT harness, feature, status, tries_to_pass, regressions FROM feature_standing ORDER BY harness, feature"
    ):
        if name in found:
            found[name].features[feature] = Standing(status == "passed", tries_to_pass, set_backs)
    for name, *values in run.rows(
        "SELECT harness, agent_s, tokens, money FROM features JOIN remaining USING (harness) "
        "WHERE is_try AND step_number > copied ORDER BY harness, step_number, seq"
    ):
        if name in found:
            for figure, value in zip(("try_agent_s", "try_tokens", "try_money"), values, strict=True):
                if value is not None:
                    found[name].tries.setdefault(figure, []).append(float(value))


def _add_books(run: Run, found: Mapping[str, Side], harness: str | None) -> None:
    books = accounts(run, harness)
    returns: dict[str, dict[str, float]] = {}
    rows: list[tuple[Any, ...]] = run.rows(
        """
        SELECT harness, day, close / lag(close) OVER (PARTITION BY harness ORDER BY day) - 1 AS gain FROM (
            SELECT harness, strftime(time, '%Y-%m-%d') AS day, arg_max(equity, (step_number, time))::DOUBLE AS close
            FROM account_steps GROUP BY harness, day
        ) WHERE close > 0 ORDER BY harness, day
        """
    )
    for name, day, gain in rows:
        if gain is not None:
            returns.setdefault(name, {})[day] = gain
    for account in books:
        if (side := found.get(account.harness)) is not None:
            depth = account.deepest.depth if account.deepest else 0.0
            side.books = Books(float(account.gain), depth, returns.get(account.harness, {}))
