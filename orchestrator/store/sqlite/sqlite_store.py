"""The store on SQLite: one file, WAL, `synchronous=FULL`, one writer.

Most commits are steps only. Such a batch is one `INSERT` outside of any transaction: SQLite makes it a transaction with one
`fsync`, and the interpreter is released once for all of it. The same holds for a batch of intents and outcomes of effects;
both together, or more than 512 rows, are a transaction of several such statements. The statement itself checks whether a
harness has changed owner since the last check, and then inserts nothing. Everything else is done in a transaction of several
statements, which ends with a seal over the new records (`integrity.seals`).
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from attrs import evolve

from harnesses.errors import OrchestratorError
from harnesses.processes.fork_safety import keep_for_ever
from orchestrator.errors import StoreCorrupt, StoreUnusable, UsageError
from orchestrator.store.encryption import Plain, hidden_field, hidden_row, hide_body
from orchestrator.store.file.open_files import Presence
from orchestrator.store.file.run_lock import RunLock
from orchestrator.store.file.schema import INDEX_EVERY, INDEX_NEW
from orchestrator.store.file.server_copy import server_of
from orchestrator.store.file.value_files import Staged
from orchestrator.store.integrity.seals import SEAL_EVERY_S, UNSEALED_KINDS, Sealer
from orchestrator.store.rules.holdings import Holdings
from orchestrator.store.rules.mail_rules import Step
from orchestrator.store.sqlite.sqlite_file import open_writer, translated
from orchestrator.store.sqlite.sqlite_operations import Operations
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_protocol import Claim, Committed, ConsumedRow, EffectRow, Fork, Operation, SentRow, StepRow

_COLUMNS = 7
_MOST_ROWS = 512


def _insert(rows: int, last_column: str) -> str:
    values = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * rows)
    return (
        f"INSERT INTO records (harness, epoch, attempt, step, time_us, body, {last_column}) "
        f"SELECT * FROM (VALUES {values}) WHERE column1 IS NOT NULL AND (SELECT ownership FROM meta) = ? "
        "AND (SELECT schema_version FROM pragma_schema_version) = ?"
    )


_INSERT_STEPS = {2**n: _insert(2**n, "state") for n in range(10)}
_INSERT_EFFECTS = {2**n: _insert(2**n, "kind") for n in range(10)}
"""Statements for 1, 2, 4 … 512 rows; a batch of another size is padded with NULL rows, which are not inserted.

Nothing is inserted, and so no trigger fires, if the schema is not the one that was checked.
"""


_ENCRYPTED_STATE = "SELECT initial_state FROM harnesses WHERE initial_state GLOB 'encrypted:*' LIMIT 1"
_ENCRYPTED_LATELY = """
SELECT kind, body FROM records
WHERE seq > (SELECT max(seq) FROM records) - 1000 AND instr(body, 'encrypted:v1:') ORDER BY seq DESC
"""
"""Finds encrypted fields in recent records, since in harnesses older than the key the initial state is not encrypted."""


class _Moved(Exception):
    """A harness has changed owner since the last check: the transaction must be rolled back."""


class SqliteStore(SqliteReader):
    """A store in one SQLite file, created if it does not exist.

    Args:
        path: the file. While it is open, two more, `-wal` and `-shm`, are beside it, and one lock file for each run; always
            its head, `-head`, and a folder with its large values, `-files`, once there is one.
        busy_s: seconds to wait for another process that is writing.
        key: encrypts states, and arguments and results of effects: 32 bytes, or a file with such a key as 64 hexadecimal
            digits; default is the file that the environment variable `ORCHESTRATOR_STORE_KEY_FILE` names. Records from before
            there was a key stay unencrypted. Needs the extra `encryption`.
        seal_every_s: seconds after a seal from which on the next commit is sealed, whatever is in it; 0 seals each.

    Raises:
        StoreUnusable: the file is not a store of this program, is newer than it, cannot be written, or is encrypted with
            another key.
        StoreCorrupt: sealed records are missing.
    """

    blocking = True

    def __init__(
        self,
        path: str | Path,
        *,
        key: bytes | str | Path | None = None,
        busy_s: float = 10.0,
        seal_every_s: float = SEAL_EVERY_S,
    ) -> None:
        super().__init__(path, key=key)
        if (server := server_of(self.path)) is not None:
            raise UsageError(
                f"{path} is the local copy of a store on a server, for reading: expected {server.address}; give that address"
            )
        self._busy_s = busy_s
        self._db = open_writer(self.path, busy_s)
        self._check_key()
        self._seals = self._take_up_seals(seal_every_s)
        self._presence = Presence(self.path)
        self._pid = os.getpid()
        self._run_lock = RunLock(self.path)
        self.run = self._run_lock.run
        """Name of this run, which owns the harnesses claimed through this object."""
        self._operations = Operations(self._db, self.path, self.location, self.run, self._cipher)
        self._lock = threading.Lock()
        self._holdings = Holdings()
        self._unindexed = INDEX_EVERY
        self._closed = False

    def commit(
        self,
        steps: Sequence[StepRow],
        operations: Sequence[Operation] = (),
        *,
        effects: Sequence[EffectRow] = (),
        consumed: Sequence[ConsumedRow] = (),
        sent: Sequence[SentRow] = (),
        wait: bool = True,
    ) -> Committed:
        """Write all of it in one transaction; see `Store.commit`."""
        if os.getpid() != self._pid:
            raise StoreUnusable(self._describe_fork())
        files: dict[int, tuple[str, Staged]] = {}
        of_forks: list[Staged] = []
        if effects:
            files = {at: found for at, row in enumerate(effects) if (found := self._files.stage(row.kind, row.body))}
        if files:
            effects = [row._replace(body=files[at][0]) if at in files else row for at, row in enumerate(effects)]
        if operations:
            operations = [self._staged_fork(one, of_forks) if isinstance(one, Fork) else one for one in operations]
        if not isinstance(self._cipher, Plain):
            steps = [hidden_row(self._cipher, row) for row in steps]
            effects = [row._replace(body=hide_body(self._cipher, row.kind, row.body)) for row in effects]
        with self._lock:
            plain = not operations and not consumed and not sent and len(steps) + len(effects) <= INDEX_EVERY
            plain = plain and not files and not self._seals.is_due and UNSEALED_KINDS.issuperset([row[6] for row in effects])
            if plain and self._unindexed < INDEX_EVERY:
                committed = self._commit_rows(steps, effects, wait=wait)
                if committed is not None:
                    return committed
            with self._transaction(wait):
                self._seals.begin()
                self._operations.mail.before = {}
                holdings = self._operations.holdings = self._holdings.copy()
                self._find_lost(holdings)
                rows: list[StepRow | EffectRow] = [*steps, *effects]
                lost = frozenset(row.harness for row in rows if holdings.epochs.get(row.harness) != row.epoch)
                refused = self._operations.mail.refused(steps, consumed, sent, holdings.epochs) if sent else {}
                seqs = self._append_steps(steps, holdings, refused)
                noted = self._accept(effects, holdings, refused)
                staged = [*of_forks, *(found[1] for at, found in files.items() if noted[at])]
                if staged:
                    self._files.write(staged)
                effect_seqs = self._append_effects(effects, noted, holdings)
                written = {(row.harness, row.step) for row, seq in zip(steps, seqs, strict=True) if seq}
                self._operations.mail.consume([row for row in consumed if (row.harness, row.step) in written])
                sent_seqs = self._operations.mail.send(sent, written)
                results = self._do(operations, holdings)
                self._index_if_due(len(rows) + len(operations) + len(sent))
                self._seals.seal()
            self._files.settle(staged)
            self._seals.publish()
            self._holdings = holdings
            stored = {at: effects[at].body for at in files}
            why = {harness: error for (harness, _), error in refused.items()}
            return Committed(seqs, results, lost, effect_seqs, self._operations.mail.before, sent_seqs, why, stored)

    def _staged_fork(self, fork: Fork, staged: list[Staged]) -> Fork:
        """Return a fork with the records beside its steps as they are stored; add their large values to `staged`."""
        rows: list[EffectRow] = []
        for row in fork.beside:
            found = self._files.stage(row.kind, row.body)
            body = row.body if found is None else found[0]
            if found is not None:
                staged.append(found[1])
            rows.append(row._replace(body=hide_body(self._cipher, row.kind, body)))
        return evolve(fork, beside=rows) if rows else fork

    def take_in(self, tables: Mapping[str, tuple[str, Iterable[tuple[Any, ...]]]]) -> None:
        """Write the rows of another store into this one, which is empty, in one transaction that is sealed.

        Args:
            tables: columns, and rows, of each table by its name.
        """
        with self._lock, self._transaction(wait=True):
            self._seals.begin()
            for table, (columns, rows) in tables.items():
                names = [name.split()[-1] for name in columns.split(", ")]
                places = ", ".join("?" * len(names))
                self._db.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})", rows)
            self._index()
            self._seals.seal()
        self._seals.publish()

    def check_in_place(self) -> None:
        """Raise if the file is no longer the one at its path.

        Raises:
            StoreUnusable: it was deleted, moved or replaced.
        """
        self._presence.check()

    def close(self) -> None:
        """Release every harness, update the index and close the file. Does nothing in a forked process."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        try:
            self.check_in_place()
        except StoreUnusable:
            # Closing the file would delete, by name, the write-ahead log of the file that is there now.
            keep_for_ever(self._db)
            self._seals.close()
            super().close()
        else:
            self._close_files()
        self._run_lock.release()

    def _close_files(self) -> None:
        with self._lock:
            with suppress(sqlite3.Error, OrchestratorError, OSError):
                with self._transaction(wait=True):
                    self._seals.begin()
                    held = list(self._holdings.epochs.items())
                    self._db.executemany("UPDATE harnesses SET owner = NULL WHERE id = ? AND epoch = ?", held)
                    self._index()
                    self._seals.seal()
                # Only of committed seals: a head that names a seal which was never committed would make the store unusable.
                self._seals.publish()
            self._seals.close()
            # The readers first: only the last connection to close folds the write-ahead log into the file.
            super().close()
            self._db.close()

    def _describe_fork(self) -> str:
        return (
            f"{self.location} was opened by process {self._pid}, and this is process {os.getpid()}, forked from it: expected "
            "a commit by the process that has the store open; return the results to it"
        )

    def _check_key(self) -> None:
        """Raise for an encrypted store without its key, before anything is written to it."""
        try:
            with translated(self.location):
                states = [("state", text) for (text,) in self._db.execute(_ENCRYPTED_STATE)]
                lately = (hidden_field(*row) for row in self._db.execute(_ENCRYPTED_LATELY))
                found = next(filter(None, (*states, *lately)), None)
            if found is not None:
                self._cipher.reveal(*found)
        except BaseException:
            self._db.close()
            raise

    def _take_up_seals(self, every_s: float) -> Sealer:
        """Seal what a killed program left, and return the sealer for further commits."""
        try:
            with translated(self.location):
                seals = Sealer(self._db, self.path, every_s)
            try:
                with self._transaction(wait=True):
                    seals.take_up()
                    if self._files.has_leftovers():
                        self._files.sweep(self._db)
                seals.publish()
            except BaseException:
                seals.close()
                raise
        except BaseException:
            self._db.close()
            raise
        return seals

    def _commit_rows(self, steps: Sequence[StepRow], effects: Sequence[EffectRow], *, wait: bool) -> Committed | None:
        """Insert rows with one statement for each kind; return None, with nothing done, if that is not possible."""
        heads, epochs = self._holdings.heads, self._holdings.epochs
        advanced: dict[int, int] = {}
        for row in steps:
            harness, step = row[0], row[3]
            if advanced.get(harness, heads.get(harness)) != step - 1 or epochs.get(harness) != row[1]:
                return None
            advanced[harness] = step
        for effect in effects:
            if not self._holdings.has_effect(effect, heads, advanced):
                return None
        if (steps and effects) or len(steps) > _MOST_ROWS or len(effects) > _MOST_ROWS:
            last = self._insert_all(steps, effects, wait=wait)
        else:
            last = self._insert_alone(steps, effects)
        if last is None:
            return None
        heads.update(advanced)
        self._unindexed += len(steps) + len(effects)
        middle = last - len(effects) + 1
        return Committed(range(middle - len(steps), middle), (), effects=range(middle, last + 1))

    def _insert_alone(self, steps: Sequence[StepRow], effects: Sequence[EffectRow]) -> int | None:
        """Insert rows of one kind with a single-statement transaction; return as `_insert` does."""
        statements: tuple[Any, Any] = (_INSERT_STEPS, steps) if steps else (_INSERT_EFFECTS, effects)
        try:
            return self._insert(*statements, self._holdings.ownership)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                return None
            with translated(self.location):
                raise

    def _insert_all(self, steps: Sequence[StepRow], effects: Sequence[EffectRow], *, wait: bool) -> int | None:
        """Insert rows of both kinds, or many, in one transaction; return the `seq` of the last, None if none was inserted."""
        last = None
        with suppress(_Moved), self._transaction(wait):
            kinds: tuple[tuple[Any, Any], ...] = ((_INSERT_STEPS, steps), (_INSERT_EFFECTS, effects))
            for statements, rows in kinds:
                for start in range(0, len(rows), _MOST_ROWS):
                    last = self._insert(statements, rows[start : start + _MOST_ROWS], self._holdings.ownership)
                    if last is None:
                        raise _Moved
            return last
        return None

    def _insert(self, statements: dict[int, str], rows: Sequence[StepRow | EffectRow], ownership: int) -> int | None:
        """Insert up to 512 rows; return the `seq` of the last; None, and none inserted, if ownership or schema changed."""
        size = 1 << (len(rows) - 1).bit_length()
        values = [*chain.from_iterable(rows), *[None] * ((size - len(rows)) * _COLUMNS), ownership, self._db.held]
        cursor = self._db.execute(statements[size], values)
        return cursor.lastrowid if cursor.rowcount == len(rows) else None

    @contextmanager
    def _transaction(self, wait: bool) -> Generator[None]:
        with translated(self.location):
            self._begin(wait)
            try:
                self._db.hold_schema(self.path)
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _begin(self, wait: bool) -> None:
        """Take the write lock. The connection itself never waits, so that a commit in the loop's thread does not block."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not wait or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            self._db.execute(f"PRAGMA busy_timeout = {int(self._busy_s * 1000)}")
            try:
                self._db.execute("BEGIN IMMEDIATE")
            finally:
                self._db.execute("PRAGMA busy_timeout = 0")

    def _find_lost(self, holdings: Holdings) -> None:
        """Forget the harnesses that another run has taken over since the last check."""
        (ownership,) = self._db.execute("SELECT ownership FROM meta").fetchone()
        if ownership == holdings.ownership:
            return
        holdings.ownership = ownership
        current = dict(self._db.execute("SELECT id, epoch FROM harnesses").fetchall())
        kept = {harness: epoch for harness, epoch in holdings.epochs.items() if current.get(harness) == epoch}
        holdings.epochs = kept

    def _append_steps(self, steps: Sequence[StepRow], holdings: Holdings, refused: Collection[Step]) -> Sequence[int]:
        """Insert the steps that are the next ones of owned harnesses; return their `seq`s, 0 for each other one."""
        seqs: list[int] = []
        accepted: list[StepRow] = []
        (newest,) = self._db.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()
        for row in steps:
            held = holdings.epochs.get(row.harness) == row.epoch and (row.harness, row.step) not in refused
            if held and holdings.heads.get(row.harness) == row.step - 1:
                holdings.heads[row.harness] = row.step
                accepted.append(row)
                seqs.append(newest + len(accepted))
            else:
                seqs.append(0)
        for start in range(0, len(accepted), _MOST_ROWS):
            self._insert(_INSERT_STEPS, accepted[start : start + _MOST_ROWS], holdings.ownership)
        return seqs

    def _accept(self, effects: Sequence[EffectRow], holdings: Holdings, refused: Collection[Step]) -> list[bool]:
        """Return for each row whether it belongs to a step of this commit or to the one after it, of an owned harness."""
        before = self._holdings.heads
        return [
            holdings.has_effect(row, before, holdings.heads)
            and not (refused and row.kind not in UNSEALED_KINDS and (row.harness, row.step) in refused)
            for row in effects
        ]

    def _append_effects(self, effects: Sequence[EffectRow], accepted: list[bool], holdings: Holdings) -> Sequence[int]:
        """Insert the accepted rows; return their `seq`s, 0 for each other one."""
        rows = [row for row, is_ours in zip(effects, accepted, strict=True) if is_ours]
        last = 0
        for start in range(0, len(rows), _MOST_ROWS):
            last = self._insert(_INSERT_EFFECTS, rows[start : start + _MOST_ROWS], holdings.ownership) or 0
        seqs = iter(range(last - len(rows) + 1, last + 1))
        return [next(seqs) if is_ours else 0 for is_ours in accepted]

    def _do(self, operations: Sequence[Operation], holdings: Holdings) -> list[Any]:
        if any(isinstance(operation, Claim | Fork) for operation in operations):
            # A claim reads the last step from the index alone; otherwise a thousand claims would each read the tail.
            self._index()
        before = holdings.ownership
        results = [self._operations.do(operation) for operation in operations]
        if holdings.ownership != before:
            self._db.execute("UPDATE meta SET ownership = ?", (holdings.ownership,))
        if any(isinstance(operation, Fork) for operation in operations):
            # It has written as many records as its origin has.
            self._index()
        return results

    def _index_if_due(self, records: int) -> None:
        self._unindexed += records
        if self._unindexed >= INDEX_EVERY:
            self._index()

    def _index(self) -> None:
        try:
            for statement in INDEX_NEW:
                self._db.execute(statement)
        except sqlite3.IntegrityError as error:
            raise StoreCorrupt(
                f"{self.location}: two steps of one harness have the same number; restore the file from a copy"
            ) from error
        (newest,) = self._db.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()
        self._db.execute("UPDATE meta SET indexed_seq = ? WHERE indexed_seq <> ?", (newest, newest))
        self._unindexed = 0
