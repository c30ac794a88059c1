"""A paper venue with margin: short positions, buying power, costs of loans and margin calls, as a harness trades there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal as Dec
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses import Agent
from harnesses.errors import OrchestratorError
from harnesses.run_file_harnesses.trading_table import read_harness
from harnesses.trading import (
    Bar,
    Fees,
    Limits,
    Margin,
    Market,
    Order,
    OrderKind,
    OrderStatus,
    PaperBroker,
    ReplayFeed,
    SharedAccount,
    Side,
    Source,
    Strategy,
    TradingHarness,
    TradingOutput,
    bars_of,
    cross_strategy,
)
from harnesses.trading.market.buying_power import power
from harnesses.trading.market.orders import PlacedOrder, exit_of
from harnesses.trading.report.report_figures import account_of

BUY, SELL = Side.BUY, Side.SELL
FREE = Margin(Dec(0), leverage=2)
Plan = dict[int, list[Order]]


def feed(*bars: str, days: int = 1) -> ReplayFeed:
    """Return bars of A, each as `open high low close` or as one price."""
    series: dict[datetime, Bar] = {}
    for number, text in enumerate(bars):
        prices = [Dec(price) for price in text.split()]
        one = Bar(*(prices if len(prices) == 4 else prices * 4), volume=Dec(1000))
        series[datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=days * number)] = one
    return ReplayFeed({"A": series})


def traded(bars: ReplayFeed, plan: Plan, margin: Margin = FREE, cash: int = 1000, **more: Any) -> list[TradingOutput]:
    """Return what is said at each bar, if the orders of a plan are wanted at the bars with these numbers, from 1."""
    limits = more.pop("limits", Limits(max_jump=Dec(1)))
    harness = TradingHarness(
        bars, PaperBroker(Dec(cash), margin=margin, **more), planned(bars, plan), limits=limits, period_s=0, bars_per_step=1
    )
    trio.run(harness.run)
    return [said for step in harness.step_history[1:] for _, said in bars_of(step.input, step.output)]


def planned(bars: ReplayFeed, plan: Plan) -> Strategy:
    numbers = {time: number for number, time in enumerate(bars.times, 1)}

    async def decide(run: Any) -> Sequence[Order]:
        return plan.get(numbers[run.input.time], [])

    return Strategy(Agent(decide), shorts=True)


def order(side: Side, units: str, **more: Any) -> Order:
    return Order("A", side, Dec(units), **more)


def test_a_short_position_gains_what_a_long_one_loses() -> None:
    prices = ("100", "90", "120", "110")

    long, short = (traded(feed(*prices), {1: [order(side, "5")]}) for side in (BUY, SELL))

    assert [one.equity - 1000 for one in long] == [1000 - one.equity for one in short] == [0, -50, 100, 50]
    assert short[-1].positions == {"A": -5}


def test_an_order_turns_a_position_over_and_another_covers_it() -> None:
    said = traded(feed("100", "110", "90", "80"), {1: [order(BUY, "5")], 2: [order(SELL, "8")], 3: [order(BUY, "3")]})

    assert [one.positions.get("A", 0) for one in said] == [5, -3, 0, 0]
    assert said[-1].cash == 1000 + 5 * 10 + 3 * 20


def test_what_is_borrowed_costs_for_the_time_since_the_bar_before_at_its_close() -> None:
    margin = Margin(Dec("0.0365"), leverage=2, interest_rate=Dec("0.073"))

    short = traded(feed("100", "100 140 100 120", "120", days=5), {1: [order(SELL, "10")]}, margin)
    long = traded(feed("100", "100", days=5), {1: [order(BUY, "15")]}, margin)

    assert [one.financing for one in short] == [0, Dec("0.5"), Dec("0.6")]
    assert (long[1].financing, long[1].cash) == (Dec("0.5"), Dec("-500.5"))


def test_an_order_beyond_the_buying_power_is_sized_down_and_the_rest_is_on_record() -> None:
    said = traded(
        feed("100", "100"), {1: [order(SELL, "30")], 2: [order(SELL, "1"), order(BUY, "60")]}, fees=Fees(Dec("0.01"))
    )

    assert said[0].positions == {"A": -19}  # 19 * 100 + 2 * 19 <= 2 * 1000 < 20 * 100 + 2 * 20
    assert [(one.order.units, one.reason) for one in said[0].refused] == [(11, "buying power for only 19 units")]
    assert said[1].positions == {"A": 18}
    assert [one.order.side for one in said[1].refused] == [BUY, SELL]


@pytest.mark.parametrize(
    ("worst", "price"),
    [("100 150 100 100", None), ("100 161 100 100", "160"), ("180 200 90 100", "180")],
    ids=["not reached", "within the bar", "at a gap"],
)
def test_a_margin_call_closes_everything_at_the_worst_price_of_the_bar(worst: str, price: str | None) -> None:
    stop = order(BUY, "1", kind=OrderKind.LIMIT, limit_price=Dec(1))

    said = traded(
        feed("100", worst, "100"), {1: [order(SELL, "10"), stop]}, Margin(Dec(0), leverage=2, maintenance=Dec("0.25"))
    )

    fills = list(said[1].fills)
    if price is None:
        assert (fills, said[2].positions) == ([], {"A": -10})
        return
    assert [(one.fill.price, one.fill.units, one.fill.client_id, one.wanted_by) for one in fills] == [
        (Dec(price), 10, "", Source.VENUE)
    ]
    assert fills[0].fill.reason.startswith("margin call: equity of ")
    assert [one.status for one in said[1].reports] == [OrderStatus.CANCELLED]
    assert (said[2].positions, said[2].cash) == ({}, 2000 - 10 * Dec(price))


def test_a_bracket_of_a_short_sale_takes_profit_below_and_stops_above() -> None:
    entry = order(SELL, "5", take_profit=Dec(90), stop_loss=Dec(110))

    won = traded(feed("100", "100 105 89 95", "95"), {1: [entry]})
    lost = traded(feed("100", "100 112 88 95", "95"), {1: [entry]})
    trailed = traded(feed("100", "100 101 92 92", "92 99 92 95"), {1: [evolve(entry, trail=Dec(6), stop_loss=Dec(106))]})
    wrong = traded(feed("100"), {1: [order(SELL, "5", stop_loss=Dec(90))]})

    assert [one[-1].cash for one in (won, lost, trailed)] == [1050, 950, 1000 + 5 * 2]
    assert [one.reason for one in wrong[0].refused] == ["expected a stop_loss above the last close, 100, was 90"]


def test_an_exit_never_opens_a_position() -> None:
    oco = order(SELL, "5", kind=OrderKind.OCO, limit_price=Dec(120), stop_price=Dec(90))

    said = traded(feed("100", "100", "100", "100 100 80 85"), {1: [order(BUY, "5")], 2: [oco], 3: [order(SELL, "5")]})

    assert [one.positions.get("A", 0) for one in said] == [5, 5, 0, 0]
    assert [one.reason for one in said[3].reports] == ["not enough buying power, or nothing left to close"]


def test_limits_hold_on_both_sides() -> None:
    half = Limits(max_position=Dec("0.5"), max_jump=Dec(1))
    loss = Limits(stop_loss=Dec("0.1"), max_jump=Dec(1))
    down = Limits(max_drawdown=Dec("0.1"), max_jump=Dec(1))

    sized = traded(feed("100"), {1: [order(SELL, "10")]}, limits=half)
    stopped = traded(feed("100", "112", "112"), {1: [order(SELL, "5")]}, limits=loss)
    halted = traded(feed("100", "125", "125"), {1: [order(SELL, "5")], 3: [order(SELL, "1")]}, limits=down)

    assert (sized[0].positions, [one.order.units for one in sized[0].refused]) == ({"A": -5}, [5])
    assert (stopped[1].positions, stopped[1].placed[0].source) == ({}, Source.RISK)
    assert (halted[1].risk.value, halted[1].positions, halted[2].positions) == ("halted", {}, {})


def test_the_report_tells_shorts_their_direction_and_what_loans_cost() -> None:
    margin = Margin(Dec("0.0365"), leverage=2)
    bars = feed("100", "90", "95", days=10)
    harness = TradingHarness(
        bars,
        PaperBroker(Dec(1000), margin=margin),
        planned(bars, {1: [order(SELL, "10")], 2: [order(BUY, "15")]}),
        period_s=0,
        limits=Limits(max_jump=Dec(1)),
    )
    trio.run(harness.run)

    account = account_of(harness.step_history)

    assert [one.direction for one in account.trades] == ["short", "short to long"]
    assert (account.figures.sales, account.figures.won, account.figures.financing) == (1, 1, 1)
    assert account.figures.exposure == pytest.approx((0 + 1000 / 1000 + 450 / 1099 + 475 / 1124) / 4, rel=1e-3)


@pytest.mark.parametrize("crash", range(1, 9))
def test_a_harness_that_is_started_again_ends_as_one_that_is_not_stopped(tmp_path: Path, crash: int) -> None:
    bars = ("100", "104 130 95 97", "97", "90 99 90 95", "180 210 170 175", "175", "170", "160", "150")
    plan = {1: [order(SELL, "9")], 3: [order(SELL, "3")], 6: [order(SELL, "1")], 8: [order(BUY, "2")]}
    margin = Margin(Dec("0.07"), leverage=2)

    class Crash(Exception):
        pass

    def life(path: Path, state: Any, stop: int | None) -> TradingHarness:
        recording = feed(*bars)
        broker = PaperBroker(Dec(1000), margin=margin, path=path)
        observe = broker.observe

        async def observed(market: Any) -> None:
            await observe(market)
            if stop is not None and market.time == recording.times[stop]:
                raise Crash

        broker.observe = observed  # type: ignore[method-assign]
        limits = Limits(max_jump=Dec(1))
        harness = TradingHarness(recording, broker, planned(recording, plan), limits=limits, period_s=0, initial_state=state)
        try:
            trio.run(harness.run)
        except* Crash:
            pass
        finally:
            broker.close()
        return harness

    whole = life(tmp_path / "whole", None, None)
    first = life(tmp_path / "broken", None, crash)
    again = life(tmp_path / "broken", first.state, None)

    assert again.state.book == whole.state.book
    assert again.state.risk.equity == whole.state.risk.equity


@given(
    st.lists(st.tuples(st.sampled_from([BUY, SELL]), st.integers(1, 40)), min_size=3, max_size=8),
    st.lists(st.integers(80, 150), min_size=8, max_size=8),
    st.sampled_from([1, 2, 5]),
)
@settings(max_examples=25, deadline=None)
def test_cash_and_positions_are_the_equity_and_what_is_opened_is_within_the_leverage(
    flow: list[tuple[Side, int]], closes: list[int], leverage: int
) -> None:
    margin = Margin(Dec("0.1"), leverage=Dec(leverage), maintenance=Dec("0.1"))
    plan = {number: [order(side, str(units))] for number, (side, units) in enumerate(flow, 1)}

    said = traded(feed(*map(str, closes)), plan, margin, fees=Fees(Dec("0.001"), minimum=Dec(1)))
    turned = traded(
        feed(*map(str, [*closes[:4], *reversed(closes[4:])])), plan, margin, fees=Fees(Dec("0.001"), minimum=Dec(1))
    )

    spent = fees = Dec(0)
    for one, close in zip(said, closes, strict=True):
        for each in one.fills:
            spent += each.fill.units * each.fill.price * (1 if each.fill.side is BUY else -1)
            fees += each.fill.fee
        held = one.positions.get("A", Dec(0))
        spent += one.financing
        assert one.cash == 1000 - spent - fees
        assert one.equity == one.cash + held * close
        opened = any(each.fill.client_id for each in one.fills) and held
        before = said[said.index(one) - 1].positions.get("A", Dec(0)) if said.index(one) else Dec(0)
        if opened and abs(held) > abs(before):
            assert power(margin, one.cash, {"A": held}, {"A": Dec(close)}) >= 0
    assert [evolve(one, placed=()) for one in turned[:4]] == [evolve(one, placed=()) for one in said[:4]]


def _on_spot(path: Path) -> object:
    return read_harness(feed={"files": {}}, broker={"exchange": "kraken", "margin": {"borrow_rate": 0}}, strategy="rsi")


def _on_cash(path: Path) -> object:
    return TradingHarness(feed("100"), PaperBroker(), cross_strategy(shorts=True))  # when it is made, not when it runs


def _on_books_with_debts(path: Path) -> object:
    bars, venue = feed("100", "100"), path / "venue"
    broker = PaperBroker(Dec(1000), margin=FREE, path=venue)
    trio.run(TradingHarness(bars, broker, planned(bars, {1: [order(SELL, "1")]}), period_s=0).run)
    broker.close()
    return trio.run(TradingHarness(bars, PaperBroker(path=venue), period_s=0).run)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda _: Margin(Dec("0.05"), leverage=Dec("0.5")), "Margin: leverage: expected a multiple of the equity from 1 up"),
        (lambda _: Margin(Dec(-1)), "Margin: borrow_rate: expected a fraction from 0 up"),
        (lambda _: Margin(Dec(0), leverage=4), "Margin: maintenance: expected less than 1/leverage"),
        (lambda _: SharedAccount("main", PaperBroker(margin=FREE)), "expected a broker without margin"),
        (_on_spot, "margin: expected none at an exchange"),
        (_on_cash, "sells short: expected a venue with margin, was paper"),
        (_on_books_with_debts, "its books owe units or money"),
    ],
)
def test_what_is_not_lent_or_makes_no_sense_is_refused(tmp_path: Path, wrong: Callable[[Path], object], why: str) -> None:
    with pytest.raises((OrchestratorError, BaseExceptionGroup)) as refused:
        wrong(tmp_path)

    assert why in _text_of(refused.value)


def _text_of(error: BaseException) -> str:
    return " ".join(map(_text_of, error.exceptions)) if isinstance(error, BaseExceptionGroup) else str(error)


def test_a_strategy_sees_its_short_position_and_what_it_may_still_open() -> None:
    seen: list[tuple[Dec, Dec, Dec, Dec]] = []

    async def decide(run: Any) -> list[Order]:
        market: Market = run.input
        quote = market.quotes["A"]
        seen.append((quote.units, quote.coverable, market.buying_power, quote.risked_for(Dec(30), Dec(110), SELL)))
        return [] if quote.units else [order(SELL, "5")]

    harness = TradingHarness(feed("100", "104"), PaperBroker(Dec(1000), margin=FREE), Strategy(Agent(decide)), period_s=0)
    trio.run(harness.run)

    assert seen == [(0, 0, 2000, 3), (-5, 5, 2 * 980 - 520, 5)]


@pytest.mark.parametrize(("loss", "profit"), [("90", None), (None, "110"), ("90", "110")])
def test_an_exit_only_closes_whatever_its_prices_and_its_entry_does_not(loss: str | None, profit: str | None) -> None:
    prices = {"stop_loss": loss and Dec(loss), "take_profit": profit and Dec(profit)}
    entry = PlacedOrder("1", order(BUY, "1", **prices), Source.STRATEGY, datetime(2000, 3, 1, tzinfo=UTC), "1-exit")
    exit = exit_of(entry)

    assert exit is not None
    assert exit.only_closes
    assert not entry.only_closes
