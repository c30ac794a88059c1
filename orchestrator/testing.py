"""Helpers for testing a harness or a program around it, without a disk and deterministically.

run_to_end      runs a harness in an orchestrator of its own and returns what it recorded
run_in_lives    the same, but the program dies every few steps, and a new harness resumes from the records
FaultyStore     any store, with a fault of your choice at a commit of your choice

With the autojump clock of `trio.testing` none of them waits. `orchestrator.store.conformance` tests a store of your own.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Generic, Literal, TypeAlias

from attrs import frozen

from harnesses.base import BaseHarness
from harnesses.budgets.pools import Account
from harnesses.step import InputT, OutputT, StateT
from orchestrator.errors import HarnessFailed, StoreError, StoreLost
from orchestrator.handle import Handle
from orchestrator.orchestrator import Orchestrator
from orchestrator.outcome import Outcome
from orchestrator.records import ApprovalRecord, ChildRecord, EffectRecord, HarnessRecord, Record, StepRecord
from orchestrator.restart import Restart
from orchestrator.store.in_memory.memory_store import MemoryStore
from orchestrator.store.store_capabilities import Filed, Leased, Transcribed, path_of, secret_of
from orchestrator.store.store_protocol import (
    Committed,
    ConsumedRow,
    EffectRow,
    Message,
    Operation,
    SentRow,
    StepRow,
    Store,
    VersionRow,
)

Fault: TypeAlias = Exception | Callable[[], object]


@frozen
class Finished(Generic[StateT, InputT, OutputT]):
    """The result of running a harness to its end."""

    outcome: Outcome
    state: StateT
    """State after its last recorded step."""
    steps: tuple[StepRecord, ...]
    """All recorded steps, from 1; `input` and `output` have the types that the harness declares."""
    lives: int
    """How often the program was started."""
    store: Store


async def run_to_end(
    harness: BaseHarness[StateT, InputT, OutputT],
    *,
    name: str = "harness",
    store: Store | None = None,
    messages: Iterable[object] = (),
    restart: Restart | str = Restart.TRANSIENT,
    step_timeout_s: float | None = None,
    durability: Literal["step", "group"] | None = None,
) -> Finished[StateT, InputT, OutputT]:
    """Run `harness` until it ends, and return what it recorded. A failure is reported in the outcome, not raised.

    Args:
        store: default is a new one in memory.
        messages: put into its mailbox before it starts.

    Raises:
        ExceptionGroup: of `StoreLost`, or of the error that prevented the harness from starting.
    """
    store = MemoryStore() if store is None else store
    handle: Handle | None = None
    steps: list[StepRecord] = []
    try:
        async with Orchestrator(store, handle_signals=False) as orchestrator:
            how: Any = {"restart": restart, "step_timeout_s": step_timeout_s, "durability": durability}
            handle = orchestrator.start(harness, name=name, **how)
            for message in messages:
                handle.send(message)
            steps = [step async for step in handle.steps()]
    except* HarnessFailed:
        # The outcome has the error.
        pass
    assert handle is not None
    assert handle.outcome is not None
    harness.rewind()
    return Finished(handle.outcome, harness.state, tuple(steps), 1, store)


async def run_in_lives(
    make: Callable[[], BaseHarness[StateT, InputT, OutputT]],
    *,
    name: str = "harness",
    steps_each: int = 1,
    messages: Iterable[object] = (),
    restart: Restart | str = Restart.TRANSIENT,
    max_lives: int = 1000,
) -> Finished[StateT, InputT, OutputT]:
    """Run a harness to its end in a program that dies again and again, and return what it recorded over all its lives.

    A harness that derives everything from its state ends as it does under `run_to_end`. Every other death comes between a
    step's commit and the moment `execute()` would have been resumed; the rest come before the commit, and lose the step.

    Args:
        make: returns a new harness, as the program makes it at each start.
        steps_each: how many steps each life records.
        max_lives: limit on the number of lives.

    Raises:
        StoreError: it had not ended after `max_lives`.
    """
    store = MemoryStore()
    for life in range(1, max_lives + 1):
        after = life % 2 == 0
        at = steps_each if after else steps_each + 1
        deadly = FaultyStore(store, StoreError("the program dies here"), at=at, after=after, only_steps=True)
        try:
            end = await run_to_end(make(), name=name, store=deadly, messages=messages, restart=restart)
        except* StoreLost:
            end, messages = None, ()
            store.close()
        if end is not None:
            return Finished(end.outcome, end.state, end.steps, life, store)
    raise StoreError(f"harness {name!r} has not ended in {max_lives} lives of {steps_each} steps; raise max_lives")


def kill_this_process() -> None:
    """End the process as `kill -9` does: at once, with no clean-up. A fault for `FaultyStore`."""
    os.kill(os.getpid(), signal.SIGKILL)


class FaultyStore:
    """A store that fails at a chosen commit and otherwise delegates to `store`.

    Args:
        fault: an error to raise, or a function to call.
        at: number of the failing commit, from 1.
        after: whether that commit is carried out first, so that it is durable although the caller sees the fault. Otherwise
            nothing of it is written, unless `fault` is a function that returns.
        only_steps: whether to count only the commits that carry a step.
    """

    def __init__(self, store: Store, fault: Fault, *, at: int = 1, after: bool = False, only_steps: bool = False) -> None:
        self.store = store
        self.blocking = store.blocking
        self.location = store.location
        self.path = path_of(store)
        self.secret = secret_of(store)
        if isinstance(store, Filed):
            self.read_file = store.read_file
        if isinstance(store, Leased):
            self.lease_s = store.lease_s
        if isinstance(store, Transcribed):
            self.effect_records, self.model_of, self.transcripts = store.effect_records, store.model_of, store.transcripts
        self.commits = 0
        """Number of commits that were counted."""
        self._fault = fault
        self._at, self._after, self._only_steps = at, after, only_steps

    @property
    def run(self) -> str:
        return self.store.run

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
        """Commit, or raise the fault; see `Store.commit`."""
        if steps or not self._only_steps:
            self.commits += 1
        due = self.commits == self._at and bool(steps or not self._only_steps)
        if due and not self._after:
            self._fail()
        committed = self.store.commit(steps, operations, effects=effects, consumed=consumed, sent=sent, wait=wait)
        if due and self._after:
            self._fail()
        return committed

    def close(self) -> None:
        self.store.close()

    def harnesses(self) -> list[HarnessRecord]:
        return self.store.harnesses()

    def steps(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRecord]:
        return self.store.steps(name, after=after, limit=limit)

    def step_rows(self, name: str, *, after: int = 0, limit: int = 1000) -> list[StepRow]:
        return self.store.step_rows(name, after=after, limit=limit)

    def state_at(self, name: str, step: int) -> str:
        return self.store.state_at(name, step)

    def state_versions(self, name: str) -> list[VersionRow]:
        return self.store.state_versions(name)

    def mailbox(self, name: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        return self.store.mailbox(name, after=after, limit=limit)

    def replies(self, name: str) -> list[Message]:
        return self.store.replies(name)

    def room(self, name: str) -> int | None:
        return self.store.room(name)

    def effects(self, name: str | None = None, *, current: bool = False) -> list[EffectRecord]:
        return self.store.effects(name, current=current)

    def approvals(self, name: str | None = None) -> list[ApprovalRecord]:
        return self.store.approvals(name)

    def children(self, name: str | None = None) -> Sequence[ChildRecord]:
        return self.store.children(name)

    def accounts(self, pools: Collection[str] | None = None) -> dict[str, Account]:
        return self.store.accounts(pools)

    def last_seq(self) -> int:
        return self.store.last_seq()

    def records(self, *, after: int = 0, limit: int = 1000) -> list[Record]:
        return self.store.records(after=after, limit=limit)

    def _fail(self) -> Any:
        if isinstance(self._fault, Exception):
            raise self._fault
        return self._fault()
