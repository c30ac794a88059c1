"""The mailboxes of a SQLite store: what is put into them, and used up, within the transaction of a commit."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from harnesses.data.record_size import CEILING_BYTES, check_size
from harnesses.errors import OrchestratorError
from orchestrator.store.message_values import ConsumedRow, Post, SentRow, full, is_bounded, record_of, unknown_recipient
from orchestrator.store.store_protocol import StepRow

Step: TypeAlias = tuple[int, int]
"""Number of a harness, and of its step."""

_RECIPIENT = "SELECT id, mailbox_limit FROM harnesses WHERE name = ?"
_KNOWN = "SELECT name FROM harnesses ORDER BY id LIMIT 11"
_NEWEST_WAITING = "SELECT coalesce(max(seq), 0) FROM mailbox WHERE harness = ? AND consumed_step IS NULL AND kind <> 'reply'"
WAITING = """
SELECT count(*) FROM (
    SELECT 1 FROM mailbox WHERE harness = ? AND consumed_step IS NULL AND kind <> 'reply'
    AND (deadline_us IS NULL OR deadline_us > ?) LIMIT ?
)
"""
"""Those that take a place in a mailbox at a moment, up to a number: a request whose deadline has passed takes none."""
_SAME_ID = "SELECT seq FROM mailbox WHERE harness = ? AND id = ?"
_IS_WAITING = (
    "SELECT 1 FROM mailbox WHERE seq = ? AND harness = ? AND consumed_step IS NULL AND kind <> 'reply' "
    "AND (deadline_us IS NULL OR deadline_us > ?)"
)
_INSERT = """
INSERT INTO mailbox (seq, harness, sender, body, id, kind, type, deadline_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""


class InsertRecord(Protocol):
    """Writes a record; returns its `seq`."""

    def __call__(self, harness: int, epoch: int, attempt: int, step: int, time_us: int, body: str, kind: str) -> int: ...


class SqliteMail:
    """The mailboxes of a store, on the connection of its writer."""

    def __init__(self, db: sqlite3.Connection, location: str, insert_record: InsertRecord) -> None:
        self._db = db
        self._location = location
        self._insert_record = insert_record
        self.before: dict[int, int] = {}
        """Of the messages put in this commit: what was waiting before each; see `Committed`."""

    def put(self, post: Post) -> int:
        """Put a message in a mailbox; return its `seq`, or that of the one of the same id that came before it.

        Raises:
            UnknownHarness: there is no such harness.
            MailboxFull: as many wait as its limit allows.
        """
        harness, limit = self._recipient(post.to)
        if (seq := self._same(harness, post)) is not None:
            return seq
        if limit is not None and is_bounded(post) and self._waiting(harness, limit, post.time_us) >= limit:
            raise full(post.to, limit)
        return self._insert(harness, post)

    def refused(
        self,
        steps: Iterable[StepRow],
        consumed: Iterable[ConsumedRow],
        sent: Iterable[SentRow],
        epochs: Mapping[int, int],
    ) -> dict[Step, OrchestratorError]:
        """Return the steps that send what cannot be put in a mailbox, and why. What a step uses up makes room before."""
        by_step: dict[Step, list[Post]] = {}
        for row in sent:
            by_step.setdefault((row.harness, row.step), []).append(row.post)
        used: dict[Step, list[ConsumedRow]] = {}
        for one in consumed:
            used.setdefault((one.harness, one.step), []).append(one)
        refused: dict[Step, OrchestratorError] = {}
        change: Counter[int] = Counter()
        for step in steps:
            if epochs.get(step.harness) != step.epoch:
                continue
            key = step.harness, step.step
            mine: Counter[int] = Counter(change)
            mine[step.harness] -= sum(self._is_waiting(one, step.time_us) for one in used.get(key, ()))
            try:
                for post in by_step.get(key, ()):
                    self._make_room(post, mine, step.time_us)
            except OrchestratorError as error:
                refused[key] = error
            else:
                change = mine
        return refused

    def send(self, sent: Sequence[SentRow], written: Collection[Step]) -> list[int]:
        """Put what the steps that were written send; return the `seq`s, 0 for each that is not."""
        seqs: list[int] = []
        for row in sent:
            if (row.harness, row.step) not in written:
                seqs.append(0)
                continue
            harness, _ = self._recipient(row.post.to)
            seq = self._same(harness, row.post)
            seqs.append(self._insert(harness, row.post) if seq is None else seq)
        return seqs

    def consume(self, consumed: Iterable[ConsumedRow]) -> None:
        """Have messages used up."""
        rows = [(row.step, row.message, row.harness) for row in consumed]
        if rows:
            self._db.executemany("UPDATE mailbox SET consumed_step = ? WHERE seq = ? AND harness = ?", rows)

    def _make_room(self, post: Post, change: Counter[int], now_us: int) -> None:
        """Note a message in `change`, which is how many more wait in each mailbox, or fewer, than before the commit."""
        harness, limit = self._recipient(post.to)
        check_size("the message", post.body, CEILING_BYTES)
        if not is_bounded(post) or self._same(harness, post) is not None:
            return
        if limit is not None and self._waiting(harness, limit - change[harness], now_us) + change[harness] >= limit:
            raise full(post.to, limit)
        change[harness] += 1

    def _insert(self, harness: int, post: Post) -> int:
        (before,) = self._db.execute(_NEWEST_WAITING, (harness,)).fetchone()
        check_size("the message", post.body, CEILING_BYTES)
        seq = self._insert_record(harness, 0, 0, 0, post.time_us, record_of(post), "message")
        extra = post.id or None, post.kind, post.type or None, post.deadline_us or None
        self._db.execute(_INSERT, (seq, harness, post.sender, post.body, *extra))
        self.before[seq] = before
        return seq

    def _recipient(self, name: str) -> tuple[int, int | None]:
        row = self._db.execute(_RECIPIENT, (name,)).fetchone()
        if row is None:
            known = [other for (other,) in self._db.execute(_KNOWN)]
            raise unknown_recipient(name, known, self._location)
        return row[0], row[1]

    def _same(self, harness: int, post: Post) -> int | None:
        row = self._db.execute(_SAME_ID, (harness, post.id)).fetchone() if post.id else None
        return None if row is None else int(row[0])

    def _waiting(self, harness: int, most: int, now_us: int) -> int:
        """Return how many messages wait in a mailbox; no more than `most` are counted."""
        return int(self._db.execute(WAITING, (harness, now_us, max(most, 0))).fetchone()[0])

    def _is_waiting(self, used: ConsumedRow, now_us: int) -> bool:
        return self._db.execute(_IS_WAITING, (used.message, used.harness, now_us)).fetchone() is not None
