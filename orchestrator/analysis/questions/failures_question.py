"""What went wrong: failures grouped by error and message, with what followed; blocked harnesses; effects; unreadable lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from attrs import define, field

from harnesses.effects.effect import CUT_OFF
from orchestrator.analysis.answers.answer import Answer, Cell, Table, listed, moment, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import what_is_gone
from orchestrator.analysis.questions.record_scan import Said, folded, gone_harnesses, harnesses, innermost, said, without_class
from orchestrator.analysis.sources.log_source import MOST
from orchestrator.text.terminal_text import one_line

_COLUMNS = "harness count error message then where last last_attempt last_step first first_attempt first_step example"
_NOTE = (
    "message: times, paths, ids and numbers folded; step: the one in progress; where: the innermost line of the last "
    "traceback; then: what came next in the harness's life"
)
_HALTS = {"blocked": "is blocked", "budget_spent": "has spent its budget"}
_THEN = {"restarting": "restarted", "started": "started later", "gave_up": "gave up", "stopped": "stopped"}
_EFFECTS = """
    SELECT harness, step_number, key, outcome, reason, attempt, "timestamp" FROM effects
    WHERE (outcome IN ('refused', 'unknown', 'failed', 'interrupted') OR outcome = 'begun' AND NOT (idempotent OR keep))
      AND list_contains(?, harness) ORDER BY seq
"""
_TRACES = """SELECT seq, body ->> '$.traceback' FROM events WHERE kind = 'failed' AND list_contains(?, seq)"""


@define
class Group:
    """Failures with the same error."""

    harness: str
    error: str
    message: str
    each: list[Said] = field(factory=list[Said])
    then: Counter[str] = field(factory=Counter[str])
    where: str = ""


def answer(run: Run, *, harness: str | None = None) -> Answer:
    """Return what went wrong, most frequent first.

    Raises:
        UsageError: there is no such harness.
    """
    run.expect(once=True)
    names = harnesses(run, harness)
    told = said(run, names)
    groups = grouped(event for name in names for event in with_next(told.get(name, ())))
    traces = dict(run.rows(_TRACES, [[group.each[-1].seq for group in groups]])) if groups else {}
    for group in groups:
        group.where = innermost(traces.get(group.each[-1].seq) or "")
    halts = [one for name in names for one in _halts(told.get(name, ()))]
    effects = list(_effects(run, names))
    bad = [] if harness is not None else [(one.file, one.line, one.problem) for one in run.bad_lines]
    tables = (
        Table("failures", _COLUMNS, map(_row, groups), _NOTE if groups else ""),
        Table("halts", "harness status attempt step since cause", halts),
        Table("effects", "harness step key outcome reason attempt timestamp", effects),
        Table("bad_lines", "file line problem", bad, f"at most {MOST} are named" if len(bad) == MOST else ""),
    )
    told_of = _sentences(groups, halts, [str(row[3]) for row in effects], len(bad))
    return Answer("failures", tables, [*told_of, *what_is_gone(run, names)])


def _effects(run: Run, names: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    """Yield a row for each effect, in the words of `orchestrator effects` for those whose program is gone."""
    ended = gone_harnesses(run)
    for name, step, key, outcome, reason, attempt, time in run.rows(_EFFECTS, [names]):
        if name in ended and outcome in ("begun", "unknown"):
            outcome, reason = "unknown", reason or CUT_OFF
        yield (name, step, key, outcome, reason, attempt, moment(time))


def with_next(events: Sequence[Said]) -> Iterator[tuple[Said, str]]:
    """Yield each failure with what came next."""
    life = [event for event in events if event.is_life and event.kind not in ("paused", "resumed")]
    for event, after in pairwise([*life, None]):
        if event is not None and event.kind == "failed":
            yield event, "nothing" if after is None else _THEN.get(after.kind, after.kind.replace("_", " "))


def grouped(failures: Iterable[tuple[Said, str]]) -> list[Group]:
    """Return failures in groups, most frequent first."""
    groups: dict[tuple[str, str, str], Group] = {}
    for event, then in failures:
        error = event.error or "?"
        key = (event.harness, error, folded(without_class(event.cause or "", error)))
        group = groups.setdefault(key, Group(*key))
        group.each.append(event)
        group.then[then] += 1
    return sorted(groups.values(), key=lambda one: (-len(one.each), one.each[0].seq))


def _row(group: Group) -> tuple[Cell, ...]:
    first, last = group.each[0], group.each[-1]
    then = ", ".join(f"{what} {count}" if count > 1 else what for what, count in group.then.most_common())
    return (
        *(group.harness, len(group.each), group.error, group.message, then, group.where),
        *(moment(last.at), last.attempt, last.step + 1, moment(first.at), first.attempt, first.step + 1),
        one_line(last.cause or "", 1000),
    )


def _halts(events: Sequence[Said]) -> Iterator[tuple[Cell, ...]]:
    """Yield a row for a harness that cannot continue now."""
    life = [event for event in events if event.is_life]
    if life and life[-1].kind in _HALTS:
        last = life[-1]
        yield (last.harness, last.kind, last.attempt, last.step, moment(last.at), one_line(last.cause or "", 1000))


def _sentences(
    groups: Sequence[Group], halts: Sequence[tuple[Cell, ...]], outcomes: Sequence[str], bad_lines: int
) -> Iterator[str]:
    if not (groups or halts or outcomes or bad_lines):
        yield "Nothing has gone wrong."
    for group in groups[:5]:
        last = group.each[-1]
        where = f" at {group.where}" if group.where else ""
        then = listed(f"{what} {count} times" if count > 1 else what for what, count in group.then.most_common())
        said = f"{group.error}: {without_class(one_line(last.cause or '', 200), group.error)}"
        how_often = f"{group.harness} failed {times(len(group.each), 'time')} with {said}{where}"
        yield f"{how_often}, last while step {last.step + 1} was made; then: {then}."
    for error, same in groupby(
        sorted(groups, key=lambda one: (one.error, one.message)), key=lambda one: (one.error, one.message)
    ):
        who = [one.harness for one in same]
        if len(who) > 1:
            yield f"{times(len(who), 'harness', 'harnesses')} failed in the same way, {error[0]}: {error[1]}: {listed(who)}."
    for name, status, _, step, since, cause in halts:
        yield f"{name} {_HALTS[str(status)]} after step {step}, since {since}: {cause}."
    ends = Counter(outcomes)
    if open_ones := ends["unknown"] + ends["begun"]:
        yield f"Of {times(open_ones, 'effect')} the outcome is not on record; `orchestrator effects`."
    if refused := ends["refused"]:
        yield f"{times(refused, 'effect')} {'was' if refused == 1 else 'were'} refused."
    if kept := ends["failed"] + ends["interrupted"]:
        yield f"{times(kept, 'effect')} failed or {'was' if kept == 1 else 'were'} interrupted, and recorded so as a result."
    if bad_lines:
        count = f"{bad_lines} lines or more" if bad_lines == MOST else times(bad_lines, "line")
        yield f"{count} of the log cannot be read, and are left out."
