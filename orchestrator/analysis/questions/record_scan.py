"""The records of each harness other than steps, as values, and its status after them; error messages with their varying parts
folded, so that the same error is recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from itertools import groupby
from typing import Any

from attrs import frozen

from harnesses.diagnostics.author_frames import rank_of
from harnesses.errors import one_of
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import FIELDS, HEARD, outline, say
from orchestrator.analysis.sources import StoreSource
from orchestrator.analysis.sources.source_reading import LIFE
from orchestrator.errors import StoreError, UsageError
from orchestrator.events import EVENTS, Paused, Restarting, Resumed
from orchestrator.lifecycle import TRANSITIONS, Status, after
from orchestrator.store.file.server_copy import shown_place
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.terminal_text import one_line

INTERRUPTED = "interrupted"
"""Status of a harness that is recorded as running, but whose program is gone; known only from a store."""
_TYPES = {event.kind: event for event in EVENTS}


@frozen
class Said:
    """A lifecycle event or approval record. A field is None if the record has no such field."""

    seq: int
    at: datetime
    """Time in UTC, without a zone."""
    harness: str
    attempt: int
    step: int
    """Number of the last recorded step; for an approval, the step that requested it."""
    kind: str
    cause: str | None = None
    error: str | None = None
    delay_s: float | None = None
    due: float | None = None
    restarts: str | None = None
    period_s: float | None = None
    program_ended: bool | None = None
    paused: bool | None = None
    origin: str | None = None
    origin_step: int | None = None
    id: str | None = None
    verdict: str | None = None
    by: str | None = None
    reason: str | None = None
    category: str | None = None
    summary: str | None = None
    expires_us: int | None = None

    @property
    def is_life(self) -> bool:
        """Whether it is a lifecycle event."""
        return self.kind in LIFE


@frozen
class Stand:
    """The status of a harness."""

    status: str
    """Status as in `orchestrator.lifecycle`, or `INTERRUPTED`."""
    last: Said | None
    """The last lifecycle event."""


def harnesses(run: Run, harness: str | None = None) -> list[str]:
    """Return the names of all harnesses, or the requested one.

    Raises:
        UsageError: the run has no such harness.
    """
    outline(run)
    names = [row[0] for row in run.rows("SELECT DISTINCT harness FROM gathered WHERE harness <> '' ORDER BY harness")]
    if harness is None:
        return names
    if harness not in names:
        known = one_of(names[:20], "nothing is recorded; run a harness first") + (" …" if len(names) > 20 else "")
        raise UsageError(f"{shown_place(run.location)} has no harness {harness!r}: {known}")
    return [harness]


def said(run: Run, names: Iterable[str], *, fully: bool = True) -> dict[str, list[Said]]:
    """Return the records of each of these harnesses, in order.

    Args:
        fully: whether to read all fields, or only those of `HEARD`.
    """
    outline(run)
    if fully:
        say(run)
    columns = ("harness", "attempt", *HEARD, *(name for name in FIELDS if fully and name not in HEARD))
    picked = ", ".join(f'"{name}"' for name in columns)
    table = "said" if fully else "heard"
    rows = run.rows(f"SELECT {picked} FROM {table} WHERE list_contains(?, harness) ORDER BY harness, seq", [list(names)])
    named = ["at" if name == "timestamp" else name for name in columns]
    events = (Said(**dict(zip(named, row, strict=True))) for row in rows)
    return {name: list(group) for name, group in groupby(events, key=lambda one: one.harness)}


def ended_at(run: Run) -> datetime | None:
    """Return the time of the last record; None for an empty run."""
    outline(run)
    last: Any = run.rows("SELECT max(last) FROM gathered")[0][0]
    return last if isinstance(last, datetime) else None


def standings(run: Run, told: dict[str, list[Said]], names: Iterable[str]) -> dict[str, Stand]:
    """Return the status of each of these harnesses."""
    ended = gone_harnesses(run)
    return {name: stand(told.get(name, ()), gone=name in ended) for name in names}


def stand(events: Iterable[Said], *, gone: bool = False) -> Stand:
    """Return the status of a harness after its events.

    Args:
        gone: whether its program is known to be gone.
    """
    status, last, awaits = Status.NEW, None, False
    for event in events:
        if event.is_life:
            kind = _TYPES[event.kind]
            status = after(status, kind, backing_off=awaits) or _alone(event.kind, status)
            awaits = kind is Restarting or (awaits and kind in (Paused, Resumed))
            last = event
    is_gone = gone and status in (Status.RUNNING, Status.BACKING_OFF)
    return Stand(INTERRUPTED if is_gone else status.value, last)


def _alone(kind: str, status: Status) -> Status:
    """Return what an event means if earlier ones are missing, as in a part of a log."""
    for table in TRANSITIONS.values():
        if _TYPES[kind] in table:
            return table[_TYPES[kind]]
    return status


def gone_harnesses(run: Run) -> set[str]:
    """Return the harnesses that no living program owns, if there is a store to tell."""
    if not isinstance(run.source, StoreSource):
        return set()
    try:
        with closing(SqliteReader(run.location)) as reader:
            return {record.name for record in reader.harnesses() if not record.owned}
    except StoreError:
        return set()


def open_approvals(run: Run, told: dict[str, list[Said]]) -> list[Said]:
    """Return the unanswered requests of steps in progress."""
    steps = dict(run.rows("SELECT harness, max(last_step) FROM lives GROUP BY harness"))
    answered = {one.id for events in told.values() for one in events if one.kind in ("approval_answered", "approval_used")}
    return [
        one
        for name, events in told.items()
        for one in events
        if one.kind == "approval_requested" and one.id not in answered and one.step == steps.get(name, 0) + 1
    ]


_LONGEST = 300
_FOLDS = (
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"), "<time>"),
    (re.compile(r"\bhttps?://\S+"), "<url>"),
    (re.compile(r"(?<![\w<])(?:[A-Za-z]:\\|~?/|\.{1,2}/)[\w.@+~-]+(?:[/\\][\w.@+~-]+)*/?"), "<path>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<id>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{7,}\b"), "<id>"),
    (re.compile(r"(?<![\w<])[+-]?\d+(?:[.,:_]\d+)*(?:[eE][+-]?\d+)?"), "<n>"),
)
"""Applied in this order: long patterns come before the numbers that they contain."""
_FRAME = re.compile(r'[\s|]*File "(?P<file>.*)", line (?P<line>\d+), in (?P<name>.+)')


def folded(message: str) -> str:
    """Return a message with times, addresses, paths, ids and numbers replaced by placeholders."""
    text = one_line(message, 2000)
    for pattern, word in _FOLDS:
        text = pattern.sub(word, text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def innermost(traceback: str) -> str:
    """Return where an error was raised, as `file:line in name`: the innermost line of the author's files, or of a package if
    there is none of those, or of Python, Trio and this project. Empty if the text is not a traceback."""
    frames = [match for match in map(_FRAME.fullmatch, traceback.splitlines()) if match]
    if not frames:
        return ""
    best = min(reversed(frames), key=lambda frame: rank_of(frame["file"]))
    return one_line("{file}:{line} in {name}".format(**best.groupdict()), _LONGEST)


def without_class(message: str, error: str) -> str:
    """Return a message without its error class in front."""
    return message.removeprefix(f"{error}: ")
