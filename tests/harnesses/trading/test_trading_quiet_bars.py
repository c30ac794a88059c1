"""Bars in which nothing happens share a step, and nothing else is different: state, questions and the account at every bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from attrs import evolve

from harnesses import Agent, AgentRun
from harnesses.budgets.budget import Budget
from harnesses.errors import HarnessMisuse
from harnesses.runtime import LocalRuntime
from harnesses.trading import Limits, PaperBroker, ReplayFeed, TradingHarness, cross_strategy, portfolio_strategy, rsi_strategy
from harnesses.trading.account_model import bars_of
from harnesses.trading.indicators import Ema
from harnesses.trading.market.bars import Bar, SliceRun
from harnesses.trading.market.orders import Order, OrderKind, Side
from harnesses.trading.paper.paper_books import Fees
from harnesses.trading.quiet_bars import MOST_ROWS
from harnesses.trading.report.report_figures import account_of
from harnesses.trading.strategies import Market, Strategy
from harnesses.trading.timeframes import Timeframe
from harnesses.trading.warm_up import warm_up

FIRST = datetime(2024, 1, 1, tzinfo=UTC)


def recording(count: int = 400, symbols: Sequence[str] = ("A", "B"), *, wild: bool = False) -> ReplayFeed:
    """Return hourly bars; with gaps, jumps and splits if they are wild."""
    random, bars = Random(5), dict[str, dict[datetime, Bar]]()
    for symbol in symbols:
        price, series = 10_000, bars.setdefault(symbol, {})
        for number in range(count):
            split = Decimal(1)
            if wild and random.random() < 0.01:
                price, split = price // 2, Decimal(2)
            before, price = price, max(500, price + random.randint(-120, 121))
            low, high = min(before, price) - random.randrange(30), max(before, price) + random.randrange(30)
            close = price * 3 if wild and random.random() < 0.01 else price
            first, most, least, last = (Decimal(one).scaleb(-2) for one in (before, max(high, close), low, close))
            if not wild or random.random() < 0.9:
                series[FIRST + timedelta(hours=number)] = Bar(
                    first, most, least, last, Decimal(random.randint(50, 900)), split
                )
    return ReplayFeed(bars)


def now_and_then(every: int, *, kind: OrderKind = OrderKind.MARKET, **more: Any) -> Strategy:
    """Return a strategy that orders at each bar whose hour is a multiple, by turns to buy and to sell."""

    async def run(run: AgentRun[Any, Market]) -> Sequence[Order]:
        market = run.input
        hour = (market.time - FIRST) // timedelta(hours=1)
        if hour % every or "A" not in market.quotes:
            return ()
        quote = market.quotes["A"]
        if quote.sellable:
            return [Order("A", Side.SELL, quote.sellable)]
        price = (quote.close * Decimal("0.995")).quantize(Decimal("0.01")) if kind is OrderKind.LIMIT else None
        return [Order("A", Side.BUY, Decimal(7), kind, limit_price=price)]

    return Strategy(Agent(run, name="now and then"), {"ema": Ema(5)}, **more)


CASES: dict[str, dict[str, Any]] = {
    "cross": {"strategy": cross_strategy(5, 15, Decimal("0.3"))},
    "rsi": {"strategy": rsi_strategy(Decimal("0.2"), period=5)},
    "portfolio": {"strategy": portfolio_strategy(["A", "B"], band=Decimal("0.02"), every_days=2)},
    "orders": {"strategy": now_and_then(10)},
    "limit orders": {"strategy": now_and_then(9, kind=OrderKind.LIMIT)},
    "never": {"strategy": now_and_then(10_000)},
    "bars and timeframes": {
        "strategy": now_and_then(11, bars=4, timeframes={"day": Timeframe(timedelta(days=1), 2, {"ema": Ema(3)})})
    },
    "stop-loss": {"strategy": now_and_then(30), "limits": Limits(stop_loss=Decimal("0.02"), cooldown_s=40_000.0)},
    "drawdown": {"strategy": now_and_then(10), "limits": Limits(max_drawdown=Decimal("0.001"))},
    "daily loss": {"strategy": now_and_then(10), "limits": Limits(max_daily_loss=Decimal("0.0005"))},
    "warm-up": {"strategy": warm_up(now_and_then(10), FIRST + timedelta(hours=100))},
    "next open, shares of the volume": {"strategy": now_and_then(10), "fill_at": "next_open", "max_share": Decimal("0.01")},
}


def backtest(bars_per_step: int, feed: ReplayFeed, strategy: Strategy, limits: Limits | None = None, **rules: Any) -> Any:
    """Return a harness that has followed a recording to its end, and the questions that its strategy was asked."""
    asked = list[Market]()

    async def run(run: AgentRun[Any, Market]) -> Sequence[Any]:
        asked.append(run.input)
        return await strategy.agent.answer(run)

    venue = PaperBroker(Decimal(20_000), fees=Fees(rate=Decimal("0.001")), slippage_bps=Decimal(3), **rules)
    watched = evolve(strategy, agent=Agent(run, name=strategy.name))
    harness = TradingHarness(feed.another(), venue, watched, limits=limits, period_s=0, bars_per_step=bars_per_step)
    trio.run(harness.run)
    return harness, asked


def account_at_each_bar(harness: TradingHarness) -> list[Any]:
    """Return what was recorded, bar by bar, without the ids that orders get from the number of their step."""
    said = list[Any]()
    for step in harness.step_history:
        for market, output in bars_of(step.input, step.output):
            orders = [one.order for one in output.placed], [evolve(one.fill, client_id="") for one in output.fills]
            rest = [evolve(one, client_id="") for one in output.reports], output.refused, output.risk, output.why
            said.append(
                (market, output.time, output.cash, str(output.equity), output.positions, str(output.drawdown), *orders, *rest)
            )
    return said


@pytest.mark.parametrize("wild", [False, True], ids=["calm", "wild"])
@pytest.mark.parametrize("case", CASES)
def test_a_backtest_is_the_same_at_every_bar_however_many_share_a_step(case: str, *, wild: bool) -> None:
    feed, how = recording(wild=wild), CASES[case]
    one, asked = backtest(1, feed, **how)

    for most in (7, 256):
        some, asked_of_some = backtest(most, feed, **how)

        assert account_at_each_bar(some) == account_at_each_bar(one)
        assert asked_of_some == [
            evolve(question, orders=again.orders) for question, again in zip(asked, asked_of_some, strict=True)
        ]
        assert evolve(some.state, open={}) == evolve(one.state, open={})
        figures, again = account_of(one.step_history), account_of(some.step_history)
        assert (again.figures, again.points, again.months) == (figures.figures, figures.points, figures.months)
    assert len(one.step_history) == len(feed.times) + 1


def test_a_step_has_as_many_quiet_bars_as_may_share_it() -> None:
    harness, _ = backtest(100, recording(302), now_and_then(10_000))

    assert [len(step.output.quiet) + 1 for step in harness.step_history] == [1, 1, 100, 100, 100, 1]
    run = harness.step_history[2].input
    assert isinstance(run, SliceRun)
    assert (run.time, len(run.earlier)) == (FIRST + timedelta(hours=100), 99)


def test_a_step_of_many_symbols_has_fewer_bars() -> None:
    symbols = [f"S{number}" for number in range(100)]

    harness, _ = backtest(256, recording(40, symbols), now_and_then(10_000))

    assert [len(step.output.quiet) + 1 for step in harness.step_history[2:]] == [MOST_ROWS // 100 + 1] * 3 + [6]


LOOKS: tuple[Callable[[AgentRun[Any, Market]], object], ...] = (
    lambda run: run.context,
    lambda run: run.step_history,
    lambda run: run.step_number,
    lambda run: run.log("a line"),
    lambda run: run.attach("task", {}),
    lambda run: run.limits,
)


@pytest.mark.parametrize("look", LOOKS)
def test_a_strategy_that_looks_at_more_than_the_market_has_a_step_for_each_bar(
    look: Callable[[AgentRun[Any, Market]], object],
) -> None:
    seen = list[datetime]()

    async def run(run: AgentRun[Any, Market]) -> Sequence[Order]:
        if run.input.time >= FIRST + timedelta(hours=20):
            look(run)
            seen.append(run.input.time)
        return ()

    feed = recording(60)
    harness = TradingHarness(feed, PaperBroker(), Strategy(Agent(run)), period_s=0)
    trio.run(harness.run)

    assert seen == list(feed.times[20:])
    assert [len(step.output.quiet) + 1 for step in harness.step_history] == [1, 1, 19, *[1] * 40]


def test_an_error_of_the_strategy_comes_after_the_step_of_the_bars_before() -> None:
    async def run(run: AgentRun[Any, Market]) -> Sequence[Order]:
        if run.input.time == FIRST + timedelta(hours=50):
            raise ValueError("no idea")
        return ()

    harness = TradingHarness(recording(60), PaperBroker(), Strategy(Agent(run)), period_s=0)
    with pytest.raises(ValueError, match="no idea"):
        trio.run(harness.run)

    assert harness.state.time == FIRST + timedelta(hours=49)


def test_under_a_budget_and_at_a_venue_with_a_file_each_bar_has_a_step(tmp_path: Path) -> None:
    under_budget = TradingHarness(recording(60), PaperBroker(), now_and_then(100), period_s=0)
    trio.run(under_budget.run, LocalRuntime("trading", budget=Budget(steps=1_000)))
    with closing(PaperBroker(path=tmp_path / "venue")) as venue:
        at_file = TradingHarness(recording(60), venue, now_and_then(100), period_s=0)
        trio.run(at_file.run)

    assert [len(one.step_history) for one in (under_budget, at_file)] == [61, 61]


def test_bars_per_step_is_a_number() -> None:
    with pytest.raises(HarnessMisuse, match="bars_per_step: expected a whole number from 1 up, was 0"):
        TradingHarness(recording(3), bars_per_step=0)
