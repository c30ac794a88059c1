"""The venue speaks Binance's dialect: what ccxt sends is understood, and what breaks its rules is refused as there."""

from __future__ import annotations

import hmac
import http.client
import json
import time
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import pytest
import trio

from harnesses.trading.exchange.ccxt_broker import CcxtBroker
from harnesses.trading.market.broker import BrokerUnavailable
from harnesses.trading.market.orders import OrderKind, OrderStatus

from .ordering import BTC, placed
from .running import KEY, SECRET, RunningVenue, closed


def send(venue: RunningVenue, method: str = "POST", path: str = "order", *, secret: str = SECRET, **fields: object) -> Any:
    """Send a signed request; return the status and what was answered."""
    order = {"symbol": "BTCUSDT", "side": "BUY", "type": "MARKET", "quantity": "0.001", "newClientOrderId": "a"}
    query = urlencode(({"timestamp": int(time.time() * 1000)} | order | fields) if path == "order" else fields)
    query += "&signature=" + hmac.digest(secret.encode(), query.encode(), "sha256").hex()
    connection = http.client.HTTPConnection(venue.url.removeprefix("http://"), timeout=5)
    connection.request(method, f"/api/v3/{path}?{query}", headers={"X-MBX-APIKEY": KEY})
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())
    connection.close()
    return answer


def test_a_request_that_is_not_signed_by_the_account_is_refused(venue: RunningVenue) -> None:
    status, answer = send(venue, secret="another")

    assert (status, answer["code"]) == (400, -1022)
    assert venue.books()["orders"] == 0


@pytest.mark.parametrize(
    ("ahead_ms", "window_ms", "code"),
    [(0, 3000, None), (-3500, 3000, -1021), (-3500, 9000, None), (900, 3000, None), (4000, 60000, -1021), (0, 70000, -1131)],
)
def test_a_request_is_taken_only_within_its_window(
    venue: RunningVenue, ahead_ms: int, window_ms: int, code: int | None
) -> None:
    _, answer = send(venue, timestamp=int(time.time() * 1000) + ahead_ms, recvWindow=window_ms)

    assert answer.get("code") == code
    assert venue.books()["orders"] == (code is None)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"symbol": "NOSUCH"}, -1121),
        ({"side": "HOLD"}, -1117),
        ({"type": "ICEBERG"}, -1116),
        ({"quantity": "0.000015"}, -1013),
        ({"quantity": "0.00001"}, -1013),
        ({"quantity": "many"}, -1102),
        ({"newClientOrderId": "a b"}, -1100),
        ({"newClientOrderId": "a" * 37}, -1100),
        ({"type": "LIMIT", "price": "50000.001"}, -1013),
        ({"type": "STOP_LOSS", "stopPrice": "1.00"}, -2010),
        ({"quantity": "100000"}, -2010),
    ],
)
def test_an_order_that_breaks_a_rule_is_refused(venue: RunningVenue, fields: dict[str, str], code: int) -> None:
    status, answer = send(venue, **fields)

    assert (status, answer["code"]) == (400, code)
    assert venue.books()["orders"] == 0


def test_an_id_guards_against_a_second_order_only_while_the_first_is_open(venue: RunningVenue) -> None:
    resting = {"type": "LIMIT", "price": "1000.00", "quantity": "0.01", "newClientOrderId": "b"}

    filled = [send(venue)[0], send(venue)[0]]
    open_ = [send(venue, **resting)[0], send(venue, **resting)[1].get("msg")]

    assert filled == [200, 200]
    assert open_ == [200, "Duplicate order sent."]


async def test_a_limit_order_waits_for_its_price(venue: RunningVenue, broker: CcxtBroker) -> None:
    venue.control("price", symbol="BTCUSDT", price="60000")
    order = placed("rests", kind=OrderKind.LIMIT, limit="59000.00")

    before = await broker.submit(order)
    venue.control("price", symbol="BTCUSDT", price="58000")
    await closed(venue)
    after = await broker.find(order)

    assert before.status is OrderStatus.OPEN
    assert after is not None
    assert after.status is OrderStatus.FILLED


async def test_what_was_answered_for_survives_a_kill(venue: RunningVenue, broker: CcxtBroker) -> None:
    for number in range(5):
        await broker.submit(placed(f"k-{number}"))
    before = venue.books()

    venue.revive()

    assert {name: venue.books()[name] for name in ("balances", "orders", "trades")} == {
        name: before[name] for name in ("balances", "orders", "trades")
    }


async def test_the_books_come_to_what_was_paid_in_and_traded(venue: RunningVenue, broker: CcxtBroker) -> None:
    for number in range(20):
        await broker.submit(placed(f"s-{number}"))
    fills = await broker.fills([BTC], {})
    books = venue.books()

    bought = sum(fill.units - fill.fee_units for fill in fills)
    paid = sum(fill.units * fill.price for fill in fills)
    assert Decimal(books["balances"]["BTC"]) - Decimal(books["deposits"]["BTC"]) == bought
    assert Decimal(books["deposits"]["USDT"]) - Decimal(books["balances"]["USDT"]) == paid
    assert books["on_disk_the_same"]


async def test_a_venue_that_is_gone_is_unavailable(venue: RunningVenue, broker: CcxtBroker) -> None:
    await broker.connect([BTC])
    venue.control("restart", down_s=0.5)
    await trio.sleep(0.05)

    with pytest.raises(BrokerUnavailable, match="order gone: it is unknown"):
        await broker.submit(placed("gone"))
