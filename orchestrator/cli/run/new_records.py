"""New records of a store, for views of a run: records, events, and notices. Notices are for people: steps whose summary begins
with `! `, model calls that wait for their provider, approval requests, and states that were migrated.

Any harness may mark a step with `! `; the trading harness does when the risk has changed or an operator's order was followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from attrs import frozen

from orchestrator.codec import decode
from orchestrator.events import EVENTS
from orchestrator.records import LIMITS_SET, ORDERED, RELOADED, Record
from orchestrator.store.postgres.postgres_reader import PostgresReader
from orchestrator.store.sqlite.sqlite_file import open_reader, translated
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_capabilities import place_beside
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
_EVENTS_ON_SERVER = (
    "SELECT r.seq, h.name, r.attempt, r.step, r.kind, r.body, coalesce(c.run, '') FROM records r "
    "JOIN harnesses h ON h.id = r.harness LEFT JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch "
    f"WHERE r.seq > %s AND r.seq <= %s AND r.kind IN ({_KINDS}) ORDER BY r.seq LIMIT %s"
)
_MARKED_ON_SERVER = (
    "SELECT r.seq, h.name, r.step, r.kind, r.body FROM records r JOIN harnesses h ON h.id = r.harness "
    "WHERE r.seq > %s AND r.seq <= %s AND (r.kind IN ('approval_requested', 'migrated') "
    "OR r.kind = 'step' AND strpos(r.body, '\"summary\":\"! ') > 0 "
    "OR r.kind = 'output' AND starts_with(r.body, '{\"line\":\"! model ')) ORDER BY r.seq LIMIT %s"
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


Seen: TypeAlias = SqliteReader | PostgresReader
"""What a view of a run can be of."""


class _News:
    """What is newer in a store than this object. One thread at a time may ask."""

    def __init__(self, store: Seen) -> None:
        self._store = store
        self._place = place_beside(store)
        self._db = open_reader(store.path) if isinstance(store, SqliteReader) else None
        self._after = store.last_seq()

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()

    def _rows(self, in_file: str, on_server: str, most: int) -> list[tuple[Any, ...]]:
        """Return the next page of what a query gives, from after one `seq`, up to another, at most so many rows."""
        newest = self._store.last_seq()
        values = (self._after, newest, most)
        if isinstance(self._store, PostgresReader):
            rows = self._store.rows(on_server, values)
        else:
            assert self._db is not None
            with translated(self._store.location):
                rows = self._db.execute(in_file, values).fetchall()
        self._after = rows[-1][0] if len(rows) == most else newest
        return rows


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
        rows = self._rows(_EVENTS, _EVENTS_ON_SERVER, _PAGE)
        return [Record(seq, name, attempt, step, 0, kind, body, run) for seq, name, attempt, step, kind, body, run in rows]


class Notices(_News):
    """What is to be seen of a store."""

    def next(self) -> list[Notice]:
        """Return the next page of notices; nothing if there are none yet."""
        found = [(row[:4], decode(row[4])) for row in self._rows(_MARKED, _MARKED_ON_SERVER, _NOTICES)]
        return [
            Notice(seq, name, step, _text(self._place, kind, body))
            for (seq, name, step, kind), body in found
            if kind != "step" or str(body.get("summary", "")).startswith(MARK)
        ]
