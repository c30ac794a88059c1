"""What waits to be committed, what is committed together, and waking those who wait."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any

from outcome import Error
from trio.lowlevel import Abort, RaiseCancelT, Task, reschedule, wait_task_rescheduled

from orchestrator.bell import Bell
from orchestrator.errors import OrchestratorError, OwnershipLost, StoreCorrupt
from orchestrator.store.protocol import Committed, ConsumedRow, Operation, StepRow, Store


class Slot:
    """One sender's place in the channel; it is used again for each of its steps."""

    __slots__ = ("consumed", "operation", "result", "row", "task")

    def __init__(self) -> None:
        self.row: StepRow | None = None
        self.consumed: tuple[ConsumedRow, ...] = ()
        self.operation: Operation | None = None
        self.task: Task | None = None
        self.result: Any = None


class Receipt:
    """An operation under way. Await it for the result; it is carried out whether or not anyone does."""

    __slots__ = ("_bell", "_result", "_settled")

    def __init__(self) -> None:
        self._bell = Bell()
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

    __slots__ = ("operations", "slots", "steps")

    def __init__(self, slots: list[Slot]) -> None:
        self.slots = slots
        self.steps = [slot for slot in slots if slot.operation is None]
        self.operations = [slot for slot in slots if slot.operation is not None] if len(self.steps) < len(slots) else []

    def commit(self, store: Store, *, wait: bool) -> Committed:
        steps = self.steps
        return store.commit(
            [slot.row for slot in steps],  # type: ignore[misc]
            [slot.operation for slot in self.operations],  # type: ignore[misc]
            consumed=[row for slot in steps if slot.consumed for row in slot.consumed],
            wait=wait,
        )

    def settle(self, committed: Committed) -> int:
        """Wake the senders; return the newest `seq`."""
        newest = max(committed.seqs, default=0)
        if not all(committed.seqs):
            self._settle_some(committed)
        else:
            for slot in self.steps:
                reschedule(slot.task, _WAKE)  # type: ignore[arg-type]
        for slot, result in zip(self.operations, committed.results, strict=True):
            if isinstance(result, int):
                newest = max(newest, result)
            answer(slot, result)
        return newest

    def _settle_some(self, committed: Committed) -> None:
        for slot, seq in zip(self.steps, committed.seqs, strict=True):
            if seq:
                reschedule(slot.task, _WAKE)  # type: ignore[arg-type]
            else:
                assert slot.row is not None
                refuse(slot, _refusal(slot.row, slot.row.harness in committed.lost))


def refusal_of(slot: Slot, committed: Committed) -> OrchestratorError | None:
    """Return why the only step of a commit was not written; None if it was."""
    if committed.seqs[0] or slot.row is None:
        return None
    return _refusal(slot.row, slot.row.harness in committed.lost)


def _refusal(row: StepRow, lost: bool) -> OrchestratorError:
    if lost:
        return OwnershipLost("another run has taken this harness over; this one has stopped it")
    return StoreCorrupt(f"step {row.step} is not the next one of its harness in the store; nothing was written")


def answer(slot: Slot, result: Any) -> None:
    """Give an operation's result to its sender, who may wait in a task or not at all."""
    if isinstance(result, BaseException):
        refuse(slot, result)
    elif slot.task is not None:
        slot.result = result
        reschedule(slot.task)
    else:
        slot.result(result)


def refuse(slot: Slot, error: BaseException) -> None:
    if slot.task is not None:
        reschedule(slot.task, Error(error))
    else:
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
