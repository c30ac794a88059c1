"""The store on PostgreSQL, for programs on several machines.

A commit of steps and effects alone is one round trip: a function of the server takes the lock, numbers the rows and inserts
them. Everything else is a transaction of several statements, sent without waiting wherever no answer is needed.

Each commit of a run has a number, and the server keeps the number of the last one in the same transaction. So whether a commit
whose answer was lost has happened is known at the next try, and it happens once.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import define, evolve, frozen

from harnesses.errors import OrchestratorError
from harnesses.files.safe_files import KEY_BYTES, key_in
from orchestrator.errors import StoreError, StoreUnusable, UsageError
from orchestrator.store.encryption import Plain, cipher_of, hidden_field, hidden_row, hide_body
from orchestrator.store.file.server_copy import copy_path
from orchestrator.store.integrity.seals import SEAL_EVERY_S
from orchestrator.store.postgres.postgres_address import Address, server_named, split_schema, with_schema
from orchestrator.store.postgres.postgres_connection import Database, is_connection_error, limited, translated
from orchestrator.store.postgres.postgres_lease import Lease
from orchestrator.store.postgres.postgres_news import PostgresNews
from orchestrator.store.postgres.postgres_operations import PostgresOperations, columns_of
from orchestrator.store.postgres.postgres_order_table import answer_order, take_orders
from orchestrator.store.postgres.postgres_reader import PostgresReader
from orchestrator.store.postgres.postgres_seals import SealingThread
from orchestrator.store.postgres.postgres_setup import prepare
from orchestrator.store.postgres.postgres_switch import PostgresKillSwitch, read_switches, refusal
from orchestrator.store.rules.holdings import Holdings
from orchestrator.store.rules.mail_rules import Step
from orchestrator.store.rules.signing_key import KEY_FILE, given_key
from orchestrator.store.run_orders import TakenOrder
from orchestrator.store.store_protocol import (
    EFFECT_KINDS,
    AwaitedIntent,
    Claim,
    Claimed,
    Committed,
    ConsumedRow,
    EffectRow,
    Operation,
    SentRow,
    StepRow,
)

LEASE_S = 10.0
_SHORTEST_S, _LONGEST_S = 0.2, 3600.0
_AGAIN_S = 0.05
_PREPARE_S = 20.0
"""Seconds that each statement may take when a store is opened: it creates the tables, perhaps while others do."""
_OF_ANY_TIME = (*EFFECT_KINDS, "output")
"""Kinds of rows that are written whether or not the step in progress is recorded."""

_COMMIT_ROWS = f"SELECT commit_rows({', '.join(['%s'] * 11)})"
_END_COMMIT = "UPDATE runs SET commits = %s, last_seq = %s WHERE run = %s"
_ENCRYPTED_STATE = "SELECT initial_state FROM harnesses WHERE starts_with(initial_state, 'encrypted:') LIMIT 1"
_ENCRYPTED_LATELY = """
SELECT kind, body FROM records
WHERE seq > (SELECT max(seq) FROM records) - 1000 AND strpos(body, 'encrypted:v1:') > 0 ORDER BY seq DESC LIMIT 1
"""
_RELEASE = "UPDATE harnesses SET owner = NULL WHERE owner = %s"


@frozen
class _Writes:
    """What one commit writes."""

    steps: Sequence[StepRow]
    operations: Sequence[Operation]
    effects: Sequence[EffectRow]
    consumed: Sequence[ConsumedRow]
    sent: Sequence[SentRow]

    @property
    def is_plain(self) -> bool:
        return not self.operations and not self.consumed and not self.sent

    def committed(self, last: int) -> Committed:
        """Return the result if every row was written, up to `last`."""
        middle = last - len(self.effects) + 1
        return Committed(range(middle - len(self.steps), middle), (), effects=range(middle, last + 1))


@define
class _Doubt:
    """What became of a commit whose answer has not arrived: known only if it was sent whole."""

    committed: Committed | None = None
    holdings: Holdings | None = None


class PostgresStore(PostgresReader):
    """A store on a PostgreSQL server. Its tables are created if they do not exist. Needs the extra `postgres`.

    Args:
        url: address of the database, `postgresql://user:password@host:port/database`. What it leaves out is taken from the
            environment variables and files of PostgreSQL's clients, such as `PGPASSWORD`.
        lease_s: seconds, 0.2 to 3600, after which the harnesses of a run that is gone can be claimed by another. It is renewed
            every quarter of that; a run that could not renew it for 0.8 of it stops.
        schema: the schema with the store's tables; default is what `?schema=` in the address says, or `orchestrator`. Two
            stores in one database have two schemas.
        encryption_key: encrypts states, and arguments and results of effects: 32 bytes, or a file with such a key as 64
            hexadecimal digits, the same on every machine; default is the file that the environment variable
            `ORCHESTRATOR_STORE_KEY_FILE` names. Needs the extra `encryption`.
        key: key that approvals are signed with: 32 bytes, or a file with it as 64 hexadecimal digits, the same on every
            machine; default is the file that the environment variable `ORCHESTRATOR_APPROVAL_KEY_FILE` names. Without it, no
            approval can be requested or given. It is never in the database.

    Raises:
        UsageError: psycopg is not installed, or an argument or the key is invalid.
        StoreUnusable: the server cannot be reached, or the schema is that of another release.
    """

    blocking = True

    def __init__(
        self,
        url: str,
        *,
        lease_s: float = LEASE_S,
        schema: str | None = None,
        key: bytes | str | Path | None = None,
        encryption_key: bytes | str | Path | None = None,
    ) -> None:
        if not _SHORTEST_S <= lease_s <= _LONGEST_S:
            raise UsageError(f"store: lease_s: expected {_SHORTEST_S} to {_LONGEST_S:g} seconds, was {lease_s!r:.100}")
        url, schema_of_url = split_schema(url)
        address = Address(url, schema_of_url if schema is None else schema, lease_s)
        super().__init__(evolve(address, cipher=cipher_of(encryption_key, address.location), run=secrets.token_hex(6)))
        self.lease_s = lease_s
        self._key = _read_key(key)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._db: Database | None = None
        """The connection for commits, made by the first."""
        self._news = PostgresNews(self._address)
        folder = self.place.parent if self.place is not None else None
        with limited(self._address, _PREPARE_S) as db:
            prepare(db, self._address)
            _check_key(db)
            switches = read_switches(db)
            self.sealing = SealingThread(self._address, db, folder, SEAL_EVERY_S)
            """Seals the store, or waits for its turn."""
        # Last, since its threads renew it from then on.
        try:
            self._lease = Lease(self._address, self._cut, switches)
        except BaseException:
            self.sealing.stop(is_over=True)
            raise
        self.sealing.start()
        self.run = self._lease.run
        """Name of this run, which owns the harnesses claimed through this object."""
        self._holdings = Holdings()
        self._switches: Mapping[str, str] = {}
        """The kill switches that were on in the last commit that read them."""
        self._names: dict[int, str] = {}
        """Names of the claimed harnesses, by their numbers."""
        self._spenders: set[int] = set()
        self._commits = 0
        self._closed = False

    @property
    def kill_switch(self) -> PostgresKillSwitch:
        """The kill switch of the store. Checking it asks nobody: what counts is the commit of an intent."""
        return PostgresKillSwitch(self._address, self._lease)

    @property
    def place(self) -> Path | None:
        """Path of the local copy: beside it is what this machine keeps for the store. None if it has no folder for it."""
        try:
            return copy_path(server_named(with_schema(self._address.url, self.schema)))
        except StoreUnusable:
            return None

    @property
    def secret(self) -> bytes | None:
        """Signing key of approvals; None if none was given."""
        return self._key

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
        """Write all of it in one transaction; see `Store.commit`. While the server cannot be reached, it tries again."""
        if os.getpid() != self._pid:
            raise StoreUnusable(
                f"{self.location} was opened by process {self._pid}, and this is process {os.getpid()}, forked from it: "
                "expected a commit by the process that has the store open; return the results to it"
            )
        cipher = self._address.cipher
        if not isinstance(cipher, Plain):
            steps = [hidden_row(cipher, row) for row in steps]
            effects = [row._replace(body=hide_body(cipher, row.kind, row.body)) for row in effects]
        writes = _Writes(list(steps), list(operations), list(effects), list(consumed), list(sent))
        with self._lock, translated(self.location):
            if self._closed:
                raise StoreUnusable(f"{self.location} was closed: expected a commit before that; open it again")
            doubt = _Doubt()
            while True:
                self._lease.check()
                try:
                    committed = self._try(writes, doubt)
                except Exception as error:
                    self._db = self._without(self._db)
                    # On a connection that still works, the error is the statement's own.
                    if self._db is not None or not is_connection_error(error):
                        raise
                else:
                    self._lease.check()  # suspended meanwhile, another run may have gone on from here
                    return committed
                time.sleep(_AGAIN_S)

    def wait_news(self, seconds: float) -> None:
        """Wait until others may have written something for this run, at most `seconds`. One thread at a time may wait."""
        db = self._db
        self._news.wait(seconds, None if db is None else db.server_process)

    def wake(self) -> None:
        """End a wait for news."""
        self._news.wake()

    def take_orders(self, startable: Collection[str] = ()) -> list[TakenOrder]:
        """Take the orders that are for this run; return all that it has taken and not answered. Blocks.

        Args:
            startable: harnesses that belong to no living run, which this one may start.
        """
        return self.read(lambda db: take_orders(db, self.run, startable))

    def answer_order(self, id: str, status: int, text: str) -> None:
        """Write the answer to an order. Blocks, and waits for a server that is away until the lease ends."""
        self.read(lambda db: answer_order(db, id, status, text))

    def check_in_place(self) -> None:
        """Raise if this run is over.

        Raises:
            StoreUnusable: its lease could not be renewed in time.
        """
        self._lease.check()

    def close(self) -> None:
        """Release every harness, and close the connections. Does nothing in a forked process."""
        if self._closed or os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
            with suppress(Exception):
                if self._lease.left_s > 0:
                    db = self._writer()
                    with db.transaction():
                        db.execute(_RELEASE, (self.run,))
                        db.execute("DELETE FROM leases WHERE run = %s", (self.run,))
            self.sealing.stop(is_over=self._lease.left_s <= 0)
            self._lease.stop()
            if self._db is not None:
                with suppress(Exception):
                    self._db.close()
            self._news.close()
            self.close_readers()

    def _patience_s(self) -> float:
        return 0.0 if self._closed else self._lease.left_s

    def _keeps_connections(self) -> bool:
        return not self._closed

    def _cut(self) -> None:
        """Wake whatever waits for the server, since the run is over."""
        if (db := self._db) is not None:
            db.cut()
        self.cut_readers()

    def _writer(self) -> Database:
        if self._db is None:
            self._db = Database(self._address, self._lease.left_s)
        return self._db

    @staticmethod
    def _without(db: Database | None) -> Database | None:
        """Return the connection if it can still be used; otherwise close it."""
        if db is None or not db.is_lost:
            return db
        with suppress(Exception):
            db.close()
        return None

    def _try(self, writes: _Writes, doubt: _Doubt) -> Committed:
        db, number = self._writer(), self._commits + 1
        if doubt.committed is None and writes.is_plain and (advanced := self._advance(writes)) is not None:
            values = (self.run, number, self._holdings.ownership, *columns_of(writes.steps, writes.effects))
            (last,) = db.row(_COMMIT_ROWS, values)
            if last:
                self._commits = number
                self._holdings.heads.update(advanced)
                return writes.committed(last)
        with db.transaction():
            ownership, commits, last, newest = db.row("SELECT * FROM begin_commit(%s)", (self.run,))
            if commits == number - 1:
                with db.pipeline():
                    doubt.committed, doubt.holdings = None, None
                    committed, holdings = self._write(db, writes, ownership, newest)
                doubt.committed, doubt.holdings = committed, holdings
        if commits == number and doubt.committed is None and writes.is_plain:
            doubt.committed = writes.committed(last)
        if commits not in (number - 1, number) or doubt.committed is None:
            raise StoreError(f"{self.location}: run {self.run} is not recorded with {number - 1} commits; restore from a copy")
        self._commits = number
        if doubt.holdings is not None:
            self._holdings = doubt.holdings
        return doubt.committed

    def _advance(self, writes: _Writes) -> dict[int, int] | None:
        """Return the last steps after a commit in which every row is written; None if it may not be, or there is no row."""
        heads, epochs = self._holdings.heads, self._holdings.epochs
        if self._switches and any(isinstance(effect, AwaitedIntent) for effect in writes.effects):
            return None
        advanced: dict[int, int] = {}
        for row in writes.steps:
            harness, step = row[0], row[3]
            if advanced.get(harness, heads.get(harness)) != step - 1 or epochs.get(harness) != row[1]:
                return None
            advanced[harness] = step
        for effect in writes.effects:
            if not self._holdings.has_effect(effect, heads, advanced):
                return None
        return advanced if writes.steps or writes.effects else None

    def _write(self, db: Database, writes: _Writes, ownership: int, newest: int) -> tuple[Committed, Holdings]:
        """Write everything within a transaction, and return the result, and what the run owns after it."""
        holdings = self._holdings.copy()
        if ownership != holdings.ownership:
            self._find_lost(db, holdings)
            self._switches = self._lease.kill_switches = read_switches(db)
            holdings.ownership = ownership
        operations = PostgresOperations(db, self.location, self.run, holdings=holdings, newest=newest, spenders=self._spenders)
        rows: list[StepRow | EffectRow] = [*writes.steps, *writes.effects]
        lost = frozenset(row.harness for row in rows if holdings.epochs.get(row.harness) != row.epoch)
        mail = operations.mail
        refused = mail.refused(writes.steps, writes.consumed, writes.sent, holdings.epochs) if writes.sent else {}
        latched = self._latched(writes.effects) if self._switches else {}
        taken = [_take_step(row, holdings, refused) for row in writes.steps]
        noted = [
            self._is_accepted(row, holdings, refused) and not (isinstance(row, AwaitedIntent) and row.harness in latched)
            for row in writes.effects
        ]
        steps = [row for row, is_next in zip(writes.steps, taken, strict=True) if is_next]
        effects = [row for row, is_ours in zip(writes.effects, noted, strict=True) if is_ours]
        seqs = iter(operations.append_rows(steps, effects))
        step_seqs = [next(seqs) if is_next else 0 for is_next in taken]
        effect_seqs = [next(seqs) if is_ours else 0 for is_ours in noted]
        written = {(row.harness, row.step) for row in steps}
        mail.consume([row for row in writes.consumed if (row.harness, row.step) in written])
        sent = mail.send(writes.sent, written)
        results = operations.do_all(writes.operations)
        operations.tell_news()
        claims = zip(writes.operations, results, strict=True)
        self._names |= {made.harness: one.name for one, made in claims if isinstance(one, Claim) and isinstance(made, Claimed)}
        if holdings.ownership != ownership:
            db.execute("UPDATE meta SET ownership = %s", (holdings.ownership,))
        db.execute(_END_COMMIT, (self._commits + 1, operations.newest, self.run))
        why = {**latched, **{harness: error for (harness, _), error in refused.items()}}
        return Committed(step_seqs, results, lost, effect_seqs, mail.before, sent, why), holdings

    def _latched(self, effects: Sequence[EffectRow]) -> dict[int, OrchestratorError]:
        """Return the harnesses whose effects may not begin, of those that would begin one, each with its error."""
        asked = {row.harness for row in effects if isinstance(row, AwaitedIntent)}
        found = {harness: refusal(self._switches, self._names.get(harness, "")) for harness in asked}
        return {harness: error for harness, error in found.items() if error is not None}

    def _is_accepted(self, row: EffectRow, holdings: Holdings, refused: Collection[Step]) -> bool:
        """Return whether a row belongs to a step of this commit or to the one after it, of an owned harness."""
        is_ours = holdings.has_effect(row, self._holdings.heads, holdings.heads)
        return is_ours and not (row.kind not in _OF_ANY_TIME and (row.harness, row.step) in refused)

    def _find_lost(self, db: Database, holdings: Holdings) -> None:
        """Forget the harnesses that another run has taken over since the last check."""
        current = dict(db.rows("SELECT id, epoch FROM harnesses WHERE owner = %s", (self.run,)))
        holdings.epochs = {harness: epoch for harness, epoch in holdings.epochs.items() if current.get(harness) == epoch}


def _take_step(row: StepRow, holdings: Holdings, refused: Collection[Step]) -> bool:
    """Return whether a step is the next one of an owned harness; if so, it becomes the last one."""
    held = holdings.epochs.get(row.harness) == row.epoch and (row.harness, row.step) not in refused
    if not held or holdings.heads.get(row.harness) != row.step - 1:
        return False
    holdings.heads[row.harness] = row.step
    return True


def _check_key(db: Database) -> None:
    """Raise `StoreUnusable` for an encrypted store without its key, before anything is written to it."""
    states = [("state", text) for (text,) in db.rows(_ENCRYPTED_STATE)]
    lately = (hidden_field(*row) for row in db.rows(_ENCRYPTED_LATELY))
    found = next(filter(None, (*states, *lately)), None)
    if found is not None:
        db.cipher.reveal(*found)


def _read_key(key: bytes | str | Path | None) -> bytes | None:
    """Return the signing key.

    Raises:
        UsageError: it is not one, or its file cannot be read.
    """
    if isinstance(key, bytes):
        if len(key) != KEY_BYTES:
            raise UsageError(f"store: key: expected {KEY_BYTES} bytes, was {len(key)}")
        return key
    if key is None:
        return given_key()
    try:
        return key_in(Path(key).read_text("ascii"))
    except (OSError, ValueError) as error:
        raise UsageError(f"the key file {key} cannot be read: {error}; see {KEY_FILE}") from error
