"""The store on SQLite: one file, WAL, `synchronous=FULL`, one writer.

A commit is one transaction: read one row to see whether any harness changed hands, append the steps with as few statements
as there are, append the rest, and every few thousand records bring the index up to date.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from harnesses.errors import OrchestratorError
from orchestrator.codec import decode, decode_step, encode, replay
from orchestrator.errors import OwnedElsewhere, OwnershipLost, StoreCorrupt, UnknownHarness
from orchestrator.events import Restarting
from orchestrator.lifecycle import Status, remembers_restarts
from orchestrator.records import StepRecord
from orchestrator.store.owner import RunLock, is_alive, pid_of
from orchestrator.store.protocol import (
    Append,
    Claim,
    Claimed,
    Committed,
    ConsumedRow,
    Message,
    Operation,
    Post,
    SnapshotRow,
    StepRow,
)
from orchestrator.store.schema import INDEX_EVERY, INDEX_TAIL
from orchestrator.store.sqlite_file import open_writer, translated
from orchestrator.store.sqlite_reader import SqliteReader

_ROWS_AT_ONCE = 512
_INSERT = "INSERT INTO records (harness, epoch, attempt, step, time_us, body) VALUES "
_INSERTS = {2**n: _INSERT + ", ".join(["(?, ?, ?, ?, ?, ?)"] * 2**n) for n in range(10)}
"""Statements for 1, 2, 4 … 512 rows. Many rows in one statement hold the interpreter once, not once a row."""


class SqliteStore(SqliteReader):
    """A store in one SQLite file, made if it is not there.

    Args:
        path: the file. Two more, `-wal` and `-shm`, lie beside it while it is open, and one lock file for each run.
        busy_s: how long to wait for another process that is writing.

    Raises:
        StoreUnusable: the file is not a store of ours, is newer than this program, or can not be written.
    """

    blocking = True

    def __init__(self, path: str | Path, *, busy_s: float = 10.0) -> None:
        super().__init__(path)
        self._busy_s = busy_s
        self._db = open_writer(self.path, busy_s)
        self._run_lock = RunLock(self.path)
        self._lock = threading.Lock()
        self._held: dict[int, int] = {}
        self._ownership = -1
        self._unindexed = INDEX_EVERY
        self._closed = False

    @property
    def run(self) -> str:
        """The name of this run: what owns the harnesses claimed through this object."""
        return self._run_lock.run

    def commit(
        self,
        steps: Sequence[StepRow],
        operations: Sequence[Operation] = (),
        *,
        snapshots: Sequence[SnapshotRow] = (),
        consumed: Sequence[ConsumedRow] = (),
        wait: bool = True,
    ) -> Committed:
        """Write all of it in one transaction; see `Store.commit`."""
        with self._lock, self._transaction(wait):
            held, ownership = dict(self._held) if operations else self._held, self._read_ownership()
            lost = self._lost() if ownership != self._ownership else frozenset[int]()
            seqs = self._append_steps(steps, lost)
            self._append_extras(snapshots, consumed, lost)
            if operations:
                ownership, results = self._append_operations(operations, held, lost, ownership)
            else:
                results = []
            self._unindexed += len(steps) + len(operations)
            if self._unindexed >= INDEX_EVERY:
                self._index()
        self._held = {harness: epoch for harness, epoch in held.items() if harness not in lost} if lost else held
        self._ownership = ownership
        return Committed(seqs, results, lost)

    def close(self) -> None:
        """Give back every harness, bring the index up to date and close the file."""
        if self._closed:
            return
        self._closed = True
        with self._lock:
            with suppress(sqlite3.Error, OrchestratorError), self._transaction(wait=True):
                self._db.executemany("UPDATE harnesses SET owner = NULL WHERE id = ? AND epoch = ?", list(self._held.items()))
                self._index()
            # The readers first: only the last connection to close folds the write-ahead log into the file.
            super().close()
            self._db.close()
        self._run_lock.release()

    @contextmanager
    def _transaction(self, wait: bool) -> Iterator[None]:
        with translated(self.location):
            if not wait:
                self._db.execute("PRAGMA busy_timeout = 0")
            try:
                self._db.execute("BEGIN IMMEDIATE")
            finally:
                if not wait:
                    self._db.execute(f"PRAGMA busy_timeout = {int(self._busy_s * 1000)}")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _read_ownership(self) -> int:
        row = self._db.execute("SELECT ownership FROM meta").fetchone()
        return int(row[0])

    def _lost(self) -> frozenset[int]:
        """Return which of our harnesses another run has taken over since the last look."""
        current = dict(self._db.execute("SELECT id, epoch FROM harnesses").fetchall())
        return frozenset(harness for harness, epoch in self._held.items() if current.get(harness) != epoch)

    def _append_steps(self, steps: Sequence[StepRow], lost: frozenset[int]) -> Sequence[int]:
        if not steps:
            return ()
        first = self._next_seq()
        if not lost:
            self._insert(steps)
            return range(first, first + len(steps))
        self._insert([row for row in steps if row.harness not in lost])
        seqs = iter(range(first, first + len(steps)))
        return [0 if row.harness in lost else next(seqs) for row in steps]

    def _insert(self, steps: Sequence[StepRow]) -> None:
        start, left = 0, len(steps)
        while left:
            count = min(_ROWS_AT_ONCE, 1 << (left.bit_length() - 1))
            rows = steps[start : start + count]
            self._db.execute(_INSERTS[count], tuple(chain.from_iterable(rows)))
            start, left = start + count, left - count

    def _append_extras(self, snapshots: Sequence[SnapshotRow], consumed: Sequence[ConsumedRow], lost: frozenset[int]) -> None:
        if snapshots:
            rows = [row for row in snapshots if row.harness not in lost]
            self._db.executemany("INSERT OR REPLACE INTO snapshots (harness, step, state) VALUES (?, ?, ?)", rows)
        for row in consumed:
            if row.harness not in lost:
                self._db.execute(
                    "UPDATE mailbox SET consumed_step = ? WHERE seq = ? AND harness = ?", (row.step, row.message, row.harness)
                )

    def _append_operations(
        self, operations: Sequence[Operation], held: dict[int, int], lost: frozenset[int], ownership: int
    ) -> tuple[int, list[Any]]:
        """Do each operation. One that is refused has an exception for a result and leaves the others alone."""
        results: list[Any] = []
        claims = 0
        if any(isinstance(operation, Claim) for operation in operations):
            self._index()
        for operation in operations:
            try:
                match operation:
                    case Claim():
                        claimed = self._claim(operation)
                        if claimed.status != Status.COMPLETED:
                            held[claimed.harness] = claimed.epoch
                        claims += 1
                        results.append(claimed)
                    case Append():
                        results.append(self._append(operation, held, lost))
                    case Post():
                        results.append(self._post(operation))
            except OrchestratorError as error:
                results.append(error)
        if claims:
            ownership += 1
            self._db.execute("UPDATE meta SET ownership = ?", (ownership,))
        return ownership, results

    def _claim(self, claim: Claim) -> Claimed:
        row = self._db.execute(
            "SELECT id, owner, epoch, status, attempt, supervision FROM harnesses WHERE name = ?", (claim.name,)
        ).fetchone()
        if row is None:
            return self._make(claim)
        harness, owner, epoch, status, attempt, supervision = row
        if status == Status.COMPLETED:
            return self._claimed(claim, harness, epoch, status, attempt, supervision)
        if owner is not None and not claim.take_over and (owner == self.run or is_alive(self.path, owner)):
            raise OwnedElsewhere(_owned(claim.name, pid_of(self.path, owner)))
        self._db.execute(
            "UPDATE harnesses SET owner = ?, epoch = ?, class = ? WHERE id = ?",
            (self.run, epoch + 1, claim.harness_class, harness),
        )
        self._db.execute("INSERT INTO claims (harness, epoch, run) VALUES (?, ?, ?)", (harness, epoch + 1, self.run))
        return self._claimed(claim, harness, epoch + 1, status, attempt, supervision)

    def _claimed(self, claim: Claim, harness: int, epoch: int, status: str, attempt: int, supervision: str) -> Claimed:
        step, state, recent, unsaved = self._load(harness, claim)
        return Claimed(
            harness=harness,
            epoch=epoch,
            status=Status(status),
            attempt=attempt,
            step=step,
            state=state,
            recent=recent,
            mailbox=self._waiting(harness),
            supervision=decode(supervision),
            unsaved_steps=unsaved,
        )

    def _make(self, claim: Claim) -> Claimed:
        cursor = self._db.execute(
            "INSERT INTO harnesses (name, class, owner, epoch, status, attempt, time_us) VALUES (?, ?, ?, 1, 'new', 0, 0)",
            (claim.name, claim.harness_class, self.run),
        )
        harness = cursor.lastrowid
        assert harness is not None
        self._db.execute("INSERT INTO claims (harness, epoch, run) VALUES (?, 1, ?)", (harness, self.run))
        self._db.execute("INSERT INTO snapshots (harness, step, state) VALUES (?, 0, ?)", (harness, claim.initial_state))
        return Claimed(harness, 1, Status.NEW, 0, 0, claim.initial_state, (), (), {}, 0)

    def _load(self, harness: int, claim: Claim) -> tuple[int, str, tuple[StepRecord, ...], int]:
        """Return the last step, the state after it, the recent steps, and how many steps the last snapshot is old."""
        head = self._db.execute("SELECT max(step) FROM step_index WHERE harness = ?", (harness,)).fetchone()[0] or 0
        saved, state = self._db.execute(
            "SELECT step, state FROM snapshots WHERE harness = ? ORDER BY step DESC LIMIT 1", (harness,)
        ).fetchone()
        first = min(saved, max(0, head - claim.recent_steps)) + 1
        rows = self._db.execute(
            "SELECT r.attempt, r.seq, r.step, r.time_us, r.body FROM step_index i JOIN records r ON r.seq = i.seq "
            "WHERE i.harness = ? AND i.step >= ? ORDER BY i.step",
            (harness, first),
        ).fetchall()
        if len(rows) != head - first + 1 or saved > head:
            raise StoreCorrupt(
                f"harness {claim.name!r} in {self.location}: expected its steps {first} to {head}, found {len(rows)} of them; "
                "restore the file from a copy"
            )
        recent = rows[-claim.recent_steps :] if claim.recent_steps else []
        state = replay(state, [row[4] for row in rows if row[2] > saved])
        return head, state, tuple(decode_step(claim.name, *row) for row in recent), head - saved

    def _waiting(self, harness: int) -> tuple[Message, ...]:
        rows = self._db.execute(
            "SELECT seq, sender, body FROM mailbox WHERE harness = ? AND consumed_step IS NULL ORDER BY seq", (harness,)
        )
        return tuple(Message(*row) for row in rows)

    def _append(self, append: Append, held: dict[int, int], lost: frozenset[int]) -> int:
        if append.harness in lost or held.get(append.harness) != append.epoch:
            raise OwnershipLost(f"harness number {append.harness} was taken over by another run; this one has stopped it")
        event, body = append.event, encode(append.event)
        seq = self._insert_record(append.harness, append.epoch, append.attempt, append.step, append.time_us, body, event.kind)
        self._db.execute(
            "UPDATE harnesses SET status = ?, attempt = ?, event = ?, time_us = ? WHERE id = ?",
            (append.status, append.attempt, body, append.time_us, append.harness),
        )
        if isinstance(event, Restarting) or not remembers_restarts(event):
            supervision = body if isinstance(event, Restarting) else "{}"
            self._db.execute("UPDATE harnesses SET supervision = ? WHERE id = ?", (supervision, append.harness))
        if append.release:
            self._db.execute("UPDATE harnesses SET owner = NULL WHERE id = ?", (append.harness,))
            del held[append.harness]
        return seq

    def _post(self, post: Post) -> int:
        row = self._db.execute("SELECT id FROM harnesses WHERE name = ?", (post.to,)).fetchone()
        if row is None:
            raise UnknownHarness(f"no harness {post.to!r} in {self.location}: start it first, or check the name")
        body = encode({"from": post.sender, "message": decode(post.body)})
        seq = self._insert_record(row[0], 0, 0, 0, post.time_us, body, "message")
        self._db.execute(
            "INSERT INTO mailbox (seq, harness, sender, body) VALUES (?, ?, ?, ?)", (seq, row[0], post.sender, post.body)
        )
        return seq

    def _insert_record(self, *values: object) -> int:
        cursor = self._db.execute(
            "INSERT INTO records (harness, epoch, attempt, step, time_us, body, kind) VALUES (?, ?, ?, ?, ?, ?, ?)", values
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _next_seq(self) -> int:
        return int(self._db.execute("SELECT max(seq) FROM records").fetchone()[0] or 0) + 1

    def _index(self) -> None:
        try:
            self._db.execute(INDEX_TAIL)
        except sqlite3.IntegrityError as error:
            raise StoreCorrupt(
                f"{self.location}: two steps of one harness have the same number; restore the file from a copy"
            ) from error
        self._db.execute("UPDATE meta SET indexed_seq = (SELECT coalesce(max(seq), 0) FROM records)")
        self._unindexed = 0


def _owned(name: str, pid: int | None) -> str:
    holder = f"process {pid}" if pid else "another process"
    return f"harness {name!r} is owned elsewhere: {holder} runs it; stop that one first, or start under another name"
