"""`reserved`: holds what a model call may cost at most while it is made, and charges what it did cost.

    waits at the gate              most tokens and money held; a crash costs nothing
    may be sent                    the same, held anew in one commit; a crash costs all of it
    answered, failed or cut off    usage and cost on record, the rest of the reservation released

Invariants: a call begins only if its upper bound fits the budget. A call that fails or is cut off is charged by what is known
of it; one that a crash has interrupted is charged in full if it may have been sent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from attrs import define

from harnesses.agent import AgentRun
from harnesses.agents.model.messages import ModelRequest
from harnesses.agents.model.model_client import ModelClient
from harnesses.agents.model.model_tries import CallMeter
from harnesses.budgets.budget import NOTHING, Spend
from harnesses.budgets.spending import Spending
from harnesses.budgets.usage import Usage, money_of


@asynccontextmanager
async def reserved(run: AgentRun[Any, Any], client: ModelClient, request: ModelRequest) -> AsyncGenerator[CallMeter]:
    """Reserve the upper bound of a call in the harness's budget; on leaving, charge what the meter shows.

        async with reserved(run, client, request) as meter:
            call = await client.call(request, meter=meter)

    The call raises `BudgetExhausted` if the budget has too little left. Do not catch it.
    """
    meter = CallMeter()
    reservation = _Reservation(run, client.most(request), meter)
    meter.hold = reservation.hold
    try:
        yield meter
    finally:
        await reservation.close()


@define(eq=False)
class _Reservation:
    """What is held for a call, and charged for it so far."""

    _run: AgentRun[Any, Any]
    _most: Spend
    _meter: CallMeter
    _spending: Spending | None = None
    _is_sent: bool = False

    async def hold(self, is_sent: bool) -> None:
        """Hold the most that the call may cost.

        Args:
            is_sent: whether a crash from now on is charged.
        """
        if self._spending is not None and self._is_sent is is_sent:
            return
        # Both are in one commit: nobody else gets what is released in between.
        await self.close()
        most = self._most
        spending = self._run.spending(tokens=most.tokens, money=most.money, on_cutoff=None if is_sent else NOTHING)
        await spending.__aenter__()
        self._spending, self._is_sent = spending, is_sent

    async def close(self) -> None:
        """Charge what is not charged yet, and release the rest.

        The pools are charged by `settle`, the usage of the agents by `charge`, within the reservation. Both join the commit of
        the call's outcome: a crash between them would pay for the call twice.
        """
        spending, self._spending = self._spending, None
        if spending is None:
            return
        usage, cost = self._meter.take()
        money = money_of(cost)
        self._run.charge(
            Usage(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=usage.cached_tokens,
                money=money,
            )
        )
        spending.settle(tokens=usage.total_tokens, money=money, wait=False)
        await spending.__aexit__(None, None, None)
