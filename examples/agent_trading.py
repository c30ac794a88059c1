"""A model decides what to trade, within limits that it cannot exceed.

    agent     a `ModelAgent` with tools for quotes, account, positions and indicators, and one to want an order
    harness   screens each order by its limits, places it once on a paper venue, and records every step
    market    twenty-four recorded days of two symbols

Without a key, the recorded answers in `data/agent_trading.jsonl` are replayed, and nothing is connected to. They come from a
stand-in for a model, `tests/examples/recorded_agents.py`. With ANTHROPIC_API_KEY set, the model is asked; `--model` names
another one. This is no advice on what to buy.
"""

from __future__ import annotations

import argparse
from decimal import Decimal
from pathlib import Path

import trio

from harnesses.agents import Cassette, ChatPolicy, ModelAgent, ModelClient
from harnesses.trading import Limits, PaperBroker, ReplayFeed, TradingHarness
from harnesses.trading.indicators import Rsi
from harnesses.trading.trading_tools import agent_strategy, trading_tools
from orchestrator import Handle, Orchestrator

DATA = Path(__file__).parent / "data"
CASSETTE = DATA / "agent_trading.jsonl"
MODEL = "anthropic:claude-sonnet-4-5"
SYSTEM = "You trade on paper, carefully. Look at the indicators and the account; want an order only with a reason."
TASK_TOKENS = 0
"""Tokens of state and recent steps in a prompt: the tools give all that is needed."""
DAYS = 24


def make_agent(model: str | ModelClient = MODEL, cassette: Cassette | None = None) -> ModelAgent:
    """Return the agent; it replays the recording unless there is a key for the model."""
    tape = cassette or Cassette.auto(CASSETTE, live=("order",))
    chat = ChatPolicy(context_tokens=TASK_TOKENS)
    return ModelAgent(model, tools=trading_tools(orders=True), system=SYSTEM, cassette=tape, chat=chat, name="trader")


def make_harness(agent: ModelAgent, venue: Path) -> TradingHarness:
    """Return the harness: the agent wants orders, the limits decide what becomes of them."""
    feed = ReplayFeed.read({symbol: DATA / f"{symbol.lower()}.csv" for symbol in ("AAPL", "MSFT")}, limit=DAYS)
    limits = Limits(max_drawdown=Decimal("0.1"), max_position=Decimal("0.3"))
    strategy = agent_strategy(agent, {"rsi": Rsi(5)})
    return TradingHarness(feed, PaperBroker(path=venue), strategy, limits=limits, period_s=0.001)


async def follow(handle: Handle) -> None:
    """Print each day on which something was traded or held back."""
    async for step in handle.steps():
        output = step.output
        for order in (placed.order for placed in output.placed):
            print(f"{output.time:%Y-%m-%d}: {order.side} {order.units} {order.symbol}: {order.reason}")


async def run(store: Path, agent: ModelAgent) -> TradingHarness:
    """Trade all recorded days."""
    harness = make_harness(agent, store.with_name(f"{store.name}-venue"))
    async with Orchestrator(store) as orchestrator:
        await follow(orchestrator.start(harness, name="trading"))
    return harness


def main() -> None:
    """Trade, and print what it came to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", default="agent_trading.db", type=Path, metavar="PATH", help="where everything is recorded")
    parser.add_argument("--model", default=MODEL, help="provider:model, asked if there is a key for it")
    options = parser.parse_args()
    harness = trio.run(run, options.store, make_agent(options.model))
    print(f"equity {harness.state.equity:,.2f} USD after {harness.current_step} steps")


if __name__ == "__main__":
    main()
