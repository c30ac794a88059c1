"""What each harness was doing when: spans that follow each other, rows for a Gantt chart. What they mean: `spans`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from orchestrator.analysis.answers.answer import Answer, Table
from orchestrator.analysis.answers.answer_wording import listed, seconds, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.remaining import what_is_gone
from orchestrator.analysis.questions.answer_cells import moment
from orchestrator.analysis.questions.record_scan import INTERRUPTED, ended_at, harnesses, said, standings
from orchestrator.analysis.questions.time_spans import ALIVE, GONE, Life, Span, spans

_COLUMNS = ("harness", "attempt", "kind", "begin", "end", "duration_s", "first_step", "last_step", "open", "cause")
_WORTH = ("held", "waiting", "backing_off", "blocked", "gone")
"""Kinds that a sentence tells of, where they took long."""
_WORDS = {
    "held": "held by an operator",
    "waiting": "waiting for an approval",
    "backing_off": "backing off",
    "blocked": "blocked",
    "gone": "without a program",
}


def answer(run: Run, *, harness: str | None = None) -> Answer:
    """Return the spans of each harness, in order.

    Raises:
        UsageError: there is no such harness.
    """
    found = all_spans(run, harness)
    rows = [
        (
            *(one.harness, one.attempt, one.kind, moment(one.begin), moment(one.end), one.duration_s),
            *(one.first_step, one.last_step, one.is_open, one.cause),
        )
        for one in found
    ]
    sums = Counter[tuple[str, str]]()
    for one in found:
        sums[one.harness, one.kind] += one.duration_s  # type: ignore[assignment]
    totals = [(name, kind, total) for (name, kind), total in sorted(sums.items())]
    tables = (Table("spans", _COLUMNS, rows), Table("totals", ("harness", "kind", "duration_s"), totals))
    return Answer("timeline", tables, [*_sentences(found), *what_is_gone(run, harnesses(run, harness))])


def all_spans(run: Run, harness: str | None = None) -> list[Span]:
    """Return what each harness was doing when.

    Raises:
        UsageError: there is no such harness.
    """
    names = harnesses(run, harness)
    told, lives, now = said(run, names), _lives(run), ended_at(run)
    stands = standings(run, told, names)
    return [
        span
        for name in names
        for span in spans(
            name, told.get(name, ()), lives.get(name, {}), now or datetime.min, is_gone=stands[name].status == INTERRUPTED
        )
    ]


def _lives(run: Run) -> dict[str, dict[int, Life]]:
    found: dict[str, dict[int, Life]] = {}
    for name, attempt, last, last_step, ended_by in run.rows("SELECT harness, attempt, last, last_step, ended_by FROM lives"):
        found.setdefault(name, {})[attempt] = Life(last, last_step, ended_by == "killed")
    return found


def _sentences(found: Sequence[Span]) -> Iterator[str]:
    if not found:
        yield "Nothing is recorded yet."
        return
    begin, end = min(one.begin for one in found), max(one.end for one in found)
    who = times(len({one.harness for one in found}), "harness", "harnesses")
    yield f"{who} from {moment(begin)} to {moment(end)}, {seconds((end - begin).total_seconds())}."
    for kind in _WORTH:
        took = Counter[str]()
        for one in found:
            if one.kind == kind:
                took[one.harness] += one.duration_s  # type: ignore[assignment]
        if took:
            whole = seconds(sum(took.values()))
            yield f"{whole} {_WORDS[kind]}: {listed(f'{name} ({seconds(most)})' for name, most in took.most_common())}."
    killed = [one for one in found if one.kind == GONE and not one.is_open]
    for one in sorted(killed, key=lambda one: -one.duration_s)[:5]:
        yield (
            f"{one.harness}: attempt {one.attempt} has no end on record; its program was gone for {seconds(one.duration_s)} "
            f"until the next one began."
        )
    alive = [one for one in found if one.kind in ALIVE and one.is_open]
    if alive:
        names = listed(one.harness for one in alive)
        yield f"{times(len(alive), 'harness', 'harnesses')} alive at the end of what is on record: {names}."
