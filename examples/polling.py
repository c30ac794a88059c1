"""Poll a price forever, and ask an agent that sees the recent steps: the trading pattern, written out by hand.

    python examples/polling.py

`harnesses.trading.TradingHarness` is the ready-made form, with risk limits, orders and a broker.
"""

from collections.abc import AsyncIterator
from decimal import Decimal

import trio
from attrs import frozen

from harnesses import Agent, AgentRun, BaseHarness
from orchestrator import Orchestrator

PRICES = tuple(map(Decimal, (10, 11, 12, 11, 9, 8, 10, 12)))  # the market, repeated


@frozen
class Account:
    cash: Decimal = Decimal(100)
    units: int = 0


async def decide(run: AgentRun[Account, Decimal]) -> int:
    """Buy one unit after three rising prices, sell everything after three falling ones."""
    await trio.lowlevel.checkpoint()
    prices = [*(step.input for step in run.step_history), run.input][-3:]
    run.log(f"step {run.step_number}: {' '.join(map(str, prices))}")
    if len(prices) < 3 or prices not in (sorted(prices), sorted(prices, reverse=True)):
        return 0
    return 1 if prices[0] < prices[2] else -run.context.state.units


class Polling(BaseHarness[Account, Decimal, str]):
    async def execute(self) -> AsyncIterator[tuple[Decimal, str]]:
        while True:
            price = PRICES[self.current_step % len(PRICES)]
            units = await self.run_agent(Agent(decide, name="momentum"), price)
            self.update_state(lambda old: Account(old.cash - units * price, old.units + units))  # noqa: B023  (called at once)
            yield price, f"{units:+d} at {price}, {self.state.units} held, {self.state.cash} in cash"
            await self.sleep(0.05)  # ends early when the harness is stopped


async def main() -> None:
    async with Orchestrator() as orchestrator:
        polling = orchestrator.start(Polling(Account(), max_context_steps=2), name="polling")
        async for step in polling.steps():
            print(step.step_number, step.output)
            if step.step_number == len(PRICES):
                await polling.stop()


if __name__ == "__main__":
    trio.run(main)
