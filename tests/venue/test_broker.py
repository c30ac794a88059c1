"""The broker at the venue: what it says is exact, and each of its verbs keeps the law of `Broker`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
import trio
from attrs import evolve

from harnesses.errors import HarnessMisuse
from harnesses.trading.exchange import ccxt_broker
from harnesses.trading.exchange.ccxt_broker import CcxtBroker
from harnesses.trading.exchange.ccxt_client import CcxtClient, CcxtOptions
from harnesses.trading.exchange.exchange_dialects import undeclared
from harnesses.trading.market.broker import BrokerUnavailable, OrderRefused
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import OrderKind, OrderStatus, Side

from .ordering import BTC, ETH, placed
from .running import RunningVenue, closed

NOWHERE = "http://127.0.0.1:1"


async def test_the_rules_of_a_symbol_are_the_venue_s(broker: CcxtBroker) -> None:
    rules = await broker.connect([BTC, ETH])

    assert rules[BTC] == Instrument(BTC, Decimal("0.00001"), Decimal("0.01"), Decimal("0.00001"), Decimal(5))
    assert rules[ETH].lot == Decimal("0.0001")


async def test_a_symbol_that_the_venue_does_not_have_is_named(broker: CcxtBroker) -> None:
    with pytest.raises(HarnessMisuse, match="ccxt:binance has no market 'DOGE/EUR'"):
        await broker.connect([BTC, "DOGE/EUR"])


@pytest.mark.parametrize("exchange", ["gate", "kucoin", "krakenfutures", "binanceusdm", "binancecoinm"])
def test_an_exchange_whose_dialect_is_not_proven_is_refused_with_the_reason_when_its_broker_is_made(exchange: str) -> None:
    with pytest.raises(HarnessMisuse, match=f"ccxt:{exchange} is not tested: .* unproven=True"):
        CcxtBroker(exchange, CcxtOptions(urls={"api": NOWHERE}))


async def test_an_exchange_that_is_not_proven_is_dealt_with_by_choice() -> None:
    options = CcxtOptions(urls={"api": {"public": NOWHERE, "private": NOWHERE}}, patience_s=0.8, recv_window_s=0.5, margin_s=0)

    with pytest.raises(BrokerUnavailable, match="ccxt:gate cannot be reached"):
        await CcxtBroker("gate", options, unproven=True).connect([BTC])


async def test_a_market_that_is_not_spot_is_refused(broker: CcxtBroker) -> None:
    await broker.connect([BTC])
    client = broker._client  # pyright: ignore[reportPrivateUsage]
    client._first.markets[BTC].update(spot=False, type="swap")  # pyright: ignore[reportPrivateUsage]

    with pytest.raises(HarnessMisuse, match="market of type 'swap': expected spot"):
        await broker.connect([BTC])


@pytest.mark.parametrize(
    ("kind", "has", "heeds"),
    [
        (OrderKind.STOP, {}, False),
        (OrderKind.STOP, {}, None),
        (OrderKind.MARKET, {"createMarketOrder": False}, True),
        (OrderKind.STOP, {"createMarketOrder": False}, True),
        (OrderKind.LIMIT, {"createLimitOrder": None}, True),
    ],
)
@pytest.mark.parametrize("unproven", [False, True])
async def test_a_kind_of_order_that_is_not_declared_is_refused_before_it_is_sent(
    venue: RunningVenue, options: CcxtOptions, kind: OrderKind, has: dict[str, Any], heeds: bool | None, unproven: bool
) -> None:
    broker = CcxtBroker("binance", options, unproven=unproven)
    exchange: Any = broker._client._first  # pyright: ignore[reportPrivateUsage]
    exchange.has = {**exchange.has, **has}
    exchange.features = {"spot": {"createOrder": {"triggerPrice": heeds}}}
    prices = {"limit": "1000.00"} if kind is OrderKind.LIMIT else {"stop": "59000.00"} if kind is OrderKind.STOP else {}

    with pytest.raises(OrderRefused, match=f"has no {kind} orders in BTC/USDT: .* not sent"):
        await broker.submit(placed("a", Side.SELL, kind=kind, units="0.01", **prices))

    assert venue.books()["orders"] == 0


@pytest.mark.parametrize(
    ("exchange", "declared"), [("binance", True), ("kraken", True), ("okx", False), ("bitvavo", False), ("bitstamp", False)]
)
def test_stop_orders_are_declared_where_they_are_tested_and_ccxt_says_that_their_trigger_is_heeded(
    exchange: str, declared: bool
) -> None:
    client = CcxtClient(exchange, CcxtOptions())

    missing = undeclared(client.dialect, OrderKind.STOP, client.has, client.features, {"type": "spot"})

    assert (not missing) == declared


@pytest.mark.parametrize("side", [Side.BUY, Side.SELL])
async def test_money_and_units_are_exact(venue: RunningVenue, broker: CcxtBroker, side: Side) -> None:
    venue.control("price", symbol="BTCUSDT", price="60000.01")
    await broker.submit(placed("a", side, "0.12345"))

    [fill] = await broker.fills([BTC], {})
    account = await broker.account([BTC, ETH])
    balances = venue.books()["balances"]

    cost = Decimal("7407.0012345")
    assert fill.units * fill.price == cost
    assert (fill.fee, fill.fee_units) == ((Decimal(0), Decimal("0.00012345")), (Decimal("7.40700123"), Decimal(0)))[
        side == "sell"
    ]
    assert account.cash == Decimal(balances["USDT"]) == 10**9 + (-cost if side == "buy" else cost - fill.fee)
    assert account.positions == {BTC: Decimal(balances["BTC"]), ETH: Decimal(100_000)}


async def test_cancelling_twice_says_the_same(broker: CcxtBroker) -> None:
    await broker.submit(placed("a", kind=OrderKind.LIMIT, limit="1000.00", units="0.01"))

    reports = [await broker.cancel("a", BTC), await broker.cancel("a", BTC)]

    assert [report and report.status for report in reports] == [OrderStatus.CANCELLED] * 2
    assert [report and report.client_id for report in reports] == ["a"] * 2
    assert await broker.cancel("never placed", BTC) is None


async def test_open_orders_are_those_that_may_be_filled(venue: RunningVenue, broker: CcxtBroker) -> None:
    venue.control("price", symbol="BTCUSDT", price="60000")
    await broker.submit(placed("limit", kind=OrderKind.LIMIT, limit="1000.00", units="0.01"))
    await broker.submit(placed("stop", Side.SELL, kind=OrderKind.STOP, stop="59000.00"))
    await broker.submit(placed("market"))

    before = await broker.open_orders([BTC, ETH])
    venue.control("price", symbol="BTCUSDT", price="58999.99")
    await trio.sleep(0.05)
    after = await broker.open_orders([BTC])

    assert [(report.client_id, report.kind) for report in before] == [("limit", OrderKind.LIMIT), ("stop", OrderKind.STOP)]
    assert [report.client_id for report in after] == ["limit"]


@pytest.mark.parametrize(("units", "why"), [("1000000", "insufficient balance"), ("0.00001", "NOTIONAL"), ("-1", "amount")])
async def test_what_the_venue_refuses_is_refused(venue: RunningVenue, broker: CcxtBroker, units: str, why: str) -> None:
    with pytest.raises(OrderRefused, match=why):
        await broker.submit(placed("a", units=units))

    assert await broker.find(placed("a")) is None
    assert venue.books()["orders"] == 0


async def test_an_order_that_is_there_already_is_no_refusal(broker: CcxtBroker) -> None:
    order = placed("a", kind=OrderKind.LIMIT, limit="1000.00", units="0.01")
    await broker.submit(order)

    with pytest.raises(BrokerUnavailable, match="Duplicate order sent"):
        await broker.submit(order)

    found = await broker.find(order)
    assert found is not None
    assert found.status is OrderStatus.OPEN


async def test_fills_come_once_each_in_order_over_any_number_of_pages(
    venue: RunningVenue, broker: CcxtBroker, options: CcxtOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ccxt_broker, "_PAGE", 3)
    ids = [f"a-{number}" for number in range(8)]
    for id in ids:
        await broker.submit(placed(id))

    # One that has placed nothing has to ask whose they are.
    fills = await CcxtBroker("binance", options).fills([BTC, ETH], {})
    rest = await broker.fills([BTC], {BTC: fills[4].fill_id})

    assert [fill.client_id for fill in fills] == ids
    assert [fill.client_id for fill in rest] == ids[5:]
    assert await broker.fills([BTC], {BTC: fills[-1].fill_id}) == []


async def test_a_clock_that_goes_back_gives_no_answer(venue: RunningVenue, options: CcxtOptions) -> None:
    broker = CcxtBroker("binance", evolve(options, patience_s=1.0))
    venue.fates("ignored")
    with pytest.raises(BrokerUnavailable):
        await broker.submit(placed("a"))

    venue.control("clock", jump_s=-10)

    with pytest.raises(BrokerUnavailable, match="order a: ccxt:binance's clock has not passed"):
        await broker.find(placed("a"))


async def test_all_who_wait_for_a_venue_that_is_gone_give_up_together(venue: RunningVenue, options: CcxtOptions) -> None:
    broker = CcxtBroker("binance", evolve(options, patience_s=0.8))
    venue.control("restart", down_s=9.0)
    await trio.sleep(0.05)
    began = trio.current_time()

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(give_up, broker)

    assert trio.current_time() - began < 4.0
    venue.revive()


async def give_up(broker: CcxtBroker) -> None:
    """Fail to reach the venue."""
    with pytest.raises(BrokerUnavailable, match="ccxt:binance cannot be reached"):
        await broker.connect([BTC])


async def test_many_orders_at_once_are_placed_once_each(venue: RunningVenue, options: CcxtOptions) -> None:
    broker = CcxtBroker("binance", evolve(options, timeout_s=1.0, recv_window_s=2.0))
    ids = {f"n-{number}" for number in range(40)}

    async with trio.open_nursery() as nursery:
        for id in ids:
            nursery.start_soon(broker.submit, placed(id))

    await closed(venue)
    assert {order[0] for order in venue.control("orders")} == ids
    assert (venue.books()["orders"], venue.books()["arrivals"]) == (40, 40)


async def test_a_cancelled_order_gives_its_connection_back(venue: RunningVenue, options: CcxtOptions) -> None:
    broker = CcxtBroker("binance", evolve(options, connections=1))
    await broker.connect([BTC])
    venue.fates("ignored")

    with trio.move_on_after(0.02):
        await broker.submit(placed("a"))
    report = await broker.submit(placed("b"))

    assert report.status is OrderStatus.FILLED
