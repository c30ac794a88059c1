"""The fleet: a row for each harness, kept with the version in which it last changed: a page asks only for what is new."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
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
_JSON = msgspec.json.Encoder()


class _Move(msgspec.Struct, frozen=True, gc=False):
    """What a step changes in the row of a harness; the rest of its JSON stays."""

    activity: str
    rank: int
    began: float | None
    current_step: int


_MOVES = frozenset(_Move.__struct_fields__)


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
    _moves: dict[str, _Move] = field(factory=dict[str, _Move])
    """What each step changes in the row of a harness; newer than the row until someone asks for it."""
    _behind: set[str] = field(factory=set[str])
    """Harnesses whose rows are older than their moves."""
    _texts: dict[str, tuple[bytes, bytes]] = field(factory=dict[str, tuple[bytes, bytes]])
    """The rows as JSON: what no step changes, and the rest."""
    _versions: dict[str, int] = field(factory=dict[str, int])
    _read_at: float = -inf
    _lock: threading.Lock = field(factory=threading.Lock)

    def rows(self) -> list[Row]:
        """Return the row of every harness, in order of first start."""
        with self._lock:
            self._refresh()
            for name in [*self._behind]:
                self._row_of(name)
            return [*self._rows.values()]

    def names(self) -> frozenset[str]:
        """Return the names of the harnesses that were there at the last reading; nothing is read."""
        with self._lock:
            return frozenset(self._rows)

    def row(self, name: str) -> Row | None:
        """Return the row of one harness; None if there is none."""
        with self._lock:
            self._refresh()
            return self._row_of(name)

    def changed(self, since: int) -> bytes:
        """Return as JSON the rows that changed after a version, and the current version."""
        with self._lock:
            self._refresh()
            names = [name for name, version in self._versions.items() if version > since]
            lines = map(b"".join, map(self._texts.__getitem__, names))
            return b'{"version":%d,"count":%d,"rows":[%b]}' % (self.version, len(self._rows), b",".join(lines))

    def _row_of(self, name: str) -> Row | None:
        row = self._rows.get(name)
        if row is not None and name in self._behind:
            self._behind.remove(name)
            # Another object, since the one before may be in use.
            row = self._rows[name] = row | msgspec.structs.asdict(self._moves[name])
        return row

    def _refresh(self) -> None:
        if time.monotonic() - self._read_at < self.fresh_s:
            return
        self.version += 1
        changes = self.read()
        above: Mapping[str, str] = self.above() if changes.looked else {}
        self._move(changes.stepped)
        rows: list[Row] = []
        for at in changes.looked:
            name = at.record.name
            live = changes.lives.get(name)
            began = at.since_s if live is None or at.live is None else live.since_s
            row = _row(at, began, above.get(name, ""), changes.latched)
            if row != self._row_of(name):
                rows.append(row)
        hidden = {place: redact(rows[place]) for place in set(suspects([_JSON.encode(row).decode() for row in rows]))}
        self._put([hidden.get(place, row) for place, row in enumerate(rows)])
        self._read_at = time.monotonic()

    def _move(self, steps: Mapping[str, Stepped]) -> None:
        """Keep what the steps of harnesses that run undisturbed have changed: few bytes of each row are touched."""
        for name, stepped in steps.items():
            known = self._moves[name]
            step = known.current_step if stepped.step is None else stepped.step
            move = _Move(stepped.activity, _rank(stepped.activity), round(stepped.since_s, 1), step)
            if move != known:
                self._moves[name], self._versions[name] = move, self.version
                self._texts[name] = self._texts[name][0], _JSON.encode(move)[1:]
                self._behind.add(name)

    def _put(self, rows: Sequence[Row]) -> None:
        """Keep rows without secrets."""
        rows = [row for row in rows if row != self._rows.get(row["harness"])]
        lasting = [{name: value for name, value in row.items() if name not in _MOVES} for row in rows]
        for row, text in zip(rows, _safe_lines(lasting), strict=True):
            name, move = row["harness"], msgspec.convert(row, _Move)
            self._rows[name], self._moves[name], self._versions[name] = row, move, self.version
            self._texts[name] = text[:-1] + b",", _JSON.encode(move)[1:]


def _safe_lines(rows: Sequence[Row]) -> Sequence[bytes]:
    """Return rows as JSON without active characters; mostly there are none, which one look at all of them tells."""
    texts = [_JSON.encode(row) for row in rows]
    whole = b",".join(texts).decode()
    if escape(whole) == whole:
        return texts
    return [escape(text.decode()).encode() for text in texts]


def _rank(activity: str) -> int:
    return RANKS.get(activity, len(RANKS))


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
        "attempt": record.attempt,
        "timestamp": stamp_us(record.last_time_us),
        "cause": (at.asks_in_words or at.cause or halted)[:500],
        "until": stamp_us(at.until_us),
        "class": record.harness_class,
        "owned": record.owned,
        "latched": ALL in latched or record.name in latched,
        "approval": None if at.asks is None else at.asks.record.id,
        "supervisor": supervisor or None,
        "activity": at.activity,
        "rank": _rank(at.activity),
        "began": None if began is None else round(began, 1),
        "current_step": record.current_step,
    }
