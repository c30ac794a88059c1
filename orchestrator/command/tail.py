"""What is committed from now on, in order: every record, or what an operator follows, the lifecycle events, latches
and who has blocked the loop.

It asks again and again; a run neither knows of it nor waits for it.
"""

from __future__ import annotations

from orchestrator.events import EVENTS
from orchestrator.records import Record
from orchestrator.store.sqlite_file import open_reader, translated
from orchestrator.store.sqlite_reader import SqliteReader

_PAGE = 1000
_KINDS = ", ".join(f"'{kind}'" for kind in (*(event.kind for event in EVENTS), "latch", "loop_blocked"))
_EVENTS = (
    "SELECT seq, harness, attempt, step_number, kind, body, coalesce(run, '') FROM events "
    f"WHERE seq > ? AND seq <= ? AND kind IN ({_KINDS}) ORDER BY seq LIMIT ?"
)


class Tail:
    """The records of a store that are newer than this object. One thread at a time may ask."""

    def __init__(self, store: SqliteReader) -> None:
        self._store = store
        self._db = open_reader(store.path)
        self._after = self._newest()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def records(self) -> list[Record]:
        """Return the next page of records of every kind; nothing if there are none yet."""
        page = self._store.records(after=self._after, limit=_PAGE)
        if page:
            self._after = page[-1].seq
        return page

    def events(self) -> list[Record]:
        """Return the next page of lifecycle events and latches; nothing if there are none yet. Steps are passed over."""
        newest = self._newest()
        with translated(self._store.location):
            rows = self._db.execute(_EVENTS, (self._after, newest, _PAGE)).fetchall()
        self._after = rows[-1][0] if len(rows) == _PAGE else newest
        return [Record(seq, name, attempt, step, 0, kind, body, run) for seq, name, attempt, step, kind, body, run in rows]

    def _newest(self) -> int:
        with translated(self._store.location):
            return int(self._db.execute("SELECT max(seq) FROM records").fetchone()[0] or 0)
