"""Why a harness has its status, or how one of its steps came about: what is recorded, and what to do next.

Invariant: a cause is stated only where a record names it; a mere order in time is stated as "after".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from decimal import Decimal, InvalidOperation
from shlex import quote
from typing import Any, Protocol

from attrs import frozen

from harnesses.effects.effect import WAY_OUT
from orchestrator.analysis.answers.answer import Answer, Table, listed, moment, seconds, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.questions.record_scan import INTERRUPTED, Said, ended_at, gone_harnesses, harnesses, said, stand
from orchestrator.analysis.questions.why_attempts import Link, back_offs, earlier, link, siblings
from orchestrator.analysis.questions.why_steps import (
    Around,
    around,
    effect_links,
    message_words,
    spent,
    step_links,
    tracebacks,
    used_links,
)
from orchestrator.analysis.questions.why_store import StoreEvidence
from orchestrator.analysis.sources import StoreSource
from orchestrator.errors import UsageError
from orchestrator.text.terminal_text import one_line

_DEPTH = 3
"""Limit on the harnesses in a chain of causes."""


class Evidence(Protocol):
    """What is on record of all harnesses."""

    def names(self, wanted: str | None = None) -> list[str]:
        """Return the names of all harnesses.

        Raises:
            UsageError: the wanted one is not among them.
        """
        ...

    def said(self) -> Mapping[str, Sequence[Said]]:
        """Return the lifecycle events and approval records of each, in order."""
        ...

    def last_step(self, name: str) -> int:
        """Return the number of a harness's last step."""
        ...

    def gone(self) -> set[str]:
        """Return the harnesses that no living program owns, as far as that can be told."""
        ...

    def ended_at(self) -> datetime | None:
        """Return the time of the last record."""
        ...

    def around(self, name: str, number: int) -> Around:
        """Return the records around a step."""
        ...

    def tracebacks(self, seqs: Sequence[int]) -> dict[int, str]:
        """Return the tracebacks of failures, by the `seq` of their records."""
        ...

    def spent(self, name: str) -> list[tuple[list[str], dict[str, Any]]]:
        """Return the pools and amounts of each settled reservation of a harness."""
        ...


class _RunEvidence:
    """The evidence in an opened run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def names(self, wanted: str | None = None) -> list[str]:
        harnesses(self._run, wanted)
        return harnesses(self._run)

    def said(self) -> Mapping[str, Sequence[Said]]:
        return said(self._run, self.names())

    def last_step(self, name: str) -> int:
        query = "SELECT coalesce(max(last_step), 0) FROM lives WHERE harness = ?"
        return int(self._run.rows(query, [name])[0][0])

    def gone(self) -> set[str]:
        return gone_harnesses(self._run)

    def ended_at(self) -> datetime | None:
        return ended_at(self._run)

    def around(self, name: str, number: int) -> Around:
        return around(self._run, name, number)

    def tracebacks(self, seqs: Sequence[int]) -> dict[int, str]:
        return tracebacks(self._run, seqs)

    def spent(self, name: str) -> list[tuple[list[str], dict[str, Any]]]:
        return spent(self._run, name)


def answer(run: Run, name: str, step: int | None = None, *, harness: str | None = None) -> Answer:
    """Return the chain of causes of a harness's status, or of one of its steps.

    Raises:
        UsageError: there is no such harness, or no such step.
    """
    if isinstance(run.source, StoreSource):
        with closing(StoreEvidence(run.source.location)) as store:
            return answer_from(store, name, step, harness=harness)
    return answer_from(_RunEvidence(run), name, step, harness=harness)


def answer_from(evidence: Evidence, name: str, step: int | None = None, *, harness: str | None = None) -> Answer:
    """Return the same from any evidence."""
    if harness is not None and harness != name:
        raise UsageError(f"why {name} --harness {harness}: expected one harness, was two; leave one out")
    evidence.names(name)
    told = evidence.said()
    links = _of_step(evidence, told, name, step) if step is not None else _of_end(evidence, told, name, ())
    rows = [(one.harness, one.attempt, one.step, moment(one.at), one.seq, one.text) for one in links]
    return Answer("why", (Table("chain", "harness attempt step timestamp seq text", rows),), [one.text for one in links])


def _of_step(evidence: Evidence, told: Mapping[str, Sequence[Said]], name: str, number: int) -> list[Link]:
    last = evidence.last_step(name)
    if not 1 <= number <= last + 1:
        raise UsageError(f"harness {name!r} has no step {number}: expected one from 1 to {last}, or {last + 1}, the next one")
    failures = [one for one in told.get(name, ()) if one.kind == "failed" and one.step == number - 1]
    links = step_links(name, number, evidence.around(name, number), is_made=number <= last)
    return [*links, *earlier(failures, evidence.tracebacks([one.seq for one in failures[-1:]]))]


def _of_end(evidence: Evidence, told: Mapping[str, Sequence[Said]], name: str, been: tuple[str, ...]) -> list[Link]:
    events, last = told.get(name, ()), evidence.last_step(name)
    standing = stand(events, gone=name in evidence.gone())
    failures = [one for one in events if one.kind == "failed"]
    is_over = standing.status in ("completed", "finished")
    case = Case(
        name=name,
        status=standing.status,
        last=standing.last,
        last_step=last,
        events=events,
        around=evidence.around(name, last + 1),
        made=evidence.around(name, last) if is_over and last else None,
        traces=evidence.tracebacks([one.seq for one in failures[-1:]]),
        spent=evidence.spent(name) if standing.status == "budget_spent" else (),
        now=None if standing.status in _TOLD else evidence.ended_at(),
    )
    links = ending(case)
    behind = siblings(name, told)
    links.extend(one.link for one in behind)
    further = dict.fromkeys(one.origin for one in behind if one.is_end and one.origin not in (name, *been))
    if len(been) < _DEPTH:
        for other in further:
            links.extend(_of_end(evidence, told, other, (*been, name)))
    return links


@frozen
class Case:
    """What is known of a harness and of the cause of its status."""

    name: str
    status: str
    last: Said | None
    """The last lifecycle event."""
    last_step: int
    events: Sequence[Said]
    around: Around
    """Records around the step in progress, or the next step."""
    made: Around | None = None
    """Records around the last recorded step, if it is examined."""
    traces: Mapping[int, str] = {}
    spent: Sequence[tuple[list[str], dict[str, Any]]] = ()
    now: datetime | None = None


def ending(case: Case) -> list[Link]:
    """Return the chain of causes of a harness's status."""
    if case.last is None:
        return [Link(f"{case.name} has not been started: nothing is on record of its life.", case.name)]
    tell = _TOLD.get(case.status, _running)
    return list(tell(case, case.last))


def _completed(case: Case, last: Said) -> Iterator[Link]:
    what = "`is_complete()` was true then" if last.kind == "completed" else "`execute()` returned then: it had no more to do"
    word = "completed" if last.kind == "completed" else "finished"
    yield link(f"{case.name} is {word} at step {last.step}, in attempt {last.attempt}, since {moment(last.at)}: {what}.", last)
    if case.made is not None:
        yield from step_links(case.name, case.last_step, case.made, is_made=True)
        if not case.made.used:
            yield from used_links(case.name, f"Step {case.last_step - 1}", case.made.used_before)
    yield from _past(case)


def _failed(case: Case, last: Said) -> Iterator[Link]:
    gave_up = case.status == "gave_up"
    what = "gave up" if gave_up else "failed, and was not started again"
    cause = f": {one_line(last.cause or '', 300)}" if gave_up and last.cause else ""
    yield link(f"{case.name} {what} after step {last.step}, in attempt {last.attempt}, at {moment(last.at)}{cause}.", last)
    yield from _past(case)
    yield from _surroundings(case)


def _blocked(case: Case, last: Said) -> Iterator[Link]:
    said = one_line(last.cause or "", 400)
    yield link(f"{case.name} is blocked after step {last.step} since {moment(last.at)}: {said}.", last)
    yield from effect_links(case.name, case.around.effects)
    open_ones = [one for one in case.around.effects if one.is_open]
    for one in open_ones:
        command = f"orchestrator effects settle {_word(case.name)} {_word(one.key)} --as done|not-done --reason TEXT"
        yield Link(f"To go on: find out what became of the effect, then `{command}`, and run it again.", case.name)
    asked = list(_asked(case))
    yield from asked
    if not open_ones and not asked:
        remedy = _reopening(case, last) or (
            "run it again: the outcome of its effect is settled"
            if WAY_OUT in said
            else "`orchestrator kill-switch off`, and run it again"
            if any(word in said.lower() for word in ("kill switch", "latch"))  # its name in older stores
            else "fix the cause, and run it again"
        )
        yield Link(f"To go on: {remedy}.", case.name)
    yield from _past(case)


def _reopening(case: Case, last: Said) -> str:
    """Return the remedy for the denial that has blocked a harness; empty if none has."""
    cause = last.cause or ""
    words = {one.id: one.verdict for one in case.events if one.kind == "approval_answered" and one.id and one.id in cause}
    for id, verdict in words.items():
        if verdict == "reopened":
            return "run it again: the denied request was reopened, and the harness asks again"
        if verdict == "denied":
            return f"`orchestrator approvals reopen {_word(id)}`, and run it again"
    return ""


def _budget_spent(case: Case, last: Said) -> Iterator[Link]:
    said = one_line(last.cause or "", 400).rstrip(".")
    yield link(f"{case.name} has spent its budget after step {last.step}, at {moment(last.at)}: {said}.", last)
    sums: dict[str, dict[str, Decimal]] = {}
    for pools, amounts in case.spent:
        for pool in pools:
            for unit, amount in amounts.items():
                kept = sums.setdefault(pool, {})
                kept[unit] = kept.get(unit, Decimal(0)) + _amount(amount)
    for pool, units in sums.items():
        said = listed(f"{amount:f} of {unit}" for unit, amount in units.items())
        yield Link(f"Of pool {pool!r} {case.name} has spent {said} in {times(len(case.spent), 'reservation')}.", case.name)
    yield Link("To go on: raise the budget, and run it again; `orchestrator budgets` shows what is left.", case.name)
    yield from _past(case)


def _amount(value: Any) -> Decimal:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return Decimal(0)


def _stopped(case: Case, last: Said) -> Iterator[Link]:
    whole = " with the whole program" if last.program_ended else ""
    said = one_line(last.cause or "stopped", 300)
    yield link(
        f"{case.name} was stopped{whole} after step {last.step}, at {moment(last.at)}: {said}; run it again to go on.", last
    )
    yield from _asked(case)
    yield from _past(case)


def _backing_off(case: Case, last: Said) -> Iterator[Link]:
    due = "" if last.delay_s is None else f", {seconds(last.delay_s)} after that"
    yield link(f"{case.name} is backing off since {moment(last.at)}; its next attempt is due{due}.", last)
    yield from _past(case)
    yield from _surroundings(case)


def _interrupted(case: Case, last: Said) -> Iterator[Link]:
    heard = case.around.before.at if case.around.before else last.at
    yield link(
        f"{case.name} was interrupted: it is on record as alive, in attempt {last.attempt}, and its program is gone. It was "
        f"heard of last at {moment(max(heard, last.at))}, after step {case.last_step}; run it again to go on.",
        last,
    )
    yield from effect_links(case.name, case.around.effects)
    yield from _asked(case)
    yield from _past(case)


def _running(case: Case, last: Said) -> Iterator[Link]:
    if case.status == "paused":
        yield link(
            f"{case.name} is held by an operator after step {case.last_step}; `orchestrator resume {_word(case.name)}`.", last
        )
    else:
        since = case.around.before.at if case.around.before and case.around.before.at > last.at else last.at
        quiet = f", {seconds((case.now - since).total_seconds())} before the end of what is on record" if case.now else ""
        doing = f"it is making step {case.last_step + 1} since {moment(since)}{quiet}"
        yield link(f"{case.name} is {case.status} in attempt {last.attempt}: {doing}.", last)
    asked = list(_asked(case))
    yield from asked
    yield from effect_links(case.name, case.around.effects)
    if not asked and not case.around.effects:
        if case.around.unread:
            one = case.around.unread[0]
            yield Link(
                f"The oldest message to {case.name} that no step has consumed is {one.seq}, {message_words(one)}.",
                case.name,
                None,
                None,
                one.at,
                one.seq,
            )
        else:
            yield Link(f"What {case.name} waits for is not on record: no effect, approval or message is open.", case.name)
    yield from _past(case)


def _new(case: Case, last: Said) -> Iterator[Link]:
    """Yield a sentence about a fork that was never started; only a fork can have records without a start."""
    text = (
        f"{case.name} is new: it was forked from {one_line(last.origin or '?', 200)} at step {last.origin_step}, at "
        f"{moment(last.at)}, and has not been started; starting it goes on with step {case.last_step + 1}."
    )
    yield link(text, last)


def _surroundings(case: Case) -> Iterator[Link]:
    """Yield what the failed step had done and could read. Whether it read a message is known only when a step is recorded."""
    found, number = case.around, case.last_step + 1
    yield from effect_links(case.name, found.effects)
    before = [one for one in found.unread if case.last is None or one.seq < case.last.seq]
    if before:
        one = before[0]
        more = f", and {times(len(before) - 1, 'more')}" if len(before) > 1 else ""
        text = (
            f"While step {number} was being made, the oldest message to {case.name} that no step has consumed was message "
            f"{one.seq}, {message_words(one)}{more}."
        )
        yield Link(text, one.sender or case.name, None, one.sent_while, one.at, one.seq)
    if found.before is not None:
        yield Link(
            f"The step before it, {found.before.number}, was recorded at {moment(found.before.at)} in attempt "
            f"{found.before.attempt}.",
            *(case.name, found.before.attempt, found.before.number, found.before.at, found.before.seq),
        )
        yield from used_links(case.name, f"Step {found.before.number}", found.used_before)


def _word(text: str) -> str:
    """Return text quoted as one word of a command, since it may come from an agent."""
    return quote(one_line(text, 200))


def _asked(case: Case) -> Iterator[Link]:
    """Yield the harness's unanswered requests."""
    answered = {one.id for one in case.events if one.kind in ("approval_answered", "approval_used")}
    for one in case.events:
        if one.kind == "approval_requested" and one.id not in answered and one.step == case.last_step + 1:
            what = f"{one_line(one.category or '?', 60)}: {one_line(one.summary or '?', 200)}"
            asked = f"{case.name} has asked for an approval at {moment(one.at)}, {what}"
            yield link(f"{asked}; `orchestrator approve {_word(one.id or '')}`, or `deny`.", one)


def _past(case: Case) -> Iterator[Link]:
    """Yield how earlier attempts ended, and what followed."""
    failures = [one for one in case.events if one.kind == "failed"]
    if failures:
        yield from earlier(failures, case.traces)
        yield from back_offs(case.events)
    for one in case.events:
        if one.kind == "forked":
            yield link(f"It was made from the steps of {one.origin} up to step {one.origin_step}.", one, one.origin_step)


_TOLD: Mapping[str, Callable[[Case, Said], Iterator[Link]]] = {
    "completed": _completed,
    "finished": _completed,
    "failed": _failed,
    "gave_up": _failed,
    "blocked": _blocked,
    "budget_spent": _budget_spent,
    "stopped": _stopped,
    "backing_off": _backing_off,
    "new": _new,
    INTERRUPTED: _interrupted,
}
"""The function for each status; other statuses are treated as running."""
