"""The operations of a store on PostgreSQL other than appending steps. Each runs within the transaction of a commit.

The transaction holds the lock on `meta`, so no other run writes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from harnesses.errors import OrchestratorError
from orchestrator.codec import decode, encode, kept_of
from orchestrator.errors import OwnedElsewhere, OwnershipLost
from orchestrator.events import Forked, Restarting, Started
from orchestrator.lifecycle import Status, remembers_restarts
from orchestrator.records import LIMITS_SET
from orchestrator.store.postgres.postgres_connection import Database, array, text_array
from orchestrator.store.postgres.postgres_reader import state_after, versions_of
from orchestrator.store.postgres.postgres_rows import (
    EVENT,
    PostgresApprovalRows,
    PostgresBudgetRows,
    PostgresMailRows,
    find_harness,
    read_children,
)
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
    Claimed,
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
_CLAIMED = f"""
SELECT h.id, h.owner, h.owner = %s OR is_alive(h.owner), h.epoch, h.status, h.attempt, h.event, h.supervision, h.initial_state,
       coalesce(last.step, 0), last.body, coalesce(saved.step, 0), saved.state, v.step, v.version, v.state,
       (SELECT r.body FROM records r WHERE r.harness = h.id AND r.kind = 'forked' AND {EVENT} LIMIT 1),
       (SELECT r.body FROM records r WHERE r.harness = h.id AND r.kind = '{LIMITS_SET}' AND {EVENT}
        ORDER BY r.seq DESC LIMIT 1),
       EXISTS (SELECT 1 FROM records r WHERE r.harness = h.id AND r.kind = 'child' AND {EVENT}),
       ARRAY(SELECT ARRAY[r.kind, r.body] FROM records r WHERE r.harness = h.id AND r.kind IN ('intent', 'outcome')
             AND r.step = coalesce(last.step, 0) + 1 ORDER BY r.seq)
FROM harnesses h
LEFT JOIN LATERAL (SELECT r.step, r.body FROM records r WHERE r.harness = h.id AND r.kind = 'step'
                   ORDER BY r.step DESC LIMIT 1) last ON true
LEFT JOIN LATERAL (SELECT r.step, r.state FROM records r WHERE r.harness = h.id AND r.kind = 'step' AND r.state IS NOT NULL
                   ORDER BY r.step DESC LIMIT 1) saved ON true
LEFT JOIN LATERAL (SELECT w.step, w.version, r.state FROM state_versions w LEFT JOIN records r ON r.seq = w.seq
                   WHERE w.harness = h.id ORDER BY w.step DESC, w.version DESC LIMIT 1) v ON true
WHERE h.name = %s
"""
"""All that a claim needs, in one round trip."""
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
        self._budget_rules = BudgetRules(PostgresBudgetRows(db, run), self._insert_record)
        self.mail = MailRules(PostgresMailRows(db, location), self._insert_record)
        self._by_type: dict[type[Any], Callable[[Any], Any]] = {
            Claim: self._claim,
            Append: self._append,
            Migrate: self._migrate,
            Post: self.mail.put,
            Settle: self._settle,
            Remark: self._remark,
            Fork: self._fork,
            **self._budget_rules.operations,
            **ApprovalRules(PostgresApprovalRows(db), self._insert_record).operations,
        }

    def append_rows(self, steps: Sequence[StepRow], effects: Sequence[EffectRow] = ()) -> range:
        """Insert rows; return their `seq`s."""
        first = self.newest + 1
        if steps or effects:
            values = [*columns_of(steps, effects), self.newest]
            self._db.execute("SELECT append_rows(%s, %s, %s, %s, %s, %s, %s, %s, %s)", values)
            self.newest += len(steps) + len(effects)
        return range(first, self.newest + 1)

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
        row = self._db.row(_CLAIMED, (self._run, claim.name))
        if row is None:
            return self._make(claim)
        harness, owner, alive, epoch, status = row[:5]
        if status == Status.COMPLETED and not claim.reopen:
            return self._to_claimed(epoch, row)
        if owner is not None and alive and not claim.take_over:
            raise self._owned(claim.name, owner)
        claimed = self._to_claimed(epoch + 1, row)
        self._db.execute(
            "UPDATE harnesses SET owner = %s, epoch = %s, class = %s, mailbox_limit = %s WHERE id = %s",
            (self._run, epoch + 1, claim.harness_class, claim.mailbox_limit, harness),
        )
        self._spenders.add(harness)
        self._change_hands(harness, epoch + 1, claimed.step)
        return claimed

    def _change_hands(self, harness: int, epoch: int, head: int) -> None:
        self._db.execute("INSERT INTO claims (harness, epoch, run) VALUES (%s, %s, %s)", (harness, epoch, self._run))
        self.holdings.ownership += 1
        self.holdings.epochs[harness] = epoch
        self.holdings.heads[harness] = head

    def _to_claimed(self, epoch: int, row: Any) -> Claimed:
        harness, _, _, _, status, attempt, event, supervision, initial, step, body, saved, state, *rest = row
        migrated_at, version, migrated, forked_by, limits, has_children, marks = rest
        if migrated is not None and migrated_at < step:
            migrated = None
        if migrated is None:
            state = state_after(self._db, harness, initial if state is None else state, saved, step)
        return Claimed(
            harness=harness,
            epoch=epoch,
            status=Status(status),
            attempt=attempt,
            step=step,
            state=state if migrated is None else migrated,
            event=decode(event),
            supervision=decode(supervision),
            unsaved_steps=step - saved,
            marks=tuple((kind, said) for kind, said in marks),
            state_version=1 if version is None else version,
            migrated=migrated is not None,
            kept={} if body is None else kept_of(body),
            children=read_children(self._db, harness) if has_children else (),
            model="" if forked_by is None else decode(forked_by).get("model", ""),
            time_limits={} if limits is None else decode(limits),
        )

    def _make(self, claim: Claim) -> Claimed:
        made = (claim.name, claim.harness_class, claim.initial_state, self._run, 0, "{}", 0, claim.mailbox_limit)
        (harness,) = self._db.row(_MAKE, made)
        self._change_hands(harness, 1, 0)
        if claim.state_version != 1:
            self._add_version(harness, VersionRow(0, claim.state_version, 0))
        return Claimed(harness, 1, Status.NEW, 0, 0, claim.initial_state, {}, {}, 0, state_version=claim.state_version)

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
        seq = self._insert_record(*row, migration_body(migrate), "migrated", migrate.state)
        self._add_version(migrate.harness, VersionRow(migrate.step, migrate.to_version, seq))
        return seq

    def _add_version(self, harness: int, row: VersionRow) -> None:
        statement = "INSERT INTO state_versions (harness, step, version, seq) VALUES (%s, %s, %s, %s)"
        self._db.execute(statement, (harness, *row))

    def _settle(self, settle: Settle) -> int:
        harness, owner, alive = find_harness(self._db, settle.name, self._location)
        if owner is not None and (alive or owner == self._run):
            raise self._owned(settle.name, owner)
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
            origin = Origin(past.harness_class, past.initial_state, past.attempt, past.seq, past.run, versions)
            read: Callable[[int, int], Sequence[StepRow]] = past.rows
        else:
            source, *_ = find_harness(self._db, fork.origin, self._location)
            check_fork(fork, taken=taken, head=self._db.row(_HEAD, (source,))[0])
            origin = self._origin(source, fork.step)
            read = partial(self._read_steps, source)
        if self._db.row(_LIVING) is not None:
            check_room(fork, None, self._location)
        return self._make_fork(fork, origin, read)

    def _read_steps(self, harness: int, after: int, limit: int) -> list[StepRow]:
        return [StepRow(*row) for row in self._db.rows(_ROWS, (harness, after, limit))]

    def _origin(self, harness: int, step: int) -> Origin:
        of_class, initial = self._db.row("SELECT class, initial_state FROM harnesses WHERE id = %s", (harness,))
        attempt, seq, run = self._db.row(_LAST, (harness, step)) or (0, 0, "")
        return Origin(of_class, initial, attempt, seq, run, versions_until(versions_of(self._db, harness), step))

    def _make_fork(self, fork: Fork, origin: Origin, read: Callable[[int, int], Sequence[StepRow]]) -> int:
        event = encode(forked(fork, origin))
        made = (fork.name, origin.harness_class, origin.initial_state, None, origin.attempt, event, fork.time_us, None)
        (harness,) = self._db.row(_MAKE, made)
        self._db.execute("INSERT INTO claims (harness, epoch, run) VALUES (%s, 1, %s)", (harness, self._run))
        for version in origin.versions:
            self._add_version(harness, version)
        page: list[StepRow] = []
        for row in rows_of(fork, read):
            page.append(row._replace(harness=harness, epoch=1))
            if len(page) == _PAGE:
                self.append_rows(page)
                page = []
        self.append_rows(page)
        seq = self._insert_record(harness, 1, origin.attempt, fork.step, fork.time_us, event, Forked.kind)
        self.append_rows((), [row._replace(harness=harness, epoch=1) for row in fork.beside])
        return seq

    def _owned(self, name: str, owner: str) -> OwnedElsewhere:
        return OwnedElsewhere(
            f"harness {name!r} is owned elsewhere: run {owner} runs it; stop that one first, or, if it is gone, wait until "
            "its lease has lapsed"
        )

    def _check_held(self, harness: int, epoch: int) -> None:
        if self.holdings.epochs.get(harness) != epoch:
            raise OwnershipLost(f"harness number {harness} was taken over by another run; this one has stopped it")

    def _insert_record(
        self, harness: int, epoch: int, attempt: int, step: int, time_us: int, body: str, kind: str, state: str | None = None
    ) -> int:
        self.newest += 1
        self._db.execute(_INSERT, (self.newest, harness, epoch, attempt, step, time_us, body, kind, state))
        return self.newest
