"""What waits to be committed, what is committed together, and waking those who wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Protocol

import trio
from outcome import Error
from trio.lowlevel import Abort, RaiseCancelT, Task, reschedule, wait_task_rescheduled

from harnesses.redaction.redactor import LineRedactor
from orchestrator.errors import OrchestratorError, OwnershipLost, StoreCorrupt
from orchestrator.store.store_protocol import Committed, ConsumedRow, EffectRow, Operation, SentRow, StepRow, Store


class Condition:
    """Rung at every change of what it belongs to; whoever waits for a condition of that looks again.

    It costs nothing until somebody waits: there are ten thousand of them.
    """

    __slots__ = ("_lot",)

    def __init__(self) -> None:
        self._lot: trio.lowlevel.ParkingLot | None = None

    def ring(self) -> None:
        """Have everyone who waits look at their condition again."""
        if self._lot is not None:
            self._lot.unpark_all()

    async def until(self, condition: Callable[[], object]) -> None:
        """Return when `condition()` is true. A checkpoint in any case."""
        if condition():
            await trio.lowlevel.checkpoint()
            return
        if self._lot is None:
            self._lot = trio.lowlevel.ParkingLot()
        while not condition():
            await self._lot.park()


class Outgoing(Protocol):
    """What a step sends, and who is to know of it."""

    @property
    def rows(self) -> Sequence[SentRow]:
        """The messages on their way to the store."""
        ...

    def deliver(self, seqs: Sequence[int], before: Mapping[int, int]) -> None:
        """Bring messages that are in the store now to whoever waits for them."""
        ...


class PendingWrite:
    """One sender's place in the channel; it is used again for each of its steps."""

    __slots__ = ("consumed", "effect", "lines", "notes", "operation", "redacted", "result", "row", "sent", "task")

    def __init__(self) -> None:
        self.row: StepRow | None = None
        self.consumed: tuple[ConsumedRow, ...] = ()
        self.notes: tuple[EffectRow, ...] = ()
        """What is recorded beside `row`: written if it is, and only then."""
        self.sent: Outgoing | None = None
        """What the step sends: put in mailboxes if `row` is written, and only then."""
        self.effect: EffectRow | None = None
        self.redacted = False
        """Whether secrets are still to be taken out of `row`, `notes` and `effect`."""
        self.lines: LineRedactor | None = None
        """What knows of the lines before `effect`, if that is a line of output."""
        self.operation: Operation | None = None
        self.task: Task | None = None
        self.result: Any = None


class Receipt:
    """An operation under way. Await it for the result; it is carried out whether or not anyone does."""

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
        """Give the result, or the error, to whoever waits."""
        self._result, self._settled = result, True
        self._bell.ring()


class Batch:
    """What is committed in one transaction."""

    __slots__ = ("effects", "is_sending", "operations", "slots", "steps")

    def __init__(self, slots: list[PendingWrite]) -> None:
        self.slots = slots
        self.steps = [slot for slot in slots if slot.row is not None]
        self.is_sending = False
        """Whether a step in it sends something."""
        self.effects: list[PendingWrite] = []
        self.operations: list[PendingWrite] = []
        if len(self.steps) < len(slots):
            self.effects = [slot for slot in slots if slot.effect is not None]
            self.operations = [slot for slot in slots if slot.operation is not None]

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
        newest = max(max(committed.seqs, default=0), max(committed.effects, default=0), max(committed.sent, default=0))
        # A store that knows nothing of effects gives no numbers for them: then none is recorded.
        # Messages before anybody is woken: a sender that goes on finds its message in the mailbox it was sent to.
        if self.is_sending:
            deliver(self.steps, committed)
        noted = committed.effects[: len(self.effects)] or [0] * len(self.effects)
        for slots, seqs in ((self.steps, committed.seqs), (self.effects, noted)):
            if all(seqs):
                for slot in slots:
                    if slot.task is not None:
                        reschedule(slot.task, _WAKE)
            else:
                _settle_some(slots, seqs, committed)
        # Operations last: what is done with a result may look at anything that its batch has recorded.
        for slot, result in zip(self.operations, committed.results, strict=True):
            newest = max(newest, result if isinstance(result, int) else getattr(result, "seq", 0))
            answer(slot, result)
        return newest


def deliver(slots: Sequence[PendingWrite], committed: Committed) -> None:
    """Bring what steps have sent to whoever waits for it."""
    first = 0
    for slot, seq in zip(slots, committed.seqs, strict=True):
        if slot.sent is not None:
            count = len(slot.sent.rows)
            seqs = committed.sent[first : first + count]
            first += count
            if seq:
                slot.sent.deliver(seqs, committed.before)


def _settle_some(slots: list[PendingWrite], seqs: Sequence[int], committed: Committed) -> None:
    for slot, seq in zip(slots, seqs, strict=True):
        if not seq:
            row = slot.row or slot.effect
            assert row is not None
            refuse(slot, _refusal(row, committed))
        elif slot.task is not None:
            reschedule(slot.task, _WAKE)


def refusal_of(slot: PendingWrite, committed: Committed) -> OrchestratorError | None:
    """Return why the only row of a commit was not written; None if it was."""
    row = slot.row or slot.effect
    if row is None or any(committed.seqs) or any(committed.effects):
        return None
    return _refusal(row, committed)


def _refusal(row: StepRow | EffectRow, committed: Committed) -> OrchestratorError:
    if (why := committed.refused.get(row.harness)) is not None:
        return why
    if row.harness in committed.lost:
        return OwnershipLost("another run has taken this harness over; this one has stopped it")
    return StoreCorrupt(f"step {row.step} is not the next one of its harness in the store; nothing was written")


def answer(slot: PendingWrite, result: Any) -> None:
    """Give an operation's result to its sender, who may wait in a task or not at all."""
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
    """Wait for what was enqueued to be durable. No cancellation ends the wait.

    Raises:
        OwnershipLost: another run has taken the harness over; the step is not recorded.
        StoreLost: the store has failed; the step is not recorded.
    """
    return wait_task_rescheduled(_never)  # noqa: ASYNC105 - the caller awaits it: one coroutine less for each step


def _never(_: RaiseCancelT) -> Abort:
    return Abort.FAILED


class _Wake:
    """Wakes any number of tasks with None. Trio only calls `unwrap`; an `outcome.Value` for each would serve one task."""

    def unwrap(self) -> None:
        return None


_WAKE: Any = _Wake()
