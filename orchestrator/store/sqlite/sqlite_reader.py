"""Reading a SQLite store from any thread, without ever blocking a writer in this or another process."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from attrs import evolve

from harnesses.budgets.pools import Account
from harnesses.data.large_values import StoredFile, stored_file, with_value
from harnesses.errors import near, one_of
from harnesses.timing.clock import now_us
from orchestrator.codec import decode, decode_step, encode
from orchestrator.errors import UnknownHarness
from orchestrator.events import EVENTS, stored_kinds
from orchestrator.lifecycle import ENDED, Status
from orchestrator.records import ApprovalRecord, ChildRecord, EffectRecord, HarnessRecord, Record, StepRecord
from orchestrator.store.encryption import cipher_of, reveal_body, reveal_effect, reveal_row
from orchestrator.store.file.run_lock import is_alive
from orchestrator.store.file.schema import EFFECTS_OF_STEP, IS_EVENT, MODEL_OF, NOT_EVENTS, TRANSCRIPTS
from orchestrator.store.file.schema_shape import Connection
from orchestrator.store.file.server_copy import shown_place
from orchestrator.store.file.value_files import ValueFiles, files_folder
from orchestrator.store.postgres.postgres_address import check_is_path
from orchestrator.store.rules.approval_rules import approval_records
from orchestrator.store.rules.effect_rules import Mark, effects_of
from orchestrator.store.rules.state_rules import goes_on_with, versions_of
from orchestrator.store.sqlite.sqlite_file import open_reader, translated
from orchestrator.store.sqlite.sqlite_news import News, read_news
from orchestrator.store.sqlite.sqlite_rows import WAITING, accounts, all_filed, find_recipient, read_children
from orchestrator.store.sqlite.sqlite_states import check_found, find_state
from orchestrator.store.store_capabilities import HarnessRow
from orchestrator.store.store_protocol import Message, StepRow, VersionRow


def _steps_of(columns: str) -> tuple[str, str]:
    """Return the queries for a harness's steps after a number: for indexed steps, and for newer ones."""
    return (
        f"SELECT {columns} FROM step_index i JOIN records r ON r.seq = i.seq "
        "WHERE i.harness = ? AND i.step > ? ORDER BY i.step LIMIT ?",
        f"SELECT {columns} FROM records r WHERE r.seq > (SELECT indexed_seq FROM meta) "
        "AND r.harness = ? AND r.kind = 'step' AND r.step > ? ORDER BY r.seq LIMIT ?",
    )


_STEP_TIMES = (
    "SELECT r.time_us FROM step_index i JOIN records r ON r.seq = i.seq "
    "WHERE i.harness = h.id ORDER BY i.step DESC LIMIT :count"
)
_STEPS = _steps_of("r.attempt, r.seq, r.step, r.time_us, r.body")
_ROWS = _steps_of("r.harness, r.epoch, r.attempt, r.step, r.time_us, r.body, r.state")
_ASKED = "SELECT value FROM json_each(:names)"
_TIMES = (
    f"SELECT json_group_array(json_array(h.name, json((SELECT json_group_array(time_us) FROM ({_STEP_TIMES}))))) "
    f"FROM harnesses h WHERE h.name IN ({_ASKED})"
)
_TAIL_TIMES = (
    "SELECT json_group_array(json_array(h.name, json_array(r.time_us))) FROM records r JOIN harnesses h ON h.id = r.harness "
    f"WHERE r.seq > (SELECT indexed_seq FROM meta) AND r.kind = 'step' AND h.name IN ({_ASKED})"
)
_TIMES_READ = msgspec.json.Decoder(list[tuple[str, list[int]]])
_AMONG = f"WHERE name IN ({_ASKED})"
HARNESSES = "SELECT id, name, status, attempt, class, owner, time_us, event FROM harnesses {among} ORDER BY id"
HEADS = "SELECT id, (SELECT max(step) FROM step_index WHERE harness = id) FROM harnesses {among}"
_NEWER_HEADS = (
    "SELECT harness, max(step) FROM records WHERE seq > (SELECT indexed_seq FROM meta) AND kind = 'step' "
    "AND harness IN (SELECT id FROM harnesses {among}) GROUP BY harness"
)
_ROSTER = (
    "SELECT json_group_array(json_array(name, status, attempt, class, "
    "coalesce(owner IN (SELECT value FROM json_each(?)), 0), time_us, event)) FROM (SELECT * FROM harnesses ORDER BY id)"
)
_ROSTER_READ = msgspec.json.Decoder(list[HarnessRow])

_MESSAGE = "seq, sender, body, coalesce(id, ''), kind, coalesce(type, ''), coalesce(deadline_us, 0)"
_WAITING = (
    f"SELECT {_MESSAGE} FROM mailbox WHERE harness = (SELECT id FROM harnesses WHERE name = ?) "
    "AND consumed_step IS NULL AND kind <> 'reply' AND seq > ? ORDER BY seq LIMIT ?"
)
_REPLIES = (
    f"SELECT {_MESSAGE} FROM mailbox INDEXED BY mailbox_replies WHERE harness = ? AND consumed_step IS NULL "
    "AND kind = 'reply' ORDER BY seq"
)
_LARGEST_PAGE = 4_000_000
"""Limit on the characters of messages read at once."""
_ARRIVALS = "SELECT h.name, max(m.seq) FROM mailbox m JOIN harnesses h ON h.id = m.harness WHERE m.seq > ? GROUP BY m.harness"

_MARKS = (
    "SELECT r.seq, r.attempt, r.step, r.time_us, r.kind, r.body FROM effect_index i JOIN records r ON r.seq = i.seq "
    "WHERE i.harness = ? {} ORDER BY i.seq"
)
_ALL_MARKS, _MARKS_OF_STEP = _MARKS.format(""), _MARKS.format("AND i.step = ?")
_TAIL_MARKS = (
    "SELECT harness, seq, attempt, step, time_us, kind, body FROM records "
    "WHERE seq > (SELECT indexed_seq FROM meta) AND kind IN ('intent', 'outcome') ORDER BY seq"
)


_OUTLINED = {"step": "took_us", "outcome": "outcome", "approval_answered": "verdict"}
"""The field of a record's body that is counted, by kind; for other kinds nothing is read, however large."""
_FIELD = " ".join(f"WHEN '{kind}' THEN '{name}'" for kind, name in _OUTLINED.items())
_OUTLINES = (
    "SELECT json_group_array(json_array(seq, name, attempt, step, time_us, kind, "
    "CASE WHEN said IS NULL THEN '{}' ELSE '{\"' || field || '\":' || said || '}' END, run)) FROM ("
    "SELECT *, CASE WHEN field IS NOT NULL AND json_valid(body) THEN body -> ('$.' || field) END AS said FROM ("
    "SELECT r.seq, coalesce(h.name, '') AS name, r.attempt, r.step, r.time_us, r.kind, coalesce(c.run, '') AS run, r.body, "
    f"CASE r.kind {_FIELD} END AS field FROM records r LEFT JOIN harnesses h ON h.id = r.harness "
    "LEFT JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch WHERE r.seq > ? ORDER BY r.seq LIMIT ?))"
)
_OUTLINE = msgspec.json.Decoder(list[tuple[int, str, int, int, int, str, str, str]])

_SCAN = (
    "SELECT seq, harness, epoch, attempt, step, time_us, kind, body FROM records "
    "WHERE seq BETWEEN :first AND :last AND (:harness IS NULL OR harness = :harness) ORDER BY seq"
)
_LIFE = f"""
SELECT min(seq), max(seq), (SELECT status FROM harnesses WHERE id = :harness) FROM records
WHERE {IS_EVENT} AND harness = :harness AND kind IN ({", ".join(f"'{kind}'" for kind in stored_kinds(e.kind for e in EVENTS))})
"""
"""The first and the last lifecycle event of a harness, and its status: what it writes has `seq`s in between."""
_OUTPUTS = (
    "SELECT r.seq, ?, r.attempt, r.step, r.time_us, r.kind, r.body, coalesce(c.run, '') FROM records r NOT INDEXED "
    "LEFT JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch "
    "WHERE r.seq > ? AND r.seq <= ? AND r.harness = ? AND r.kind = 'output' ORDER BY r.seq DESC LIMIT ?"
)
_OUTPUT_SPAN = 10_000
"""Records that are searched first; each further part is twice as large."""
_SUPERVISION = (
    "SELECT r.seq, coalesce(h.name, ''), "
    "CASE WHEN json_valid(r.body) THEN coalesce(r.body ->> '$.supervisor', '') ELSE '' END, "
    "CASE r.kind WHEN 'supervisor' THEN r.body ELSE '' END "
    "FROM records r {hint} LEFT JOIN harnesses h ON h.id = r.harness "
    f"WHERE {IS_EVENT} AND kind IN ('started', 'supervisor') AND r.seq > ? ORDER BY r.seq"
)
ScannedRow: TypeAlias = tuple[int, int, int, int, int, int, str, str]
"""`seq`, number of the harness, epoch, attempt, step, `time_us`, kind and body of a record."""


def of_harnesses(query: str, names: Collection[str] | None) -> tuple[str, Mapping[str, str]]:
    """Return a query of some harnesses, or of all, and what it takes: with `OR :names IS NULL` it would look at all rows."""
    return (query.format(among=""), {}) if names is None else (query.format(among=_AMONG), {"names": encode(list(names))})


def records_of(kinds: Collection[str]) -> str:
    """Return the query for the newest records of these kinds of one harness; lifecycle events are in an index."""
    places, which = ",".join("?" * len(kinds)), "1" if {*NOT_EVENTS} & {*kinds} else IS_EVENT
    return (
        "SELECT r.seq, ?, r.attempt, r.step, r.time_us, r.kind, r.body, coalesce(c.run, '') FROM records r "
        "LEFT JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch "
        f"WHERE r.harness = ? AND r.kind IN ({places}) AND {which} ORDER BY r.seq DESC LIMIT ?"
    )


class SqliteReader:
    """A read-only view of a store in a SQLite file.

    Args:
        path: the file; it is opened at the first query.
        key: key of an encrypted store, see `SqliteStore`. Without it states cannot be read, and encrypted fields of steps and
            effects are returned as they are stored.

    Raises:
        UsageError: the key file holds no key, or the path is the address of a server.
    """

    def __init__(self, path: str | Path, *, key: bytes | str | Path | None = None) -> None:
        check_is_path(path)
        # Resolved, since locks and the kill switch are files beside the real file.
        self.path = Path(path).resolve()
        self.location = shown_place(path)
        self._cipher = cipher_of(key, self.location)
        self._files = ValueFiles(files_folder(self.path), self._cipher.hide_alike, self._cipher.reveal)
        self._roster: tuple[str, list[HarnessRow]] = ("", [])
        self._idle: list[Connection] = []
        self._keep = 4

    def close(self) -> None:
        """Close the idle connections. The reader can still be used."""
        self._keep = 0
        while self._idle:
            self._idle.pop().close()

    def harnesses(self, names: Collection[str] | None = None) -> list[HarnessRecord]:
        """Return some harnesses, or all, in order of first start."""
        with self._reading() as db:
            heads = self._heads(db, names)
            rows = db.execute(*of_harnesses(HARNESSES, names)).fetchall()
        alive = {owner: is_alive(self.path, owner) for owner in {row[5] for row in rows} if owner is not None}
        return [
            HarnessRecord(
                name=name,
                status=Status(status),
                attempt=attempt,
                current_step=heads[number],
                harness_class=harness_class,
                owned=alive.get(owner, False),
                last_time_us=time_us,
                event=decode(event),
            )
            for number, name, status, attempt, harness_class, owner, time_us, event in rows
        ]

    def roster(self) -> list[HarnessRow]:
        """Return a row for each harness, in order of first start; the same list as before if none has changed.

        Like `outlines`, it reads one row only, and does not hold the GIL meanwhile.
        """
        with self._reading() as db:
            owners = [owner for (owner,) in db.execute("SELECT DISTINCT owner FROM harnesses WHERE owner IS NOT NULL")]
            alive = [owner for owner in owners if is_alive(self.path, owner)]
            (text,) = db.execute(_ROSTER, (encode(alive),)).fetchone()
        if text != self._roster[0]:
            self._roster = text, _ROSTER_READ.decode(text)
        return self._roster[1]

    def steps(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRecord]:
        """Return at most `limit` steps of one harness, oldest first, from number `after + 1`."""
        with self._reading() as db:
            rows = self._read_steps(db, _STEPS, name, after, limit)
        return [
            decode_step(name, attempt, seq, step, time_us, reveal_body(self._cipher, "step", body))
            for attempt, seq, step, time_us, body in rows
        ]

    def step_rows(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRow]:
        """Return at most `limit` steps of one harness as they were written, oldest first, from number `after + 1`."""
        with self._reading() as db:
            rows = self._read_steps(db, _ROWS, name, after, limit)
        return [reveal_row(self._cipher, StepRow(*row)) for row in rows]

    def recent_times(self, names: Collection[str], count: int) -> dict[str, list[int]]:
        """Return the times of the last `count` steps of some harnesses, microseconds since 1970, oldest first."""
        asked = {"names": encode(list(names)), "count": count}
        with self._reading() as db:
            (indexed,) = db.execute(_TIMES, asked).fetchone()
            (newer,) = db.execute(_TAIL_TIMES, asked).fetchone()
        found = {name: times[::-1] for name, times in _TIMES_READ.decode(indexed)}
        for name, times in _TIMES_READ.decode(newer):
            found[name] += times
        return {name: times[-count:] for name, times in found.items()}

    def state_at(self, name: str, step: int) -> str:
        """Return the JSON of the state after `step`; 0 is the initial state."""
        with self._reading() as db:
            harness = self._number(db, name)
            found = find_state(db, harness, step, self._cipher)
            (oldest,) = db.execute("SELECT min(step) FROM step_index WHERE harness = ?", (harness,)).fetchone()
        check_found(name, step, found, oldest)
        return found.state

    def state_versions(self, name: str) -> list[VersionRow]:
        """Return the versions of a harness's states, in order of step and version."""
        with self._reading() as db:
            return versions_of(db, self._number(db, name))

    def goes_on_with(self, name: str) -> tuple[int, str]:
        """Return version and JSON of the state with which a harness continues when it is started again."""
        with self._reading() as db:
            harness = self._number(db, name)
            head = self._heads(db, [name])[harness]
            version, migrated = goes_on_with(db, harness, head, self._cipher)
            return version, migrated or find_state(db, harness, head, self._cipher).state

    def mailbox(self, name: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        """Return unconsumed messages to one harness with `seq > after`, oldest first; fewer than `limit` if they are large."""
        found: list[Message] = []
        room = _LARGEST_PAGE
        # One statement, which is consistent by itself: the loop's thread runs this for each message that arrives alone.
        with self._borrow() as db, closing(db.execute(_WAITING, (name, after, limit))) as rows:
            for row in rows:
                found.append(Message(*row))
                room -= len(row[2])
                if room <= 0:
                    break
        if not found:
            with self._reading() as db:
                self._number(db, name)
        return found

    def replies(self, name: str) -> list[Message]:
        """Return the unconsumed replies to one harness, oldest first."""
        with self._reading() as db:
            return [Message(*row) for row in db.execute(_REPLIES, (self._number(db, name),))]

    def room(self, name: str) -> int | None:
        """Return how many more messages the mailbox of a harness accepts; None for any number."""
        with self._reading() as db:
            harness, limit = find_recipient(db, name, self.location)
            if limit is None:
                return None
            (taken,) = db.execute(WAITING, (harness, now_us(), limit)).fetchone()
            return max(0, limit - int(taken))

    def arrivals(self, *, after: int) -> list[tuple[str, int]]:
        """Return each harness that has messages with `seq > after`, and the `seq` of its newest."""
        with self._reading() as db:
            return db.execute(_ARRIVALS, (after,)).fetchall()

    def messages_waiting(self) -> int:
        """Return how many messages no step has consumed."""
        with self._reading() as db:
            return int(db.execute("SELECT count(*) FROM mailbox WHERE consumed_step IS NULL").fetchone()[0])

    def effects(self, name: str | None = None, *, current: bool = False) -> list[EffectRecord]:
        """Return all effects, of one harness or of all, in the order in which they were last begun."""
        found: list[EffectRecord] = []
        asked = None if name is None else [name]
        with self._reading() as db:
            names = dict(db.execute("SELECT id, name FROM harnesses"))
            numbers = [*names] if name is None else [self._number(db, name)]
            # Effects of steps in progress: two small queries for each harness, however many effects there were.
            making = {number: head + 1 for number, head in self._heads(db, asked).items()} if current else {}
            tail: dict[int, list[Mark]] = {}
            for number, *mark in db.execute(_TAIL_MARKS):
                tail.setdefault(number, []).append(Mark(*mark))
            for number in numbers:
                at = (number, making[number]) if current else (number,)
                marks = [Mark(*row) for row in db.execute(_MARKS_OF_STEP if current else _ALL_MARKS, at)]
                marks += [mark for mark in tail.get(number, ()) if not current or mark.step == making[number]]
                found += [reveal_effect(self._cipher, one) for one in effects_of(names[number], marks)]
        return sorted(found, key=lambda record: record.seq)

    def approvals(self, name: str | None = None) -> list[ApprovalRecord]:
        """Return all approval requests, of one harness or of all, in order."""
        with self._reading() as db:
            if name is not None:
                self._number(db, name)
            records = approval_records(all_filed(db, self._cipher))
        return [record for record in records if name is None or record.harness == name]

    def answers(self, *, after: int, limit: int) -> list[tuple[int, str]]:
        """Return at most `limit` answers to approval requests with `seq > after`: `seq`, and the id of the request."""
        with self._reading() as db:
            return db.execute(
                "SELECT i.seq, i.id FROM approval_index i JOIN records r ON r.seq = i.seq "
                "WHERE i.seq > ? AND r.kind = 'approval_answered' ORDER BY i.seq LIMIT ?",
                (after, limit),
            ).fetchall()

    def children(self, name: str | None = None) -> tuple[ChildRecord, ...]:
        """Return the children of one harness, or of all, in start order."""
        with self._reading() as db:
            return read_children(db, self._cipher, None if name is None else self._number(db, name))

    def accounts(self, pools: Collection[str] | None = None) -> dict[str, Account]:
        """Return the accounts of pools, all or some, by name."""
        with self._reading() as db:
            return accounts(db, pools)

    def last_seq(self) -> int:
        """Return the `seq` of the newest record; 0 if there is none."""
        with self._reading() as db:
            return int(db.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()[0])

    def records(self, *, after: int = 0, limit: int = 1000) -> list[Record]:
        """Return at most `limit` records of any kind with `seq > after`, in order of `seq`.

        Encrypted fields are returned as they are stored, so the log of an encrypted store reveals none of them.
        """
        with self._reading() as db:
            rows = db.execute(
                "SELECT r.seq, coalesce(h.name, ''), r.attempt, r.step, r.time_us, r.kind, r.body, coalesce(c.run, '') "
                "FROM records r LEFT JOIN harnesses h ON h.id = r.harness "
                "LEFT JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch WHERE r.seq > ? ORDER BY r.seq LIMIT ?",
                (after, limit),
            ).fetchall()
        return [Record(*row) for row in rows]

    def scan(self, first: int, last: int, *, name: str | None = None) -> Generator[ScannedRow]:
        """Yield the records of a range of `seq`, of one harness or of all: as they are stored, and faster than `records`.

        A read transaction is open until the last one was taken, or the generator is closed.
        """
        with self._reading() as db:
            harness = None if name is None else self._number(db, name)
            yield from db.execute(_SCAN, {"first": first, "last": last, "harness": harness})

    def claims(self) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
        """Return the names of harnesses by their numbers, and the runs by number of the harness and epoch."""
        with self._reading() as db:
            names = dict(db.execute("SELECT id, name FROM harnesses").fetchall())
            runs = db.execute("SELECT harness, epoch, run FROM claims")
            return names, {(harness, epoch): run for harness, epoch, run in runs}

    def records_of(self, name: str, kinds: Collection[str], *, limit: int = 1000) -> list[Record]:
        """Return at most `limit` records of these kinds of one harness, newest first.

        Raises:
            UnknownHarness: there is no such harness.
        """
        with self._reading() as db:
            rows = db.execute(records_of(kinds), (name, self._number(db, name), *kinds, limit)).fetchall()
        records = [Record(*row) for row in rows]
        return [evolve(one, body=reveal_body(self._cipher, one.kind, one.body)) for one in records]

    def outputs(self, name: str, *, limit: int = 1000) -> list[Record]:
        """Return at most `limit` of the newest lines of output of one harness, newest first.

        Records of output have no index. They are searched from the end of the harness's life back to its beginning, a part at
        a time: lines of a harness that ended long ago, or began lately, are found however large the store is.

        Raises:
            UnknownHarness: there is no such harness.
        """
        with self._reading() as db:
            number = self._number(db, name)
            first, last, status = db.execute(_LIFE, {"harness": number}).fetchone()
            until = db.execute("SELECT max(seq) FROM records").fetchone()[0] if status not in ENDED else last
            found: list[Record] = []
            span, least = _OUTPUT_SPAN, first or 0
            while until is not None and until >= least and len(found) < limit:
                after = max(until - span, least - 1)
                rows = db.execute(_OUTPUTS, (name, after, until, number, limit - len(found))).fetchall()
                found += [Record(*row) for row in rows]
                until, span = after, 2 * span
        return [evolve(one, body=reveal_body(self._cipher, one.kind, one.body)) for one in found]

    def news(self, known: News) -> News:
        """Return what is new since an earlier answer."""
        with self._reading() as db:
            return read_news(db, self.path, known)

    def supervision(self, *, after: int = 0) -> list[tuple[int, str, str, str]]:
        """Return the records of supervisors and of starts with `seq > after`; see `SupervisionReader`."""
        with self._reading() as db:
            is_indexed = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'event_records'").fetchone()
            hint = "NOT INDEXED" if after or not is_indexed else "INDEXED BY event_records"
            return db.execute(_SUPERVISION.format(hint=hint), (after,)).fetchall()

    def restarts(self) -> dict[str, list[float]]:
        """Return the wall times of the restarts that each harness counts, seconds since 1970."""
        with self._reading() as db:
            rows = db.execute("SELECT name, supervision ->> '$.restarts' FROM harnesses WHERE supervision <> '{}'").fetchall()
        return {name: decode(times) for name, times in rows if times}

    def records_between(self, name: str, kinds: Collection[str], after: int, until: int) -> list[Record]:
        """Return the records of these kinds of one harness with `after < seq <= until`, oldest first.

        All records in that range are searched, so ask for a range at a time.

        Raises:
            UnknownHarness: there is no such harness.
        """
        with self._reading() as db:
            places = ",".join("?" * len(kinds))
            rows = db.execute(
                "SELECT r.seq, ?, r.attempt, r.step, r.time_us, r.kind, r.body, '' FROM records r "
                f"WHERE r.seq > ? AND r.seq <= ? AND r.harness = ? AND r.kind IN ({places}) ORDER BY r.seq",
                (name, after, until, self._number(db, name), *kinds),
            ).fetchall()
        records = [Record(*row) for row in rows]
        return [evolve(one, body=reveal_body(self._cipher, one.kind, one.body)) for one in records]

    def outlines(self, *, after: int = 0, limit: int = 1000) -> list[Record]:
        """Return records as `records` does, with only the counted fields of their bodies.

        For readers in another thread of a running program: everything comes in one row, so this thread takes the GIL from
        the program once and not for each record.
        """
        with self._reading() as db:
            (text,) = db.execute(_OUTLINES, (after, limit)).fetchone()
        return [Record(*row) for row in _OUTLINE.decode(text)]

    def transcripts(
        self, name: str, *, step: int | None = None, session: str | None = None, skipped: int = 0, limit: int = 100
    ) -> list[Record]:
        """Return transcripts of one harness, newest first: all, those of one step, or those of one session."""
        with self._reading() as db:
            of = {"harness": self._number(db, name), "step": step, "session": session, "limit": limit, "skipped": skipped}
            rows = db.execute(TRANSCRIPTS, of).fetchall()
        records = [Record(*row) for row in rows]
        return [evolve(one, body=reveal_body(self._cipher, one.kind, one.body)) for one in records]

    def effect_records(self, name: str, step: int) -> list[Record]:
        """Return the intents and outcomes of effects of one step, recorded or in progress, oldest first."""
        with self._reading() as db:
            rows = db.execute(EFFECTS_OF_STEP, {"harness": self._number(db, name), "step": step}).fetchall()
        records = [Record(*row) for row in rows]
        return [evolve(one, body=reveal_body(self._cipher, one.kind, one.body)) for one in records]

    def model_of(self, name: str) -> str:
        """Return the model that the model agents of a fork ask instead of their own; empty for their own."""
        with self._reading() as db:
            row = db.execute(MODEL_OF, (self._number(db, name),)).fetchone()
        return "" if row is None else row[0] or ""

    def whole(self, record: Record) -> Record:
        """Return a record decrypted, with its value from a file.

        Raises:
            StoreError: the file is missing or was changed, or the key is missing or wrong.
        """
        body = reveal_body(self._cipher, record.kind, record.body)
        file = stored_file(record.kind, body)
        return evolve(record, body=body if file is None else with_value(body, file, self.read_file(file)))

    def read_file(self, file: StoredFile) -> str:
        """Return the JSON of a value that is in a file beside the store."""
        return self._files.read(file)

    def _heads(self, db: sqlite3.Connection, names: Collection[str] | None = None) -> dict[int, int]:
        """Return the last step of some harnesses, or of all, by their numbers."""
        heads = {number: step or 0 for number, step in db.execute(*of_harnesses(HEADS, names))}
        heads.update(db.execute(*of_harnesses(_NEWER_HEADS, names)))
        return heads

    def _read_steps(
        self, db: sqlite3.Connection, queries: tuple[str, str], name: str, after: int, limit: int
    ) -> list[tuple[Any, ...]]:
        (indexed, newer), harness = queries, self._number(db, name)
        rows = db.execute(indexed, (harness, after, limit)).fetchall()
        if len(rows) < limit:
            rows += db.execute(newer, (harness, after, limit - len(rows))).fetchall()
        return rows

    def _number(self, db: sqlite3.Connection, name: str) -> int:
        row = db.execute("SELECT id FROM harnesses WHERE name = ?", (name,)).fetchone()
        if row is None:
            names = [known for (known,) in db.execute("SELECT name FROM harnesses ORDER BY id LIMIT 10")]
            known = one_of(names, "there is none yet; start one first")
            raise UnknownHarness(f"no harness {name!r} in {self.location}: {known}{near(name, names)}")
        return int(row[0])

    @contextmanager
    def _reading(self) -> Generator[Connection]:
        """Yield a connection, for exclusive use, inside a read transaction."""
        with self._borrow() as db:
            db.execute("BEGIN")
            with translated(self.location):
                db.hold_schema(self.path)
            yield db
            db.execute("COMMIT")

    @contextmanager
    def _borrow(self) -> Generator[Connection]:
        """Yield a connection for exclusive use."""
        try:
            db = self._idle.pop()
        except IndexError:
            db = open_reader(self.path)
        try:
            with translated(self.location):
                db.hold_schema(self.path)
                yield db
        except BaseException:
            db.close()
            raise
        if len(self._idle) < self._keep:
            self._idle.append(db)
        else:
            db.close()
