"""How a store puts messages into mailboxes, independent of where it keeps their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from attrs import define, field

from harnesses.data.record_size import CEILING_BYTES, check_size
from harnesses.errors import OrchestratorError
from orchestrator.store.store_operations import (
    ConsumedRow,
    InsertRecord,
    Post,
    SentRow,
    full,
    is_bounded,
    record_of,
)
from orchestrator.store.store_protocol import StepRow

Step: TypeAlias = tuple[int, int]
"""Number of a harness, and of its step."""


class MailRows(Protocol):
    """Access to a store's mailboxes, within the transaction of a commit."""

    def recipient(self, name: str) -> tuple[int, int | None]:
        """Return the number of a harness, and the limit of its mailbox.

        Raises:
            UnknownHarness: there is no such harness; the error names the existing ones.
        """
        ...

    def same(self, harness: int, id: str) -> int | None:
        """Return the `seq` of the message with this id, even if it was consumed."""
        ...

    def waiting(self, harness: int, most: int, now_us: int) -> int:
        """Return how many messages take a place in a mailbox, counting no further than `most`."""
        ...

    def is_waiting(self, used: ConsumedRow, now_us: int) -> bool:
        """Return whether a message takes a place in its mailbox."""
        ...

    def newest_waiting(self, harness: int) -> int:
        """Return the `seq` of the newest waiting message, replies not counted; 0 if there is none."""
        ...

    def add(self, seq: int, harness: int, post: Post) -> None:
        """Put a message into a mailbox."""
        ...

    def consume(self, rows: Sequence[ConsumedRow]) -> None:
        """Mark messages as consumed."""
        ...


@define(eq=False)
class MailRules:
    """Carries out the operations on mailboxes."""

    _rows: MailRows
    _insert_record: InsertRecord
    before: dict[int, int] = field(factory=dict[int, int])
    """For each message put in this commit, the one waiting before it; see `Committed`."""

    def put(self, post: Post) -> int:
        """Put a message into a mailbox; return its `seq`, or that of an earlier one with the same id.

        Raises:
            UnknownHarness: there is no such harness.
            MailboxFull: the mailbox is at its limit.
        """
        harness, limit = self._rows.recipient(post.to)
        if (seq := self._same(harness, post)) is not None:
            return seq
        if limit is not None and is_bounded(post) and self._rows.waiting(harness, limit, post.time_us) >= limit:
            raise full(post.to, limit)
        return self._insert(harness, post)

    def refused(
        self,
        steps: Iterable[StepRow],
        consumed: Iterable[ConsumedRow],
        sent: Iterable[SentRow],
        epochs: Mapping[int, int],
    ) -> dict[Step, OrchestratorError]:
        """Return the steps whose messages cannot be delivered, and why. Messages that a step consumes make room first."""
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
            mine[step.harness] -= sum(self._rows.is_waiting(one, step.time_us) for one in used.get(key, ()))
            try:
                for post in by_step.get(key, ()):
                    self._make_room(post, mine, step.time_us)
            except OrchestratorError as error:
                refused[key] = error
            else:
                change = mine
        return refused

    def send(self, sent: Sequence[SentRow], written: Collection[Step]) -> list[int]:
        """Put the messages of the written steps into mailboxes; return their `seq`s, 0 for a step that was not written."""
        seqs: list[int] = []
        for row in sent:
            if (row.harness, row.step) not in written:
                seqs.append(0)
                continue
            harness, _ = self._rows.recipient(row.post.to)
            seq = self._same(harness, row.post)
            seqs.append(self._insert(harness, row.post) if seq is None else seq)
        return seqs

    def consume(self, consumed: Sequence[ConsumedRow]) -> None:
        """Mark messages as consumed."""
        if consumed:
            self._rows.consume(consumed)

    def _make_room(self, post: Post, change: Counter[int], now_us: int) -> None:
        """Count a message in `change`, the difference in waiting messages of each mailbox since before the commit."""
        harness, limit = self._rows.recipient(post.to)
        check_size("the message", post.body, CEILING_BYTES)
        if not is_bounded(post) or self._same(harness, post) is not None:
            return
        if limit is not None and self._rows.waiting(harness, limit - change[harness], now_us) + change[harness] >= limit:
            raise full(post.to, limit)
        change[harness] += 1

    def _insert(self, harness: int, post: Post) -> int:
        before = self._rows.newest_waiting(harness)
        check_size("the message", post.body, CEILING_BYTES)
        seq = self._insert_record(harness, 0, 0, 0, post.time_us, record_of(post), "message")
        self._rows.add(seq, harness, post)
        self.before[seq] = before
        return seq

    def _same(self, harness: int, post: Post) -> int | None:
        return self._rows.same(harness, post.id) if post.id else None
