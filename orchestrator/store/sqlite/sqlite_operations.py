"""The operations of a SQLite store other than appending steps: claims, events, messages. Each runs within a commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from harnesses.data.large_values import stored_file
from harnesses.errors import OrchestratorError
from orchestrator.codec import decode, encode, kept_of
from orchestrator.errors import OwnedElsewhere, OwnershipLost, StoreCorrupt, UsageError
from orchestrator.events import Restarting, Started
from orchestrator.lifecycle import Status, remembers_restarts
from orchestrator.records import LIMITS_SET
from orchestrator.store.encryption import FieldCipher, hide_body, reveal_body
from orchestrator.store.file.run_lock import is_alive, pid_of
from orchestrator.store.file.schema import HEAD, IS_EVENT, MARKS, MODEL_OF
from orchestrator.store.file.value_files import files_folder, what_is_wrong
from orchestrator.store.rules.approval_rules import ApprovalRules
from orchestrator.store.rules.budget_rules import BudgetRules
from orchestrator.store.rules.claim_rules import check_going_on
from orchestrator.store.rules.effect_rules import settling, unknown_harness
from orchestrator.store.rules.fork_rules import Origin, check_fork, check_room, make_fork, origin_in
from orchestrator.store.rules.holdings import Holdings
from orchestrator.store.rules.mail_rules import MailRules
from orchestrator.store.rules.state_rules import add_version, check_migrate, goes_on_with, migration_body, versions_until
from orchestrator.store.sqlite.sqlite_rows import SqliteApprovalRows, SqliteBudgetRows, SqliteMailRows, read_children
from orchestrator.store.sqlite.sqlite_states import find_state
from orchestrator.store.store_operations import Reserve
from orchestrator.store.store_protocol import (
    HELD,
    Append,
    Claim,
    Claimed,
    Fork,
    Migrate,
    Operation,
    Post,
    Remark,
    Settle,
    VersionRow,
)

_TIME_LIMITS = f"SELECT body FROM records WHERE {IS_EVENT} AND harness = ? AND kind = '{LIMITS_SET}' ORDER BY seq DESC LIMIT 1"
_SAVED = "SELECT max(step) FROM snapshots WHERE harness = ? AND step <= ?"


class Operations:
    """Carries out operations on an open connection, for one run."""

    def __init__(self, db: sqlite3.Connection, path: Path, location: str, run: str, cipher: FieldCipher) -> None:
        self._db = db
        self._cipher = cipher
        self._path = path
        self._location = location
        self._run = run
        self._budget_rules = BudgetRules(SqliteBudgetRows(db, run, partial(is_alive, path)), self._insert_record)
        self._approval_rules = ApprovalRules(SqliteApprovalRows(db, cipher), self._insert_record)
        self.mail = MailRules(SqliteMailRows(db, location), self._insert_record)
        self._spenders: set[int] = set()
        """Harnesses that may have open reservations; others need no query at the end of their attempts."""
        self.holdings = Holdings()
        """What the run owns, as of the commit in progress."""
        self._by_type: dict[type[Any], Callable[[Any], Any]] = {
            Claim: self._claim,
            Append: self._append,
            Migrate: self._migrate,
            Post: self.mail.put,
            Settle: self._settle,
            Remark: self._remark,
            Fork: self._fork,
            **self._budget_rules.operations,
            **self._approval_rules.operations,
        }

    def do(self, operation: Operation) -> Any:
        """Return the result of one operation; the result of a refused one is an exception."""
        try:
            if isinstance(operation, HELD):
                self._check_held(operation.harness, operation.epoch)
            if isinstance(operation, Reserve):
                self._spenders.add(operation.harness)
            return self._by_type[type(operation)](operation)
        except OrchestratorError as error:
            return error

    def _claim(self, claim: Claim) -> Claimed:
        row = self._db.execute(
            "SELECT id, owner, epoch, status, attempt, event, supervision FROM harnesses WHERE name = ?", (claim.name,)
        ).fetchone()
        if row is None:
            return self._make(claim)
        harness, owner, epoch, status = row[:4]
        check_going_on(claim, Status(status), decode(row[5]))
        if status == Status.COMPLETED and not claim.reopen:
            return self._to_claimed(claim.name, epoch, row)
        if not claim.take_over:
            self._check_unowned(claim.name, owner)
        claimed = self._to_claimed(claim.name, epoch + 1, row)
        self._db.execute(
            "UPDATE harnesses SET owner = ?, epoch = ?, class = ?, mailbox_limit = ? WHERE id = ?",
            (self._run, epoch + 1, claim.harness_class, claim.mailbox_limit, harness),
        )
        self._spenders.add(harness)
        self._change_hands(harness, epoch + 1)
        self.holdings.heads[harness] = claimed.step
        return claimed

    def _change_hands(self, harness: int, epoch: int) -> None:
        self._db.execute("INSERT INTO claims (harness, epoch, run) VALUES (?, ?, ?)", (harness, epoch, self._run))
        self.holdings.ownership += 1
        self.holdings.epochs[harness] = epoch

    def _to_claimed(self, name: str, epoch: int, row: tuple[Any, ...]) -> Claimed:
        harness, _, _, status, attempt, event, supervision = row
        step, state, unsaved = self._load(harness, name)
        version, migrated = goes_on_with(self._db, harness, step, self._cipher)
        return Claimed(
            harness=harness,
            epoch=epoch,
            status=Status(status),
            attempt=attempt,
            step=step,
            state=state if migrated is None else migrated,
            event=decode(event),
            supervision=decode(supervision),
            unsaved_steps=unsaved,
            model=self._model_of(harness),
            marks=self._marks(harness, step + 1),
            state_version=version,
            migrated=migrated is not None,
            kept=self._read_kept(harness, step),
            children=read_children(self._db, self._cipher, harness),
            time_limits=self._time_limits_of(harness),
        )

    def _make(self, claim: Claim) -> Claimed:
        cursor = self._db.execute(
            "INSERT INTO harnesses (name, class, initial_state, owner, epoch, status, attempt, time_us, mailbox_limit) "
            "VALUES (?, ?, ?, ?, 1, 'new', 0, 0, ?)",
            (claim.name, claim.harness_class, self._cipher.hide("state", claim.initial_state), self._run, claim.mailbox_limit),
        )
        harness = cursor.lastrowid
        assert harness is not None
        self._change_hands(harness, 1)
        self.holdings.heads[harness] = 0
        if claim.state_version != 1:
            add_version(self._db, harness, VersionRow(0, claim.state_version, 0))
        return Claimed(harness, 1, Status.NEW, 0, 0, claim.initial_state, {}, {}, 0, state_version=claim.state_version)

    def _load(self, harness: int, name: str) -> tuple[int, str, int]:
        """Return the last step, the state after it, and the number of steps since the last snapshot."""
        head = self._db.execute("SELECT max(step) FROM step_index WHERE harness = ?", (harness,)).fetchone()[0] or 0
        found = find_state(self._db, harness, head, self._cipher)
        if found.steps != head - found.saved:
            raise StoreCorrupt(
                f"harness {name!r} in {self._location}: expected its steps {found.saved + 1} to {head}, found {found.steps} "
                "of them; restore the file from a copy"
            )
        return head, found.state, found.steps

    def _append(self, append: Append) -> int:
        self._check_held(append.harness, append.epoch)
        if append.harness in self._spenders and (append.release or isinstance(append.event, Started)):
            self._budget_rules.forfeit(append.harness, append.time_us)
        event, body = append.event, encode(append.event)
        seq = self._insert_record(append.harness, append.epoch, append.attempt, append.step, append.time_us, body, event.kind)
        kept = remembers_restarts(event) and not isinstance(event, Restarting)
        supervision = None if kept else body if isinstance(event, Restarting) else "{}"
        self._db.execute(
            "UPDATE harnesses SET status = ?, attempt = ?, event = ?, time_us = ?, supervision = coalesce(?, supervision), "
            "owner = CASE WHEN ? THEN NULL ELSE owner END WHERE id = ?",
            (append.status, append.attempt, body, append.time_us, supervision, append.release, append.harness),
        )
        if append.release:
            del self.holdings.epochs[append.harness]
            self.holdings.heads.pop(append.harness, None)
        return seq

    def _migrate(self, migrate: Migrate) -> int:
        newest, _ = goes_on_with(self._db, migrate.harness, migrate.step, self._cipher)
        check_migrate(migrate, self.holdings.heads[migrate.harness], newest)
        row = (migrate.harness, migrate.epoch, migrate.attempt, migrate.step, migrate.time_us)
        seq = self._insert_record(*row, migration_body(migrate), "migrated", self._cipher.hide("state", migrate.state))
        add_version(self._db, migrate.harness, VersionRow(migrate.step, migrate.to_version, seq))
        return seq

    def _read_kept(self, harness: int, step: int) -> dict[str, dict[str, Any]]:
        row = self._db.execute(
            "SELECT r.body FROM step_index i JOIN records r ON r.seq = i.seq WHERE i.harness = ? AND i.step = ?",
            (harness, step),
        ).fetchone()
        return kept_of(row[0]) if row else {}

    def _settle(self, settle: Settle) -> int:
        harness, owner = self._find(settle.name)
        self._check_unowned(settle.name, owner)
        step = 1 + self._db.execute(HEAD, {"harness": harness}).fetchone()[0]
        marks = self._marks(harness, step)
        return self._insert_record(harness, 0, 0, step, settle.time_us, settling(settle, step, marks), "outcome")

    def _marks(self, harness: int, step: int) -> tuple[tuple[str, str], ...]:
        """Return kind and body of the intents and outcomes of a step, oldest first."""
        rows = self._db.execute(MARKS, {"harness": harness, "step": step})
        return tuple((kind, reveal_body(self._cipher, kind, body)) for kind, body in rows)

    def _remark(self, remark: Remark) -> int:
        harness, _ = self._find(remark.name) if remark.name else (0, None)
        return self._insert_record(harness, 0, 0, 0, remark.time_us, remark.body, remark.kind)

    def _model_of(self, harness: int) -> str:
        """Return the model that its model agents ask instead of their own."""
        row = self._db.execute(MODEL_OF, (harness,)).fetchone()
        return "" if row is None else row[0] or ""

    def _time_limits_of(self, harness: int) -> dict[str, Any]:
        row = self._db.execute(_TIME_LIMITS, (harness,)).fetchone()
        return {} if row is None else decode(row[0])

    def _fork(self, fork: Fork) -> int:
        taken = self._db.execute("SELECT 1 FROM harnesses WHERE name = ?", (fork.name,)).fetchone() is not None
        self._check_files(fork)
        if fork.past is not None:
            check_fork(fork, taken=taken, head=fork.step)
            self._check_room(fork)
            past = fork.past
            state = self._cipher.hide("state", past.initial_state)
            versions = versions_until(past.versions, fork.step)
            origin = Origin(past.harness_class, state, past.attempt, past.seq, past.run, versions)
            return make_fork(self._db, fork, self._run, origin, None, self._cipher)
        source, _ = self._find(fork.origin)
        # One at a time: each is a lookup in the index, both together would be a scan of it.
        (head,) = self._db.execute("SELECT max(step) FROM step_index WHERE harness = ?", (source,)).fetchone()
        (oldest,) = self._db.execute("SELECT min(step) FROM step_index WHERE harness = ?", (source,)).fetchone()
        (saved,) = self._db.execute(_SAVED, (source, fork.step)).fetchone()
        check_fork(fork, taken=taken, head=head or 0, oldest=oldest or 1, saved=saved or 0)
        self._check_room(fork)
        return make_fork(self._db, fork, self._run, origin_in(self._db, source, fork.step), source, self._cipher)

    def _check_files(self, fork: Fork) -> None:
        """Raise if a file that a copied record names is gone, because the record was pruned meanwhile."""
        for row in fork.beside:
            file = stored_file(row.kind, row.body)
            if file is not None and (wrong := what_is_wrong(files_folder(self._path), file)) is not None:
                raise UsageError(f"harness {fork.origin!r} cannot be forked: file {file.sha256} {wrong[1]}; fork a later step")

    def _check_room(self, fork: Fork) -> None:
        """Raise if a fork would block a living run that owns harnesses here, including this one."""
        for (owner,) in self._db.execute("SELECT DISTINCT owner FROM harnesses WHERE owner IS NOT NULL").fetchall():
            if self._is_running(owner):
                check_room(fork, pid_of(self._path, owner), self._location)

    def _find(self, name: str) -> tuple[int, str | None]:
        """Return the number of a harness, and the run that owns it.

        Raises:
            UnknownHarness: there is no such harness.
        """
        row = self._db.execute("SELECT id, owner FROM harnesses WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise unknown_harness(name, self._location)
        return row  # type: ignore[no-any-return]

    def _is_running(self, run: str) -> bool:
        return run == self._run or is_alive(self._path, run)

    def _check_unowned(self, name: str, owner: str | None) -> None:
        if owner is not None and self._is_running(owner):
            pid = pid_of(self._path, owner)
            holder = f"process {pid}" if pid else "another process"
            raise OwnedElsewhere(
                f"harness {name!r} is owned elsewhere: {holder} runs it; stop that one first, or start under another name"
            )

    def _check_held(self, harness: int, epoch: int) -> None:
        if self.holdings.epochs.get(harness) != epoch:
            raise OwnershipLost(f"harness number {harness} was taken over by another run; this one has stopped it")

    def _insert_record(
        self, harness: int, epoch: int, attempt: int, step: int, time_us: int, body: str, kind: str, state: str | None = None
    ) -> int:
        cursor = self._db.execute(
            "INSERT INTO records (harness, epoch, attempt, step, time_us, body, kind, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (harness, epoch, attempt, step, time_us, hide_body(self._cipher, kind, body), kind, state),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid
