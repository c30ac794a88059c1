"""A program that trades at a venue and is killed: forked off one process again and again, until a life of it gets to the end.

python -m tests.venue.trading STORE --venue URL --start TIME --slices 6 --kills 10 --seed 1

It prints how often it was killed, the book that the harness has in the end, and the orders that it knows to be taken.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import trio
from attrs import field, frozen

from harnesses import Agent, AgentRun
from harnesses.trading import (
    Book,
    Broker,
    Limits,
    Market,
    Order,
    SharedAccount,
    Side,
    Strategy,
    TradingHarness,
    TradingState,
)
from harnesses.trading.exchange.ccxt_broker import CcxtBroker
from harnesses.trading.exchange.ccxt_client import CcxtOptions
from harnesses.trading.exchange.ccxt_feed import CcxtFeed
from orchestrator import Backoff, Orchestrator
from orchestrator.outcome import OutcomeKind

from .ordering import BTC, ETH
from .placing import reach
from .spoken import SPOKEN, in_dialect

SHARE = 4000
"""Cash of each harness that shares the account."""


@frozen
class Known:
    """What a harness knows in the end."""

    book: Book
    taken: tuple[str, ...]
    """Client ids of the orders that the venue has taken, as far as it knows."""
    kills: int = 0
    shares: Mapping[str, Book] = field(factory=dict[str, Book])
    """The sub-books of the account, if several harnesses share it."""


class Ending(CcxtFeed):
    """Is at its end with the slice of a certain time."""

    last: datetime

    def is_at_end(self, after: datetime | None) -> bool:
        return after is not None and after >= self.last


async def there_and_back(run: AgentRun[TradingState, Market]) -> Sequence[Order]:
    """Buy some of each in one slice and sell less in the next."""
    await trio.lowlevel.checkpoint()
    side, units = (Side.BUY, "0.03") if run.input.time.minute % 2 else (Side.SELL, "0.02")
    return [Order(symbol, side, Decimal(units)) for symbol in run.input.quotes]


def make(
    options: CcxtOptions,
    start: datetime,
    slices: int,
    exchange: str = "binance",
    url: str = "",
    *,
    share: Callable[[CcxtBroker], Broker] = lambda broker: broker,
) -> TradingHarness:
    """Return a harness as it is when the program starts. The slices are of the past, and traded on all the same.

    Args:
        exchange: the dialect that its broker speaks.
        share: makes its share of an account, if it has one.
    """
    feed = Ending("binance", [BTC, ETH], options=options, start=start)
    feed.last = start.replace(second=0, microsecond=0) + timedelta(minutes=slices)
    strategy: Any = Strategy(Agent(there_and_back))
    broker = CcxtBroker(exchange, in_dialect(options, exchange, url) if url else options)
    return TradingHarness(feed, share(broker), strategy, limits=Limits(max_age_s=86_400.0), period_s=0.02)


def known(harness: TradingHarness) -> Known:
    """Return what a harness knows."""
    book = harness.state.book
    assert book is not None, "the books are open"
    return Known(book, tuple(sorted({one.client_id for step in harness.step_history for one in step.output.reports})))


async def live(store: Path, harnesses: Mapping[str, TradingHarness]) -> None:
    """Run them to their ends."""
    async with Orchestrator(store, intensity=10**6, backoff=Backoff(base_s=0.01, cap_s=0.5), handle_signals=False) as running:
        for handle in [running.start(harness, name=name) for name, harness in harnesses.items()]:
            outcome = await handle.wait()
            assert outcome.kind is OutcomeKind.COMPLETED, str(outcome)
    told = [known(harness) for harness in harnesses.values()]
    shares = {name: one.book for name, one in zip(harnesses, told, strict=True)}
    taken = tuple(sorted(id for one in told for id in one.taken))
    store.with_suffix(".json").write_bytes(msgspec.json.encode(Known(told[0].book, taken, shares=shares)))


def main(arguments: Sequence[str]) -> None:
    """Fork the program, kill it after a while, and again, until it gets to its end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("--venue", required=True)
    parser.add_argument("--start", type=datetime.fromisoformat, required=True)
    parser.add_argument("--slices", type=int, required=True)
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--longest", type=float, default=0.5, help="seconds that a life which is killed may last")
    parser.add_argument("--exchange", choices=SPOKEN, default="binance")
    parser.add_argument("--members", type=int, default=1, help="harnesses that share the account")
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args(arguments)
    importlib.import_module("ccxt")
    chance, kills = random.Random(options.seed), 0
    while True:
        pid = os.fork()
        if not pid:
            _be(options)
        if kills < options.kills and _killed(pid, chance.uniform(0.1, options.longest)):
            kills += 1
            continue
        if kills >= options.kills:
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "a life that nobody has killed gets to the end"
        break
    said = options.store.with_suffix(".json").read_bytes()
    print(msgspec.json.encode({**msgspec.json.decode(said), "kills": kills}).decode())


def _killed(pid: int, after_s: float) -> bool:
    """Kill a program with `kill -9` after a while; return False if it has ended before."""
    deadline_s = time.monotonic() + after_s
    while time.monotonic() < deadline_s:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def _harnesses(options: argparse.Namespace) -> dict[str, TradingHarness]:
    reached, parts = reach(options.venue, 4), (options.start, options.slices, options.exchange, options.venue)
    if options.members == 1:
        return {"live": make(reached, *parts)}
    broker = CcxtBroker(options.exchange, in_dialect(reached, options.exchange, options.venue))
    account = SharedAccount("main", broker, path=options.store.with_suffix(".account"))
    names = [f"member-{number}" for number in range(options.members)]
    cash = Decimal(SHARE)
    return {name: make(reached, *parts, share=lambda _, of=name: account.share(of, cash)) for name in names}


def _be(options: argparse.Namespace) -> None:
    """Be the program, to its end."""
    code = 1
    try:
        trio.run(live, options.store, _harnesses(options))
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
