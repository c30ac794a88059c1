"""A trading loop written out by hand: poll for ever, sleep in between, and ask an agent with the context of the step.

    python examples/polling.py

`harnesses.trading.TradingHarness` is the whole of it, with risk, orders and a venue; this is the pattern.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from functools import partial

import trio
from attrs import evolve, frozen

from harnesses import Agent, AgentRun, BaseHarness
from orchestrator import Orchestrator

PRICES = tuple(map(Decimal, (10, 11, 12, 11, 9, 8, 10, 12)))  # the market, again and again


@frozen
class Account:
    cash: Decimal = Decimal(100)
    units: int = 0
    polls: int = 0


def trade(account: Account, *, units: int, price: Decimal) -> Account:
    return evolve(account, cash=account.cash - units * price, units=account.units + units, polls=account.polls + 1)


async def decide(run: AgentRun[Account, Decimal]) -> int:
    """Buy one if the last three prices have risen, sell all if they have fallen."""
    await trio.lowlevel.checkpoint()
    seen = [*(step.input for step in run.step_history), run.input][-3:]
    run.log(f"step {run.step_number}: {' '.join(map(str, seen))}")
    if len(seen) < 3 or seen not in (sorted(seen), sorted(seen, reverse=True)):
        return 0
    return 1 if seen[0] < seen[2] else -run.context.state.units


MOMENTUM = Agent(decide, name="momentum")


class Polling(BaseHarness[Account, Decimal, str]):
    """Never completes: it is stopped, and goes on where it was when it is started again."""

    async def execute(self) -> AsyncIterator[tuple[Decimal, str]]:
        while True:
            price = PRICES[self.state.polls % len(PRICES)]
            units = await self.run_agent(MOMENTUM, price)
            self.update_state(partial(trade, units=units, price=price))
            yield price, f"{units:+d} at {price}, {self.state.units} held, {self.state.cash} in cash"
            await self.sleep(0.05)  # wakes at once to stop; trio.sleep would be cancelled


async def main() -> None:
    async with Orchestrator() as orchestrator:
        handle = orchestrator.start(Polling(Account(), max_context_steps=2), name="polling")
        async for step in handle.steps():
            print(step.step_number, step.output)
            if step.step_number == len(PRICES):
                await handle.stop()


if __name__ == "__main__":
    trio.run(main)
