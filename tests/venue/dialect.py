"""The words of Binance's spot interface: signatures, errors, and the shapes of answers. Pure.

Source: https://developers.binance.com/docs/binance-spot-api-docs/rest-api (general information, errors, trading).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from attrs import frozen

from .books import ZERO, Books, Order, Trade, VenueError
from .market import SYMBOLS, Candle, Symbol

TYPES = ("LIMIT", "MARKET", "STOP_LOSS")
AHEAD_MS = 1000
"""How far in the future a request's timestamp may be."""
_CLIENT_ID = re.compile(r"[a-zA-Z0-9\-_.:/]{1,36}\Z")
_SIGNATURE = re.compile(rb"(?:^|&)signature=([0-9a-f]{64})$")

Json = dict[str, Any]


@frozen
class Keys:
    """Who may trade."""

    key: str
    secret: str


def check_signature(keys: Keys, key: str, payload: bytes) -> None:
    """Raise `VenueError` unless a request was signed by who it says."""
    if key != keys.key:
        raise VenueError(-2015, "Invalid API-key, IP, or permissions for action.", 401)
    found = _SIGNATURE.search(payload)
    if found is None:
        raise VenueError(-1102, "Mandatory parameter 'signature' was not sent, was empty/null, or malformed.")
    wanted = hmac.digest(keys.secret.encode(), payload[: found.start()], "sha256").hex()
    if not hmac.compare_digest(wanted.encode(), found[1]):
        raise VenueError(-1022, "Signature for this request is not valid.")


def check_time(fields: Mapping[str, str], now_ms: float) -> None:
    """Raise `VenueError` unless a signed request is valid at `now_ms` of the venue's clock."""
    try:
        timestamp, window = int(fields["timestamp"]), float(fields.get("recvWindow", "5000"))
    except (KeyError, ValueError) as error:
        raise VenueError(-1102, "Mandatory parameter 'timestamp' was not sent, was empty/null, or malformed.") from error
    if window > 60_000:
        raise VenueError(-1131, "recvWindow must be less than 60000.")
    if timestamp >= now_ms + AHEAD_MS:
        raise VenueError(-1021, "Timestamp for this request was 1000ms ahead of the server's time.")
    if now_ms - timestamp > window:
        raise VenueError(-1021, "Timestamp for this request is outside of the recvWindow.")


def parse_order(fields: Mapping[str, str], price: Decimal, now_ms: int, parts: int, pace_ms: int) -> Order:
    """Return the order that a request asks for, not yet taken.

    Raises:
        VenueError: it breaks a rule.
    """
    symbol = parse_symbol(fields)
    side, type = fields.get("side", ""), fields.get("type", "")
    if side not in ("BUY", "SELL"):
        raise VenueError(-1117, "Invalid side.")
    if type not in TYPES:
        raise VenueError(-1116, "Invalid orderType.")
    client_id = fields.get("newClientOrderId", "")
    if not _CLIENT_ID.match(client_id):
        raise VenueError(-1100, "Illegal characters found in parameter 'newClientOrderId'.")
    units = _number(fields, "quantity", symbol.step, "LOT_SIZE")
    limit = _number(fields, "price", symbol.tick, "PRICE_FILTER") if type == "LIMIT" else ZERO
    stop = _number(fields, "stopPrice", symbol.tick, "PRICE_FILTER") if type == "STOP_LOSS" else ZERO
    if units * (limit or price) < symbol.min_notional:
        raise VenueError(-1013, "Filter failure: NOTIONAL")
    order = Order(0, client_id, symbol, side, type, units, limit, stop, now_ms, parts, pace_ms, updated_ms=now_ms)
    order.in_force = fields.get("timeInForce", "GTC")
    if order.in_force not in ("GTC", "IOC", "FOK"):
        raise VenueError(-1115, "Invalid timeInForce.")
    order.parts = 1 if order.in_force == "FOK" else parts
    if stop and (price >= stop if side == "BUY" else price <= stop):
        raise VenueError(-2010, "Stop price would trigger immediately.")
    return order


def parse_symbol(fields: Mapping[str, str]) -> Symbol:
    """Return the symbol that a request names."""
    try:
        return SYMBOLS[fields["symbol"]]
    except KeyError:
        raise VenueError(-1121, "Invalid symbol.") from None


def find_order(books: Books, fields: Mapping[str, str]) -> Order:
    """Return the order that a request asks about."""
    symbol = parse_symbol(fields)
    if "origClientOrderId" in fields:
        order = books.find(fields["origClientOrderId"])
    elif fields.get("orderId", "").isdigit() and int(fields["orderId"]) in books.orders:
        order = books.orders[int(fields["orderId"])]
    else:
        raise VenueError(-2013, "Order does not exist.")
    if order.symbol is not symbol:
        raise VenueError(-2013, "Order does not exist.")
    return order


def order_json(order: Order) -> Json:
    """Return an order as it is told to those who ask."""
    return {
        "symbol": order.symbol.name,
        "orderId": order.id,
        "orderListId": -1,
        "clientOrderId": order.client_id,
        "price": f"{order.limit:.8f}",
        "origQty": f"{order.units:.8f}",
        "executedQty": f"{order.filled:.8f}",
        "origQuoteOrderQty": "0.00000000",
        "cummulativeQuoteQty": f"{order.paid:.8f}",
        "status": order.status,
        "timeInForce": order.in_force,
        "type": order.type,
        "side": order.side,
        "stopPrice": f"{order.stop:.8f}",
        "icebergQty": "0.00000000",
        "time": order.time_ms,
        "updateTime": order.updated_ms,
        "isWorking": True,
        "workingTime": order.time_ms,
        "selfTradePreventionMode": "NONE",
    }


def placed_json(order: Order) -> Json:
    """Return an order as it is told to who has placed it (`newOrderRespType=FULL`)."""
    fills = [
        {
            "price": f"{trade.price:.8f}",
            "qty": f"{trade.units:.8f}",
            "commission": f"{trade.fee:.8f}",
            "commissionAsset": trade.fee_asset,
            "tradeId": trade.id,
        }
        for trade in order.trades
    ]
    return order_json(order) | {"transactTime": order.time_ms, "fills": fills}


def cancelled_json(order: Order, number: int) -> Json:
    """Return an order as it is told to who has cancelled it: the client id is the cancellation's."""
    return order_json(order) | {"origClientOrderId": order.client_id, "clientOrderId": f"cancel-{number}"}


def trade_json(trade: Trade) -> Json:
    """Return an execution."""
    return {
        "symbol": trade.symbol,
        "id": trade.id,
        "orderId": trade.order_id,
        "orderListId": -1,
        "price": f"{trade.price:.8f}",
        "qty": f"{trade.units:.8f}",
        "quoteQty": f"{trade.units * trade.price:.8f}",
        "commission": f"{trade.fee:.8f}",
        "commissionAsset": trade.fee_asset,
        "time": trade.time_ms,
        "isBuyer": trade.is_buyer,
        "isMaker": False,
        "isBestMatch": True,
    }


def account_json(books: Books, now_ms: int) -> Json:
    """Return what there is."""
    balances = [
        {"asset": asset, "free": f"{balance.free:.8f}", "locked": f"{balance.locked:.8f}"}
        for asset, balance in books.balances.items()
    ]
    return {"accountType": "SPOT", "canTrade": True, "updateTime": now_ms, "balances": balances, "permissions": ["SPOT"]}


def exchange_json(now_ms: int) -> Json:
    """Return the rules."""
    return {"timezone": "UTC", "serverTime": now_ms, "symbols": [_symbol_json(symbol) for symbol in SYMBOLS.values()]}


def candle_json(candle: Candle, length_ms: int) -> list[object]:
    """Return a bar."""
    prices = [f"{price:.8f}" for price in (candle.open, candle.high, candle.low, candle.close, candle.volume)]
    return [candle.time_ms, *prices, candle.time_ms + length_ms - 1, "0.0", 1, "0.0", "0.0", "0"]


def _symbol_json(symbol: Symbol) -> Json:
    return {
        "symbol": symbol.name,
        "status": "TRADING",
        "baseAsset": symbol.base,
        "baseAssetPrecision": 8,
        "quoteAsset": symbol.quote,
        "quotePrecision": 8,
        "quoteAssetPrecision": 8,
        "orderTypes": TYPES,
        "isSpotTradingAllowed": True,
        "permissions": ["SPOT"],
        "filters": [
            {
                "filterType": "PRICE_FILTER",
                "minPrice": f"{symbol.tick:.8f}",
                "maxPrice": "1e6",
                "tickSize": f"{symbol.tick:.8f}",
            },
            {"filterType": "LOT_SIZE", "minQty": f"{symbol.step:.8f}", "maxQty": "9000", "stepSize": f"{symbol.step:.8f}"},
            {"filterType": "NOTIONAL", "minNotional": f"{symbol.min_notional:.8f}"},
        ],
    }


def _number(fields: Mapping[str, str], name: str, grain: Decimal, filter: str) -> Decimal:
    try:
        number = Decimal(fields[name])
    except (KeyError, InvalidOperation) as error:
        raise VenueError(-1102, f"Mandatory parameter '{name}' was not sent, was empty/null, or malformed.") from error
    if not number.is_finite() or number <= 0 or number % grain:
        raise VenueError(-1013, f"Filter failure: {filter}")
    return number
