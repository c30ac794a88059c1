"""The operations of a store on PostgreSQL other than appending steps. Each runs within the transaction of a commit.

The transaction holds the lock on `meta`, so no other run writes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, cast

from harnesses.errors import OrchestratorError
from orchestrator.codec import encode
from orchestrator.errors import OwnershipLost
from orchestrator.events import Forked, Restarting, Started
from orchestrator.lifecycle import remembers_restarts
from orchestrator.store.encryption import hidden_row, hide_body
from orchestrator.store.postgres.postgres_claims import PostgresClaims, owned_elsewhere
from orchestrator.store.postgres.postgres_connection import Database, array, text_array
from orchestrator.store.postgres.postgres_reader import versions_of
from orchestrator.store.postgres.postgres_rows import (
    PostgresApprovalRows,
    PostgresBudgetRows,
    PostgresMailRows,
    find_harness,
)
from orchestrator.store.postgres.postgres_schema import TELL_NEWS
from orchestrator.store.rules.approval_rules import ApprovalRules
from orchestrator.store.rules.budget_rules import BudgetRules
from orchestrator.store.rules.effect_rules import settling
from orchestrator.store.rules.fork_rules import Origin, check_fork, check_room, forked, rows_of
from orchestrator.store.rules.holdings import Holdings
from orchestrator.store.rules.mail_rules import MailRules
from orchestrator.store.rules.state_rules import check_migrate, migration_body, versions_until
from orchestrator.store.store_operations import Post, Reserve
from orchestrator.store.store_protocol import (
    HELD,
    Append,
    Claim,
    EffectRow,
    Fork,
    Migrate,
    Operation,
    Remark,
    Settle,
    StepRow,
    VersionRow,
)

_HEAD = "SELECT coalesce(max(step), 0) FROM records WHERE harness = %s AND kind = 'step'"
_REACH = """
SELECT coalesce(max(step), 0), coalesce(min(step), 1), coalesce(max(step) FILTER (WHERE state IS NOT NULL AND step <= %s), 0)
FROM records WHERE harness = %s AND kind = 'step'
"""
"""The last step, the oldest, and the last one with a snapshot up to a step."""
_MAKE = """
INSERT INTO harnesses (id, name, class, initial_state, owner, epoch, status, attempt, event, time_us, mailbox_limit)
SELECT coalesce(max(id), 0) + 1, %s, %s, %s, %s, 1, 'new', %s, %s, %s, %s FROM harnesses RETURNING id
"""
_UPDATE = """
UPDATE harnesses SET status = %s, attempt = %s, event = %s, time_us = %s, supervision = coalesce(%s, supervision),
owner = CASE WHEN %s THEN NULL ELSE owner END WHERE id = %s
"""
_INSERT = """
INSERT INTO records (seq, harness, epoch, attempt, step, time_us, body, kind, state)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_MARKS = """
SELECT kind, body FROM records WHERE harness = %s AND step = %s AND kind IN ('intent', 'outcome') ORDER BY seq
"""
_ROWS = """
SELECT harness, epoch, attempt, step, time_us, body, state FROM records
WHERE harness = %s AND kind = 'step' AND step > %s ORDER BY step LIMIT %s
"""
_LAST = """
SELECT r.attempt, r.seq, coalesce(c.run, '') FROM records r
LEFT JOIN claims c ON c.harness = r.harness AND c.epoch = r.epoch WHERE r.harness = %s AND r.kind = 'step' AND r.step = %s
"""
_LIVING = "SELECT 1 FROM harnesses WHERE owner IS NOT NULL AND is_alive(owner) LIMIT 1"
_PAGE = 1000


def columns_of(steps: Sequence[StepRow], effects: Sequence[EffectRow] = ()) -> list[str]:
    """Return rows as the columns that `append_rows` takes."""
    numbers: list[Any] = list(zip(*(row[:5] for row in (*steps, *effects)), strict=True))
    texts = text_array([row[5] for row in (*steps, *effects)])
    kinds = text_array([*["step"] * len(steps), *(row.kind for row in effects)])
    states = text_array([*(row.state for row in steps), *[None] * len(effects)])
    return [*map(array, numbers), texts, kinds, states]


class PostgresOperations:
    """Carries out operations on one connection, within one commit.

    Args:
        newest: `seq` of the newest record.
        spenders: harnesses that may have open reservations; others need no query at the end of their attempts.
    """

    def __init__(self, db: Database, location: str, run: str, *, holdings: Holdings, newest: int, spenders: set[int]) -> None:
        self._db = db
        self._location = location
        self._run = run
        self.holdings = holdings
        self.newest = newest
        self._spenders = spenders
        self._told = set[int]()
        """Harnesses that a message, or an answer to an approval, was written for."""
        self._budget_rules = BudgetRules(PostgresBudgetRows(db, run), self._insert_record)
        self.mail = MailRules(PostgresMailRows(db, location, self._told), self._insert_record)
        self._claims = PostgresClaims(db, run, holdings, spenders)
        self._by_type: dict[type[Any], Callable[[Any], Any]] = {
            Append: self._append,
            Migrate: self._migrate,
            Post: self.mail.put,
            Settle: self._settle,
            Remark: self._remark,
            Fork: self._fork,
            **self._budget_rules.operations,
            **ApprovalRules(PostgresApprovalRows(db, self._told), self._insert_record).operations,
        }

    def append_rows(self, steps: Sequence[StepRow], effects: Sequence[EffectRow] = ()) -> range:
        """Insert rows; return their `seq`s."""
        first = self.newest + 1
        if steps or effects:
            values = [*columns_of(steps, effects), self.newest]
            self._db.execute("SELECT append_rows(%s, %s, %s, %s, %s, %s, %s, %s, %s)", values)
            self.newest += len(steps) + len(effects)
        return range(first, self.newest + 1)

    def tell_news(self) -> None:
        """Wake other programs if something was written for one of their harnesses."""
        if self._told - self.holdings.epochs.keys():
            self._db.execute(TELL_NEWS)

    def do_all(self, operations: Sequence[Operation]) -> list[Any]:
        """Return the results of operations, in order; claims that follow each other are made together."""
        results: list[Any] = []
        for is_claim, group in groupby(operations, lambda operation: isinstance(operation, Claim)):
            same = list(group)
            results += self._claims.claim(cast(list[Claim], same)) if is_claim else map(self._do, same)
        return results

    def _do(self, operation: Operation) -> Any:
        """Return the result of one operation; the result of a refused one is an exception."""
        try:
            if isinstance(operation, HELD):
                self._check_held(operation.harness, operation.epoch)
            if isinstance(operation, Reserve):
                self._spenders.add(operation.harness)
            return self._by_type[type(operation)](operation)
        except OrchestratorError as error:
            return error

    def _append(self, append: Append) -> int:
        self._check_held(append.harness, append.epoch)
        if append.harness in self._spenders and (append.release or isinstance(append.event, Started)):
            self._budget_rules.forfeit(append.harness, append.time_us)
        event, body = append.event, encode(append.event)
        seq = self._insert_record(append.harness, append.epoch, append.attempt, append.step, append.time_us, body, event.kind)
        kept = remembers_restarts(event) and not isinstance(event, Restarting)
        supervision = None if kept else body if isinstance(event, Restarting) else "{}"
        values = (append.status, append.attempt, body, append.time_us, supervision, append.release, append.harness)
        self._db.execute(_UPDATE, values)
        if append.release:
            del self.holdings.epochs[append.harness]
            self.holdings.heads.pop(append.harness, None)
        return seq

    def _migrate(self, migrate: Migrate) -> int:
        versions = versions_of(self._db, migrate.harness)
        check_migrate(migrate, self.holdings.heads[migrate.harness], versions[-1].version if versions else 1)
        row = (migrate.harness, migrate.epoch, migrate.attempt, migrate.step, migrate.time_us)
        seq = self._insert_record(*row, migration_body(migrate), "migrated", self._db.cipher.hide("state", migrate.state))
        self._add_version(migrate.harness, VersionRow(migrate.step, migrate.to_version, seq))
        return seq

    def _add_version(self, harness: int, row: VersionRow) -> None:
        statement = "INSERT INTO state_versions (harness, step, version, seq) VALUES (%s, %s, %s, %s)"
        self._db.execute(statement, (harness, *row))

    def _settle(self, settle: Settle) -> int:
        harness, owner, alive = find_harness(self._db, settle.name, self._location)
        if owner is not None and (alive or owner == self._run):
            raise owned_elsewhere(settle.name, owner)
        step = 1 + self._db.row(_HEAD, (harness,))[0]
        body = settling(settle, step, self._db.rows(_MARKS, (harness, step)))
        return self._insert_record(harness, 0, 0, step, settle.time_us, body, "outcome")

    def _remark(self, remark: Remark) -> int:
        harness = find_harness(self._db, remark.name, self._location)[0] if remark.name else 0
        return self._insert_record(harness, 0, 0, 0, remark.time_us, remark.body, remark.kind)

    def _fork(self, fork: Fork) -> int:
        taken = self._db.row("SELECT 1 FROM harnesses WHERE name = %s", (fork.name,)) is not None
        past = fork.past
        if past is not None:
            check_fork(fork, taken=taken, head=fork.step)
            versions = versions_until(past.versions, fork.step)
            state = self._db.cipher.hide("state", past.initial_state)
            origin = Origin(past.harness_class, state, past.attempt, past.seq, past.run, versions)
            read: Callable[[int, int], Sequence[StepRow]] = past.rows
            oldest = 1
        else:
            source, *_ = find_harness(self._db, fork.origin, self._location)
            head, oldest, saved = self._db.row(_REACH, (fork.step, source))
            check_fork(fork, taken=taken, head=head, oldest=oldest, saved=saved)
            origin = self._origin(source, fork.step)
            read = partial(self._read_steps, source)
        if self._db.row(_LIVING) is not None:
            check_room(fork, None, self._location)
        return self._make_fork(fork, origin, rows_of(fork, read, oldest))

    def _read_steps(self, harness: int, after: int, limit: int) -> list[StepRow]:
        return [StepRow(*row) for row in self._db.rows(_ROWS, (harness, after, limit))]

    def _origin(self, harness: int, step: int) -> Origin:
        of_class, initial = self._db.row("SELECT class, initial_state FROM harnesses WHERE id = %s", (harness,))
        attempt, seq, run = self._db.row(_LAST, (harness, step)) or (0, 0, "")
        return Origin(of_class, initial, attempt, seq, run, versions_until(versions_of(self._db, harness), step))

    def _make_fork(self, fork: Fork, origin: Origin, rows: Iterable[StepRow]) -> int:
        event = encode(forked(fork, origin))
        made = (fork.name, origin.harness_class, origin.initial_state, None, origin.attempt, event, fork.time_us, None)
        (harness,) = self._db.row(_MAKE, made)
        self._db.execute("INSERT INTO claims (harness, epoch, run) VALUES (%s, 1, %s)", (harness, self._run))
        for version in origin.versions:
            self._add_version(harness, version)
        page: list[StepRow] = []
        for row in rows:
            hidden = row if fork.past is None else hidden_row(self._db.cipher, row)
            page.append(hidden._replace(harness=harness, epoch=1))
            if len(page) == _PAGE:
                self.append_rows(page)
                page = []
        self.append_rows(page)
        seq = self._insert_record(harness, 1, origin.attempt, fork.step, fork.time_us, event, Forked.kind)
        beside = [row._replace(body=hide_body(self._db.cipher, row.kind, row.body)) for row in fork.beside]
        self.append_rows((), [row._replace(harness=harness, epoch=1) for row in beside])
        return seq

    def _check_held(self, harness: int, epoch: int) -> None:
        if self.holdings.epochs.get(harness) != epoch:
            raise OwnershipLost(f"harness number {harness} was taken over by another run; this one has stopped it")

    def _insert_record(
        self, harness: int, epoch: int, attempt: int, step: int, time_us: int, body: str, kind: str, state: str | None = None
    ) -> int:
        self.newest += 1
        hidden = hide_body(self._db.cipher, kind, body)
        self._db.execute(_INSERT, (self.newest, harness, epoch, attempt, step, time_us, hidden, kind, state))
        return self.newest
