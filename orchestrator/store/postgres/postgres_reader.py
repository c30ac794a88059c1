"""Reading a store on PostgreSQL from any thread. A reader sees whole commits, and never makes a writer wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

import msgspec
from attrs import evolve

from harnesses.budgets.pools import Account
from harnesses.errors import near, one_of
from harnesses.timing.clock import now_us
from orchestrator.codec import decode, decode_step
from orchestrator.errors import StoreError, UnknownHarness, UsageError
from orchestrator.lifecycle import Status
from orchestrator.records import ApprovalRecord, ChildRecord, EffectRecord, HarnessRecord, Record, StepRecord
from orchestrator.store.encryption import reveal_body, reveal_effect, reveal_row
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import Database, is_connection_error, translated
from orchestrator.store.postgres.postgres_rows import (
    EVENT,
    WAITING,
    all_filed,
    find_recipient,
    read_accounts,
    read_children,
)
from orchestrator.store.rules.approval_rules import approval_records
from orchestrator.store.rules.effect_rules import Mark, effects_of, pruned
from orchestrator.store.rules.state_rules import derive
from orchestrator.store.store_capabilities import HarnessRow
from orchestrator.store.store_protocol import Message, StepRow, VersionRow

ResultT = TypeVar("ResultT")

_KEPT = 4
"""Idle connections that are kept."""
_AGAIN_S = 0.1
_PAGE = 1000
_LARGEST_PAGE = 4_000_000
"""Limit on the characters of messages read at once."""

_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_HEAD = "coalesce((SELECT max(s.step) FROM records s WHERE s.harness = h.id AND s.kind = 'step'), 0)"
_RECORD = (
    "SELECT r.seq, coalesce(h.name, ''), r.attempt, r.step, r.time_us, r.kind, {body}, coalesce(c.run, '') FROM records r "
    "LEFT JOIN harnesses h ON h.id = r.harness LEFT JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch"
)
_RECORDS = _RECORD.format(body="r.body")
_OUTLINED = {"step": "took_us", "outcome": "outcome", "approval_answered": "verdict"}
"""The field of a record's body that is counted, by kind; of other kinds none is read."""
_OUTLINE = " ".join(
    f"WHEN '{kind}' THEN coalesce('{{\"{name}\":' || (as_json(r.body) -> '{name}')::text || '}}', '{{}}')"
    for kind, name in _OUTLINED.items()
)
_OUTLINES = _RECORD.format(body=f"CASE r.kind {_OUTLINE} ELSE '{{}}' END")
_ROSTER = (
    "SELECT coalesce(json_agg(json_build_array(name, status, attempt, class, is_alive(owner)::int, time_us, event) "
    "ORDER BY id), '[]')::text FROM harnesses"
)
_ROSTER_READ = msgspec.json.Decoder(list[HarnessRow])
_TIMES = (
    "SELECT h.name, ARRAY(SELECT r.time_us FROM records r WHERE r.harness = h.id AND r.kind = 'step' "
    "ORDER BY r.step DESC LIMIT %s) FROM harnesses h WHERE h.name = ANY(%s)"
)
_MESSAGE = "m.seq, m.sender, m.body, coalesce(m.id, ''), m.kind, coalesce(m.type, ''), coalesce(m.deadline_us, 0)"
_MARKS = (
    "SELECT h.name, r.seq, r.attempt, r.step, r.time_us, r.kind, r.body FROM harnesses h JOIN records r ON r.harness = h.id "
    "WHERE r.kind IN ('intent', 'outcome')"
)


class PostgresReader:
    """The reading methods of a store on PostgreSQL.

    While the server cannot be reached, a read is tried again until `_patience_s()` is over.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self.location = address.location
        self.schema = address.schema
        """The schema that holds its tables."""
        self._idle: list[Database] = []
        self._busy: set[Database] = set()
        self._roster: tuple[str, list[HarnessRow]] = ("", [])

    def _patience_s(self) -> float:
        """Return for how many more seconds a lost server is waited for."""
        return 0.0

    def _keeps_connections(self) -> bool:
        """Return whether a connection is kept for the next read."""
        return True

    def cut_readers(self) -> None:
        """Break the connections on which threads are waiting for an answer."""
        for db in tuple(self._busy):
            db.cut()

    def close_readers(self) -> None:
        """Close the idle connections. The reader can still be used."""
        while self._idle:
            self._idle.pop().close()

    def harnesses(self, names: Collection[str] | None = None) -> list[HarnessRecord]:
        """Return some harnesses, or all, in order of first start."""
        some, values = ("", ()) if names is None else ("WHERE h.name = ANY(%s)", (list(names),))
        rows = self.rows(
            f"SELECT h.name, h.status, h.attempt, {_HEAD}, h.class, is_alive(h.owner), h.time_us, h.event "
            f"FROM harnesses h {some} ORDER BY h.id",
            values,
        )
        return [
            HarnessRecord(
                name=name,
                status=Status(status),
                attempt=attempt,
                current_step=head,
                harness_class=of_class,
                owned=owned,
                last_time_us=time_us,
                event=decode(event),
            )
            for name, status, attempt, head, of_class, owned, time_us, event in rows
        ]

    def roster(self) -> list[HarnessRow]:
        """Return a row for each harness, in order of first start; the same list as before if none has changed."""
        ((text,),) = self.rows(_ROSTER)
        if text != self._roster[0]:
            self._roster = text, _ROSTER_READ.decode(text)
        return self._roster[1]

    def steps(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRecord]:
        """Return at most `limit` steps of one harness, oldest first, from number `after + 1`."""
        rows = self._steps("r.attempt, r.seq, r.step, r.time_us, r.body", name, after, limit)
        cipher = self._address.cipher
        return [
            decode_step(name, attempt, seq, number, time_us, reveal_body(cipher, "step", body))
            for attempt, seq, number, time_us, body in rows
        ]

    def step_rows(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRow]:
        """Return at most `limit` steps of one harness as they were written, oldest first, from number `after + 1`."""
        columns = "r.harness, r.epoch, r.attempt, r.step, r.time_us, r.body, r.state"
        return [reveal_row(self._address.cipher, StepRow(*row)) for row in self._steps(columns, name, after, limit)]

    def recent_times(self, names: Collection[str], count: int) -> dict[str, list[int]]:
        """Return the times of the last `count` steps of some harnesses, microseconds since 1970, oldest first."""
        return {name: times[::-1] for name, times in self.rows(_TIMES, (count, list(names)))}

    def state_at(self, name: str, step: int) -> str:
        """Return the JSON of the state after `step`; 0 is the initial state."""

        def work(db: Database) -> str:
            harness = self._number(db, name)
            (head,) = db.row(f"SELECT {_HEAD} FROM harnesses h WHERE h.id = %s", (harness,))
            if not 0 <= step <= head:
                raise UsageError(f"harness {name!r} has no step {step}: expected a number from 0 to its last step")
            (oldest,) = db.row("SELECT min(step) FROM records WHERE harness = %s AND kind = 'step'", (harness,))
            if oldest is not None and 0 < step < oldest:
                raise pruned(name, step, oldest)
            return find_state(db, harness, step)

        return self.read(work, whole=True)

    def state_versions(self, name: str) -> list[VersionRow]:
        """Return the versions of a harness's states, in order of step and version."""
        return self.read(lambda db: versions_of(db, self._number(db, name)), whole=True)

    def mailbox(self, name: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        """Return unconsumed messages to one harness with `seq > after`, oldest first; fewer than `limit` if they are large."""
        # Sizes of all before it: the first one comes, however large, and then as many as fit.
        rows = self.rows(
            f"SELECT {_MESSAGE.replace('m.', '')} FROM ("
            "SELECT m.*, sum(length(m.body)) OVER (ORDER BY m.seq) - length(m.body) AS before FROM ("
            "SELECT * FROM mailbox WHERE harness = (SELECT id FROM harnesses WHERE name = %s) "
            "AND consumed_step IS NULL AND kind <> 'reply' AND seq > %s ORDER BY seq LIMIT %s) m) n "
            "WHERE before < %s ORDER BY seq",
            (name, after, limit, _LARGEST_PAGE),
        )
        if not rows:
            self.read(lambda db: self._number(db, name))
        return [Message(*row) for row in rows]

    def replies(self, name: str) -> list[Message]:
        """Return the unconsumed replies to one harness, oldest first."""
        query = f"SELECT {_MESSAGE} FROM mailbox m WHERE harness = %s AND consumed_step IS NULL AND kind = 'reply'"
        return self.read(lambda db: [Message(*row) for row in db.rows(f"{query} ORDER BY seq", (self._number(db, name),))])

    def room(self, name: str) -> int | None:
        """Return how many more messages the mailbox of a harness accepts; None for any number."""

        def work(db: Database) -> int | None:
            harness, limit = find_recipient(db, name, self.location)
            return None if limit is None else max(0, limit - int(db.row(WAITING, (harness, now_us(), limit))[0]))

        return self.read(work)

    def arrivals(self, *, after: int) -> list[tuple[str, int]]:
        """Return each harness that has messages with `seq > after`, and the `seq` of its newest."""
        return self.rows(
            "SELECT h.name, max(m.seq) FROM mailbox m JOIN harnesses h ON h.id = m.harness WHERE m.seq > %s GROUP BY h.name",
            (after,),
        )

    def messages_waiting(self) -> int:
        """Return how many messages no step has consumed."""
        ((count,),) = self.rows("SELECT count(*) FROM mailbox WHERE consumed_step IS NULL")
        return int(count)

    def effects(self, name: str | None = None, *, current: bool = False) -> list[EffectRecord]:
        """Return all effects, of one harness or of all, in the order in which they were last begun."""
        query, values = (_MARKS, ()) if name is None else (f"{_MARKS} AND h.name = %s", (name,))
        if current:
            query = f"{query} AND r.step = {_HEAD} + 1"
        marks: dict[str, list[Mark]] = {}
        for harness, *mark in self._named(name, f"{query} ORDER BY r.seq", values):
            marks.setdefault(harness, []).append(Mark(*mark))
        cipher = self._address.cipher
        found = [reveal_effect(cipher, effect) for harness, of in marks.items() for effect in effects_of(harness, of)]
        return sorted(found, key=lambda effect: effect.seq)

    def approvals(self, name: str | None = None) -> list[ApprovalRecord]:
        """Return all approval requests, of one harness or of all, in order."""

        def work(db: Database) -> list[ApprovalRecord]:
            if name is not None:
                self._number(db, name)
            return approval_records(all_filed(db))

        return [record for record in self.read(work) if name is None or record.harness == name]

    def answers(self, *, after: int, limit: int) -> list[tuple[int, str]]:
        """Return at most `limit` answers to approval requests with `seq > after`: `seq`, and the id of the request."""
        return self.rows(
            "SELECT i.seq, i.id FROM approval_index i JOIN records r ON r.seq = i.seq "
            "WHERE i.seq > %s AND r.kind = 'approval_answered' ORDER BY i.seq LIMIT %s",
            (after, limit),
        )

    def children(self, name: str | None = None) -> tuple[ChildRecord, ...]:
        """Return the children of one harness, or of all, in start order."""
        return self.read(lambda db: read_children(db, None if name is None else self._number(db, name)), whole=True)

    def accounts(self, pools: Collection[str] | None = None) -> dict[str, Account]:
        """Return the accounts of pools, all or some, by name."""
        return self.read(lambda db: read_accounts(db, pools))

    def last_seq(self) -> int:
        """Return the `seq` of the newest record; 0 if there is none."""
        ((seq,),) = self.rows("SELECT coalesce(max(seq), 0) FROM records")
        return int(seq)

    def records(self, *, after: int = 0, limit: int = 1000) -> list[Record]:
        """Return at most `limit` records of any kind with `seq > after`, in order of `seq`; encrypted fields as stored."""
        return [Record(*row) for row in self.rows(f"{_RECORDS} WHERE r.seq > %s ORDER BY r.seq LIMIT %s", (after, limit))]

    def outlines(self, *, after: int = 0, limit: int = 1000) -> list[Record]:
        """Return records as `records` does, with only the counted fields of their bodies."""
        return [Record(*row) for row in self.rows(f"{_OUTLINES} WHERE r.seq > %s ORDER BY r.seq LIMIT %s", (after, limit))]

    def transcripts(
        self, name: str, *, step: int | None = None, session: str | None = None, skipped: int = 0, limit: int = 100
    ) -> list[Record]:
        """Return transcripts of one harness, newest first: all, those of one step, or those of one session."""
        rows = self._named(
            name,
            f"{_RECORDS} WHERE r.kind = 'transcript' AND {EVENT} AND h.name = %s AND (%s::bigint IS NULL OR r.step = %s) "
            "AND (%s::text IS NULL OR coalesce(as_json(r.body) ->> 'session', '') = %s) "
            "ORDER BY r.step DESC, r.seq DESC LIMIT %s OFFSET %s",
            (name, step, step, session, session, limit, skipped),
        )
        return [self._reveal(Record(*row)) for row in rows]

    def effect_records(self, name: str, step: int) -> list[Record]:
        """Return the intents and outcomes of effects of one step, recorded or in progress, oldest first."""
        query = f"{_RECORDS} WHERE r.kind IN ('intent', 'outcome') AND h.name = %s AND r.step = %s ORDER BY r.seq"
        return [self._reveal(Record(*row[:7])) for row in self._named(name, query, (name, step))]

    def _reveal(self, record: Record) -> Record:
        return evolve(record, body=reveal_body(self._address.cipher, record.kind, record.body))

    def model_of(self, name: str) -> str:
        """Return the model that the model agents of a fork ask instead of their own; empty for their own."""
        query = "SELECT r.body FROM records r JOIN harnesses h ON h.id = r.harness WHERE r.kind = 'forked' AND h.name = %s"
        rows = self._named(name, f"{query} AND {EVENT}", (name,))
        return decode(rows[0][0]).get("model", "") if rows else ""

    def _steps(self, columns: str, name: str, after: int, limit: int) -> list[Any]:
        return self._named(
            name,
            f"SELECT {columns} FROM records r WHERE r.harness = (SELECT id FROM harnesses WHERE name = %s) "
            "AND r.kind = 'step' AND r.step > %s ORDER BY r.step LIMIT %s",
            (name, after, limit),
        )

    def _named(self, name: str | None, query: str, values: tuple[object, ...]) -> list[Any]:
        """Return the rows of a query about a harness.

        Raises:
            UnknownHarness: there are none because there is no such harness.
        """
        rows = self.rows(query, values)
        if not rows and name is not None:
            self.read(lambda db: self._number(db, name))
        return rows

    def rows(self, query: str, values: tuple[object, ...] = ()) -> list[Any]:
        """Return the rows of a query, with `%s` for each value."""
        return self.read(lambda db: db.rows(query, values))

    def _number(self, db: Database, name: str) -> int:
        row = db.row("SELECT id FROM harnesses WHERE name = %s", (name,))
        if row is None:
            names = [known for (known,) in db.rows("SELECT name FROM harnesses ORDER BY id LIMIT 10")]
            known = one_of(names, "there is none yet; start one first")
            raise UnknownHarness(f"no harness {name!r} in {self.location}: {known}{near(name, names)}")
        return int(row[0])

    def read(self, work: Callable[[Database], ResultT], *, whole: bool = False) -> ResultT:
        """Return what `work` reads, on a connection that no other thread uses meanwhile.

        Args:
            whole: whether everything is read as of one moment; a single query always is.
        """
        while True:
            try:
                return self._read_once(work, whole)
            except Exception as error:
                if not is_connection_error(error) or self._patience_s() <= 0:
                    with translated(self.location):
                        raise
            self.close_readers()
            time.sleep(_AGAIN_S)

    def _read_once(self, work: Callable[[Database], ResultT], whole: bool) -> ResultT:
        try:
            db = self._idle.pop()
        except IndexError:
            db = Database(self._address, max(self._patience_s(), self._address.lease_s / 2))
        self._busy.add(db)
        try:
            if not whole:
                return work(db)
            with db.transaction(_SNAPSHOT):
                return work(db)
        finally:
            self._busy.discard(db)
            if db.is_lost or len(self._idle) >= _KEPT or not self._keeps_connections():
                db.close()
            else:
                self._idle.append(db)


def versions_of(db: Database, harness: int) -> list[VersionRow]:
    """Return the rows of one harness, in order of step and version."""
    query = "SELECT step, version, seq FROM state_versions WHERE harness = %s ORDER BY step, version"
    return [VersionRow(*row) for row in db.rows(query, (harness,))]


_SAVED = """
SELECT step, state FROM records
WHERE harness = %s AND kind = 'step' AND state IS NOT NULL AND step <= %s ORDER BY step DESC LIMIT 1
"""
_BODIES = (
    "SELECT step, body FROM records WHERE harness = %s AND kind = 'step' AND step > %s AND step <= %s ORDER BY step LIMIT %s"
)


def find_state(db: Database, harness: int, step: int) -> str:
    """Return the JSON of the state after a step that exists."""
    initial = "SELECT 0, initial_state FROM harnesses WHERE id = %s"
    saved, state = db.row(_SAVED, (harness, step)) or db.row(initial, (harness,))
    return state_after(db, harness, state, saved, step)


def state_after(db: Database, harness: int, state: str, saved: int, step: int) -> str:
    """Return the JSON of the state after a step, from that after an earlier one, as it is stored.

    Raises:
        StoreUnusable: it is encrypted, and the key is missing or wrong.
        StoreError: a step between them is missing.
    """

    def pages() -> Iterator[str]:
        after = saved
        while after < step:
            rows = db.rows(_BODIES, (harness, after, step, _PAGE))
            if not rows or rows[-1][0] != after + len(rows):
                raise StoreError(f"harness number {harness}: step {after + 1} or a later one is missing; restore from a copy")
            after = rows[-1][0]
            yield ",".join(body for _, body in rows)

    state = db.cipher.reveal("state", state)
    return derive(state, pages(), db.cipher) if saved < step else state
