"""Bybit's words. Signed with a time and a receive window; open and past orders are two lists, of seven days at once.

Ids do not increase.

Source: https://bybit-exchange.github.io/docs/v5/order/create-order and its neighbours.
"""

from __future__ import annotations

import hmac
import json
import math
import re

from ..books import Order, Trade, VenueError
from ..market import SYMBOLS
from .speaking import Acts, Asks, Counter, Json, Request, Tongue, find, scrambled

_ID = re.compile(r"[A-Za-z0-9_-]{1,36}")
_STATUS = {
    "NEW": "New",
    "PARTIALLY_FILLED": "PartiallyFilled",
    "FILLED": "Filled",
    "CANCELED": "Cancelled",
    "EXPIRED": "Cancelled",
}
_AHEAD_MS = 1000
_WEEK_MS = 7 * 86_400_000
_KEPT_MS = 730 * 86_400_000


def answer(counter: Counter, request: Request) -> object:
    """Answer a request."""
    what = request.path.removeprefix("/v5/")
    if what in _PUBLIC:
        return _result(counter, _PUBLIC[what](counter))
    _check(counter, request)
    return _result(counter, _PRIVATE[what](counter, request.fields))


def _check(counter: Counter, request: Request) -> None:
    time, window = request.headers["x-bapi-timestamp"], request.headers["x-bapi-recv-window"]
    wanted = hmac.digest(b"secret", f"{time}key{window}".encode() + (request.body or request.query), "sha256")
    if request.headers["x-bapi-sign"] != wanted.hex():
        raise VenueError(10004, "Error sign, please check your signature generation algorithm.")
    if not counter.now_ms - int(window) <= int(time) < counter.now_ms + _AHEAD_MS:
        raise VenueError(10002, "invalid request, please check your server timestamp or recv_window param.")


def _result(counter: Counter, result: Json) -> Json:
    return {"retCode": 0, "retMsg": "OK", "result": result, "time": int(counter.now_ms)}


def _instruments(counter: Counter) -> Json:
    rows = [
        {
            "symbol": symbol.name,
            "baseCoin": symbol.base,
            "quoteCoin": symbol.quote,
            "status": "Trading",
            "marginTrading": "none",
            "lotSizeFilter": {
                "basePrecision": f"{symbol.step}",
                "quotePrecision": "0.00000001",
                "minOrderQty": f"{symbol.step}",
                "maxOrderQty": "9000",
                "minOrderAmt": f"{symbol.min_notional}",
                "maxOrderAmt": "100000000",
            },
            "priceFilter": {"tickSize": f"{symbol.tick}"},
        }
        for symbol in SYMBOLS.values()
    ]
    return {"category": "spot", "list": rows}


def _place(counter: Counter, fields: Json) -> Json:
    client_id, kind = fields.get("orderLinkId", ""), fields["orderType"].lower()
    if not _ID.fullmatch(client_id):
        raise VenueError(10001, "orderLinkId is invalid")
    if "triggerPrice" in fields:
        raise VenueError(10001, "the venue would make another order of it")
    if kind == "market" and fields["side"] == "Buy" and fields.get("marketUnit") != "baseCoin":
        raise VenueError(10001, "the venue would take the units for money")
    if find(counter.orders(open=True), client_id):
        raise VenueError(170141, "Duplicate clientOrderId")
    order = counter.place(client_id, SYMBOLS[fields["symbol"]], fields["side"], kind, fields["qty"], fields.get("price"))
    return {"orderId": _order_id(order), "orderLinkId": client_id}


def _cancel(counter: Counter, fields: Json) -> Json:
    found = find(counter.orders(open=True), fields["orderLinkId"])
    if not found:
        raise VenueError(170213, "Order does not exist.")
    counter.cancel(found[0])
    return {"orderId": _order_id(found[0]), "orderLinkId": fields["orderLinkId"]}


def _span(counter: Counter, fields: Json) -> tuple[float, float]:
    """Return from when until when a list is asked for: at most seven days, the last ones if it does not say."""
    start, end = (float(fields.get(name, "nan")) for name in ("startTime", "endTime"))
    if "startTime" not in fields:
        start = (end if "endTime" in fields else counter.now_ms) - _WEEK_MS
        end = end if "endTime" in fields else math.inf
    elif "endTime" not in fields:
        end = start + _WEEK_MS
    elif end - start > _WEEK_MS:
        raise VenueError(10001, "The time range between startTime and endTime cannot exceed 7 days.")
    if start < counter.now_ms - _KEPT_MS:
        raise VenueError(10001, "Can't query earlier than 2 years")
    return start, end


def _orders(counter: Counter, fields: Json, *, open: bool) -> Json:
    orders = counter.orders(SYMBOLS[fields["symbol"]], open=open)
    if not open:
        first, last = _span(counter, fields)
        orders = [one for one in orders if first <= one.time_ms <= last]
    if "orderLinkId" in fields:
        orders = find(orders, fields["orderLinkId"])
    if "orderId" in fields:
        orders = [one for one in orders if _order_id(one) == fields["orderId"]]
    return {"category": "spot", "list": [_told(one) for one in orders[:50]], "nextPageCursor": ""}


def _executions(counter: Counter, fields: Json) -> Json:
    earliest, latest = _span(counter, fields)
    trades = [one for one in counter.trades(SYMBOLS[fields["symbol"]]) if earliest <= one.time_ms <= latest]
    first = int(fields.get("cursor") or 0)
    until = first + min(int(fields.get("limit", 50)), 100)
    rows = [_trade(counter, one) for one in trades[first:until]]
    return {"category": "spot", "list": rows, "nextPageCursor": str(until) if until < len(trades) else ""}


def _trade(counter: Counter, trade: Trade) -> Json:
    order = counter.order_of(trade)
    return {
        "symbol": trade.symbol,
        "execId": scrambled(trade.id),
        "orderId": _order_id(order),
        "orderLinkId": order.client_id,
        "side": "Buy" if trade.is_buyer else "Sell",
        "execQty": f"{trade.units}",
        "execPrice": f"{trade.price}",
        "execValue": f"{trade.units * trade.price}",
        "execFee": f"{trade.fee}",
        "execTime": str(trade.time_ms),
        "execType": "Trade",
        "isMaker": False,
    }


def _balance(counter: Counter, fields: Json) -> Json:
    coins = [
        {"coin": asset, "walletBalance": f"{one.free + one.locked}", "locked": f"{one.locked}"}
        for asset, one in counter.books.balances.items()
    ]
    return {"list": [{"accountType": "UNIFIED", "coin": coins}]}


def _told(order: Order) -> Json:
    return {
        "symbol": order.symbol.name,
        "orderId": _order_id(order),
        "orderLinkId": order.client_id,
        "side": order.side.capitalize(),
        "orderType": order.type.capitalize(),
        "price": f"{order.limit}",
        "qty": f"{order.units}",
        "marketUnit": "baseCoin",
        "cumExecQty": f"{order.filled}",
        "cumExecValue": f"{order.paid}",
        "leavesQty": f"{order.units - order.filled}",
        "orderStatus": _STATUS[order.status],
        "createdTime": str(order.time_ms),
        "updatedTime": str(order.updated_ms),
    }


def _order_id(order: Order) -> str:
    return scrambled(order.id + 10**9)


_CODES = {-2010: 170131, -1013: 170140}


def failure(error: VenueError) -> tuple[int, bytes]:
    """Say no: with status 200."""
    return 200, json.dumps({"retCode": _CODES.get(error.code, error.code), "retMsg": str(error), "result": {}}).encode()


_PUBLIC: Asks = {
    "market/time": lambda counter: {"timeSecond": str(int(counter.now_ms // 1000))},
    "market/instruments-info": _instruments,
}
_PRIVATE: Acts = {
    "user/query-api": lambda counter, fields: {"unified": 0, "uta": 1},
    "account/info": lambda counter, fields: {"unifiedMarginStatus": 6},
    "order/create": _place,
    "order/cancel": _cancel,
    "order/realtime": lambda counter, fields: _orders(counter, fields, open=True),
    "order/history": lambda counter, fields: _orders(counter, fields, open=False),
    "execution/list": _executions,
    "account/wallet-balance": _balance,
}
TONGUE = Tongue(
    prefixes=("/v5/",),
    orders=("POST", "/v5/order/create"),
    name_of=lambda fields: fields.get("orderLinkId", ""),
    answer=answer,
    failure=failure,
)
