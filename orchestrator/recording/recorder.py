"""The single writer: it collects pending writes, commits them in batches, and only then wakes their senders.

Invariants: a sender woken with a `seq` has something durable; a sender whose write is not recorded gets an error; nobody
waits forever.

    record, submit ──list──► batch ──► writer thread: one transaction ──► every sender in it is woken

A harness has at most one step in progress, so a sender never waits for room. A batch is
what was runnable when its first item arrived; a large one is handed over at once, so that the disk works while the other
harnesses step. A batch of one is committed without the thread as long as commits are fast: switching threads takes longer.
To a store on a server (`Leased`), every commit is made in the thread.
What nobody waits for and nothing needs soon, such as the intent of a model call, wakes nobody: it joins the next batch.

The recorder:

    state      a slot is sent          `run` has its turn            `close`        a commit fails, `lose`
    made       waits in the list       → serving                     → closing      → lost
    serving    waits in the list       the list becomes a batch      → closing      → lost
    closing    refused: UsageError     the last batch, then → ended                 → lost
    lost       refused: StoreLost      refuses the rest              → ended        stays
    ended      refused: UsageError

A slot, and the task of its sender, if it waits:

    state      task      event                        next
    idle       runs      `enqueue`, in its own task   waiting
    waiting    parked    `_hand_over`                 in a batch
    in a batch parked    `_settle`: committed         idle; the task is woken
    in a batch parked    `_settle`: refused           idle; the task is woken with the error
    in a batch parked    `lose`                       idle; the task is woken with StoreLost

A sender's task still runs between `enqueue` and parking, so nothing that wakes tasks may run inside `enqueue`. A sender may
put a batch into the writer's queue, but commits and wake-ups are done by `run` and by callbacks from the writer thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

import trio
from trio.lowlevel import current_task

from harnesses.processes.fork_safety import end_fork
from harnesses.timing.clock import jumps
from orchestrator.errors import StoreBusy, StoreLost, UsageError
from orchestrator.recording.commit_queue import Batch, Condition, PendingWrite, Receipt, deliver, refusal_of, refuse, settled
from orchestrator.recording.histogram import AMOUNTS, SECONDS, Histogram
from orchestrator.recording.row_redaction import redact_result, redact_writes
from orchestrator.recording.switch_interval import prompt_switches
from orchestrator.store.store_capabilities import Leased
from orchestrator.store.store_protocol import Committed, Operation, Store

ResultT = TypeVar("ResultT")

_CHUNK = 512
"""Steps handed over without waiting for more: as many as one statement takes. Fewer, and the cost of a transaction shows;
more, and the disk and the harnesses wait for each other."""
_LARGEST_BYTES = 4_000_000
_QUICK_S = 0.001
"""Seconds up to which a commit of one step is done in the loop's own thread, which it blocks."""
_YIELD_S = 0.00005
"""Seconds. Measured with 1,000 harnesses: 5 to 10 % more steps a second, for 0.1 us a step."""
_ALONE = 8
"""Batches of one in a row after which the next step is no longer delayed to wait for others."""
_READERS = 4
"""Reads from a server at a time: as many as there are connections to it that are kept."""


class Recorder:
    """Accepts steps and operations, and commits them in batches.

    Args:
        store: the store to write to.
        on_lost: called once, with the error, when the store has failed.
    """

    def __init__(self, store: Store, on_lost: Callable[[StoreLost], None] = lambda error: None) -> None:
        self.store = store
        self.last_seq = 0
        """`seq` of the newest record committed by this recorder."""
        self._on_lost = on_lost
        self._waiting: list[PendingWrite] = []
        self._waiting_bytes = 0
        self._is_rung = False
        """Whether the recorder was told of what waits; what need not be committed soon waits without that."""
        self._arrivals = Condition()
        self._closed = False
        self._under_way: set[Batch] = set()
        self._has_thread = False
        """Whether commits run in the writer thread, from the start of `run` on; without a thread they run in the loop."""
        self._queue: SimpleQueue[Batch | None] = SimpleQueue()
        self._writer: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self.ended = False
        """Whether nothing more will be committed."""
        self._news = Condition()
        self._quick_s = 0.0
        self._alone = 0
        self._lost: StoreLost | None = None
        self._pid = os.getpid()
        self._may_block = store.blocking and not isinstance(store, Leased)
        """Whether a quick commit may be done in the loop's thread: on a server, the next one may take seconds."""
        self._readers = trio.CapacityLimiter(_READERS)
        self._aside = trio.CapacityLimiter(1)
        """One at a time: redactions of large rows would only compete for the interpreter."""
        self.settling = Committed((), ())
        """The commit whose senders are being notified, for their result callbacks."""
        self.commits_s = Histogram(SECONDS)
        """Durations of commits; only the loop's thread writes it."""
        self.batches = Histogram(AMOUNTS)
        """Numbers of steps committed together."""

    @property
    def queued(self) -> int:
        """Number of steps, effects and operations that wait for the disk."""
        return len(self._waiting) + sum(len(batch.slots) for batch in self._under_way)

    def commit_now(self, slot: PendingWrite) -> bool:
        """Commit `slot` in the loop's thread if no other sender was active for a while; return whether that was done.

        Otherwise a harness that steps alone would wait three scheduler passes for a batch that nobody joins.

        Raises:
            OwnershipLost: another run took the harness over; the step is not recorded.
            StoreLost: the store failed; the step is not recorded.
        """
        alone = self._alone >= _ALONE and not self._waiting and not self._under_way and self._quick_s < _QUICK_S
        if not alone or self._lost is not None or not self._may_block:
            return False
        if trio.lowlevel.current_statistics().tasks_runnable:
            self._alone = 0
            return False
        batch = Batch([slot])
        if batch.is_large:
            return False
        self._check_process()
        begin = time.perf_counter()
        try:
            redact_writes((slot,))
            committed = batch.commit(self.store, wait=False)
        except StoreBusy:
            return False
        except Exception as error:
            self.lose(error)
            raise self._again() from error
        took_s = time.perf_counter() - begin
        self._quick_s += (took_s - self._quick_s) / 8
        self._count(took_s, 1 if slot.row is not None else 0)
        refused = refusal_of(slot, committed)
        if refused is not None:
            raise refused
        self.last_seq = max(self.last_seq, *committed.seqs, *committed.effects, *committed.sent)
        if slot.sent is not None:
            deliver((slot,), committed)
        self._news.ring()
        return True

    async def redact_aside(self, slot: PendingWrite) -> None:
        """Remove the secrets from a large row before it is sent.

        This runs in a thread of its own, so that neither the loop nor other commits wait for it. On cancellation, nothing of
        the row is recorded, and the thread keeps running for a while.
        """
        if jumps():
            redact_writes((slot,))
            return
        await trio.to_thread.run_sync(redact_writes, (slot,), limiter=self._aside, abandon_on_cancel=True)

    async def redact_result_aside(self, text: str) -> str:
        """Return a large result of an effect without secrets. It waits for the thread even when it is cancelled."""
        if jumps():
            return redact_result(text)
        clean = text
        with trio.CancelScope(shield=True):
            clean = await trio.to_thread.run_sync(redact_result, text, limiter=self._aside)
        return clean  # noqa: RET504 - type checkers take a scope for one that may swallow an error

    def enqueue_soon(self, slot: PendingWrite) -> None:
        """Send `slot` to be committed without waiting. If the store is lost, the write is dropped."""
        if self._lost is None and not self._closed:
            self._send_slot(slot)

    def enqueue_along(self, slot: PendingWrite) -> None:
        """Send `slot` to be committed together with what is sent next, or at the end. If the store is lost, it is dropped."""
        if self._lost is None and not self._closed:
            self._send_slot(slot, rings=False)

    def enqueue(self, slot: PendingWrite) -> None:
        """Send `slot` to be committed. The caller must await `settled()` next, and nothing in between.

        Raises:
            StoreLost: the store has failed.
        """
        if self._lost is not None:
            raise self._again()
        # Before it is sent: a slot without a task counts as one that nobody waits for.
        slot.task = current_task()
        self._send_slot(slot)

    def enqueue_all(self, slots: Sequence[PendingWrite]) -> None:
        """Send steps to be committed in this order. The last one's `result` is called with None, or with the error.

        Raises:
            StoreLost: the store has failed.
            UsageError: the recorder was closed.
        """
        if self._lost is not None:
            raise self._again()
        *most, last = slots
        self._waiting += most
        self._waiting_bytes += sum(len(slot.row.body) for slot in most if slot.row is not None)
        self._send_slot(last)

    async def do(self, operation: Operation) -> Any:
        """Return the result of an operation when it is durable. Not cancellable.

        Raises:
            OrchestratorError: it was refused, or the store has failed.
        """
        slot = PendingWrite()
        slot.operation = operation
        self.enqueue(slot)
        await settled()
        return slot.result

    def submit(self, operation: Operation, then: Callable[[Any], None] | None = None) -> Receipt:
        """Submit an operation without waiting for it.

        Args:
            then: called with the result in the loop's thread, before anyone awaiting the receipt continues. An error that it
                raises goes to those who await the receipt, and to nobody else.

        Raises:
            UsageError: the recorder was closed.
        """
        receipt = Receipt()
        if self._lost is not None:
            receipt.settle(self._again())
            return receipt
        slot = PendingWrite()
        slot.operation = operation

        def settle(result: Any) -> None:
            if then is not None and not isinstance(result, BaseException):
                try:
                    then(result)
                except Exception as error:
                    # Raised here it would keep the rest of the batch waiting, or break the loop.
                    result = error
            receipt.settle(result)

        slot.result = settle
        self._send_slot(slot)
        return receipt

    async def read(self, look: Callable[[], ResultT]) -> ResultT:
        """Return what a function reads from the store.

        From a server it is read in a thread, since the answer may take until the end of the lease; the loop goes on meanwhile.
        """
        if isinstance(self.store, Leased) and not jumps():
            return await trio.to_thread.run_sync(look, abandon_on_cancel=True, limiter=self._readers)
        return look()

    async def wait_news(self, after: int) -> None:
        """Wait until something newer than `after` was committed, or the recorder has ended."""
        await self._news.until(lambda: self.last_seq > after or self.ended)

    async def wait_ended(self) -> None:
        """Wait until `run` has ended: nothing more will be committed."""
        await self._news.until(lambda: self.ended)

    async def run(self) -> None:
        """Serve until `close`. Shielded: it ends after its senders."""
        self._token = trio.lowlevel.current_trio_token()
        # A virtual clock would run on while the writer works: then commits are done here, and take no time.
        self._has_thread = self.store.blocking and not jumps()
        if self._has_thread:
            self._writer = threading.Thread(target=self._write_batches, name="orchestrator-writer", daemon=True)
            self._writer.start()
        with trio.CancelScope(shield=True):
            try:
                while not (self._closed and not self._waiting):
                    await self._arrivals.until(lambda: self._is_rung or self._closed)
                    # One scheduler pass: everything that is runnable now joins the batch.
                    await trio.lowlevel.cancel_shielded_checkpoint()
                    self._hand_over()
                    if self._quick_s > _QUICK_S:
                        self._quick_s *= 0.99
            except BaseException as error:
                self.lose(error)
                raise
            finally:
                await self._end()

    def close(self) -> None:
        """End `run` when everything sent so far is committed."""
        self._check_process()
        # `_closed` first: `run` may read it as soon as it is rung.
        self._closed = True
        self._arrivals.ring()

    def _check_process(self) -> None:
        """End a forked process of a harness that continues to run the program: it has no writer and no store."""
        if os.getpid() != self._pid:
            end_fork(
                "it was going to record something in the name of its parent; end it with `os._exit` when its work is done"
            )

    def _hand_over(self) -> None:
        """Turn the waiting slots into a batch, and have it committed."""
        slots, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        self._is_rung = False
        if not slots:
            return
        # Before anything is made of it: in a forked process the parent's steps are in the list too.
        self._check_process()
        self._alone = self._alone + 1 if len(slots) == 1 else 0
        batch = Batch(slots)
        # Before the commit: whatever fails from here on, `lose` finds its senders.
        self._under_way.add(batch)
        if self._lost is not None:
            self._refuse_all()
        elif not self._has_thread or (self._may_block and self._is_quick and len(slots) == 1 and not batch.is_large):
            self._commit_here(batch)
        else:
            self._queue.put(batch)
            # The writer needs the interpreter to begin, and would otherwise get it only after the switch interval.
            time.sleep(_YIELD_S)

    @property
    def _is_quick(self) -> bool:
        """Whether one write is better committed here than in the thread."""
        return len(self._under_way) == 1 and self._quick_s < _QUICK_S

    def _send_slot(self, slot: PendingWrite, *, rings: bool = True) -> None:
        """Put a slot into the list of what waits, and wake the recorder.

        Raises:
            UsageError: the recorder was closed.
        """
        if self._closed:
            raise UsageError("the Orchestrator has ended: expected a call within its `async with` block")
        self._waiting.append(slot)
        if slot.row is not None:
            self._waiting_bytes += len(slot.row[5])
        elif slot.effect is not None:
            self._waiting_bytes += len(slot.effect[5])
        if rings and not self._is_rung:
            self._is_rung = True
            self._arrivals.ring()
        elif (
            slot.operation is None
            and (len(self._waiting) >= _CHUNK or self._waiting_bytes > _LARGEST_BYTES)
            and self._has_thread
        ):
            # Not after an operation: the charge of a tool call is committed with the intent, which follows it.
            # Only to the thread: a commit made here would wake its senders, and this one has not parked yet.
            self._hand_over()

    def _commit_here(self, batch: Batch) -> None:
        begin = time.perf_counter()
        try:
            redact_writes(batch.slots)
            committed = batch.commit(self.store, wait=not self._has_thread)
        except Exception as error:
            if isinstance(error, StoreBusy) and self._has_thread:
                self._queue.put(batch)
            else:
                self.lose(error)
            return
        # A moving average, so that one slow commit does not decide.
        took_s = time.perf_counter() - begin
        self._quick_s += (took_s - self._quick_s) / 8
        self._settle(batch, committed, took_s)

    def _write_batches(self) -> None:
        """Commit batches one after the other; runs in the writer thread."""
        with prompt_switches():
            self._commit_all()

    def _commit_all(self) -> None:
        while (batch := self._queue.get()) is not None:
            begin = time.perf_counter()
            try:
                redact_writes(batch.slots)
                committed = batch.commit(self.store, wait=True)
            except BaseException as error:
                self._tell(self.lose, error)
                return
            self._tell(self._settle, batch, committed, time.perf_counter() - begin)

    def _tell(self, function: Callable[..., None], *args: Any) -> None:
        assert self._token is not None
        try:
            self._token.run_sync_soon(function, *args)
        except trio.RunFinishedError:
            return

    def _settle(self, batch: Batch, committed: Committed, took_s: float) -> None:
        """Wake the senders of everything that is now durable."""
        if batch not in self._under_way:  # Refused meanwhile, because the store is lost.
            return
        self._under_way.discard(batch)
        self._count(took_s, len(batch.steps))
        # Before the senders are notified, because their result callbacks read it.
        self.settling = committed
        # Woken tasks run later, so they and those who wait for news find the new `last_seq`.
        self.last_seq = max(self.last_seq, batch.settle(committed))
        self._news.ring()

    def _count(self, took_s: float, steps: int) -> None:
        self.commits_s.observe(took_s)
        if steps:
            self.batches.observe(steps)

    def lose(self, error: BaseException) -> None:
        """Tell everyone who waits, now or later, that the store is lost: nothing is acknowledged from now on."""
        if self._lost is not None:
            return
        self._lost = StoreLost(f"{self.store.location} failed while steps waited for it: {error}")
        self._lost.__cause__ = error
        # After `_lost` is set, so that what is still in the list is refused too, and nobody can send any more.
        self._hand_over()
        self._refuse_all()
        self._news.ring()
        # Last: it may call back, and must find everything refused.
        self._on_lost(self._lost)

    def _refuse_all(self) -> None:
        slots = [slot for batch in self._under_way for slot in batch.slots]
        self._under_way.clear()
        for slot in slots:
            refuse(slot, self._again())

    def _again(self) -> StoreLost:
        """Return a new copy of the error: one exception raised in a thousand tasks would collect a thousand tracebacks."""
        assert self._lost is not None
        error = StoreLost(str(self._lost))
        error.__cause__ = self._lost.__cause__
        return error

    async def _end(self) -> None:
        if self._writer is not None:
            self._queue.put(None)
            await trio.to_thread.run_sync(self._writer.join)
            # The last callbacks from the thread have still to run.
            await trio.lowlevel.cancel_shielded_checkpoint()
        self.ended = True
        self._news.ring()
