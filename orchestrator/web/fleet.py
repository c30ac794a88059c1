"""The fleet: a row for each harness, kept with the version in which it last changed: a page asks only for what is new."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Any

import msgspec
from attrs import define, field

from harnesses.redaction.prefilter import suspects
from harnesses.redaction.redactor import redact
from orchestrator.kill_switch import ALL
from orchestrator.status import At, shown_status
from orchestrator.text.json_text import escape, stamp_us
from orchestrator.web.fleet_changes import Changes, Stepped

_FRESH_S = 0.5
_WORST = (
    *("gave_up", "failed", "blocked", "halted", "waiting_for_approval", "hung", "interrupted", "budget_spent", "backing_off"),
    *("paused", "running", "working", "waiting", "new", "stopped", "finished", "completed"),
)
"""Activities, worst first."""
RANKS = {activity: rank for rank, activity in enumerate(_WORST)}
Row = dict[str, Any]


@define(eq=False)
class Fleet:
    """The status of every harness as the page lists it.

    Args:
        read: returns what may have changed since the last call; see `FleetChanges`.
        above: returns the path of the supervisor of each harness; empty for none.
        fresh_s: seconds for which what was read is told again.
    """

    read: Callable[[], Changes]
    above: Callable[[], Mapping[str, str]] = dict
    fresh_s: float = _FRESH_S
    version: int = 0
    _rows: dict[str, Row] = field(factory=dict[str, Row])
    _lines: dict[str, bytes] = field(factory=dict[str, bytes])
    """The rows as JSON."""
    _versions: dict[str, int] = field(factory=dict[str, int])
    _read_at: float = -inf
    _lock: threading.Lock = field(factory=threading.Lock)

    def rows(self) -> list[Row]:
        """Return the row of every harness, in order of first start."""
        with self._lock:
            self._refresh()
            return [*self._rows.values()]

    def names(self) -> frozenset[str]:
        """Return the names of the harnesses that were there at the last reading; nothing is read."""
        with self._lock:
            return frozenset(self._rows)

    def row(self, name: str) -> Row | None:
        """Return the row of one harness; None if there is none."""
        with self._lock:
            self._refresh()
            return self._rows.get(name)

    def changed(self, since: int) -> bytes:
        """Return as JSON the rows that changed after a version, and the current version."""
        with self._lock:
            self._refresh()
            lines = [self._lines[name] for name, version in self._versions.items() if version > since]
            return b'{"version":%d,"count":%d,"rows":[%b]}' % (self.version, len(self._rows), b",".join(lines))

    def _refresh(self) -> None:
        if time.monotonic() - self._read_at < self.fresh_s:
            return
        self.version += 1
        changes = self.read()
        above: Mapping[str, str] = self.above() if changes.looked else {}
        for name, stepped in changes.stepped.items():
            self._put(_moved_on(self._rows[name], stepped))
        rows: list[Row] = []
        for at in changes.looked:
            name = at.record.name
            live = changes.lives.get(name)
            began = at.since_s if live is None or at.live is None else live.since_s
            row = _row(at, began, above.get(name, ""), changes.latched)
            if row != self._rows.get(name):
                rows.append(row)
        texts = [msgspec.json.encode(row).decode() for row in rows]
        hidden = {place: redact(rows[place]) for place in set(suspects(texts))}
        for place, row in enumerate(rows):
            self._put(hidden.get(place, row))
        self._read_at = time.monotonic()

    def _put(self, row: Row) -> None:
        """Keep a row without secrets."""
        name = row["harness"]
        if row != self._rows.get(name):
            self._rows[name], self._versions[name] = row, self.version
            self._lines[name] = escape(msgspec.json.encode(row).decode()).encode()


def _moved_on(row: Row, stepped: Stepped) -> Row:
    """Return the row of a harness that runs undisturbed."""
    return {
        **row,
        "activity": stepped.activity,
        "rank": RANKS.get(stepped.activity, len(RANKS)),
        "current_step": row["current_step"] if stepped.step is None else stepped.step,
        "began": round(stepped.since_s, 1),
    }


def _row(at: At, began: float | None, supervisor: str, latched: Collection[str]) -> Row:
    """Return the row of a harness.

    Args:
        began: when the step under way began, wall time.
    """
    record = at.record
    halted = at.live.halted if at.live else ""
    return {
        "harness": record.name,
        "parent": at.parent or None,
        "status": shown_status(record),
        "activity": at.activity,
        "attempt": record.attempt,
        "current_step": record.current_step,
        "timestamp": stamp_us(record.last_time_us),
        "began": None if began is None else round(began, 1),
        "rank": RANKS.get(at.activity, len(RANKS)),
        "cause": (at.asks_in_words or at.cause or halted)[:500],
        "until": stamp_us(at.until_us),
        "class": record.harness_class,
        "owned": record.owned,
        "latched": ALL in latched or record.name in latched,
        "approval": None if at.asks is None else at.asks.record.id,
        "supervisor": supervisor or None,
    }
