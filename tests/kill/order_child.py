"""The program that is killed while a strategy places, cancels and replaces orders and brackets at a paper venue in a file.

python -m tests.kill.order_child FOLDER --kill submit-after:3
python -m tests.kill.order_child FOLDER --shorts --kill submit-after:3    with margin: its entries are short sales
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import trio

from harnesses import Agent
from harnesses.trading import (
    Bar,
    Cancel,
    Fees,
    Margin,
    Market,
    Order,
    OrderKind,
    OrderReport,
    PaperBroker,
    PlacedOrder,
    Replace,
    ReplayFeed,
    Side,
    Strategy,
    TradingHarness,
)
from orchestrator import Orchestrator, SqliteStore
from orchestrator.testing import FaultyStore, kill_this_process

NAME = "orders"
CLOSES = (100, 103, 99, 104, 101, 97, 105, 103, 96, 107)
_FOREVER = 1_000_000


class Watched(PaperBroker):
    """A venue in a file, whose program may be killed before and after each of its calls."""

    def __init__(self, path: Path, kind: str, number: int, *, margin: Margin | None = None) -> None:
        fees, half = Fees(Decimal("0.001")), Decimal("0.5")
        super().__init__(Decimal(300 if margin else 20_000), fees=fees, max_share=half, margin=margin, path=path)
        self._at = kind, number
        self.counts = Counter[str]()

    def _pass_by(self, kind: str) -> None:
        self.counts[kind] += 1
        if (kind, self.counts[kind]) == self._at:
            kill_this_process()

    async def submit(self, placed: PlacedOrder) -> OrderReport:
        self._pass_by("submit-before")
        report = await super().submit(placed)
        self._pass_by("submit-after")
        return report

    async def cancel(self, client_id: str, symbol: str) -> OrderReport | None:
        self._pass_by("cancel-before")
        report = await super().cancel(client_id, symbol)
        self._pass_by("cancel-after")
        return report


def feed() -> ReplayFeed:
    """Return a few days of a volume that fills orders in parts."""
    bars = [Bar(*map(Decimal, (close, close + 3, close - 3, close)), Decimal(12)) for close in CLOSES]
    return ReplayFeed({"A": {datetime(2024, 1, 1 + day, tzinfo=UTC): bar for day, bar in enumerate(bars)}})


async def decide(run: Any) -> list[Any]:
    """Enter with an exit; move the exits; give up entries."""
    market: Market = run.input
    close, wishes = market.quotes["A"].close, list[Any]()
    for one in market.orders:
        order = one.placed.order
        if order.side is Side.BUY and market.time - one.placed.decided > timedelta(days=1):
            wishes.append(Cancel(one.placed.client_id, "too late"))
        elif order.kind is OrderKind.OCO and one.report.units and market.time.day % 3 == 0:
            moved = Order("A", Side.SELL, one.left, OrderKind.OCO, limit_price=close + 6, stop_price=close - 4)
            wishes.append(Replace(one.placed.client_id, moved))
    limited: dict[str, Any] = {"kind": OrderKind.LIMIT, "limit_price": close - 1}
    wishes.append(Order("A", Side.BUY, Decimal(5), take_profit=close + 5, stop_loss=close - 5, trail=Decimal(6)))
    return [*wishes, Order("A", Side.BUY, Decimal(9), take_profit=close + 4, stop_loss=close - 6, **limited)]


async def decide_short(run: Any) -> list[Any]:
    """Sell short with an exit, more than one can; move the exits; turn the position over at times."""
    market: Market = run.input
    quote, wishes = market.quotes["A"], list[Any]()
    close = quote.close
    for one in market.orders:
        if one.placed.order.kind is OrderKind.OCO and one.report.units and market.time.day % 3 == 0:
            moved = Order("A", Side.BUY, one.left, OrderKind.OCO, limit_price=close - 6, stop_price=close + 9)
            wishes.append(Replace(one.placed.client_id, moved))
    if market.time.day % 4 == 0:
        wishes.append(Order("A", Side.BUY, quote.coverable + 3, OrderKind.LIMIT, limit_price=close - 2))
    return [*wishes, Order("A", Side.SELL, Decimal(6), take_profit=close - 9, stop_loss=close + 30)]


async def run(options: argparse.Namespace) -> None:
    kind, _, number = options.kill.partition(":")
    commits = int(number) if kind.startswith("commit") else _FOREVER
    after = kind == "commit-after"
    store = FaultyStore(SqliteStore(options.folder / "run.db"), kill_this_process, at=commits, after=after)
    margin = Margin(Decimal("0.07"), leverage=Decimal(2), maintenance=Decimal("0.49")) if options.shorts else None
    broker = Watched(options.folder / "venue.db", kind, int(number or _FOREVER), margin=margin)
    strategy = Strategy(Agent(decide_short if options.shorts else decide))
    harness = TradingHarness(feed(), broker, strategy, period_s=0)
    async with Orchestrator(store) as orchestrator:
        orchestrator.start(harness, name=NAME)
    counts = {**broker.counts, "commit-before": store.commits, "commit-after": store.commits}
    (options.folder / "counts.json").write_text(json.dumps(counts))
    broker.close()
    store.close()


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shorts", action="store_true", help="at a venue with margin")
    parser.add_argument("--kill", default="", metavar="MOMENT:N", help="submit-before, submit-after, cancel-before, …")
    return parser.parse_args()


if __name__ == "__main__":
    trio.run(run, parse())
