"""The budget account of a harness in an orchestrator: its spends are in the store, in every pool of its chain.

reserve ──► the store: granted ──► go on
               ▲       later ────► stand in line until something comes back, or the harness is to stop
               └───────────┘
                       denied ───► BudgetExhausted

There is a line for each field of each pool. Whoever is first in one is told when something comes back to that pool, asks the
store again, and the next is told when the first has been served: so a thousand who wait are not a thousand questions.

A `Pool` is a budget that several harnesses spend from; `chain_of` says which pools a harness's spends are charged to.
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
    """A budget that several harnesses spend from. From `Orchestrator.pool()`; pass it to `start`."""

    name: str
    """In the store."""
    budget: Budget
    parent: Pool | None = None
    """Another pool that is charged with all that is spent from this one."""

    @property
    def chain(self) -> tuple[str, ...]:
        """Its name, and those of all above it."""
        return (self.name, *(() if self.parent is None else self.parent.chain))


RUN = "run"
"""The pool of everything that one program over a store starts with `Orchestrator(budget=…)`."""


def pool_name(kind: str, name: str) -> str:
    """Return the name in the store of what belongs to a harness, a supervisor or a pool. Names have no `/` in them."""
    return f"{kind}/{name}"


def chain_of(pools: Iterable[Pool | None]) -> tuple[str, ...]:
    """Return the names of these pools and of all above them, each once, the nearest first."""
    return tuple(dict.fromkeys(name for pool in pools if pool is not None for name in pool.chain))


_LOOK_S = 0.5
"""Between two looks at what another program over the same store has given back; nobody tells us of that."""


@define(eq=False, repr=False)
class Place:
    """A place in a line."""

    line: tuple[str, str]
    """Of which pool and field."""
    wake: Callable[[], None]
    is_due: bool = False
    """Whether it is time to ask again."""

    def call(self) -> None:
        """Say that it is time to ask again."""
        self.is_due = True
        self.wake()


@frozen(eq=False)
class Lines:
    """The lines of one program, in which its harnesses wait for what others have reserved and may give back."""

    _lines: dict[str, dict[tuple[str, str], deque[Place]]] = field(factory=dict[str, dict[tuple[str, str], deque[Place]]])
    _returns: dict[str, int] = field(factory=dict[str, int])
    _bell: Condition = field(factory=Condition)

    def returns(self, pools: Iterable[str]) -> dict[str, int]:
        """Return how often something has come back to these pools; take it before asking the store."""
        return {pool: self._returns.get(pool, 0) for pool in pools}

    def join(self, later: Later, wake: Callable[[], None], seen: dict[str, int], place: Place | None = None) -> Place:
        """Return a place in line: the one that the asker has, if it still waits for the same; else the last.

        Args:
            seen: what `returns` gave before the store was asked: what has come back since is not in its answer.
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
        """Give up a place; who is first now is told."""
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
        """Say that something has come back to these pools."""
        for pool in pools:
            self._returns[pool] = self._returns.get(pool, 0) + 1
            for line in self._lines.get(pool, {}).values():
                line[0].call()

    def forget(self, pool: str) -> None:
        """Forget a pool that nobody here spends from any more."""
        self._returns.pop(pool, None)

    async def watch(self) -> None:
        """Have the first of each line ask every now and then, for what other programs give back. Runs beside all."""
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
    """What the budget accounts of a run share."""

    recorder: Recorder
    lines: Lines
    working: dict[str, set[Callable[[str], None]]] = field(factory=dict[str, set[Callable[[str], None]]])
    """By pool: what stops the agents that spend from it now."""


@frozen(eq=False)
class StoredBudgetAccount:
    """The `BudgetAccount` of one attempt, and the `Charger` of its agents.

    Args:
        pools: the chain that is charged, the nearest first.
        id: the attempt.
    """

    _teller: Teller
    _pools: tuple[str, ...]
    _harness: BaseHarness[Any, Any, Any]
    _control: Control
    _id: AttemptId

    async def reserve(self, amounts: Spend, *, between_steps: bool = False) -> int:
        """Return a reservation's number when it is on disk; see `BudgetAccount.reserve`."""
        lines, place = self._teller.lines, None
        bell = Condition()
        try:
            while True:
                seen = lines.returns(self._pools)
                answer = await self._teller.recorder.do(self._ask(amounts))
                if isinstance(answer, int):
                    return answer
                if isinstance(answer, Denied):
                    raise BudgetExhausted(str(answer))
                place = lines.join(answer, self._control.wake if between_steps else bell.ring, seen, place)
                if not await self._wait(place, bell, between_steps=between_steps):
                    return 0
        finally:
            if place is not None:
                lines.leave(place)

    async def settle(self, id: int, actual: Spend) -> None:
        """Charge what was spent, and return when that is on disk; see `BudgetAccount.settle`."""
        try:
            await self._teller.recorder.do(SettleSpend(id, now_us(), actual))
        finally:
            self._teller.lines.ring(self._pools)

    def settle_soon(self, id: int, actual: Spend) -> None:
        """Charge what was spent, together with whatever is recorded next."""
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
        """Have `stop` called with the reason when a pool of the chain is spent by another of this program."""
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
        """Return where the pools of the chain stand, as of the last commit."""
        return tuple(self._teller.recorder.store.accounts(self._pools).values())

    def _ask(self, amounts: Spend) -> Reserve:
        id, step = self._id, self._harness.current_step + 1
        return Reserve(self._pools, id.number, id.epoch, id.attempt, step, now_us(), amounts)

    async def _wait(self, place: Place, bell: Condition, *, between_steps: bool) -> bool:
        """Wait until it is time to ask again; return False if the harness is to end instead."""
        if between_steps:
            await self._control.hold(lambda: place.is_due)
            return place.is_due and not self._control.stopping and not self._control.overdue()
        await self._control.wait(bell.until, lambda: place.is_due)
        return True
