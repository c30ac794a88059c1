"""What every system gets: bars of one minute, and when to order. Needs the standard library alone.

The strategy keeps two exponential averages of the close. With `every` it also orders at each bar whose number, from 1, is a
multiple: it buys `UNITS` while it holds none, and sells them otherwise. Orders are filled at the close of their bar.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import NamedTuple

CASH, UNITS, FAST, SLOW = 100_000, 10, 10, 30
FIRST = datetime(2024, 1, 1, tzinfo=UTC)


class GivenBar(NamedTuple):
    """A bar; prices in cents."""

    time: datetime
    open: int
    high: int
    low: int
    close: int
    volume: int


def bars(count: int) -> Iterator[GivenBar]:
    """Make the bars, always the same ones."""
    random, price = Random(7), 10_000
    for number in range(count):
        before, price = price, max(1_000, price + random.randint(-25, 25))
        high, low = max(before, price) + random.randrange(8), min(before, price) - random.randrange(8)
        yield GivenBar(FIRST + timedelta(minutes=number), before, high, low, price, random.randint(1_000, 9_000))


class Averages:
    """The two averages, advanced by one close at a time."""

    def __init__(self) -> None:
        self.fast = self.slow = 0.0

    def add(self, close: float) -> None:
        """Advance both averages."""
        self.fast += (close - self.fast) * 2 / (FAST + 1)
        self.slow += (close - self.slow) * 2 / (SLOW + 1)


def measure(run: Callable[[int, int], tuple[Callable[[], object], Callable[[], tuple[str, int]]]]) -> None:
    """Time a system with the arguments `bars every` of the command line, and print its figures as JSON.

    Args:
        run: given the number of bars and `every`, prepares a backtest; returns what is timed, and what then tells the final
            equity and the number of fills.
    """
    count, every = map(int, sys.argv[1:3])
    work, result = run(count, every)
    began = time.process_time()
    work()
    spent = time.process_time() - began
    equity, fills = result()
    print(json.dumps({"processor_s": spent, "equity": equity, "fills": fills}))
