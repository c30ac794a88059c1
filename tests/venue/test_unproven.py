"""Exchanges that are not in the table, through ccxt's own classes: what is not proven is refused before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from attrs import evolve

from harnesses.errors import HarnessMisuse
from harnesses.trading.exchange.ccxt_broker import CcxtBroker
from harnesses.trading.exchange.ccxt_client import CcxtOptions
from harnesses.trading.exchange.ccxt_translation import parse_fill, parse_report
from harnesses.trading.market.broker import BrokerUnavailable, OrderRefused
from harnesses.trading.market.orders import OrderKind, OrderStatus, Side

from .ordering import BTC, placed

ccxt: Any = pytest.importorskip("ccxt")

LIMITED: Mapping[str, Any] = {"kind": OrderKind.LIMIT, "limit": "40000.00", "units": "0.01"}
Sent = list[str]


def market(exchange: str) -> dict[str, Any]:
    """Return ccxt's description of a market in Bitcoin."""
    none = {"min": None, "max": None}
    kinds = {kind: kind == "spot" for kind in ("spot", "margin", "swap", "future", "option", "contract")}
    named = {"id": "btcusdt" if exchange == "bitstamp" else "BTC-USDT", "symbol": BTC, "base": "BTC", "quote": "USDT"}
    rules = {"precision": {"amount": "0.00001", "price": "0.01"}, "limits": {"amount": none, "price": none, "cost": none}}
    return {**named, **kinds, **rules, "baseId": "BTC", "quoteId": "USDT", "type": "spot", "taker": "0.001", "info": {}}


Trade = Callable[..., CcxtBroker]


@pytest.fixture
def sent() -> Sent:
    return []


@pytest.fixture
def trade(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> Trade:
    """Return a function that makes a broker whose exchange is told its markets, and answers as it is told to."""

    def make(exchange: str, *answers: object, options: Mapping[str, Any] | None = None) -> CcxtBroker:
        left = [*answers]

        def fetch(_: object, url: str, method: str = "GET", headers: object = None, body: object = None) -> object:
            sent.append(f"{method} {url} {body or ''}")
            return left.pop(0)

        monkeypatch.setattr(getattr(ccxt, exchange), "fetch", fetch)
        keys = CcxtOptions(api_key="key", secret="c2VjcmV0", password="phrase", options=options or {})
        broker = CcxtBroker(exchange, keys, unproven=True)
        client = broker._client  # pyright: ignore[reportPrivateUsage]
        client._first.set_markets([market(exchange)])  # pyright: ignore[reportPrivateUsage]
        client._set_clock(datetime.now(UTC).timestamp() * 1000)  # pyright: ignore[reportPrivateUsage]
        return broker

    return make


@pytest.mark.parametrize(
    ("exchange", "why"),
    [
        ("cryptocom", "a new order"),
        ("gate", "a new order"),
        ("bitso", "the question about an order"),
        ("bybiteu", "the question about an order"),
    ],
)
async def test_an_exchange_to_which_ccxt_does_not_tell_the_client_id_is_refused_when_it_is_connected(
    trade: Trade, sent: Sent, exchange: str, why: str
) -> None:
    with pytest.raises(
        HarnessMisuse, match=f"ccxt:{exchange} cannot be traded at: ccxt does not send the client id as it is with {why}"
    ):
        await trade(exchange).connect([BTC])

    assert sent == []


async def test_a_call_that_ccxt_does_not_make_there_is_named_when_it_is_connected(trade: Trade, sent: Sent) -> None:
    with pytest.raises(HarnessMisuse, match=r"ccxt:bitvavo cannot be traded at: ccxt's create_order .*operatorId"):
        await trade("bitvavo").connect([BTC])

    assert sent == []


@pytest.mark.parametrize("exchange", ["kucoin", "bitget", "mexc", "bitstamp", "bitbank", "luno"])
async def test_purchases_at_the_market_and_stops_are_refused_before_they_are_sent(
    trade: Trade, sent: Sent, exchange: str
) -> None:
    broker = trade(exchange)
    await broker.connect([BTC])
    stops = [
        placed("stop", Side.SELL, kind=OrderKind.STOP, stop="45000.00"),
        placed("up", kind=OrderKind.STOP, stop="55000.00"),
    ]

    for order in (placed("bought"), *stops):
        with pytest.raises(OrderRefused, match="it was not sent"):
            await broker.submit(order)

    assert sent == []
    said = "\n".join(broker.lacks)
    assert f"ccxt:{exchange}: purchases at the market price: refused before they are sent" in said
    assert f"ccxt:{exchange}: stop orders: refused before they are sent" in said


async def test_a_limit_order_is_placed_once_and_cancelled_by_the_id_of_the_exchange(trade: Trade, sent: Sent) -> None:
    there = {"id": "77", "client_order_id": "a-1", "amount": "0.01", "price": "40000", "type": "0", "status": "Open"}
    known: dict[str, object] = {**there, "amount_remaining": "0.004", "transactions": []}
    gone: dict[str, object] = {**known, "status": "Canceled"}
    broker = trade("bitstamp", there, known, {"id": 77}, gone)
    order = placed("a-1", **LIMITED)

    accepted = await broker.submit(order)
    with pytest.raises(BrokerUnavailable, match="how much of it is filled"):
        await broker.cancel("a-1", BTC)

    assert (accepted.client_id, accepted.venue_id, accepted.status) == ("a-1", "77", OrderStatus.OPEN)
    assert ["cancel_order/ id=77" in one for one in sent] == [False, False, True, False]


async def test_an_answer_without_the_client_id_is_the_one_to_the_order_that_was_asked(trade: Trade) -> None:
    broker = trade("kucoin", {"code": "200000", "data": {"orderId": "5bd6"}}, options={"uta": False})

    report = await broker.submit(placed("a-1", **LIMITED))

    assert (report.client_id, report.venue_id) == ("a-1", "5bd6")


@pytest.mark.parametrize(
    ("raw", "units"),
    [
        ({"status": "closed", "filled": None}, "0.01"),
        ({"status": "open", "filled": None}, "0"),
        ({"status": "rejected", "filled": None}, "0"),
        ({"status": "canceled", "filled": "0.004"}, "0.004"),
    ],
)
def test_what_is_filled_follows_from_the_state_where_the_exchange_does_not_say(raw: dict[str, Any], units: str) -> None:
    report = parse_report({"id": "1", "clientOrderId": "a-1", **raw}, placed("a-1", units="0.01"))

    assert report.filled == Decimal(units)


def test_an_ended_order_of_which_nobody_says_how_much_is_filled_is_not_taken_for_unfilled() -> None:
    raw = {"id": "1", "clientOrderId": "a-1", "status": "canceled", "filled": None}

    with pytest.raises(BrokerUnavailable, match="how much of it is filled"):
        parse_report(raw, placed("a-1"))


@pytest.mark.parametrize(
    "changed",
    [{"amount": None}, {"price": None}, {"side": None}, {"timestamp": None}, {"fee": {"cost": "1", "currency": None}}],
    ids=lambda changed: next(iter(changed)),
)
def test_an_execution_that_lacks_a_number_is_not_booked_with_another(changed: dict[str, Any]) -> None:
    raw = {"id": "1", "side": "buy", "amount": "0.01", "price": "50000", "timestamp": 1_700_000_000_000, "fee": None}
    whole = parse_fill(raw, "a-1", market("bitstamp"))

    with pytest.raises(BrokerUnavailable, match=f"lacks its .*{next(iter(changed))}"):
        parse_fill({**raw, **changed}, "a-1", market("bitstamp"))

    assert evolve(whole, units=Decimal(1)).price == 50_000
