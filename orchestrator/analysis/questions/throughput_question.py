"""Steps over time: how many in each bucket, per harness and in all; times without any; faster or slower.

The trend compares the halves of the time in which a harness was alive: time without a program is in neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from orchestrator.analysis.answers.answer import Answer, Cell, Table, moment, number, seconds, share, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import OWN_HEADS, look, what_is_gone, what_was_copied
from orchestrator.analysis.questions.record_scan import harnesses

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
BUCKETS = 60
"""Limit on the number of buckets."""
_LENGTHS_S = (
    *(1e-6, 1e-5, 1e-4, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800, 3600, 7200, 3 * 3600, 6 * 3600, 12 * 3600),
    *(86_400, 2 * 86_400, 7 * 86_400, 14 * 86_400, 28 * 86_400, 91 * 86_400, 364 * 86_400),
)
"""Round lengths of buckets."""
_GAPS = 10
_TREND = 0.2
"""Relative change of the rate between the halves that is mentioned."""
_FEW = 20
"""Minimum number of steps in a half for a statement on the trend."""
_SPAN = f"""
    SELECT epoch_us(min("timestamp")), epoch_us(max("timestamp")), count(*) FROM {OWN_HEADS} WHERE list_contains(?, harness)
"""
_COUNTED = f"""
    SELECT harness, (epoch_us("timestamp") // $length) * $length AS begin, count(*)
    FROM (SELECT harness, "timestamp" FROM {OWN_HEADS}) WHERE list_contains($names, harness)
    GROUP BY GROUPING SETS ((harness, begin), (begin)) ORDER BY harness NULLS FIRST, begin
"""
_HALVES = f"""
    WITH alive AS (
        SELECT harness, attempt, epoch_us(since) AS since,
               sum(epoch_us(until) - epoch_us(since)) OVER (PARTITION BY harness ORDER BY attempt) AS sum_us,
               epoch_us(until) - epoch_us(since) AS us,
               sum(epoch_us(until) - epoch_us(since)) OVER (PARTITION BY harness) AS all_us
        FROM kept
    )
    SELECT harness, count(*) FILTER (us <= all_us / 2), count(*) FILTER (us > all_us / 2), any_value(all_us) / 2e6 FROM (
        SELECT harness, sum_us - alive.us + epoch_us("timestamp") - since AS us, all_us
        FROM (SELECT harness, attempt, "timestamp" FROM {OWN_HEADS}) JOIN alive USING (harness, attempt)
        WHERE list_contains($names, harness)
    ) GROUP BY harness ORDER BY harness
"""
_BETWEEN = f"""
    SELECT before, "timestamp", after_name, harness FROM (
        SELECT "timestamp", harness, lag("timestamp") OVER one AS before, lag(harness) OVER one AS after_name
        FROM (SELECT "timestamp", harness, seq FROM {OWN_HEADS}) WHERE list_contains(?, harness)
        WINDOW one AS (ORDER BY "timestamp", seq)
    ) WHERE before IS NOT NULL AND "timestamp" > before ORDER BY "timestamp" - before DESC, before LIMIT ?
"""


def answer(run: Run, *, harness: str | None = None) -> Answer:
    """Return how many steps were made when.

    Raises:
        UsageError: there is no such harness.
    """
    run.expect()
    names = harnesses(run, harness)
    look(run)
    begin, end, steps = run.rows(_SPAN, [names])[0]
    if not steps:
        return Answer("throughput", (_table((), 1.0),), ("No step is recorded yet.",))
    length_us = _length_us(end - begin)
    counted = run.execute(_COUNTED, {"length": length_us, "names": names}).fetchall()
    halves = run.execute(_HALVES, {"names": names}).fetchall()
    gaps = run.rows(_BETWEEN, [names, _GAPS])
    trend = [
        (name, first / half_s, second / half_s, (second - first) / first if first else None, half_s)
        for name, first, second, half_s in halves
        if half_s
    ]
    rows = _filled(counted, length_us, one_harness=len(names) == 1)
    tables = (
        _table(rows, length_us / 1e6, what_was_copied(run, names)),
        Table("trend", "harness first_half_per_s second_half_per_s change_share half_s", trend),
        Table(
            "gaps",
            "begin end duration_s step_before_of step_after_of",
            [(moment(since), moment(until), (until - since).total_seconds(), of, to) for since, until, of, to in gaps],
            "the longest times in which no harness recorded a step",
        ),
    )
    said = _sentences(steps, (end - begin) / 1e6, halves, gaps)
    return Answer("throughput", tables, [*said, *what_is_gone(run, names)])


def _table(rows: Sequence[tuple[Cell, ...]], length_s: float, copied: str = "") -> Table:
    note = ". ".join(filter(None, (f"a bucket is {seconds(length_s)} long", copied)))
    return Table("buckets", "begin harness steps steps_per_s", rows, note)


def _length_us(span_us: int) -> int:
    """Return the length of a bucket: the shortest with which there are not too many."""
    lengths = [round(length_s * 1e6) for length_s in _LENGTHS_S]
    return next((length for length in lengths if span_us / length < BUCKETS - 1), max(lengths[-1], span_us // BUCKETS + 1))


def _filled(counted: Sequence[tuple[Any, ...]], length_us: int, *, one_harness: bool) -> list[tuple[Cell, ...]]:
    """Return a row for each bucket with activity; for all harnesses together without gaps."""
    rows: list[tuple[Cell, ...]] = []
    whole = {begin: steps for name, begin, steps in counted if name is None}
    if not one_harness:
        begins = range(min(whole), max(whole) + 1, length_us)
        rows.extend(_bucket(begin, None, whole.get(begin, 0), length_us) for begin in begins)
    by_name: dict[str, dict[int, int]] = {}
    for name, begin, steps in counted:
        if name is not None:
            by_name.setdefault(name, {})[begin] = steps
    for name, found in by_name.items():
        rows.extend(
            _bucket(begin, name, found.get(begin, 0), length_us) for begin in range(min(found), max(found) + 1, length_us)
        )
    return rows


def _bucket(begin_us: int, name: str | None, steps: int, length_us: int) -> tuple[Cell, ...]:
    return (moment(_EPOCH + timedelta(microseconds=begin_us)), name, steps, steps / (length_us / 1e6))


def _sentences(steps: int, span_s: float, halves: Sequence[tuple[Any, ...]], gaps: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    rate = f", {number(steps / span_s)} a second" if span_s else ""
    yield f"{times(steps, 'step')} within {seconds(span_s)}{rate}."
    for name, first, second, _ in halves:
        if min(first, second) >= _FEW and abs(second - first) >= _TREND * first:
            how = "more" if second > first else "fewer"
            change = share(abs(second - first) / first)
            yield f"{name} made {change} {how} steps in the second half of its time than in the first."
        elif first >= _FEW and not second:
            yield f"{name} made no step in the second half of its time, after {first:,} in the first."
    if gaps and span_s and (gaps[0][1] - gaps[0][0]).total_seconds() >= span_s / 10:
        since, until, of, _ = gaps[0]
        yield f"Nothing was recorded for {seconds((until - since).total_seconds())} after {moment(since)}, a step of {of}."
