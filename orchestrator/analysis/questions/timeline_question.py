"""The activity of each harness over time, derived from its events: consecutive spans, the rows of a Gantt chart.

    running       an attempt is alive               blocked   it cannot continue without human action
    waiting       … and waits for approval          stopped   over, and started again later; other ends likewise
    held          … and is paused by an operator    gone      its program was gone: no records from its last
    backing_off   the next attempt is due later               sign of life until the next start

`held` begins with the operator's order: the harness itself pauses at its next step boundary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from attrs import evolve, frozen

from orchestrator.analysis.answers.answer import Answer, Table, listed, moment, seconds, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import what_is_gone
from orchestrator.analysis.questions.record_scan import INTERRUPTED, Said, ended_at, harnesses, said, standings

_COLUMNS = "harness attempt kind begin end duration_s first_step last_step open cause"
_WORTH = {
    "held": "paused by an operator",
    "waiting": "waiting for an approval",
    "backing_off": "backing off",
    "blocked": "blocked",
    "gone": "without a program",
}
"""Kinds that are mentioned in a sentence if they took long."""


def answer(run: Run, *, harness: str | None = None) -> Answer:
    """Return the spans of each harness, in order.

    Raises:
        UsageError: there is no such harness.
    """
    run.expect(once=True)
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
    tables = (Table("spans", _COLUMNS, rows), Table("totals", "harness kind duration_s", totals))
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
    for name, attempt, last, last_step, ended_by in run.rows(
        "SELECT harness, attempt, lived_until, last_step, ended_by FROM lives"
    ):
        found.setdefault(name, {})[attempt] = Life(last, last_step, ended_by == "killed")
    return found


def _sentences(found: Sequence[Span]) -> Iterator[str]:
    if not found:
        yield "Nothing is recorded yet."
        return
    begin, end = min(one.begin for one in found), max(one.end for one in found)
    who = times(len({one.harness for one in found}), "harness", "harnesses")
    yield f"{who} from {moment(begin)} to {moment(end)}, {seconds((end - begin).total_seconds())}."
    for kind, words in _WORTH.items():
        took = Counter[str]()
        for one in found:
            if one.kind == kind:
                took[one.harness] += one.duration_s  # type: ignore[assignment]
        if took:
            whole = seconds(sum(took.values()))
            yield f"{whole} {words}: {listed(f'{name} ({seconds(most)})' for name, most in took.most_common())}."
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


GONE = "gone"
ALIVE = ("running", "waiting", "held")
LASTING = ("backing_off", "blocked")
"""Activities that continue after the last event."""


@frozen
class Span:
    """A time span in which a harness did one thing."""

    harness: str
    attempt: int
    kind: str
    begin: datetime
    end: datetime
    first_step: int | None = None
    """Number of the first step recorded in it; None if there is none."""
    last_step: int | None = None
    cause: str = ""
    """The recorded cause."""
    is_open: bool = False
    """Whether it has not ended, as far as known."""

    @property
    def duration_s(self) -> float:
        """Duration in seconds."""
        return (self.end - self.begin).total_seconds()


@frozen
class Life:
    """What is known of an attempt besides its events."""

    last: datetime
    """When it was last alive, as far as known: the time of its last record, or of the last record of its program."""
    last_step: int
    is_killed: bool
    """Whether there is no record of its end, but a later attempt."""


@frozen
class _Mark:
    """The time from which on a harness does something else."""

    at: datetime
    kind: str
    attempt: int
    step: int
    """Number of the last recorded step."""
    cause: str = ""
    is_start: bool = False


def spans(name: str, events: Iterable[Said], lives: Mapping[int, Life], now: datetime, *, is_gone: bool = False) -> list[Span]:
    """Return the spans of one harness, in order.

    Args:
        lives: its attempts.
        now: the last moment of the run.
        is_gone: whether it is recorded as running, and its program is known to be gone.
    """
    marks = list(_changes(_marks(events)))
    found = [span for first, second in pairwise(marks) for span in _between(name, first, second, lives)]
    if marks:
        found.extend(_lasting(name, marks[-1], lives, now, is_gone=is_gone))
    return found


def _marks(events: Iterable[Said]) -> Iterator[_Mark]:
    """Yield the activity of a harness from each of its events on."""
    is_held, asked = False, dict[str | None, Said]()
    rest, attempt, step, cause = "", 0, 0, ""
    at = datetime.min
    for event in events:
        # If the clock was set back, no span gets a negative length.
        at = max(at, event.at)
        match event.kind:
            case "forked":
                continue
            case "started":
                # The step in progress is made again, and waits again for the answer to the same request.
                rest, cause, asked = "", "", {id: one for id, one in asked.items() if _still_asks(one, event)}
            case "paused":
                is_held = True
            case "resumed":
                is_held = False
            case "approval_requested":
                asked[event.id] = event
            case "approval_answered" | "approval_used":
                asked.pop(event.id, None)
            case kind:
                rest, cause = ("backing_off" if kind == "restarting" else kind), event.cause or ""
                is_held = is_held and bool(event.paused or kind == "restarting")
        if event.is_life:
            attempt, step = event.attempt, event.step
        elif event.kind == "approval_requested":
            step = event.step - 1
        alive = "waiting" if asked else "held" if is_held else "running"
        yield _Mark(at, rest or alive, attempt, step, cause, event.kind == "started")


def _still_asks(request: Said, start: Said) -> bool:
    """Return whether the step that an attempt begins with is the one that made a request, which has not expired."""
    is_over = request.expires_us is not None and start.at.replace(tzinfo=UTC).timestamp() * 1e6 > request.expires_us
    return request.step == start.step + 1 and not is_over


def _changes(marks: Iterable[_Mark]) -> Iterator[_Mark]:
    """Yield the marks at which the activity changes: an end and what follows at once are one change."""
    last: _Mark | None = None
    for mark in marks:
        if last is not None and mark.kind == last.kind and not mark.is_start:
            continue
        if last is None or mark.kind in ALIVE or last.kind in (*ALIVE, *LASTING):
            if last is not None:
                yield last
            last = mark
        else:
            last = evolve(mark, at=last.at)
    if last is not None:
        yield last


def _between(name: str, first: _Mark, second: _Mark, lives: Mapping[int, Life]) -> Iterator[Span]:
    """Yield the span between two marks; two spans, if the program was gone in between."""
    life = lives.get(first.attempt)
    if first.kind in ALIVE and second.is_start and life is not None and life.is_killed:
        until = min(max(first.at, life.last), second.at)
        yield _span(name, first, until, life.last_step)
        yield Span(name, first.attempt, GONE, until, second.at)
    else:
        yield _span(name, first, second.at, second.step)


def _lasting(name: str, mark: _Mark, lives: Mapping[int, Life], now: datetime, *, is_gone: bool) -> Iterator[Span]:
    """Yield the activity after the last event; none if the harness has ended."""
    life = lives.get(mark.attempt)
    step = life.last_step if life is not None else mark.step
    if mark.kind in ALIVE and is_gone and life is not None:
        until = max(mark.at, life.last)
        yield _span(name, mark, until, step)
        yield Span(name, mark.attempt, GONE, until, max(until, now), is_open=True)
    elif mark.kind in (*ALIVE, *LASTING):
        yield evolve(_span(name, mark, max(mark.at, now), step), is_open=True)


def _span(name: str, mark: _Mark, end: datetime, last_step: int) -> Span:
    is_made = mark.kind in ALIVE and last_step > mark.step
    first = mark.step + 1 if is_made else None
    return Span(name, mark.attempt, mark.kind, mark.at, end, first, last_step if is_made else None, mark.cause)
