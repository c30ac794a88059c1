"""A program whose harness follows a stream, and which is killed: it prints the bars on record once it gets to the end.

python -m tests.venue.streamed_life STORE --venue URL --start TIME --slices 12
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import trio
from attrs import evolve

from harnesses import Agent, AgentRun
from harnesses.trading import Limits, Market, Order, PaperBroker, Strategy, TradingHarness, TradingState
from orchestrator import Orchestrator

from .ordering import BTC, ETH
from .placing import reach
from .running import urls_of
from .trading import Ending


async def wait_and_see(run: AgentRun[TradingState, Market]) -> Sequence[Order]:
    """Order nothing."""
    await trio.lowlevel.checkpoint()
    return []


def quiet_strategy() -> Strategy:
    """Return a strategy that orders nothing."""
    agent: Any = Agent(wait_and_see)
    return Strategy(agent)


def make(url: str, start: datetime, slices: int, venue: Path) -> TradingHarness:
    """Return a harness that is asked twice an hour: each new bar comes with the stream, or not in time."""
    options = evolve(reach(url, 4), urls=urls_of(url), timeout_s=2.0)
    feed = Ending("binance", [BTC, ETH], options=options, start=start, stream=True)
    feed.last = start.replace(second=0, microsecond=0) + timedelta(minutes=slices)
    broker = PaperBroker(Decimal(10_000), path=venue)
    return TradingHarness(feed, broker, quiet_strategy(), limits=Limits(max_age_s=86_400.0), period_s=1800.0)


async def live(store: Path, harness: TradingHarness) -> None:
    """Run it to its end, or until a signal comes."""
    async with Orchestrator(store) as running:
        await running.start(harness, name="streamed").wait()


def main(arguments: Sequence[str]) -> None:
    """Be the program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("--venue", required=True)
    parser.add_argument("--start", type=datetime.fromisoformat, required=True)
    parser.add_argument("--slices", type=int, required=True)
    options = parser.parse_args(arguments)
    harness = make(options.venue, options.start, options.slices, options.store.with_suffix(".venue"))
    trio.run(live, options.store, harness)
    slices = [step.input for step in harness.step_history if step.input is not None]
    print(
        msgspec.json.encode([(one.time, {symbol: bar.close for symbol, bar in one.bars.items()}) for one in slices]).decode()
    )


if __name__ == "__main__":
    main(sys.argv[1:])
