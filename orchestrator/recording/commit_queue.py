"""The queue of pending writes, the batches made of them, and waking their senders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Protocol

import trio
from outcome import Error
from trio.lowlevel import Abort, RaiseCancelT, Task, reschedule, wait_task_rescheduled

from harnesses.data.large_values import LARGE_BYTES
from harnesses.redaction.redactor import LineRedactor
from orchestrator.errors import OrchestratorError, OwnershipLost, StoreCorrupt
from orchestrator.store.store_protocol import Committed, ConsumedRow, EffectRow, Operation, SentRow, StepRow, Store


class Condition:
    """A condition variable without a lock: `ring` makes every waiter check its condition again.

    It costs nothing while nobody waits, since there may be ten thousand of them.
    """

    __slots__ = ("_lot",)

    def __init__(self) -> None:
        self._lot: trio.lowlevel.ParkingLot | None = None

    def ring(self) -> None:
        """Let every waiter check its condition again."""
        if self._lot is not None:
            self._lot.unpark_all()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until `condition()` is true. Always a checkpoint."""
        if condition():
            await trio.lowlevel.checkpoint()
            return
        if self._lot is None:
            self._lot = trio.lowlevel.ParkingLot()
        while not condition():
            await self._lot.park()


class Outgoing(Protocol):
    """Messages sent by a step, and their delivery."""

    @property
    def rows(self) -> Sequence[SentRow]:
        """Rows of the messages for the store."""
        ...

    def deliver(self, seqs: Sequence[int], before: Mapping[int, int]) -> None:
        """Deliver messages that are now in the store."""
        ...


class PendingWrite:
    """One sender's place in the queue, reused for each of its steps."""

    __slots__ = ("consumed", "effect", "lines", "notes", "operation", "redacted", "result", "row", "sent", "task")

    def __init__(self) -> None:
        self.row: StepRow | None = None
        self.consumed: tuple[ConsumedRow, ...] = ()
        self.notes: tuple[EffectRow, ...] = ()
        """Rows recorded together with `row`: attachments only if it is written, effects even if its messages are refused."""
        self.sent: Outgoing | None = None
        """Messages of the step, put into mailboxes only if `row` is written."""
        self.effect: EffectRow | None = None
        self.redacted = False
        """Whether secrets are still to be removed from `row`, `notes` and `effect`."""
        self.lines: LineRedactor | None = None
        """Redaction state of the preceding lines, if `effect` is a line of output."""
        self.operation: Operation | None = None
        self.task: Task | None = None
        self.result: Any = None


class Receipt:
    """A submitted operation. Awaiting it returns the result; it is carried out whether or not it is awaited."""

    __slots__ = ("_bell", "_result", "_settled")

    def __init__(self) -> None:
        self._bell = Condition()
        self._settled = False
        self._result: Any = None

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        await self._bell.until(lambda: self._settled)
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    def settle(self, result: Any) -> None:
        """Pass the result, or the error, to whoever waits."""
        self._result, self._settled = result, True
        self._bell.ring()


class Batch:
    """What is committed in one transaction."""

    __slots__ = ("effects", "is_sending", "operations", "slots", "steps")

    def __init__(self, slots: list[PendingWrite]) -> None:
        self.slots = slots
        self.steps = [slot for slot in slots if slot.row is not None]
        self.is_sending = False
        """Whether a step in it sends messages."""
        self.effects: list[PendingWrite] = []
        self.operations: list[PendingWrite] = []
        if len(self.steps) < len(slots):
            self.effects = [slot for slot in slots if slot.effect is not None]
            self.operations = [slot for slot in slots if slot.operation is not None]

    @property
    def is_large(self) -> bool:
        """Whether a value in it may go to a file, which takes longer than a row."""
        if self.effects and any(slot.effect is not None and len(slot.effect.body) > LARGE_BYTES for slot in self.effects):
            return True
        return any(slot.notes and any(len(note.body) > LARGE_BYTES for note in slot.notes) for slot in self.steps)

    def commit(self, store: Store, *, wait: bool) -> Committed:
        steps: list[Any] = [slot.row for slot in self.steps]
        operations: list[Any] = [slot.operation for slot in self.operations]
        consumed = [row for slot in self.steps if slot.consumed for row in slot.consumed]
        notes = [row for slot in self.steps if slot.notes for row in slot.notes]
        sending = [slot.sent for slot in self.steps if slot.sent is not None]
        if sending:
            self.is_sending = True
            sent = [row for outgoing in sending for row in outgoing.rows]
            rows = [*(slot.effect for slot in self.effects if slot.effect is not None), *notes]
            return store.commit(steps, operations, effects=rows, consumed=consumed, sent=sent, wait=wait)
        if not self.effects and not notes:
            return store.commit(steps, operations, consumed=consumed, wait=wait)
        effects: list[Any] = [*(slot.effect for slot in self.effects), *notes]
        return store.commit(steps, operations, effects=effects, consumed=consumed, wait=wait)

    def settle(self, committed: Committed) -> int:
        """Wake the senders; return the newest `seq`."""
        if committed.stored:
            take_stored(self.effects, committed)
        newest = max(max(committed.seqs, default=0), max(committed.effects, default=0), max(committed.sent, default=0))
        # A store without effects returns no numbers for them: then none is recorded.
        # Messages before senders: a sender that continues finds its message in the recipient's mailbox.
        if self.is_sending:
            deliver(self.steps, committed)
        noted = committed.effects[: len(self.effects)] or [0] * len(self.effects)
        for slots, seqs in ((self.steps, committed.seqs), (self.effects, noted)):
            if all(seqs):
                for slot in slots:
                    if slot.task is not None:
                        reschedule(slot.task, _WAKE)
                    elif slot.result is not None:
                        slot.result(None)
            else:
                _settle_some(slots, seqs, committed)
        # Operations last: a result callback may read anything that its batch recorded.
        for slot, result in zip(self.operations, committed.results, strict=True):
            newest = max(newest, result if isinstance(result, int) else getattr(result, "seq", 0))
            answer(slot, result)
        return newest


def deliver(slots: Sequence[PendingWrite], committed: Committed) -> None:
    """Deliver the messages of steps."""
    first = 0
    for slot, seq in zip(slots, committed.seqs, strict=True):
        if slot.sent is not None:
            count = len(slot.sent.rows)
            seqs = committed.sent[first : first + count]
            first += count
            if seq:
                slot.sent.deliver(seqs, committed.before)


def take_stored(slots: Sequence[PendingWrite], committed: Committed) -> None:
    """Put the bodies as they were recorded into the slots of effects whose large value is in a file."""
    for place, body in committed.stored.items():
        if place < len(slots) and (row := slots[place].effect) is not None:
            slots[place].effect = row._replace(body=body)


def _settle_some(slots: list[PendingWrite], seqs: Sequence[int], committed: Committed) -> None:
    for slot, seq in zip(slots, seqs, strict=True):
        if not seq:
            row = slot.row or slot.effect
            assert row is not None
            refuse(slot, _refusal(row, committed))
        elif slot.task is not None:
            reschedule(slot.task, _WAKE)
        elif slot.result is not None:
            slot.result(None)


def refusal_of(slot: PendingWrite, committed: Committed) -> OrchestratorError | None:
    """Return why the only row of a commit was not written; None if it was."""
    row = slot.row or slot.effect
    # A step may be refused although effects that came with it were recorded.
    if row is None or any(committed.effects if slot.row is None else committed.seqs):
        return None
    return _refusal(row, committed)


def _refusal(row: StepRow | EffectRow, committed: Committed) -> OrchestratorError:
    if (why := committed.refused.get(row.harness)) is not None:
        return why
    if row.harness in committed.lost:
        return OwnershipLost("another run has taken this harness over; this run has stopped it")
    return StoreCorrupt(f"step {row.step} is not the next one of its harness in the store; nothing was written")


def answer(slot: PendingWrite, result: Any) -> None:
    """Pass an operation's result to its sender, whether that waits in a task or not."""
    if isinstance(result, BaseException):
        refuse(slot, result)
    elif slot.task is not None:
        slot.result = result
        reschedule(slot.task)
    else:
        slot.result(result)


def refuse(slot: PendingWrite, error: BaseException) -> None:
    if slot.task is not None:
        reschedule(slot.task, Error(error))
    elif slot.result is not None:
        slot.result(error)


def settled() -> Awaitable[Any]:
    """Wait until what was enqueued is durable. Not cancellable.

    Raises:
        OwnershipLost: another run took the harness over; the step is not recorded.
        StoreLost: the store failed; the step is not recorded.
    """
    return _SETTLED


def _never(_: RaiseCancelT) -> Abort:
    return Abort.FAILED


def _parking() -> object:
    """Return what a task yields to Trio to be parked. `wait_task_rescheduled` makes one for each wait; one serves all."""
    waiting: Any = wait_task_rescheduled(_never)  # noqa: ASYNC105 - only what it yields is wanted
    parking: object = waiting.send(None)
    waiting.close()
    return parking


class _Settled:
    """Waits as `wait_task_rescheduled` does, without making a coroutine, a generator and a record each time."""

    __slots__ = ("_parking",)

    def __init__(self) -> None:
        self._parking = _parking()

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self._parking).unwrap()


_SETTLED = _Settled()


class _Wake:
    """Wakes any number of tasks with None. Trio only calls `unwrap`, and an `outcome.Value` can serve only one task."""

    def unwrap(self) -> None:
        return None


_WAKE: Any = _Wake()
