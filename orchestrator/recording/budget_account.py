"""The budget account of a harness in an orchestrator: its spending is stored, in every pool of its chain.

reserve ──► the store: granted ──► continue
               ▲       later ────► queue until something is returned, or the harness has to stop
               └───────────┘
                       denied ───► BudgetExhausted

There is a queue for each field of each pool. When something is returned to a pool, the first in the queue asks the store
again, and the next is woken when the first was served: a thousand waiters do not cause a thousand queries.

A `Pool` is a budget shared by several harnesses; `chain_of` returns the pools that a harness is charged to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import trio
from attrs import define, field, frozen

from harnesses.base import BaseHarness
from harnesses.budgets.budget import Budget, Denied, Later, Spend
from harnesses.budgets.pools import Account
from harnesses.budgets.spending import after_siblings
from harnesses.budgets.usage import AGENTS, Charged, Usage
from harnesses.control import Control
from harnesses.errors import BudgetExhausted
from harnesses.timing.clock import now_us
from orchestrator.recording.attempt import AttemptId
from orchestrator.recording.commit_queue import Condition
from orchestrator.recording.recorder import Recorder
from orchestrator.store.store_operations import Charge, Reserve, SettleSpend


@frozen
class Pool:
    """A budget shared by several harnesses. From `Orchestrator.pool()`; pass it to `start`."""

    name: str
    """Name in the store."""
    budget: Budget
    parent: Pool | None = None
    """Another pool, charged with everything spent from this one."""

    @property
    def chain(self) -> tuple[str, ...]:
        """Names of this pool and all pools above it."""
        return (self.name, *(() if self.parent is None else self.parent.chain))


RUN = "run"
"""Name of the pool for everything started by a program with `Orchestrator(budget=…)`."""


def pool_name(kind: str, name: str) -> str:
    """Return the stored name of a pool: that of a harness, a supervisor or a shared pool. `name` contains no `/`."""
    return f"{kind}/{name}"


def chain_of(pools: Iterable[Pool | None]) -> tuple[str, ...]:
    """Return the names of these pools and of all above them, each once, nearest first."""
    return tuple(dict.fromkeys(name for pool in pools if pool is not None for name in pool.chain))


_LOOK_S = 0.5
"""Seconds between two checks for amounts that another program on the same store returned; there is no notification."""


@define(eq=False, repr=False)
class Place:
    """A place in a queue."""

    line: tuple[str, str]
    """Pool and field of the queue."""
    wake: Callable[[], None]
    is_due: bool = False
    """Whether to ask the store again."""

    def call(self) -> None:
        """Mark the place as due, and wake its owner."""
        self.is_due = True
        self.wake()


@frozen(eq=False)
class Lines:
    """The queues of one program, in which harnesses wait for reserved amounts to be returned."""

    _lines: dict[str, dict[tuple[str, str], deque[Place]]] = field(factory=dict[str, dict[tuple[str, str], deque[Place]]])
    _returns: dict[str, int] = field(factory=dict[str, int])
    _bell: Condition = field(factory=Condition)

    def returns(self, pools: Iterable[str]) -> dict[str, int]:
        """Return how often something was returned to each of these pools; call it before asking the store."""
        return {pool: self._returns.get(pool, 0) for pool in pools}

    def join(self, later: Later, wake: Callable[[], None], seen: dict[str, int], place: Place | None = None) -> Place:
        """Return a place in a queue: the caller's place if it waits for the same again, else a new last one.

        Args:
            seen: result of `returns` before the store was asked; later returns are not in the store's answer.
        """
        key = (later.pool, later.field)
        if place is not None and place.line != key:
            self.leave(place)
            place = None
        line = self._lines.setdefault(later.pool, {}).setdefault(key, deque())
        if place is None:
            place = Place(key, wake)
            line.append(place)
        place.is_due = line[0] is place and self._returns.get(later.pool, 0) != seen.get(later.pool, 0)
        self._bell.ring()
        return place

    def leave(self, place: Place) -> None:
        """Give up a place; the new first in the queue is woken."""
        lines = self._lines[place.line[0]]
        line = lines[place.line]
        was_first = line[0] is place
        line.remove(place)
        if not line:
            del lines[place.line]
            if not lines:
                del self._lines[place.line[0]]
        elif was_first:
            line[0].call()

    def ring(self, pools: Iterable[str]) -> None:
        """Note that something was returned to these pools."""
        for pool in pools:
            self._returns[pool] = self._returns.get(pool, 0) + 1
            for line in self._lines.get(pool, {}).values():
                line[0].call()

    def forget(self, pool: str) -> None:
        """Forget a pool that is no longer used here."""
        self._returns.pop(pool, None)

    async def watch(self) -> None:
        """Regularly let the first of each queue ask again, for amounts returned by other programs. Runs until cancelled."""
        while True:
            await self._bell.until(lambda: self._lines)
            await trio.sleep(_LOOK_S)
            for place in list(self._first()):
                place.call()

    def _first(self) -> Iterator[Place]:
        for lines in self._lines.values():
            for line in lines.values():
                yield line[0]


@frozen
class Teller:
    """Shared data of the budget accounts of a run."""

    recorder: Recorder
    lines: Lines
    working: dict[str, set[Callable[[str], None]]] = field(factory=dict[str, set[Callable[[str], None]]])
    """Functions that stop the agents spending from a pool now, by the name of the pool."""


@frozen(eq=False)
class StoredBudgetAccount:
    """The `BudgetAccount` of one attempt, and the `Charger` of its agents.

    Args:
        pools: the chain of pools that is charged, nearest first.
        id: the attempt.
        before: called before anything is charged, to send the steps that come before it.
    """

    _teller: Teller
    _pools: tuple[str, ...]
    _harness: BaseHarness[Any, Any, Any]
    _control: Control
    _id: AttemptId
    _before: Callable[[], object] | None = None

    async def reserve(self, amounts: Spend, *, between_steps: bool = False, on_cutoff: Spend | None = None) -> int:
        """Reserve amounts; return the number of the reservation when it is on disk; see `BudgetAccount.reserve`."""
        lines, place = self._teller.lines, None
        bell = Condition()
        try:
            while True:
                seen = lines.returns(self._pools)
                answer = await self._teller.recorder.do(self._ask(amounts, on_cutoff))
                if isinstance(answer, int):
                    return answer
                if isinstance(answer, Denied):
                    later = None if between_steps else after_siblings(answer)
                    if later is None:
                        raise BudgetExhausted(str(answer))
                    answer = later
                place = lines.join(answer, self._control.wake if between_steps else bell.ring, seen, place)
                if not await self._wait(place, bell, between_steps=between_steps):
                    return 0
        finally:
            if place is not None:
                lines.leave(place)

    async def settle(self, id: int, actual: Spend) -> None:
        """Charge what was spent, and wait until that is on disk; see `BudgetAccount.settle`."""
        try:
            await self._teller.recorder.do(SettleSpend(id, now_us(), actual))
        finally:
            self._teller.lines.ring(self._pools)

    def settle_soon(self, id: int, actual: Spend) -> None:
        """Charge what was spent in the next commit, without waiting."""
        recorder = self._teller.recorder
        recorder.submit(SettleSpend(id, now_us(), actual), lambda _: self._teller.lines.ring(self._pools))

    def charge_soon(
        self,
        usage: Usage,
        then: Callable[[Charged], None],
        *,
        agent: str,
        turns: int = 0,
        thread: str = "",
        settled: Collection[str] = (),
    ) -> Awaitable[object]:
        """Charge what an agent reports; see `harnesses.agent_bill.Charger`."""
        self._send_steps()
        charge = Charge(
            pools=self._pools,
            teller=pool_name(AGENTS, self._id.name),
            harness=self._id.number,
            epoch=self._id.epoch,
            attempt=self._id.attempt,
            step=self._harness.current_step + 1,
            time_us=now_us(),
            agent=agent,
            usage=usage,
            turns=turns,
            thread=thread,
            settled=tuple(settled),
        )

        def charged(result: Charged) -> None:
            then(result)
            if result.over:
                for stop in tuple(self._teller.working.get(result.over_pool, ())):
                    stop(result.over)

        return self._teller.recorder.submit(charge, charged)

    def watch(self, stop: Callable[[str], None]) -> Callable[[], None]:
        """Call `stop` with the reason when another harness of this program uses up a pool of the chain."""
        working = self._teller.working
        for pool in self._pools:
            working.setdefault(pool, set()).add(stop)

        def leave() -> None:
            for pool in self._pools:
                working[pool].discard(stop)
                if not working[pool]:
                    del working[pool]

        return leave

    def accounts(self) -> Sequence[Account]:
        """Return the balances of the pools of the chain, as of the last commit."""
        return tuple(self._teller.recorder.store.accounts(self._pools).values())

    def _ask(self, amounts: Spend, on_cutoff: Spend | None) -> Reserve:
        self._send_steps()
        id, step = self._id, self._harness.current_step + 1
        return Reserve(self._pools, id.number, id.epoch, id.attempt, step, now_us(), amounts, on_cutoff)

    def _send_steps(self) -> None:
        if self._before is not None:
            self._before()

    async def _wait(self, place: Place, bell: Condition, *, between_steps: bool) -> bool:
        """Wait until it is time to ask again; return False if the harness has to end instead."""
        if between_steps:
            await self._control.hold(lambda: place.is_due)
            return place.is_due and not self._control.stopping and not self._control.overdue()
        await self._control.wait(bell.until, lambda: place.is_due)
        return True
