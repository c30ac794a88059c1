"""New records of a store, for views of a run: records, events, and notices. Notices are for people: steps whose summary begins
with `! `, model calls that wait for their provider, approval requests, and states that were migrated.

Any harness may mark a step with `! `; the trading harness does when the risk has changed or an operator's order was followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from orchestrator.codec import decode
from orchestrator.events import EVENTS
from orchestrator.records import LIMITS_SET, ORDERED, RELOADED, Record
from orchestrator.store.sqlite.sqlite_file import open_reader, translated
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.command_hints import command
from orchestrator.text.terminal_text import one_line

MARK = "! "
_PAGE = 1000
_NOTICES = 100
"""Of a page."""
_KINDS = ", ".join(
    f"'{kind}'" for kind in (*(event.kind for event in EVENTS), "latch", LIMITS_SET, ORDERED, RELOADED, "loop_blocked")
)
_EVENTS = (
    "SELECT seq, harness, attempt, step_number, kind, body, coalesce(run, '') FROM events "
    f"WHERE seq > ? AND seq <= ? AND kind IN ({_KINDS}) ORDER BY seq LIMIT ?"
)
# What is looked for in the text spares the parsing of all other steps.
_MARKED = (
    "SELECT r.seq, h.name, r.step, r.kind, r.body FROM records r JOIN harnesses h ON h.id = r.harness "
    "WHERE r.seq > ? AND r.seq <= ? AND (r.kind IN ('approval_requested', 'migrated') OR r.kind = 'step' "
    "AND instr(r.body, '\"summary\":\"! ') AND r.body ->> '$.summary' GLOB '! *' "
    "OR r.kind = 'output' AND r.body GLOB '{\"line\":\"! model *') ORDER BY r.seq LIMIT ?"
)


@frozen
class Notice:
    """Something that is to be seen."""

    seq: int
    harness: str
    step: int
    text: str
    """Of a step the summary, of output the line, without the mark; whatever an agent has put into it."""

    @property
    def line(self) -> str:
        """It, as a line for people."""
        return f"{self.harness}: step {self.step}: {one_line(self.text, 300)}"


def _text(store: object, kind: str, body: Mapping[str, Any]) -> str:
    if kind == "migrated":
        return f"its state was migrated from version {body['from_version']} to {body['to_version']}"
    if kind == "approval_requested":
        approve = command(store, "approve", str(body.get("id") or ""))
        return f"waits for an approval: {body.get('category')}: {body.get('summary')}; `{approve}`"
    return str(body["line"] if kind == "output" else body["summary"]).removeprefix(MARK)


class _News:
    """What is newer in a store than this object. One thread at a time may ask."""

    def __init__(self, store: SqliteReader) -> None:
        self._store = store
        self._db = open_reader(store.path)
        self._after = self._newest()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _rows(self, query: str, most: int) -> list[tuple[Any, ...]]:
        """Return the next page of what a query gives, from after one `seq`, up to another, at most so many rows."""
        newest = self._newest()
        with translated(self._store.location):
            rows = self._db.execute(query, (self._after, newest, most)).fetchall()
        self._after = rows[-1][0] if len(rows) == most else newest
        return rows

    def _newest(self) -> int:
        with translated(self._store.location):
            return int(self._db.execute("SELECT max(seq) FROM records").fetchone()[0] or 0)


class Tail(_News):
    """The records of a store. Each page is empty if there is nothing yet."""

    def records(self) -> list[Record]:
        """Return the next page of records of every kind."""
        page = self._store.records(after=self._after, limit=_PAGE)
        if page:
            self._after = page[-1].seq
        return page

    def events(self) -> list[Record]:
        """Return the next page of lifecycle events and kill switches. Steps are passed over."""
        rows = self._rows(_EVENTS, _PAGE)
        return [Record(seq, name, attempt, step, 0, kind, body, run) for seq, name, attempt, step, kind, body, run in rows]


class Notices(_News):
    """What is to be seen of a store."""

    def next(self) -> list[Notice]:
        """Return the next page of notices; nothing if there are none yet."""
        return [
            Notice(seq, name, step, _text(self._store.path, kind, decode(body)))
            for seq, name, step, kind, body in self._rows(_MARKED, _NOTICES)
        ]
