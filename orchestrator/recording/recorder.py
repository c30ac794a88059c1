"""The one writer: gathers what waits, has it committed, and only then wakes each sender.

The law: whoever is woken with a `seq` has something durable; whoever is not recorded gets an error; nobody waits for an
answer that will not come.

    record, submit ──memory channel──► batch ──► writer thread: one transaction ──► everyone in it is woken

A harness has at most one step under way, so the channel has a slot for each and a sender never waits for room. A batch is
what was runnable when its first item arrived; once it is large it is handed over at once, so that the disk works while the
other harnesses step. A batch of one is committed without the thread as long as commits are quick: the hop would take longer.

The recorder:

    state      a slot is sent          `run` has its turn            `close`        a commit fails, `lose`
    made       waits in the channel    → serving                     → closing      → lost
    serving    waits in the channel    the channel becomes a batch   → closing      → lost
    closing    refused: UsageError     the last batch, then → ended                 → lost
    lost       refused: StoreLost      refused what is left          → ended        stays
    ended      refused: UsageError

A slot, and the task of its sender, if it waits:

    state      task      event                        next
    idle       runs      `enqueue`, in its own task   waiting
    waiting    parked    `_hand_over`                 under way, in one batch
    under way  parked    `_settle`: committed         idle; the task is woken
    under way  parked    `_settle`: refused           idle; the task is woken with the error
    under way  parked    `lose`                      idle; the task is woken with StoreLost

Between `enqueue` and parking a sender's task runs on: so nothing that wakes may run below `enqueue`. A sender may put a batch
in the writer's queue, but commits and wakes are made by `run` and by what the writer has told the loop.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import trio
from trio.lowlevel import current_task

from harnesses.processes.fork_safety import end_fork
from harnesses.timing.clock import jumps
from orchestrator.errors import StoreBusy, StoreLost, UsageError
from orchestrator.recording.commit_queue import Batch, Condition, PendingWrite, Receipt, deliver, refusal_of, refuse, settled
from orchestrator.recording.histogram import AMOUNTS, SECONDS, Histogram
from orchestrator.recording.row_redaction import redact_writes
from orchestrator.store.store_protocol import Committed, Operation, Store

_CHUNK = 512
"""Steps that are handed over without waiting for more: as many as one statement takes. Fewer, and the cost of a transaction
shows; more, and the disk idles while the harnesses step, and they while it works."""
_LARGEST_BYTES = 4_000_000
_QUICK_S = 0.001
"""Commits of one step are done in the loop's own thread while they take less: the loop stands still for them."""
_YIELD_S = 0.00005
"""Measured with 1,000 harnesses: 5 to 10 % more steps a second, for 0.1 us a step."""
_ALONE = 8
"""Batches of one in a row after which the next step is not kept waiting for company."""
_BUFFER = 1_000_000
"""Slots of the channel. No sender has more than one thing in it, so this bounds the number of harnesses."""


class Recorder:
    """Takes steps and operations from everyone, and has them committed in batches.

    Args:
        store: where to.
        on_lost: is called once, with the error, when the store has failed.
    """

    def __init__(self, store: Store, on_lost: Callable[[StoreLost], None] = lambda error: None) -> None:
        self.store = store
        self.last_seq = 0
        """The newest record committed by this recorder."""
        self._on_lost = on_lost
        self._send, self._receive = trio.open_memory_channel[PendingWrite](_BUFFER)
        self._waiting = 0
        self._waiting_bytes = 0
        self._arrivals = Condition()
        self._closed = False
        self._under_way: set[Batch] = set()
        self._has_thread = False
        """Whether `run` has begun, and commits are done in a thread; where there is none they are done in the loop's own."""
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
        self._aside = trio.CapacityLimiter(1)
        """One at a time: large rows of many harnesses would share the interpreter anyway."""
        self.settling = Committed((), ())
        """The commit whose senders are being told, for those that are called with its results."""
        self.commits_s = Histogram(SECONDS)
        """How long commits took; only the loop's thread counts."""
        self.batches = Histogram(AMOUNTS)
        """How many steps were committed together."""

    @property
    def queued(self) -> int:
        """How many steps, effects and operations wait for the disk now."""
        return self._waiting + sum(len(batch.slots) for batch in self._under_way)

    def commit_now(self, slot: PendingWrite) -> bool:
        """Commit what is in `slot` in the loop's thread, if nobody else has come for a while; return whether it was done.

        A harness that steps alone would wait three passes of the scheduler for a batch that nobody joins.

        Raises:
            OwnershipLost: another run has taken the harness over; the step is not recorded.
            StoreLost: the store has failed; the step is not recorded.
        """
        alone = self._alone >= _ALONE and not self._waiting and not self._under_way and self._quick_s < _QUICK_S
        if not alone or self._lost is not None or not self.store.blocking:
            return False
        if trio.lowlevel.current_statistics().tasks_runnable:
            self._alone = 0
            return False
        self._check_process()
        begin = time.perf_counter()
        try:
            redact_writes((slot,))
            committed = Batch([slot]).commit(self.store, wait=False)
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
        """Take the secrets out of a large row before it is sent.

        A thread of its own does it: neither the loop nor the commits of others wait for that. If it is cancelled, nothing of
        the row is recorded, and the thread works on for a while.
        """
        if jumps():
            redact_writes((slot,))
            return
        await trio.to_thread.run_sync(redact_writes, (slot,), limiter=self._aside, abandon_on_cancel=True)

    def enqueue_soon(self, slot: PendingWrite) -> None:
        """Send `slot` to be committed, and wait for nothing. If the store is lost, so is it."""
        if self._lost is None and not self._closed:
            self._send_slot(slot)

    def enqueue(self, slot: PendingWrite) -> None:
        """Send `slot` to be committed. The caller awaits `settled()` next, and nothing else in between.

        Raises:
            StoreLost: the store has failed.
        """
        if self._lost is not None:
            raise self._again()
        # Before it is sent: a slot without a task is taken for one that nobody waits for.
        slot.task = current_task()
        self._send_slot(slot)

    async def do(self, operation: Operation) -> Any:
        """Return the result of an operation when it is durable. No cancellation ends the wait.

        Raises:
            OrchestratorError: it was refused, or the store has failed.
        """
        slot = PendingWrite()
        slot.operation = operation
        self.enqueue(slot)
        await settled()
        return slot.result

    def submit(self, operation: Operation, then: Callable[[Any], None] | None = None) -> Receipt:
        """Have an operation carried out without waiting for it.

        Args:
            then: is called with the result in the loop's thread, before anyone who awaits the receipt goes on. What it
                raises is raised for them, and for nobody else.

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
        try:
            self._send_slot(slot)
        except trio.ClosedResourceError:
            raise UsageError("the Orchestrator has ended: expected a call within its `async with` block") from None
        return receipt

    async def wait_news(self, after: int) -> None:
        """Return when something newer than `after` has been committed, or the recorder has ended."""
        await self._news.until(lambda: self.last_seq > after or self.ended)

    async def wait_ended(self) -> None:
        """Return when `run` has ended: nothing more will be committed."""
        await self._news.until(lambda: self.ended)

    async def run(self) -> None:
        """Serve until `close`. Shielded: it ends after those it serves."""
        self._token = trio.lowlevel.current_trio_token()
        # A virtual clock would run on while the writer works: then commits are done here, and take no time.
        self._has_thread = self.store.blocking and not jumps()
        if self._has_thread:
            self._writer = threading.Thread(target=self._write_batches, name="orchestrator-writer", daemon=True)
            self._writer.start()
        with trio.CancelScope(shield=True):
            try:
                while not (self._closed and not self._waiting):
                    await self._arrivals.until(lambda: self._waiting or self._closed)
                    # One pass of the scheduler: whatever is runnable now joins the batch.
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
        """End `run` when what was sent is committed."""
        self._check_process()
        # `_closed` first: `run` may look at it as soon as it is rung.
        self._closed = True
        self._send.close()
        self._arrivals.ring()

    def _check_process(self) -> None:
        """End a process that a harness has forked and that goes on running the program: it has no writer, and no store."""
        if os.getpid() != self._pid:
            end_fork(
                "it was going to record something in the name of its parent; end it with `os._exit` when its work is done"
            )

    def _hand_over(self) -> None:
        """Make a batch of what waits and have it committed."""
        slots: list[PendingWrite] = []
        receive, add = self._receive.receive_nowait, slots.append
        try:
            while True:
                add(receive())
        except (trio.WouldBlock, trio.EndOfChannel):
            self._waiting = self._waiting_bytes = 0
        if not slots:
            return
        # Before anything is made of it: in a forked process the parent's steps are in the channel too.
        self._check_process()
        self._alone = self._alone + 1 if len(slots) == 1 else 0
        batch = Batch(slots)
        # Before it is committed: whatever fails from here on, `lose` finds its senders.
        self._under_way.add(batch)
        if self._lost is not None:
            self._refuse_all()
        elif not self._has_thread or (len(slots) == 1 and len(self._under_way) == 1 and self._quick_s < _QUICK_S):
            self._commit_here(batch)
        else:
            self._queue.put(batch)
            # The writer needs the interpreter to begin. Asking for it, it would be given it after 5 ms (the switch interval).
            time.sleep(_YIELD_S)

    def _send_slot(self, slot: PendingWrite) -> None:
        """Put a slot in the channel. The recorder sleeps beside the channel, not in it: what is sent stays in order."""
        self._send.send_nowait(slot)
        self._waiting = waiting = self._waiting + 1
        if slot.row is not None:
            self._waiting_bytes += len(slot.row[5])
        elif slot.effect is not None:
            self._waiting_bytes += len(slot.effect[5])
        if waiting == 1:
            self._arrivals.ring()
        elif (waiting >= _CHUNK or self._waiting_bytes > _LARGEST_BYTES) and self._has_thread:
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
        # An average over the last few, so that one slow commit does not decide.
        took_s = time.perf_counter() - begin
        self._quick_s += (took_s - self._quick_s) / 8
        self._settle(batch, committed, took_s)

    def _write_batches(self) -> None:
        """Commit batches one after the other: the writer thread."""
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
        """Wake everyone whose step or operation is durable now."""
        if batch not in self._under_way:  # refused meanwhile, since the store is lost
            return
        self._under_way.discard(batch)
        self._count(took_s, len(batch.steps))
        # Before the senders are told: those that are called with their results look at it.
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
        # After `_lost` is set, so that what is still in the channel is refused with the rest, and nobody can send any more.
        self._hand_over()
        self._refuse_all()
        self._news.ring()
        # Last: it may call back, and has to find everything refused.
        self._on_lost(self._lost)

    def _refuse_all(self) -> None:
        slots = [slot for batch in self._under_way for slot in batch.slots]
        self._under_way.clear()
        for slot in slots:
            refuse(slot, self._again())

    def _again(self) -> StoreLost:
        """Return the error anew: an exception raised in a thousand tasks would collect a thousand tracebacks."""
        assert self._lost is not None
        error = StoreLost(str(self._lost))
        error.__cause__ = self._lost.__cause__
        return error

    async def _end(self) -> None:
        if self._writer is not None:
            self._queue.put(None)
            await trio.to_thread.run_sync(self._writer.join)
            # What the thread told the loop last is still to be done.
            await trio.lowlevel.cancel_shielded_checkpoint()
        self.ended = True
        self._news.ring()
