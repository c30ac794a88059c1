"""The fleet: a row for each harness, kept with the version in which it last changed: a page asks only for what is new."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from attrs import define, field

from harnesses.timing.clock import now_s
from orchestrator.text.json_text import escape

_FRESH_S = 0.5
"""Seconds for which what was read is told again."""
_SAME_S = 1.5
"""Seconds by which two readings of when a step began may differ."""
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
        read: returns the status of each harness as a line of JSON; see `orchestrator.status_lines.StatusBoard`.
        last_seq: the `seq` of the newest record.
    """

    read: Callable[[], Sequence[bytes]]
    last_seq: Callable[[], int]
    above: Callable[[], Mapping[str, str]] = dict
    """Returns the path of the supervisor of each harness; empty for none."""
    version: int = 0
    _rows: dict[str, Row] = field(factory=dict[str, Row])
    _versions: dict[str, int] = field(factory=dict[str, int])
    _lines: dict[str, str] = field(factory=dict[str, str])
    _told: tuple[Sequence[bytes], Mapping[str, str]] = ((), {})
    """What was read last: a line that is the same at the same place is not parsed again."""
    _read_at: float = -_FRESH_S
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

    def changed(self, since: int) -> str:
        """Return as JSON the rows that changed after a version, and the current version."""
        with self._lock:
            self._refresh()
            lines = [self._lines[name] for name, version in self._versions.items() if version > since]
            return f'{{"version":{self.version},"count":{len(self._rows)},"rows":[{",".join(lines)}]}}'

    def _refresh(self) -> None:
        if time.monotonic() - self._read_at < _FRESH_S:
            return
        self.version += 1
        above, lines = self.above(), self.read()
        before = self._told[0] if above == self._told[1] else ()
        for place, text in enumerate(lines):
            if place < len(before) and before[place] == text:
                continue
            row = _row(msgspec.json.decode(text))
            name = row["harness"]
            row["supervisor"] = above.get(name) or None
            known = self._rows.get(name)
            if known is not None and abs((known["began"] or 0) - (row["began"] or 0)) < _SAME_S:
                row["began"] = known["began"]
            if row != known:
                self._rows[name], self._versions[name] = row, self.version
                self._lines[name] = escape(msgspec.json.encode(row).decode())
        self._told = lines, above
        self._read_at = time.monotonic()


def _row(fields: Mapping[str, Any]) -> Row:
    age_s = fields["step_age_s"]
    live: dict[str, Any] = fields["live"] or {}
    return {
        **{name: fields[name] for name in ("harness", "parent", "status", "activity", "attempt", "current_step", "timestamp")},
        "began": None if age_s is None else round(now_s() - age_s, 1),
        "rank": RANKS.get(fields["activity"], len(RANKS)),
        "cause": (fields["cause"] or live.get("halted") or "")[:500],
        "until": fields["until"],
        "class": fields["class"],
        "owned": fields["owned"],
        "latched": fields["latched"],
        "approval": fields["approval"] and fields["approval"]["id"],
    }
