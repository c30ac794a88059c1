"""The attempts that led to the status of a harness: errors of earlier ones, and effects of siblings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby

from attrs import frozen

from orchestrator.analysis.answers.answer import listed, seconds
from orchestrator.analysis.questions.record_scan import Said, folded, innermost, without_class
from orchestrator.text.terminal_text import one_line

_ENDS = ("failed", "finished", "completed", "stopped", "gave_up", "blocked", "budget_spent")
_SUPERVISOR = re.compile(r"its supervisor gave up when '([^']+)' ended")
_SIBLING = "a sibling crashed: "
_SHOWN = 3


@frozen
class Link:
    """One sentence of a chain, and the record that it is about."""

    text: str
    harness: str
    attempt: int | None = None
    step: int | None = None
    at: datetime | None = None
    seq: int | None = None


def link(text: str, event: Said, step: int | None = None) -> Link:
    """Return a sentence about an event as a link of the chain of causes."""
    return Link(text, event.harness, event.attempt, event.step if step is None else step, event.at, event.seq)


@frozen
class Behind:
    """An effect of a sibling on a harness."""

    link: Link
    origin: str
    """Name of the sibling."""
    is_end: bool
    """Whether it ended the harness, rather than restarting it."""


def error_of(event: Said) -> str:
    """Return an error as text."""
    error = event.error or "an error"
    message = without_class(one_line(event.cause or "", 300), error)
    return f"{error}: {message}" if message and message != error else error


def earlier(failures: Sequence[Said], traces: Mapping[int, str]) -> list[Link]:
    """Return how attempts failed, oldest first; consecutive ones with the same error share a sentence."""
    found: list[Link] = []
    for _, group in groupby(failures, key=lambda one: (one.error, folded(one.cause or ""))):
        same = list(group)
        last = same[-1]
        where = innermost(traces.get(last.seq, ""))
        at = f", at {where}" if where else ""
        steps = sorted({one.step + 1 for one in same})
        numbers = listed(map(str, steps), 8)
        making = f"while step {numbers} was being made" if len(steps) == 1 else f"while steps {numbers} were being made"
        if len(same) == 1:
            found.append(
                link(f"Attempt {last.attempt} of {last.harness} failed {making}: {error_of(last)}{at}.", last, last.step + 1)
            )
        else:
            numbers = f"{len(same)} attempts of {last.harness}, {same[0].attempt} to {last.attempt},"
            text = f"{numbers} failed with the same error {making}: {error_of(last)}{at}."
            found.append(link(text, last, last.step + 1))
    return found


def back_offs(events: Sequence[Said]) -> list[Link]:
    """Return the delays of restarts."""
    restarts = [one for one in events if one.kind == "restarting"]
    if not restarts:
        return []
    waits = [seconds(one.delay_s or 0.0) for one in restarts]
    shown = listed(waits, 8)
    often = "once" if len(restarts) == 1 else f"{len(restarts)} times"
    return [link(f"{restarts[-1].harness} was started again {often}, after a back-off of {shown}.", restarts[-1])]


def siblings(name: str, told: Mapping[str, Sequence[Said]]) -> list[Behind]:
    """Return the effects of siblings on a harness, oldest first; all of them share the record of a restart."""
    found: list[Behind] = []
    is_ended = False
    for event in told.get(name, ()):
        if event.kind == "started":
            is_ended = False
        elif event.kind == "restarting" and not is_ended:
            found.extend(_restarted(event, told))
        elif event.kind == "stopped" and (origin := _stopped_by(event, told)):
            text = f"{event.harness} was stopped because of {origin}: {one_line(event.cause or '', 300)}."
            found.append(Behind(link(text, event), origin, is_end=True))
        if event.kind in (*_ENDS, "restarting"):
            is_ended = True
    return found if len(found) <= _SHOWN else [*found[:1], *found[1 - _SHOWN :]]


def _restarted(event: Said, told: Mapping[str, Sequence[Said]]) -> Iterator[Behind]:
    """Yield the sibling because of which an attempt was ended: its restart has the same due time and history."""
    for other, events in told.items():
        crash: Said | None = None
        for one in events if other != event.harness else ():
            if one.kind in ("failed", "finished"):
                crash = one
            elif one.kind == "started":
                crash = None
            elif one.kind == "restarting" and crash is not None and (one.due, one.restarts) == (event.due, event.restarts):
                ended = "failed" if crash.kind == "failed" else "came to its end"
                error = f": {error_of(crash)}" if crash.kind == "failed" else ""
                attempt = f"Attempt {event.attempt} of {event.harness} was ended after step {event.step}"
                cause = f"whose attempt {crash.attempt} {ended} after step {crash.step}{error}"
                text = f"{attempt} because of its sibling {other}, {cause}."
                yield Behind(link(text, event), other, is_end=False)
                return


def _stopped_by(event: Said, told: Mapping[str, Sequence[Said]]) -> str | None:
    """Return the harness whose end has stopped this one, if its record names it."""
    cause = event.cause or ""
    if match := _SUPERVISOR.match(cause):
        return match[1] if match[1] in told else None
    if cause.startswith(_SIBLING):
        error = cause.removeprefix(_SIBLING)
        crashes = [
            one
            for other, events in told.items()
            for one in events
            if other != event.harness and one.kind == "failed" and one.cause == error
        ]
        return max(crashes, key=lambda one: one.seq).harness if crashes else None
    return None
