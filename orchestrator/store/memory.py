"""The store in memory: for tests, and for runs that nobody needs to look up afterwards. It keeps the same laws."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from typing import Any

from attrs import define, field

from harnesses.errors import OrchestratorError
from orchestrator.codec import decode, decode_step, encode, replay
from orchestrator.errors import OwnedElsewhere, OwnershipLost, UnknownHarness, UsageError
from orchestrator.events import Restarting
from orchestrator.lifecycle import Status, remembers_restarts
from orchestrator.records import HarnessRecord, Record, StepRecord
from orchestrator.store.protocol import (
    Append,
    Claim,
    Claimed,
    Committed,
    ConsumedRow,
    Message,
    Operation,
    Post,
    StepRow,
)


@define
class _Harness:
    """One harness and all that it did."""

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
    mailbox: dict[int, Message] = field(factory=dict[int, Message])

    def is_held(self, epoch: int) -> bool:
        return self.owned and self.epoch == epoch

    def rows(self, after: int, limit: int) -> list[tuple[int, int, int, int, str]]:
        chosen = self.steps[max(after, 0) : max(after, 0) + limit]
        return [(row.attempt, seq, row.step, row.time_us, row.body) for seq, row in chosen]


class MemoryStore:
    """A store that ends with the process."""

    blocking = False
    location = "memory"

    def __init__(self) -> None:
        self.run = secrets.token_hex(6)
        self._lock = threading.Lock()
        self._harnesses: dict[int, _Harness] = {}
        self._by_name: dict[str, _Harness] = {}
        self._records: list[Record] = []

    def commit(
        self,
        steps: Sequence[StepRow],
        operations: Sequence[Operation] = (),
        *,
        consumed: Sequence[ConsumedRow] = (),
        wait: bool = True,
    ) -> Committed:
        """Keep all of it; see `Store.commit`."""
        # Whatever can fail is looked at before anything is changed: all or nothing.
        steps, operations, consumed = list(steps), list(operations), list(consumed)
        with self._lock:
            lost = frozenset(row.harness for row in steps if not self._harnesses[row.harness].is_held(row.epoch))
            seqs = [0 if row.harness in lost else self._add_step(row) for row in steps]
            written = {(row.harness, row.step) for row, seq in zip(steps, seqs, strict=True) if seq}
            for used in consumed:
                if (used.harness, used.step) in written:
                    self._harnesses[used.harness].mailbox.pop(used.message, None)
            return Committed(seqs, [self._do(operation) for operation in operations], lost)

    def close(self) -> None:
        """Give back every harness. What was recorded can still be read."""
        for harness in self._harnesses.values():
            harness.owned = False

    def harnesses(self) -> list[HarnessRecord]:
        """Return every harness, in the order of their first start."""
        with self._lock:
            return [_known(harness) for harness in self._harnesses.values()]

    def steps(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRecord]:
        """Return at most `limit` steps of one harness, oldest first, from number `after + 1`."""
        with self._lock:
            rows = self._named(name).rows(after, limit)
        return [decode_step(name, *row) for row in rows]

    def state_at(self, name: str, step: int) -> str:
        """Return the JSON of the state after `step`; 0 is the initial one."""
        with self._lock:
            harness = self._named(name)
            if not 0 <= step <= len(harness.steps):
                raise UsageError(f"harness {name!r} has no step {step}: expected a number from 0 to its last step")
            saved = max(number for number in harness.snapshots if number <= step)
            state, rows = harness.snapshots[saved], harness.rows(saved, step - saved)
        return replay(state, [row[4] for row in rows])

    def last_seq(self) -> int:
        """Return the `seq` of the newest record; 0 if there is none."""
        return len(self._records)

    def records(self, *, after: int = 0, limit: int = 1000) -> list[Record]:
        """Return at most `limit` records of any kind with `seq > after`, in order of `seq`."""
        with self._lock:
            return self._records[max(after, 0) : max(after, 0) + limit]

    def _named(self, name: str) -> _Harness:
        harness = self._by_name.get(name)
        if harness is None:
            known = ", ".join(list(self._by_name)[:10]) or "none yet"
            raise UnknownHarness(f"no harness {name!r} in {self.location}: expected one of {known}")
        return harness

    def _add_step(self, row: StepRow) -> int:
        harness = self._harnesses[row.harness]
        if row.step != len(harness.steps) + 1:
            return 0
        seq = self._add(harness.name, row.attempt, row.step, row.time_us, "step", row.body)
        harness.steps.append((seq, row))
        if row.state is not None:
            harness.snapshots[row.step] = row.state
        return seq

    def _add(self, name: str, attempt: int, step: int, time_us: int, kind: str, body: str) -> int:
        seq = len(self._records) + 1
        self._records.append(Record(seq, name, attempt, step, time_us, kind, body, "" if kind == "message" else self.run))
        return seq

    def _do(self, operation: Operation) -> Any:
        try:
            match operation:
                case Claim():
                    return self._claim(operation)
                case Append():
                    return self._append(operation)
                case Post():
                    return self._post(operation)
        except OrchestratorError as error:
            return error

    def _claim(self, claim: Claim) -> Claimed:
        harness = self._by_name.get(claim.name)
        if harness is None:
            number = len(self._harnesses) + 1
            harness = _Harness(number, claim.name, claim.harness_class, snapshots={0: claim.initial_state})
            self._harnesses[number] = self._by_name[claim.name] = harness
        if harness.owned and not claim.take_over:
            raise OwnedElsewhere(f"harness {claim.name!r} is owned elsewhere: it runs already; stop that one first")
        if harness.status != Status.COMPLETED:
            harness.owned = True
            harness.epoch += 1
            harness.harness_class = claim.harness_class
        head = len(harness.steps)
        saved = max(harness.snapshots)
        return Claimed(
            harness=harness.number,
            epoch=harness.epoch,
            status=harness.status,
            attempt=harness.attempt,
            step=head,
            state=replay(harness.snapshots[saved], [row[4] for row in harness.rows(saved, head)]),
            mailbox=tuple(harness.mailbox.values()),
            event=decode(harness.event),
            supervision=decode(harness.supervision),
            unsaved_steps=head - saved,
        )

    def _append(self, append: Append) -> int:
        harness = self._harnesses[append.harness]
        if harness.epoch != append.epoch or not harness.owned:
            raise OwnershipLost(f"harness {harness.name!r} was taken over by another run; this one has stopped it")
        harness.event = encode(append.event)
        harness.status, harness.attempt, harness.time_us = append.status, append.attempt, append.time_us
        if isinstance(append.event, Restarting) or not remembers_restarts(append.event):
            harness.supervision = harness.event if isinstance(append.event, Restarting) else "{}"
        harness.owned = not append.release
        return self._add(harness.name, append.attempt, append.step, append.time_us, append.event.kind, harness.event)

    def _post(self, post: Post) -> int:
        harness = self._named(post.to)
        body = encode({"from": post.sender, "message": decode(post.body)})
        seq = self._add(harness.name, 0, 0, post.time_us, "message", body)
        harness.mailbox[seq] = Message(seq, post.sender, post.body)
        return seq


def _known(harness: _Harness) -> HarnessRecord:
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
