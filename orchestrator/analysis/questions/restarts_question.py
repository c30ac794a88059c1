"""Restarts: how many, their back-off, how much of the intensity they used; restart storms, and steps that always fail.

storm     at least 5 restarts of one harness within 60 s
stuck     at least 3 attempts in a row that ended with an error after the same step, without progress
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from attrs import astuple, frozen

from orchestrator.analysis.answers.answer import Answer, Cell, Table, moment, seconds, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import what_is_gone
from orchestrator.analysis.questions.record_scan import Said, harnesses, said
from orchestrator.text.terminal_text import one_line

STORM, STORM_S = 5, 60.0
STUCK = 3
_RULE = f"a storm is at least {STORM} restarts of one harness within {STORM_S:g} s"
_STUCK_RULE = f"at least {STUCK} attempts in a row that ended with an error after the same step"
_HARNESSES = "harness restarts for_siblings killed backoff_s planned_backoff_s most_counted gave_up"
_STORMS = "harness first last duration_s restarts first_attempt last_attempt cause"
_NOTE = (
    "for_siblings: restarted because another harness of its supervisor ended; killed: attempts without an end on record; "
    "backoff: from the end of an attempt to the next; most_counted: restarts that counted against the intensity at once"
)


@frozen
class Storm:
    """Many restarts within a short time."""

    harness: str
    first: datetime
    last: datetime
    restarts: int
    first_attempt: int
    last_attempt: int
    cause: str
    """Cause of the last of them."""


@frozen
class Stuck:
    """Consecutive attempts that ended after the same step."""

    harness: str
    step: int
    """Number of the step in progress."""
    attempts: int
    first_attempt: int
    last_attempt: int
    cause: str
    """Cause of the last of them."""


@frozen
class Attempt:
    """How an attempt ended, with the fields needed here."""

    number: int
    last_step: int
    ended_by: str | None
    cause: str


def answer(run: Run, *, harness: str | None = None) -> Answer:
    """Return the data on restarts.

    Raises:
        UsageError: there is no such harness.
    """
    run.expect(once=True)
    names = harnesses(run, harness)
    told, ended = said(run, names), _attempts(run)
    found_storms = [storm for name in names for storm in storms(name, told.get(name, ()))]
    found_stuck = [one for name in names for one in stuck(name, ended.get(name, ()))]
    put_off = dict(run.rows(_PUT_OFF))
    rows = [_row(name, told.get(name, ()), ended.get(name, ()), put_off.get(name)) for name in names]
    tables = (
        Table("harnesses", _HARNESSES, [row for row in rows if any(row[1:4]) or row[-1]], _NOTE),
        Table("storms", _STORMS, map(_storm_row, found_storms), _RULE),
        Table("stuck", "harness step attempts first_attempt last_attempt cause", map(astuple, found_stuck), _STUCK_RULE),
    )
    return Answer("restarts", tables, [*_sentences(rows, found_storms, found_stuck), *what_is_gone(run, names)])


_PUT_OFF = """
    SELECT harness, sum(date_diff('microsecond', coalesce(ended, last), next_began)) / 1e6
    FROM lives WHERE is_restarted AND next_began IS NOT NULL GROUP BY harness
"""


def _attempts(run: Run) -> dict[str, list[Attempt]]:
    found: dict[str, list[Attempt]] = {}
    query = "SELECT harness, attempt, last_step, ended_by, coalesce(cause, '') FROM lives WHERE is_started ORDER BY ALL"
    for name, *row in run.rows(query):
        found.setdefault(name, []).append(Attempt(*row))
    return found


def _row(name: str, events: Sequence[Said], attempts: Sequence[Attempt], put_off_s: Any) -> tuple[Cell, ...]:
    restarting = [one for one in events if one.kind == "restarting"]
    for_siblings = sum(one.ended_by == "taken_down" for one in attempts)
    killed = sum(one.ended_by == "killed" for one in attempts)
    counted = max((_counted(one) for one in events if one.kind in ("restarting", "gave_up")), default=0)
    planned = sum(one.delay_s or 0.0 for one in restarting)
    gave_up = any(one.kind == "gave_up" for one in events)
    return (name, len(restarting), for_siblings, killed, put_off_s or 0.0, planned, counted, gave_up)


def _counted(event: Said) -> int:
    """Return how many restarts counted towards the intensity at an event; it records a list of times, or a number."""
    counted: Any = json.loads(event.restarts or "0")
    return counted if isinstance(counted, int) else len(counted)


def storms(name: str, events: Iterable[Said]) -> list[Storm]:
    """Return the storms of one harness; a storm lasts as long as any `STORM_S` of it contain `STORM` restarts."""
    restarts = [one for one in events if one.kind == "restarting"]
    found: list[list[Said]] = []
    for place, last in enumerate(restarts[STORM - 1 :]):
        group = restarts[place : place + STORM]
        if (last.at - group[0].at).total_seconds() <= STORM_S:
            if found and found[-1][-1] is group[-2]:
                found[-1].append(last)
            else:
                found.append(group)
    return [
        Storm(name, one[0].at, one[-1].at, len(one), one[0].attempt, one[-1].attempt, one[-1].cause or "") for one in found
    ]


def stuck(name: str, attempts: Iterable[Attempt]) -> list[Stuck]:
    """Return where consecutive attempts of one harness ended with an error after the same step."""
    groups: list[list[Attempt]] = []
    is_going_on = False
    for one in attempts:
        if one.ended_by not in ("failed", "killed"):
            is_going_on = False
        elif is_going_on and groups[-1][-1].last_step == one.last_step:
            groups[-1].append(one)
        else:
            groups.append([one])
            is_going_on = True
    return [
        Stuck(name, one[-1].last_step + 1, len(one), one[0].number, one[-1].number, one[-1].cause)
        for one in groups
        if len(one) >= STUCK
    ]


def _storm_row(one: Storm) -> tuple[Cell, ...]:
    took_s = (one.last - one.first).total_seconds()
    attempts = (one.first_attempt, one.last_attempt)
    return (one.harness, moment(one.first), moment(one.last), took_s, one.restarts, *attempts, one.cause)


def _sentences(rows: Sequence[tuple[Any, ...]], found: Sequence[Storm], again: Sequence[Stuck]) -> Iterator[str]:
    restarts = sum(row[1] for row in rows)
    put_off_s = sum(row[4] for row in rows)
    if not restarts and not any(row[3] for row in rows):
        yield "No harness was restarted."
        return
    yield (
        f"{times(restarts, 'restart')} of {times(sum(1 for row in rows if row[1]), 'harness', 'harnesses')}, "
        f"{seconds(put_off_s)} between attempts."
    )
    for storm in sorted(found, key=lambda one: -one.restarts)[:5]:
        took_s = (storm.last - storm.first).total_seconds()
        yield (
            f"{storm.harness}: a storm of {storm.restarts:,} restarts within {seconds(took_s)}, "
            f"attempts {storm.first_attempt} to {storm.last_attempt}: {one_line(storm.cause, 200)}."
        )
    for one in sorted(again, key=lambda one: -one.attempts)[:5]:
        yield (
            f"{one.harness}: {one.attempts} attempts in a row, {one.first_attempt} to {one.last_attempt}, ended while step "
            f"{one.step} was being made: {one_line(one.cause, 200)}."
        )
