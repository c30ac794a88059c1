"""The budget account of a harness in an orchestrator: its spends are in the store, in every pool of its chain.

reserve ──► the store: granted ──► go on
               ▲       later ────► stand in line until something comes back, or the harness is to stop
               └───────────┘
                       denied ───► BudgetExhausted
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from attrs import field, frozen

from harnesses.base import BaseHarness
from harnesses.budgets.budget import Denied, Spend
from harnesses.budgets.charging import AGENTS, Charged
from harnesses.budgets.pools import Account
from harnesses.budgets.usage import Usage
from harnesses.control import Control
from harnesses.errors import BudgetExhausted
from harnesses.timing.clock import now_us
from orchestrator.accounts.pool_names import pool_name
from orchestrator.accounts.reservation_queue import Lines, Place
from orchestrator.recording.attempt_id import AttemptId
from orchestrator.recording.condition import Condition
from orchestrator.recording.recorder import Recorder
from orchestrator.store.budget_operations import Charge, Reserve, SettleSpend


@frozen
class Teller:
    """What the budget accounts of a run share."""

    recorder: Recorder
    lines: Lines
    working: dict[str, set[Callable[[str], None]]] = field(factory=dict[str, set[Callable[[str], None]]])
    """By pool: what stops the agents that spend from it now."""


class StoredBudgetAccount:
    """The `BudgetAccount` of one attempt, and the `Charger` of its agents.

    Args:
        pools: the chain that is charged, the nearest first.
        id: the attempt.
    """

    __slots__ = ("_control", "_harness", "_id", "_pools", "_teller")

    def __init__(
        self,
        teller: Teller,
        pools: tuple[str, ...],
        harness: BaseHarness[Any, Any, Any],
        control: Control,
        id: AttemptId,
    ) -> None:
        self._teller = teller
        self._pools = pools
        self._harness = harness
        self._control = control
        self._id = id

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
