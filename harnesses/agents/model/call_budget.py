"""`reserved`: holds what a model call may cost at most while it is made, and charges what it did cost.

    most tokens and money ──reserve──► call ──► usage and cost on record, the rest of the reservation released

Invariants: a call begins only if its upper bound fits the budget. A call that fails or is cut off is charged by what is known
of it; one that a crash has interrupted is charged in full.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from harnesses.agent import AgentRun
from harnesses.agents.model.messages import ModelRequest
from harnesses.agents.model.model_client import ModelClient
from harnesses.agents.model.model_tries import CallMeter
from harnesses.budgets.usage import Usage, money_of


@asynccontextmanager
async def reserved(run: AgentRun[Any, Any], client: ModelClient, request: ModelRequest) -> AsyncGenerator[CallMeter]:
    """Reserve the upper bound of a call in the harness's budget; on leaving, charge what the meter shows.

        async with reserved(run, client, request) as meter:
            call = await client.call(request, meter=meter)

    Raises:
        BudgetExhausted: the budget has too little left. Do not catch it.
    """
    most, meter = client.most(request), CallMeter()
    async with run.spending(tokens=most.tokens, money=most.money) as spend:
        try:
            yield meter
        finally:
            # Within the reservation: the pools are charged by `settle`, the usage of the agents by `charge`. Both join the
            # commit of the call's outcome: a crash between them would pay for the call twice.
            run.charge(usage_of(meter))
            spend.settle(tokens=meter.usage.total_tokens, money=money_of(meter.cost), wait=False)


def usage_of(meter: CallMeter) -> Usage:
    """Return the usage of a call as budgets count it."""
    usage = meter.usage
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        money=money_of(meter.cost),
    )
