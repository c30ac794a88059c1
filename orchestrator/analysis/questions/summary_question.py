"""How much each harness has done, how fast, and where its time went. What the figures mean: `tally`."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.analysis.answers.answer import Answer, Cell, Table
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.remaining import what_is_gone, what_was_copied
from orchestrator.analysis.questions.answer_cells import moment
from orchestrator.analysis.questions.record_scan import ended_at
from orchestrator.analysis.questions.standing_out import sentences
from orchestrator.analysis.questions.step_tally import Tally, tallies

OUTCOMES = ("confirmed", "refused", "unknown", "not_done", "begun")
"""What is known of an effect; `begun` if its intent is on record and no outcome."""
PARTS = ("agent", "effects", "waiting", "own", "commit", "held")
_HARNESSES = ("harness", "status", "steps", "attempts", "steps_per_s", "alive_s", "restarts", "failures", "approvals_open")
_LATENCY = tuple(f"{part}_{which}_s" for part in ("work", "commit") for which in ("p50", "p95", "p99", "max"))


def answer(run: Run, *, harness: str | None = None) -> Answer:
    """Return the figures of each harness, and of all together.

    Raises:
        UsageError: there is no such harness.
    """
    of_all, *each = tallies(run, harness)
    both = [of_all, *each] if len(each) > 1 else each
    tables = (
        Table("harnesses", (*_HARNESSES, "first", "last"), map(_standing, both), what_was_copied(run)),
        Table("latency", ("harness", *_LATENCY), map(_latency, filter(_has_latency, both)), note=_note(each)),
        Table("time", ("harness", "total_s", *(f"{part}_share" for part in PARTS)), map(_shares, filter(_is_timed, both))),
        Table("effects", ("harness", *OUTCOMES), map(_effects, filter(_has_effects, both))),
    )
    names = [one.harness or "" for one in each]
    return Answer("summary", tables, [*sentences(of_all, each, ended_at(run)), *what_is_gone(run, names)])


def _standing(one: Tally) -> tuple[Cell, ...]:
    status = one.stand.status if one.stand else None
    counts = (one.steps, one.attempts, one.steps_per_s, one.alive_s, one.restarts, one.failures, one.approvals_open)
    return (one.harness, status, *counts, moment(one.first), moment(one.last))


def _has_latency(one: Tally) -> bool:
    return one.work is not None or one.commit is not None


def _latency(one: Tally) -> tuple[Cell, ...]:
    return (one.harness, *(one.work or (None,) * 4), *(one.commit or (None,) * 4))


def _is_timed(one: Tally) -> bool:
    return one.total_us > 0


def _shares(one: Tally) -> tuple[Cell, ...]:
    return (one.harness, one.total_us / 1e6, *map(one.share, PARTS))


def _has_effects(one: Tally) -> bool:
    return bool(one.effects)


def _effects(one: Tally) -> tuple[Cell, ...]:
    return (one.harness, *(one.effects.get(outcome, 0) for outcome in OUTCOMES))


def _note(each: Sequence[Tally]) -> str:
    """Say what is not known of runs that are older than the times of their steps."""
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
