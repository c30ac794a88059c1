"""Why a harness is where it is, or how a step of it came about: the chain of what is on record, in sentences.

The law: a cause is told only where a record names it; where there is no more than an order in time, it says "after".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.analysis.answers.answer import Answer, Table
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.questions.answer_cells import moment
from orchestrator.analysis.questions.record_scan import Said, harnesses, said, standings
from orchestrator.analysis.questions.why.why_attempts import Link, earlier, siblings
from orchestrator.analysis.questions.why.why_ends import Case, ending
from orchestrator.analysis.questions.why.why_facts import around, spent, tracebacks
from orchestrator.analysis.questions.why.why_steps import step_links
from orchestrator.errors import UsageError

_DEPTH = 3
"""Harnesses that a chain leads through."""


def answer(run: Run, name: str, step: int | None = None, *, harness: str | None = None) -> Answer:
    """Return the chain behind where a harness is, or behind a step of it.

    Raises:
        UsageError: there is no such harness, or no such step.
    """
    if harness is not None and harness != name:
        raise UsageError(f"why {name} --harness {harness}: expected one harness, was two; leave one out")
    harnesses(run, name)
    told = said(run, harnesses(run))
    links = _of_step(run, told, name, step) if step is not None else _of_end(run, told, name, ())
    rows = [(one.harness, one.attempt, one.step, moment(one.at), one.seq, one.text) for one in links]
    columns = ("harness", "attempt", "step", "timestamp", "seq", "text")
    return Answer("why", (Table("chain", columns, rows),), [one.text for one in links])


def _last_step(run: Run, name: str) -> int:
    return int(run.rows("SELECT coalesce(max(last_step), 0) FROM lives WHERE harness = ?", [name])[0][0])


def _of_step(run: Run, told: Mapping[str, Sequence[Said]], name: str, number: int) -> list[Link]:
    last = _last_step(run, name)
    if not 1 <= number <= last + 1:
        raise UsageError(f"harness {name!r} has no step {number}: expected one from 1 to {last}, or {last + 1}, the next one")
    failures = [one for one in told.get(name, ()) if one.kind == "failed" and one.step == number - 1]
    links = step_links(name, number, around(run, name, number), is_made=number <= last)
    return [*links, *earlier(failures, tracebacks(run, [one.seq for one in failures[-1:]]))]


def _of_end(run: Run, told: Mapping[str, Sequence[Said]], name: str, been: tuple[str, ...]) -> list[Link]:
    events, last = told.get(name, ()), _last_step(run, name)
    stand = standings(run, {name: list(events)}, [name])[name]
    failures = [one for one in events if one.kind == "failed"]
    case = Case(
        name=name,
        status=stand.status,
        last=stand.last,
        last_step=last,
        events=events,
        around=around(run, name, last + 1),
        made=around(run, name, last) if stand.status in ("completed", "exhausted") and last else None,
        traces=tracebacks(run, [one.seq for one in failures[-1:]]),
        spent=spent(run, name) if stand.status == "budget_spent" else (),
        now=run.rows("SELECT max(last) FROM gathered")[0][0],
    )
    links = ending(case)
    behind = siblings(name, told)
    links.extend(one.link for one in behind)
    further = dict.fromkeys(one.origin for one in behind if one.is_end and one.origin not in (name, *been))
    if len(been) < _DEPTH:
        for other in further:
            links.extend(_of_end(run, told, other, (*been, name)))
    return links
