"""How long after the end of a bar its step comes: with a stream, and by polling. At a venue on this machine, through ccxt.

The venue's clock is set forward to the end of a bar at random moments, and the time of the step is compared with that moment.
"""

from __future__ import annotations

import random
import statistics
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import trio

from harnesses.trading import CcxtFeed, Limits, PaperBroker, Strategy, TradingHarness
from harnesses.trading.exchange.ccxt_client import CcxtOptions
from orchestrator import Orchestrator
from tests.venue.running import RunningVenue, urls_of
from tests.venue.streamed_life import quiet_strategy

MODES = {"stream": (True, 60.0), "polled_each_1_s": (False, 1.0), "polled_each_5_s": (False, 5.0)}


def streaming(folder: Path, bars: int = 20) -> dict[str, Any]:
    """Return the delay from the end of a bar to its step in ms, for each way of learning of it: median and longest."""
    figures: dict[str, Any] = {"bars": bars}
    for name, (stream, period_s) in MODES.items():
        with RunningVenue(folder / f"{name}.db") as venue:
            delays_ms = trio.run(_measure, venue, folder / f"{name}-run.db", stream, period_s, bars)
        figures[name] = {"median_ms": round(statistics.median(delays_ms), 1), "longest_ms": round(max(delays_ms), 1)}
    return figures


async def _measure(venue: RunningVenue, store: Path, stream: bool, period_s: float, bars: int) -> list[float]:
    options, chance = CcxtOptions(urls=urls_of(venue.url), paced=False), random.Random(1)
    start = datetime.now(UTC) - timedelta(minutes=2)
    feed = CcxtFeed("binance", ["BTC/USDT"], options=options, start=start, stream=stream)
    strategy: Strategy = quiet_strategy()
    harness = TradingHarness(feed, PaperBroker(Decimal(10_000)), strategy, limits=Limits(max_age_s=1e9), period_s=period_s)
    delays_ms: list[float] = []
    with trio.fail_after(60 + 3 * period_s * bars):
        async with Orchestrator(store) as running:
            handle = running.start(harness, name="measured")
            while (stream and not feed.is_streaming) or harness.current_step < 2:  # noqa: ASYNC110  (another thread)
                await trio.sleep(0.05)
            for _ in range(bars):
                await trio.sleep(chance.uniform(0.3, 0.3 + period_s) if not stream else chance.uniform(0.3, 1.0))
                step, ended_s = harness.current_step, time.time()
                await trio.to_thread.run_sync(lambda: venue.control("clock", jump_s=60))
                while harness.current_step == step:  # noqa: ASYNC110  (the moment is that of the step)
                    await trio.sleep(0.005)
                delays_ms.append((harness.step_history[-1].timestamp.timestamp() - ended_s) * 1000)
            await handle.stop()
    return delays_ms
