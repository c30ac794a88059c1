"""A program that trades on a paper venue's file until it is killed; it prints each order when the venue has acknowledged it.

python -m tests.harnesses.trading.paper_child FILE LIFE
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import trio

from harnesses.trading.market.bars import Bar, MarketSlice
from harnesses.trading.market.orders import Order, PlacedOrder, Side, Source
from harnesses.trading.paper.paper_books import Fees
from harnesses.trading.paper.paper_broker import PaperBroker

START = datetime(2024, 1, 1, tzinfo=UTC)


def placed(id: str) -> PlacedOrder:
    """Return an order; its id tells the rest."""
    number = int(id.split("-")[1])
    side = Side.BUY if number % 2 == 0 else Side.SELL
    return PlacedOrder(id, Order("A", side, Decimal(1 + number // 2 % 3)), Source.STRATEGY, START)


async def trade(path: str, life: int) -> None:
    """Buy and sell, for ever."""
    broker = PaperBroker(path=path, fees=Fees(rate=Decimal("0.0001")))
    for number in range(100_000):
        price = Decimal(100 + number % 7)
        time = START + timedelta(days=1000 * life, minutes=number)
        await broker.observe(MarketSlice(time, {"A": Bar(price, price, price, price, Decimal(10))}))
        id = f"{life}-{number}"
        await broker.submit(placed(id))
        os.write(1, f"{id}\n".encode())


if __name__ == "__main__":
    trio.run(trade, sys.argv[1], int(sys.argv[2]))
