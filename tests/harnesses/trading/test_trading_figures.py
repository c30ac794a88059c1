"""Whoever watches a trading account from outside sees its equity and the parts of it that are held."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import trio

from harnesses import Agent
from harnesses.errors import Waiting
from harnesses.governance import Guardrails
from harnesses.governance.limits.guardrail_watch import Watch
from harnesses.runtime import LocalRuntime
from harnesses.trading import Bar, Order, ReplayFeed, Side, Strategy, TradingHarness, TradingState
from harnesses.trading.account_model import figures, moment

FIRST = datetime(2000, 3, 1, tzinfo=UTC)


def trading(*closes: int, units: int = 50) -> TradingHarness:
    """Return a harness that buys at the first of these prices, one a day, and holds."""

    async def run(run: Any) -> list[Order]:
        await trio.lowlevel.checkpoint()
        return [Order("A", Side.BUY, Decimal(units))] if run.input.time == FIRST else []

    bars = {FIRST + timedelta(day): Bar(*[Decimal(close)] * 4, 10_000) for day, close in enumerate(closes)}
    return TradingHarness(ReplayFeed({"A": bars}), strategy=Strategy(Agent(run)))


async def held(harness: TradingHarness, **limits: Any) -> tuple[Any, list[str]]:
    """Run under these limits; return the time of the last slice and what was found."""
    runtime = LocalRuntime("one", governor=Watch(Guardrails(**limits), harness.figures, moment=harness.moment))
    with pytest.raises(Waiting):
        await harness.run(runtime)
    return harness.state.time, [json.loads(attached.body)["limit_name"] for _, attached in runtime.attached]


def test_before_the_books_are_open_nothing_is_known() -> None:
    assert figures(TradingState()) == {}
    assert moment(TradingState()) is None


async def test_a_position_is_a_part_of_the_equity(autojump_clock: object) -> None:
    harness = trading(100, 100)

    await harness.run()

    assert figures(harness.state) == {"equity": Decimal(10_000), "position:A": Decimal("0.5")}
    assert moment(harness.state) == FIRST + timedelta(days=1)


async def test_a_drawdown_blocks_it_whatever_its_own_limits_allow(autojump_clock: object) -> None:
    time, found = await held(trading(100, 120, 90, 75, 70, 65), max_drawdown=Decimal("0.2"))

    assert (time, found) == (FIRST + timedelta(days=3), ["max_drawdown"])


async def test_a_day_of_a_replay_is_that_of_its_data(autojump_clock: object) -> None:
    time, found = await held(trading(100, 96, 92, 78, 78), max_daily_loss=Decimal("0.05"))

    assert (time, found) == (FIRST + timedelta(days=3), ["max_daily_loss"])


async def test_a_position_beyond_its_limit_blocks_it(autojump_clock: object) -> None:
    time, found = await held(trading(100, 100, 130, 130), max_position=Decimal("0.55"))

    assert (time, found) == (FIRST + timedelta(days=2), ["max_position"])
