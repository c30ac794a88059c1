"""What the market does: a pure function of a seed and the time, so that any bar can be told at any moment."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b

from attrs import frozen

MINUTE_MS = 60_000
INTERVALS_MS = {"1m": MINUTE_MS, "5m": 5 * MINUTE_MS, "1h": 60 * MINUTE_MS, "1d": 1440 * MINUTE_MS}


@frozen
class Symbol:
    """What is traded, and in what grain."""

    name: str
    base: str
    tick: Decimal
    step: Decimal
    middle: int
    """About where its price is."""
    min_notional: Decimal = Decimal(5)
    quote: str = "USDT"


SYMBOLS = {
    symbol.name: symbol
    for symbol in (
        Symbol("BTCUSDT", "BTC", Decimal("0.01"), Decimal("0.00001"), 60_000),
        Symbol("ETHUSDT", "ETH", Decimal("0.01"), Decimal("0.0001"), 3_000),
        Symbol("SOLUSDT", "SOL", Decimal("0.01"), Decimal("0.001"), 150),
    )
}


@frozen
class Candle:
    """What a symbol did from `time_ms` on."""

    time_ms: int
    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    volume: Decimal


@lru_cache(4096)
def price_at(seed: int, symbol: Symbol, minute: int) -> Decimal:
    """Return the price at the beginning of a minute since the epoch: within 2 % of the middle, in whole ticks."""
    digest = blake2b(f"{seed}:{symbol.name}:{minute}".encode(), digest_size=4).digest()
    swing = int.from_bytes(digest) % 4001 - 2000
    return (symbol.middle * Decimal(100_000 + swing) / 100_000).quantize(symbol.tick)


def candle(seed: int, symbol: Symbol, start_ms: int, length_ms: int) -> Candle:
    """Return the bar of `length_ms` that begins at `start_ms`."""
    first = start_ms // MINUTE_MS
    count = length_ms // MINUTE_MS
    points = [price_at(seed, symbol, first + part * count // 4) for part in range(5)] if count >= 4 else []
    points = points or [price_at(seed, symbol, first), price_at(seed, symbol, first + count)]
    return Candle(start_ms, points[0], max(points), min(points), points[-1], Decimal(first % 977 + 1) / 8)
