"""A store in memory, under the same laws: for tests, and for runs that need no records afterwards."""

from __future__ import annotations

import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from attrs import define, evolve, field

from harnesses.attachments import CHILD, TRANSCRIPT
from harnesses.budgets.pools import Account
from harnesses.errors import OrchestratorError, near, one_of
from harnesses.timing.clock import now_us
from orchestrator.codec import decode, decode_step, encode, kept_of
from orchestrator.errors import OwnedElsewhere, OwnershipLost, UnknownHarness, UsageError
from orchestrator.events import Forked, Restarting, Started
from orchestrator.lifecycle import Status, remembers_restarts
from orchestrator.records import (
    LIMITS_SET,
    ApprovalRecord,
    ChildRecord,
    EffectRecord,
    HarnessRecord,
    Record,
    StepRecord,
    name_in,
)
from orchestrator.store.rules.approval_rules import ApprovalRules, Filed, MemoryApprovalRows, approval_records
from orchestrator.store.rules.budget_rules import BudgetRules, MemoryBudgetRows
from orchestrator.store.rules.claim_rules import check_going_on
from orchestrator.store.rules.effect_rules import Mark, effects_of, settling
from orchestrator.store.rules.fork_rules import Origin, check_fork, copy_step, forked, rows_of
from orchestrator.store.rules.state_rules import check_migrate, derive, migration_body, versions_until
from orchestrator.store.store_operations import REPLY, full, is_bounded, is_open, record_of, unknown_recipient
from orchestrator.store.store_protocol import (
    EFFECT_KINDS,
    HELD,
    Append,
    Claim,
    Claimed,
    Committed,
    ConsumedRow,
    EffectRow,
    Fork,
    Message,
    Migrate,
    Operation,
    Post,
    Remark,
    SentRow,
    Settle,
    StepRow,
    VersionRow,
)


@define
class MemoryMailbox:
    """The mailbox of one harness."""

    limit: int | None = None
    waiting: OrderedDict[int, Message] = field(factory=OrderedDict[int, Message])
    """Unconsumed messages by their `seq`. In a plain dict, finding the first remaining item gets slower and slower."""
    replies: OrderedDict[int, Message] = field(factory=OrderedDict[int, Message])
    """Unconsumed replies by their `seq`."""
    ids: dict[str, int] = field(factory=dict[str, int])
    """The `seq` of each message that had an id, even when consumed."""

    def put(self, seq: int, post: Post) -> int:
        """Add a message; return the `seq` of the newest one waiting before it, 0 if there is none."""
        before = next(reversed(self.waiting), 0)
        message = Message(seq, post.sender, post.body, post.id, post.kind, post.type, post.deadline_us)
        (self.replies if post.kind == REPLY else self.waiting)[seq] = message
        if post.id:
            self.ids[post.id] = seq
        return before

    def use_up(self, seq: int) -> None:
        """Forget a message that a step has consumed."""
        self.waiting.pop(seq, None)
        self.replies.pop(seq, None)

    def places(self, now_us: int) -> int:
        """Return how many places are taken; a request past its deadline takes none."""
        return sum(is_open(message, now_us) for message in self.waiting.values())

    def is_full_for(self, post: Post, now_us: int, more: int = 0) -> bool:
        """Return whether there is no room for a message, given `more` additional waiting messages."""
        is_new = is_bounded(post) and post.id not in self.ids
        return self.limit is not None and is_new and self.places(now_us) + more >= self.limit


_OF_ANY_TIME = (*EFFECT_KINDS, "output")
"""Kinds of rows that are written whether or not the step in progress is recorded."""


@define
class _Harness:
    """One harness and all its records."""

    number: int
    name: str
    harness_class: str
    epoch: int = 0
    owned: bool = False
    status: Status = Status.NEW
    attempt: int = 0
    event: str = "{}"
    supervision: str = "{}"
    time_us: int = 0
    steps: list[tuple[int, StepRow]] = field(factory=list[tuple[int, StepRow]])
    snapshots: dict[int, str] = field(factory=dict[int, str])
    mail: MemoryMailbox = field(factory=MemoryMailbox)
    effects: list[tuple[int, EffectRow]] = field(factory=list[tuple[int, EffectRow]])
    versions: list[VersionRow] = field(factory=list[VersionRow])
    migrated: str | None = None
    """The state that the one after its last step was migrated to; None if it was not migrated."""
    children: list[tuple[int, EffectRow]] = field(factory=list[tuple[int, EffectRow]])
    model: str = ""
    """The model that its model agents ask instead of their own."""
    time_limits: str = "{}"

    def is_held(self, epoch: int) -> bool:
        return self.owned and self.epoch == epoch

    @property
    def next_step(self) -> int:
        return len(self.steps) + 1

    def marks(self) -> tuple[tuple[str, str], ...]:
        """Return kind and body of the effect records of the step in progress."""
        return tuple((row.kind, row.body) for _, row in self.effects if row.step == self.next_step)

    def effect_marks(self) -> Iterator[Mark]:
        """Yield all its effect records."""
        for seq, row in self.effects:
            yield Mark(seq, row.attempt, row.step, row.time_us, row.kind, row.body)

    def rows(self, after: int, limit: int) -> list[tuple[int, int, int, int, str]]:
        chosen = self.steps[max(after, 0) : max(after, 0) + limit]
        return [(row.attempt, seq, row.step, row.time_us, row.body) for seq, row in chosen]


class MemoryStore:
    """A store that ends with the process. See `Store` for the methods."""

    blocking = False
    location = "memory"

    def __init__(self) -> None:
        self.run = secrets.token_hex(6)
        self.secret = secrets.token_bytes(32)
        """Signing key of approvals; a store in a file has it in a file beside it."""
        self._lock = threading.Lock()
        self._harnesses: dict[int, _Harness] = {}
        self._by_name: dict[str, _Harness] = {}
        self._records: list[Record] = []
        self._budget_rows = MemoryBudgetRows()
        self._before: dict[int, int] = {}
        self._budget_rules = BudgetRules(self._budget_rows, self._insert_record)
        self._approvals = MemoryApprovalRows(self._read_filed)
        self._operations: dict[type[Any], Callable[[Any], Any]] = {
            Claim: self._claim,
            Append: self._append,
            Migrate: self._migrate,
            Post: self._post,
            Settle: self._settle,
            Fork: self._fork,
            Remark: self._remark,
            **self._budget_rules.operations,
            **ApprovalRules(self._approvals, self._insert_record).operations,
        }

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
        """Commit all of it; see `Store.commit`."""
        # Everything that can fail is checked before anything is changed: all or nothing.
        steps, operations, effects, consumed, sent = list(steps), list(operations), list(effects), list(consumed), list(sent)
        with self._lock:
            rows: list[StepRow | EffectRow] = [*steps, *effects]
            lost = frozenset(row.harness for row in rows if not self._harnesses[row.harness].is_held(row.epoch))
            firsts = [self._harnesses[row.harness].next_step for row in effects]
            refused = self._refuse_unsendable(steps, consumed, sent, lost) if sent else {}
            seqs = [0 if row.harness in lost or (row.harness, row.step) in refused else self._add_step(row) for row in steps]
            written = {(row.harness, row.step) for row, seq in zip(steps, seqs, strict=True) if seq}
            for used in consumed:
                if (used.harness, used.step) in written:
                    self._harnesses[used.harness].mail.use_up(used.message)
            noted = [
                0
                if row.harness in lost
                or (row.kind not in _OF_ANY_TIME and (row.harness, row.step) in refused)
                # Of a step of this commit, or of the one after the last.
                or not first <= row.step <= self._harnesses[row.harness].next_step
                else self._add_effect(row)
                for row, first in zip(effects, firsts, strict=True)
            ]
            self._before = {}
            sent_seqs = [self._put(row.post) if (row.harness, row.step) in written else 0 for row in sent]
            results = [self._do(operation) for operation in operations]
            why = {harness: error for (harness, _), error in refused.items()}
            return Committed(seqs, results, lost, noted, self._before, sent_seqs, why)

    def close(self) -> None:
        """Release every harness. The records can still be read."""
        for harness in self._harnesses.values():
            harness.owned = False

    def harnesses(self) -> list[HarnessRecord]:
        with self._lock:
            return [_to_record(harness) for harness in self._harnesses.values()]

    def steps(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRecord]:
        with self._lock:
            rows = self._find_by_name(name).rows(after, limit)
        return [decode_step(name, *row) for row in rows]

    def state_versions(self, name: str) -> list[VersionRow]:
        with self._lock:
            return list(self._find_by_name(name).versions)

    def step_rows(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRow]:
        with self._lock:
            return [row for _, row in self._find_by_name(name).steps[max(after, 0) : max(after, 0) + limit]]

    def state_at(self, name: str, step: int) -> str:
        with self._lock:
            harness = self._find_by_name(name)
            if not 0 <= step <= len(harness.steps):
                raise UsageError(f"harness {name!r} has no step {step}: expected a number from 0 to its last step")
            saved = max(number for number in harness.snapshots if number <= step)
            state, rows = harness.snapshots[saved], harness.rows(saved, step - saved)
        return derive(state, [row[4] for row in rows])

    def mailbox(self, name: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        with self._lock:
            waiting = self._find_by_name(name).mail.waiting.values()
            return list(islice((message for message in waiting if message.seq > after), limit))

    def replies(self, name: str) -> list[Message]:
        with self._lock:
            return list(self._find_by_name(name).mail.replies.values())

    def room(self, name: str) -> int | None:
        with self._lock:
            mail = self._recipient(name).mail
        return None if mail.limit is None else max(0, mail.limit - mail.places(now_us()))

    def effects(self, name: str | None = None, *, current: bool = False) -> list[EffectRecord]:
        with self._lock:
            chosen = list(self._harnesses.values()) if name is None else [self._find_by_name(name)]
            found = [
                record
                for harness in chosen
                for record in effects_of(harness.name, harness.effect_marks())
                if record.step_number == harness.next_step or not current
            ]
        return sorted(found, key=lambda record: record.seq)

    def approvals(self, name: str | None = None) -> list[ApprovalRecord]:
        with self._lock:
            if name is not None:
                self._find_by_name(name)
            records = approval_records(self._approvals.all())
        return [record for record in records if name is None or record.harness == name]

    def children(self, name: str | None = None) -> tuple[ChildRecord, ...]:
        with self._lock:
            chosen = list(self._harnesses.values()) if name is None else [self._find_by_name(name)]
            found = [child for harness in chosen for child in self._children_of(harness)]
        return tuple(sorted(found, key=lambda child: child.seq))

    def accounts(self, pools: Collection[str] | None = None) -> dict[str, Account]:
        with self._lock:
            return self._budget_rows.accounts(pools)

    def last_seq(self) -> int:
        return len(self._records)

    def records(self, *, after: int = 0, limit: int = 1000) -> list[Record]:
        with self._lock:
            return self._records[max(after, 0) : max(after, 0) + limit]

    def transcripts(
        self, name: str, *, step: int | None = None, session: str | None = None, skipped: int = 0, limit: int = 100
    ) -> list[Record]:
        """Return transcripts of one harness, newest first: all, those of one step, or those of one session."""
        with self._lock:
            self._find_by_name(name)
            found = [one for one in self._records if one.kind == TRANSCRIPT and one.harness == name]
        chosen = [
            one
            for one in found
            if step in (None, one.step) and (session is None or decode(one.body).get("session", "") == session)
        ]
        return sorted(chosen, key=lambda one: (one.step, one.seq), reverse=True)[skipped : skipped + limit]

    def effect_records(self, name: str, step: int) -> list[Record]:
        """Return the intents and outcomes of effects of one step, recorded or in progress, oldest first."""
        with self._lock:
            return [self._records[seq - 1] for seq, row in self._find_by_name(name).effects if row.step == step]

    def model_of(self, name: str) -> str:
        """Return the model that the model agents of a fork ask instead of their own; empty for their own."""
        with self._lock:
            return self._find_by_name(name).model

    def _children_of(self, harness: _Harness) -> tuple[ChildRecord, ...]:
        found: list[ChildRecord] = []
        for seq, row in harness.children:
            name = name_in(row.body)
            child = self._by_name.get(name)
            status, of_class = (None, "") if child is None else (child.status, child.harness_class)
            found.append(ChildRecord(harness.name, row.step, seq, name, row.body, status, of_class))
        return tuple(found)

    def outlines(self, *, after: int = 0, limit: int = 1000) -> list[Record]:
        """Return records as `records` does; in memory they need no reduction."""
        return self.records(after=after, limit=limit)

    def messages_waiting(self) -> int:
        """Return how many messages no step has consumed."""
        with self._lock:
            return sum(len(one.mail.waiting) + len(one.mail.replies) for one in self._harnesses.values())

    def _find_by_name(self, name: str) -> _Harness:
        harness = self._by_name.get(name)
        if harness is None:
            known = one_of(list(self._by_name)[:10], "there is none yet; start one first")
            raise UnknownHarness(f"no harness {name!r} in {self.location}: {known}{near(name, self._by_name)}")
        return harness

    def _add_step(self, row: StepRow) -> int:
        harness = self._harnesses[row.harness]
        if row.step != len(harness.steps) + 1:
            return 0
        seq = self._add(harness.name, row.attempt, row.step, row.time_us, "step", row.body)
        harness.steps.append((seq, row))
        harness.migrated = None
        if row.state is not None:
            harness.snapshots[row.step] = row.state
        return seq

    def _add_effect(self, row: EffectRow) -> int:
        harness = self._harnesses[row.harness]
        seq = self._add(harness.name, row.attempt, row.step, row.time_us, row.kind, row.body, ours=row.epoch > 0)
        if row.kind in EFFECT_KINDS:
            harness.effects.append((seq, row))
        elif row.kind == CHILD:
            harness.children.append((seq, row))
        return seq

    def _add(self, name: str, attempt: int, step: int, time_us: int, kind: str, body: str, *, ours: bool = True) -> int:
        seq = len(self._records) + 1
        self._records.append(Record(seq, name, attempt, step, time_us, kind, body, self.run if ours else ""))
        return seq

    def _do(self, operation: Operation) -> Any:
        try:
            if isinstance(operation, HELD):
                _check_held(self._harnesses[operation.harness], operation.epoch)
            return self._operations[type(operation)](operation)
        except OrchestratorError as error:
            return error

    def _claim(self, claim: Claim) -> Claimed:
        harness = self._by_name.get(claim.name)
        if harness is None:
            harness = self._make(claim.name, claim.harness_class, claim.initial_state)
            if claim.state_version != 1:
                harness.versions.append(VersionRow(0, claim.state_version, 0))
        check_going_on(claim, Status(harness.status), decode(harness.event))
        if harness.owned and not claim.take_over:
            raise OwnedElsewhere(f"harness {claim.name!r} is owned elsewhere: it is running already; stop that one first")
        if harness.status != Status.COMPLETED or claim.reopen:
            harness.owned = True
            harness.epoch += 1
            harness.harness_class = claim.harness_class
            harness.mail.limit = claim.mailbox_limit
        head = len(harness.steps)
        saved = max(harness.snapshots)
        return Claimed(
            harness=harness.number,
            epoch=harness.epoch,
            status=harness.status,
            attempt=harness.attempt,
            step=head,
            state=harness.migrated or derive(harness.snapshots[saved], [row[4] for row in harness.rows(saved, head)]),
            event=decode(harness.event),
            supervision=decode(harness.supervision),
            unsaved_steps=head - saved,
            marks=harness.marks(),
            model=harness.model,
            state_version=harness.versions[-1].version if harness.versions else 1,
            migrated=harness.migrated is not None,
            kept=kept_of(harness.steps[-1][1].body) if harness.steps else {},
            children=self._children_of(harness),
            time_limits=decode(harness.time_limits),
        )

    def _make(self, name: str, harness_class: str, initial_state: str) -> _Harness:
        number = len(self._harnesses) + 1
        harness = _Harness(number, name, harness_class, snapshots={0: initial_state})
        self._harnesses[number] = self._by_name[name] = harness
        return harness

    def _append(self, append: Append) -> int:
        harness = self._harnesses[append.harness]
        _check_held(harness, append.epoch)
        if append.release or isinstance(append.event, Started):
            self._budget_rules.forfeit(append.harness, append.time_us)
        harness.event = encode(append.event)
        harness.status, harness.attempt, harness.time_us = append.status, append.attempt, append.time_us
        if isinstance(append.event, Restarting) or not remembers_restarts(append.event):
            harness.supervision = harness.event if isinstance(append.event, Restarting) else "{}"
        harness.owned = not append.release
        return self._add(harness.name, append.attempt, append.step, append.time_us, append.event.kind, harness.event)

    def _migrate(self, migrate: Migrate) -> int:
        harness = self._harnesses[migrate.harness]
        check_migrate(migrate, len(harness.steps), harness.versions[-1].version if harness.versions else 1)
        body = migration_body(migrate)
        seq = self._add(harness.name, migrate.attempt, migrate.step, migrate.time_us, "migrated", body)
        harness.versions.append(VersionRow(migrate.step, migrate.to_version, seq))
        harness.migrated = migrate.state
        return seq

    def _remark(self, remark: Remark) -> int:
        name = self._find_by_name(remark.name).name if remark.name else ""
        if name and remark.kind == LIMITS_SET:
            self._by_name[name].time_limits = remark.body
        return self._add(name, 0, 0, remark.time_us, remark.kind, remark.body, ours=False)

    def _settle(self, settle: Settle) -> int:
        harness = self._find_by_name(settle.name)
        if harness.owned:
            raise OwnedElsewhere(f"harness {settle.name!r} is owned elsewhere: it is running; stop it first")
        body = settling(settle, harness.next_step, harness.marks())
        return self._add_effect(EffectRow(harness.number, 0, 0, harness.next_step, settle.time_us, body, "outcome"))

    def _fork(self, fork: Fork) -> int:
        past = fork.past
        source = self._find_by_name(fork.origin) if past is None else None
        check_fork(fork, taken=fork.name in self._by_name, head=fork.step if source is None else len(source.steps))
        if past is not None:
            origin = Origin(past.harness_class, past.initial_state, past.attempt, past.seq, past.run, past.versions)
            rows = list(rows_of(fork, past.rows))
        else:
            assert source is not None
            kept = source.steps[: fork.step]
            last = self._records[kept[-1][0] - 1] if kept else None
            origin = Origin(source.harness_class, source.snapshots[0], versions=source.versions)
            if last is not None:
                origin = evolve(origin, attempt=last.attempt, seq=last.seq, run=last.run)
            rows = [copy_step(row) for _, row in kept]
        harness = self._make(fork.name, origin.harness_class, origin.initial_state)
        harness.epoch, harness.attempt, harness.time_us = 1, origin.attempt, fork.time_us
        harness.event = encode(forked(fork, origin))
        harness.versions = [*versions_until(origin.versions, fork.step)]
        for row in rows:
            self._add_step(row._replace(harness=harness.number, epoch=1))
        harness.model = fork.model
        seq = self._add(fork.name, origin.attempt, fork.step, fork.time_us, Forked.kind, harness.event)
        for beside in fork.beside:
            self._add_effect(beside._replace(harness=harness.number, epoch=1))
        return seq

    def _insert_record(self, harness: int, epoch: int, attempt: int, step: int, time_us: int, body: str, kind: str) -> int:
        name = self._harnesses[harness].name if harness else ""
        return self._add(name, attempt, step, time_us, kind, body, ours=harness > 0)

    def _read_filed(self, seq: int) -> tuple[int, Filed]:
        """Return an approval record and its time."""
        record = self._records[seq - 1]
        harness = self._by_name[record.harness]
        return record.time_us, Filed(record.kind, harness.number, harness.name, record.step, record.body)

    def _post(self, post: Post) -> int:
        if self._recipient(post.to).mail.is_full_for(post, post.time_us):
            raise full(post.to, self._recipient(post.to).mail.limit or 0)
        return self._put(post)

    def _put(self, post: Post) -> int:
        harness = self._recipient(post.to)
        if (seq := harness.mail.ids.get(post.id)) is not None:
            return seq
        seq = self._add(harness.name, 0, 0, post.time_us, "message", record_of(post), ours=False)
        self._before[seq] = harness.mail.put(seq, post)
        return seq

    def _recipient(self, name: str) -> _Harness:
        harness = self._by_name.get(name)
        if harness is None:
            raise unknown_recipient(name, list(islice(self._by_name, 11)), self.location)
        return harness

    def _refuse_unsendable(
        self, steps: list[StepRow], consumed: list[ConsumedRow], sent: list[SentRow], lost: frozenset[int]
    ) -> dict[tuple[int, int], OrchestratorError]:
        """Return the steps whose messages cannot be delivered, and why. Messages that a step consumes make room first."""
        refused: dict[tuple[int, int], OrchestratorError] = {}
        change: Counter[str] = Counter()
        for step in steps:
            if step.harness in lost:
                continue
            key, mine, harness = (step.harness, step.step), Counter(change), self._harnesses[step.harness]
            used = [row for row in consumed if (row.harness, row.step) == key]
            taken = (harness.mail.waiting.get(row.message) for row in used)
            mine[harness.name] -= sum(message is not None and is_open(message, step.time_us) for message in taken)
            try:
                for post in (row.post for row in sent if (row.harness, row.step) == key):
                    mail = self._recipient(post.to).mail
                    if mail.is_full_for(post, step.time_us, mine[post.to]):
                        raise full(post.to, mail.limit or 0)
                    mine[post.to] += is_bounded(post) and post.id not in mail.ids
            except OrchestratorError as error:
                refused[key] = error
            else:
                change = mine
        return refused


def _check_held(harness: _Harness, epoch: int) -> None:
    if not harness.is_held(epoch):
        raise OwnershipLost(f"harness {harness.name!r} was taken over by another run; this one has stopped it")


def _to_record(harness: _Harness) -> HarnessRecord:
    return HarnessRecord(
        name=harness.name,
        status=harness.status,
        attempt=harness.attempt,
        current_step=len(harness.steps),
        harness_class=harness.harness_class,
        owned=harness.owned,
        last_time_us=harness.time_us,
        event=decode(harness.event),
    )
