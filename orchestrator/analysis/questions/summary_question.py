"""How much each harness has done, how fast, where its time went, and what stands out. `step_tally` defines the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from orchestrator.analysis.answers.answer import Answer, Cell, Table, listed, moment, number, seconds, share, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import what_is_gone, what_was_copied
from orchestrator.analysis.questions.record_scan import ended_at
from orchestrator.analysis.questions.step_tally import Tally, tallies
from orchestrator.lifecycle import Status
from orchestrator.text.terminal_text import one_line

OUTCOMES = ("confirmed", "refused", "failed", "interrupted", "unknown", "not_done", "begun")
"""Outcomes of effects; `begun` if an intent is recorded and no outcome."""
PARTS = ("agent", "effects", "waiting", "own", "commit", "held")
_HARNESSES = ("harness", "status", "steps", "attempts", "steps_per_s", "alive_s", "restarts", "failures", "approvals_open")
_NONE = (None,) * 4
_LATENCY = tuple(f"{part}_{which}_s" for part in ("work", "commit") for which in ("p50", "p95", "p99", "max"))


def answer(run: Run, *, harness: str | None = None) -> Answer:
    """Return the figures of each harness, and of all together.

    Raises:
        UsageError: there is no such harness.
    """
    run.expect(once=True)
    of_all, *each = tallies(run, harness)
    both = [of_all, *each] if len(each) > 1 else each
    latency = [(one.harness, *(one.work or _NONE), *(one.commit or _NONE)) for one in both if one.work or one.commit]
    shares = [(one.harness, one.total_us / 1e6, *map(one.share, PARTS)) for one in both if one.total_us > 0]
    effects = [(one.harness, *(one.effects.get(outcome, 0) for outcome in OUTCOMES)) for one in both if one.effects]
    tables = (
        Table("harnesses", (*_HARNESSES, "first", "last"), map(_standing, both), what_was_copied(run)),
        Table("latency", ("harness", *_LATENCY), latency, note=_note(each)),
        Table("time", ("harness", "total_s", *(f"{part}_share" for part in PARTS)), shares),
        Table("effects", ("harness", *OUTCOMES), effects),
    )
    names = [one.harness or "" for one in each]
    return Answer("summary", tables, [*sentences(of_all, each, ended_at(run)), *what_is_gone(run, names)])


def _standing(one: Tally) -> tuple[Cell, ...]:
    status = one.stand.status if one.stand else None
    counts = (one.steps, one.attempts, one.steps_per_s, one.alive_s, one.restarts, one.failures, one.approvals_open)
    return (one.harness, status, *counts, moment(one.first), moment(one.last))


def _note(each: Sequence[Tally]) -> str:
    """Return a note on steps without recorded times, from older versions."""
    lacking = sum(one.steps - one.timed for one in each)
    if not lacking:
        return ""
    untimed = [one for one in each if one.steps and not one.timed]
    told = f"{lacking:,} steps were recorded without times"
    if untimed:
        told += "; where a harness has none, work is the time since the record before in the same attempt, commits included"
    return (
        told
        if len(untimed) == len(each)
        else f"{told}; the other figures are of the {sum(one.timed for one in each):,} that have them"
    )


_MUCH = 0.25
"""Share of the time from which a normally small part is mentioned."""
_MOST = 0.5
_TAIL = 10.0
"""A 99th percentile of at least this many times the median is mentioned."""
_SHOWN = 5
"""Limit on the harnesses that a sentence names."""
_QUIET = 10.0
"""A running harness that is silent for this many times its slowest step is mentioned."""
_DOING = {"agent": "in agents", "effects": "in effects", "waiting": "waiting", "own": "in its own code"}


def sentences(of_all: Tally, each: Sequence[Tally], now: datetime | None) -> list[str]:
    """Return the most important statements, first things first."""
    if not each:
        return ["Nothing is recorded yet."]
    return [
        _how_much(of_all, each),
        *_ended_badly(each),
        *_open(each),
        *_failing(each),
        *_where_time_went(of_all, each),
        *_slow_tails(each),
        *_silent(each, now),
    ]


def _how_much(of_all: Tally, each: Sequence[Tally]) -> str:
    span = of_all.span_s
    statuses = Counter(one.stand.status.replace("_", " ") for one in each if one.stand)
    said = listed((f"{count} {status}" for status, count in statuses.most_common()), 12)
    part = f", {of_all.rated:,} of them" if 0 < of_all.rated < of_all.steps else ""
    rate = f", {number(of_all.rated / span)} a second" if span and of_all.rated else ""
    made = f"{times(of_all.steps, 'step')}{part}"
    return f"{times(len(each), 'harness', 'harnesses')} made {made} within {seconds(span)}{rate}: {said}."


def _ended_badly(each: Sequence[Tally]) -> Iterator[str]:
    bad = (Status.FAILED, Status.GAVE_UP, Status.BLOCKED, Status.BUDGET_SPENT)
    found = [one for one in each if one.stand and one.stand.status in bad]
    for one in found[:_SHOWN]:
        assert one.stand is not None
        assert one.stand.last is not None
        what = {Status.GAVE_UP: "gave up", Status.BUDGET_SPENT: "has spent its budget", Status.BLOCKED: "is blocked"}
        cause = one_line(one.stand.last.cause or "", 200)
        said = what.get(Status(one.stand.status), "failed")
        yield f"{one.harness} {said} after step {one.stand.last.step}" + (f": {cause.rstrip('.')}." if cause else ".")
    if len(found) > _SHOWN:
        yield f"{len(found) - _SHOWN} more have come to a bad end, or cannot go on; `orchestrator analyze RUN failures`."


def _open(each: Sequence[Tally]) -> Iterator[str]:
    if waiting := [one for one in each if one.approvals_open]:
        count = sum(one.approvals_open for one in waiting)
        asked = f"{times(count, 'request')} of {listed(one.harness or '' for one in waiting)}"
        yield f"{asked} {'waits' if count == 1 else 'wait'} for a person; `orchestrator approvals`."
    if unknown := [one for one in each if one.effects.get("unknown") or one.effects.get("begun")]:
        count = sum(one.effects.get("unknown", 0) + one.effects.get("begun", 0) for one in unknown)
        names = listed(one.harness or "" for one in unknown)
        yield f"Of {times(count, 'effect')} of {names} the outcome is not on record; `orchestrator effects`."


def _failing(each: Sequence[Tally]) -> Iterator[str]:
    found = sorted((one for one in each if one.failures > 1), key=lambda one: -one.failures)
    if found:
        said = listed(f"{one.harness} {one.failures:,} times" for one in found)
        yield f"Attempts failed again and again: {said}."


def _where_time_went(of_all: Tally, each: Sequence[Tally]) -> Iterator[str]:
    for part, doing in _DOING.items():
        found = [one for one in each if (one.share(part) or 0) >= _MOST and one.total_us >= of_all.total_us / (4 * len(each))]
        if found:
            found.sort(key=lambda one: -one.total_us)
            said = listed(f"{one.harness} ({share(one.share(part) or 0)})" for one in found)
            yield (
                f"Most time went {doing} for {said}."
                if part != "waiting"
                else f"Most of the time was spent waiting by {said}."
            )
    for part, doing in (("commit", "getting steps on disk"), ("held", "held by an operator")):
        found = [one for one in each if (one.share(part) or 0) >= _MUCH]
        if found:
            found.sort(key=lambda one: -(one.share(part) or 0))
            yield f"Much time went into {doing}: {listed(f'{one.harness} ({share(one.share(part) or 0)})' for one in found)}."


def _slow_tails(each: Sequence[Tally]) -> Iterator[str]:
    found = [one for one in each if one.work and one.steps >= 100 and one.work[2] >= _TAIL * one.work[0] > 0]
    found.sort(key=lambda one: -_ratio(one))
    if found:
        said = listed(f"{one.harness} ({number(_ratio(one))} times as long)" for one in found)
        yield f"One step in a hundred takes far longer than one in two: {said}; `orchestrator analyze RUN slow`."


def _ratio(one: Tally) -> float:
    return one.work[2] / one.work[0] if one.work else 0.0


def _silent(each: Sequence[Tally], now: datetime | None) -> Iterator[str]:
    for one in each:
        if now and one.last and one.work and one.stand and one.stand.status == Status.RUNNING:
            silent_s = (now - one.last).total_seconds()
            if silent_s > max(1.0, _QUIET * one.work[3]):
                most = seconds(one.work[3])
                yield f"{one.harness} has recorded nothing for {seconds(silent_s)}, though its slowest step took {most}."
