"""Kraken's words. A form signed with a nonce that must increase; what an order that is not taken in time says is its deadline.

Source: https://docs.kraken.com/api (spot REST: AddOrder, OpenOrders, ClosedOrders, QueryOrders, TradesHistory, BalanceEx).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from datetime import datetime

from ..books import FEE_RATE, Order, Trade, VenueError
from ..market import MINUTE_MS, SYMBOLS, Symbol
from .speaking import Acts, Asks, Counter, Json, Request, Tongue, find, scrambled, symbol_of

SECRET = base64.b64encode(b"secret").decode()
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_STATUS = {"NEW": "open", "PARTIALLY_FILLED": "open", "FILLED": "closed", "CANCELED": "canceled", "EXPIRED": "expired"}
_KINDS = {"market": "market", "limit": "limit", "stop-loss": "stop"}
_ERRORS = {
    -2010: "EOrder:Insufficient funds",
    -1013: "EOrder:Invalid order",
    -2011: "EOrder:Unknown order",
    -1021: "EOrder:Deadline elapsed",
}
_last_nonce = [0]


def answer(counter: Counter, request: Request) -> object:
    """Answer a request."""
    what = request.path.rsplit("/", 1)[1]
    if request.path.startswith("/0/public/"):
        if what == "OHLC":
            return {"error": [], "result": _candles(counter, request.fields)}
        return {"error": [], "result": _PUBLIC[what](counter)}
    fields = request.fields
    _check(request, fields)
    return {"error": [], "result": _PRIVATE[what](counter, fields)}


def _check(request: Request, fields: Json) -> None:
    nonce = str(fields["nonce"])
    wanted = hmac.digest(
        base64.b64decode(SECRET), request.path.encode() + hashlib.sha256(nonce.encode() + request.body).digest(), "sha512"
    )
    if request.headers["api-sign"] != base64.b64encode(wanted).decode():
        raise VenueError(0, "EAPI:Invalid signature")
    if int(nonce) <= _last_nonce[0]:
        raise VenueError(0, "EAPI:Invalid nonce")
    _last_nonce[0] = int(nonce)


def _pairs(counter: Counter) -> Json:
    return {
        _pair(symbol): {
            "altname": _pair(symbol),
            "wsname": f"{_asset(symbol.base)}/{symbol.quote}",
            "base": _asset(symbol.base),
            "quote": symbol.quote,
            "pair_decimals": 2,
            "lot_decimals": -int(symbol.step.as_tuple().exponent),
            "ordermin": f"{symbol.step}",
            "costmin": f"{symbol.min_notional}",
            "fees": [[0, float(FEE_RATE * 100)]],
            "fees_maker": [[0, float(FEE_RATE * 100)]],
            "status": "online",
        }
        for symbol in SYMBOLS.values()
    }


def _assets(counter: Counter) -> Json:
    words = {"aclass": "currency", "decimals": 10, "display_decimals": 8, "status": "enabled"}
    return {_asset(asset): {"altname": _asset(asset)} | words for asset in counter.books.balances}


def _candles(counter: Counter, fields: Json) -> Json:
    """Return bars after `since`, the one that is not over included."""
    symbol, length_ms = _symbol(fields["pair"]), int(fields["interval"]) * MINUTE_MS
    first_ms = int(fields["since"]) * 1000 + 1 if "since" in fields else None
    rows = [
        [one.time_ms // 1000, *(f"{price}" for price in (one.open, one.high, one.low, one.close, one.close, one.volume)), 1]
        for one in counter.venue.candles(symbol, length_ms, first_ms, 720)
    ]
    return {_pair(symbol): rows, "last": rows[-1][0] if rows else 0}


def _add(counter: Counter, fields: Json) -> Json:
    if datetime.fromisoformat(fields["deadline"]).timestamp() * 1000 < counter.now_ms:
        raise VenueError(-1021, "too late")
    if not _UUID.fullmatch(fields.get("cl_ord_id", "")):
        raise VenueError(0, "EGeneral:Invalid arguments:cl_ord_id")
    if find(counter.orders(open=True), fields["cl_ord_id"]):
        raise VenueError(0, "EOrder:cl_ord_id in use")
    if fields.get("oflags") != "fciq":
        raise VenueError(0, "EOrder:the venue would take the fee of a sale in base")
    kind = _KINDS[fields["ordertype"]]
    symbol = _symbol(fields["pair"])
    order = counter.place(fields["cl_ord_id"], symbol, fields["type"], kind, fields["volume"], fields.get("price"))
    words = {"market": "market", "limit": f"limit {order.limit}", "stop": f"stop loss {order.stop}"}[kind]
    return {"descr": {"order": f"{fields['type']} {order.units} {_pair(symbol)} @ {words}"}, "txid": [_id(order)]}


def _cancel(counter: Counter, fields: Json) -> Json:
    found = find(counter.orders(open=True), fields["cl_ord_id"])
    if not found:
        raise VenueError(-2011, "gone")
    counter.cancel(found[0])
    return {"count": 1}


def _orders(counter: Counter, fields: Json, *, open: bool) -> Json:
    orders = counter.orders(open=open)
    if "cl_ord_id" in fields:
        orders = find(orders, fields["cl_ord_id"])
    return {"open" if open else "closed": {_id(order): _told(order) for order in orders[:50]}}


def _queried(counter: Counter, fields: Json) -> Json:
    return {_id(order): _told(order) for order in counter.orders() if _id(order) == fields["txid"]}


def _trades(counter: Counter, fields: Json) -> Json:
    first = int(fields.get("ofs", 0))
    trades = counter.trades()
    return {
        "count": len(trades),
        "trades": {f"T{scrambled(one.id)}": _trade(counter, one) for one in trades[first : first + 50]},
    }


def _trade(counter: Counter, trade: Trade) -> Json:
    order = counter.order_of(trade)
    return {
        "ordertxid": _id(order),
        "pair": _pair(order.symbol),
        "time": float(f"{trade.time_ms // 1000}.{trade.time_ms % 1000:03}{trade.id % 1000:03}"),
        "type": "buy" if trade.is_buyer else "sell",
        "ordertype": "market",
        "price": f"{trade.price}",
        "cost": f"{trade.units * trade.price}",
        "fee": f"{trade.fee}",
        "vol": f"{trade.units}",
    }


def _balances(counter: Counter, fields: Json) -> Json:
    return {
        _asset(asset): {"balance": f"{one.free + one.locked}", "hold_trade": f"{one.locked}"}
        for asset, one in counter.books.balances.items()
    }


def _told(order: Order) -> Json:
    kind = {"MARKET": "market", "LIMIT": "limit", "STOP_LOSS": "stop-loss"}[order.type]
    price = order.limit or order.stop
    return {
        "cl_ord_id": order.client_id,
        "status": _STATUS[order.status],
        "opentm": order.time_ms / 1000,
        "vol": f"{order.units}",
        "vol_exec": f"{order.filled}",
        "cost": f"{order.paid}",
        "fee": "0",
        "price": "0.0",
        "oflags": "fciq",
        "descr": {
            "pair": _pair(order.symbol),
            "type": order.side.lower(),
            "ordertype": kind,
            "price": f"{price}",
            "price2": "0",
        },
    }


def _id(order: Order) -> str:
    return f"O{order.id:05}-KRAKN-{scrambled(order.id)[:6]}"


def _asset(name: str) -> str:
    return {"BTC": "XBT"}.get(name, name)


def _pair(symbol: Symbol) -> str:
    return _asset(symbol.base) + symbol.quote


def _symbol(pair: str) -> Symbol:
    base = pair.removesuffix("USDT")
    return symbol_of({"XBT": "BTC"}.get(base, base))


def failure(error: VenueError) -> tuple[int, bytes]:
    """Say no: with status 200."""
    return 200, json.dumps({"error": [_ERRORS.get(error.code, str(error))]}).encode()


_PUBLIC: Asks = {"Time": lambda counter: {"unixtime": int(counter.now_ms // 1000)}, "Assets": _assets, "AssetPairs": _pairs}
_PRIVATE: Acts = {
    "AddOrder": _add,
    "CancelOrder": _cancel,
    "OpenOrders": lambda counter, fields: _orders(counter, fields, open=True),
    "ClosedOrders": lambda counter, fields: _orders(counter, fields, open=False),
    "QueryOrders": _queried,
    "TradesHistory": _trades,
    "BalanceEx": _balances,
}
TONGUE = Tongue(
    prefixes=("/0/",),
    orders=("POST", "/0/private/AddOrder"),
    name_of=lambda fields: fields.get("cl_ord_id", ""),
    answer=answer,
    failure=failure,
    fees_in_quote=True,
)
