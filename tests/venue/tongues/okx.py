"""OKX's words. Signed with a time that is valid for 30 s; all lists say `sCode` for each of their entries.

Source: https://www.okx.com/docs-v5 (order book trading: trade).
"""

from __future__ import annotations

import base64
import hmac
import json
import re
from datetime import datetime
from typing import Any

from ..books import Order, Trade, VenueError
from ..market import INTERVALS_MS, SYMBOLS, Symbol
from .speaking import Acts, Asks, Counter, Json, Request, Tongue, find, symbol_of

_ID = re.compile(r"[A-Za-z0-9]{1,32}")
_STATUS = {
    "NEW": "live",
    "PARTIALLY_FILLED": "partially_filled",
    "FILLED": "filled",
    "CANCELED": "canceled",
    "EXPIRED": "canceled",
}
_VALID_MS = 30_000
_KEPT_MS = 90 * 86_400_000


def answer(counter: Counter, request: Request) -> object:
    """Answer a request."""
    what = request.path.removeprefix("/api/v5/")
    if what in ("market/candles", "market/history-candles"):
        return _data(_candles(counter, request.fields))
    if what in _PUBLIC:
        return _data(_PUBLIC[what](counter))
    _check(counter, request)
    return _data(_PRIVATE[what](counter, request.fields))


def _check(counter: Counter, request: Request) -> None:
    time = request.headers["ok-access-timestamp"]
    asked = request.path + (f"?{request.query.decode()}" if request.query else "")
    wanted = hmac.digest(b"secret", (time + request.method + asked).encode() + request.body, "sha256")
    if request.headers["ok-access-sign"] != base64.b64encode(wanted).decode():
        raise VenueError(50113, "Invalid Sign", 401)
    if abs(counter.now_ms - datetime.fromisoformat(time).timestamp() * 1000) > _VALID_MS:
        raise VenueError(50102, "Timestamp request expired", 401)


def _candles(counter: Counter, fields: Json) -> list[Any]:
    """Return bars between two times, latest first, the one that is not over included."""
    symbol, length_ms, limit = symbol_of(*fields["instId"].split("-")), INTERVALS_MS[fields["bar"]], int(fields["limit"])
    first_ms = int(fields["before"]) + 1 if "before" in fields else None
    found = counter.venue.candles(symbol, length_ms, first_ms, min(limit, 300))
    return [
        [f"{one.time_ms}", *(f"{price}" for price in (one.open, one.high, one.low, one.close, one.volume, 0, 0)), "1"]
        for one in reversed(found)
    ]


def _data(rows: list[Any]) -> Json:
    return {"code": "0", "msg": "", "data": rows}


def _instruments(counter: Counter) -> list[Json]:
    return [
        {
            "instType": "SPOT",
            "instId": _inst(symbol),
            "baseCcy": symbol.base,
            "quoteCcy": symbol.quote,
            "tickSz": f"{symbol.tick}",
            "lotSz": f"{symbol.step}",
            "minSz": f"{symbol.step}",
            "state": "live",
        }
        for symbol in SYMBOLS.values()
    ]


def _place(counter: Counter, fields: Json) -> list[Json]:
    client_id = fields.get("clOrdId", "")
    if not _ID.fullmatch(client_id):
        raise VenueError(51000, "Parameter clOrdId error")
    if fields["ordType"] == "market" and fields["side"] == "buy" and fields.get("tgtCcy") != "base_ccy":
        raise VenueError(51000, "the venue would take the units for money")
    if find(counter.orders(open=True), client_id):
        raise VenueError(51016, "Client order ID already exists")
    order = counter.place(
        client_id, _symbol(fields["instId"]), fields["side"], fields["ordType"], fields["sz"], fields.get("px")
    )
    return [{"ordId": str(order.id), "clOrdId": client_id, "sCode": "0", "sMsg": "", "tag": ""}]


def _cancel(counter: Counter, fields: Json) -> list[Json]:
    found = find(counter.orders(open=True), fields["clOrdId"])
    if not found:
        raise VenueError(51400, "Cancellation failed as the order does not exist.")
    counter.cancel(found[0])
    return [{"ordId": str(found[0].id), "clOrdId": fields["clOrdId"], "sCode": "0", "sMsg": ""}]


def _order(counter: Counter, fields: Json) -> list[Json]:
    if "clOrdId" in fields:
        found = find(counter.orders(_symbol(fields["instId"])), fields["clOrdId"])
    else:
        found = [one for one in counter.orders(_symbol(fields["instId"])) if str(one.id) == fields.get("ordId")]
    if not found:
        raise VenueError(51603, "Order does not exist")
    return [_told(found[0])]


def _pending(counter: Counter, fields: Json) -> list[Json]:
    return [_told(one) for one in counter.orders(_symbol(fields["instId"]), open=True)[:100]]


def _fills(counter: Counter, fields: Json) -> list[Json]:
    every = [one for one in counter.trades(_symbol(fields["instId"])) if one.time_ms >= counter.now_ms - _KEPT_MS]
    trades = [one for one in every if one.id < int(fields.get("after", 10**18))]
    return [_trade(counter, one) for one in trades[: min(int(fields.get("limit", 100)), 100)]]


def _trade(counter: Counter, trade: Trade) -> Json:
    order = counter.order_of(trade)
    return {
        "instType": "SPOT",
        "instId": _inst(order.symbol),
        "tradeId": str(trade.id),
        "billId": str(trade.id),
        "ordId": str(order.id),
        "clOrdId": order.client_id,
        "fillPx": f"{trade.price}",
        "fillSz": f"{trade.units}",
        "side": "buy" if trade.is_buyer else "sell",
        "execType": "T",
        "fee": f"{-trade.fee}",
        "feeCcy": trade.fee_asset,
        "ts": str(trade.time_ms),
    }


def _balance(counter: Counter, fields: Json) -> list[Json]:
    details = [
        {"ccy": asset, "eq": f"{one.free + one.locked}", "availBal": f"{one.free}", "frozenBal": f"{one.locked}"}
        for asset, one in counter.books.balances.items()
    ]
    return [{"uTime": str(int(counter.now_ms)), "details": details}]


def _told(order: Order) -> Json:
    return {
        "instType": "SPOT",
        "instId": _inst(order.symbol),
        "ordId": str(order.id),
        "clOrdId": order.client_id,
        "px": f"{order.limit}" if order.limit else "",
        "sz": f"{order.units}",
        "ordType": order.type.lower(),
        "side": order.side.lower(),
        "tgtCcy": "base_ccy",
        "accFillSz": f"{order.filled}",
        "state": _STATUS[order.status],
        "cTime": str(order.time_ms),
        "uTime": str(order.updated_ms),
    }


def _inst(symbol: Symbol) -> str:
    return f"{symbol.base}-{symbol.quote}"


def _symbol(inst: str) -> Symbol:
    return symbol_of(*inst.split("-"))


_CODES = {-2010: 51008, -1013: 51020}


def failure(error: VenueError) -> tuple[int, bytes]:
    """Say no."""
    code = str(_CODES.get(error.code, error.code))
    entry = {"sCode": code, "sMsg": str(error), "ordId": "", "clOrdId": ""}
    told = {"code": code if error.status == 401 else "1", "msg": str(error), "data": [] if error.status == 401 else [entry]}
    return 401 if error.status == 401 else 200, json.dumps(told).encode()


_PUBLIC: Asks = {"public/time": lambda counter: [{"ts": str(int(counter.now_ms))}], "public/instruments": _instruments}
_PRIVATE: Acts = {
    "trade/batch-orders": _place,
    "trade/cancel-order": _cancel,
    "trade/order": _order,
    "trade/orders-pending": _pending,
    "trade/fills-history": _fills,
    "account/balance": _balance,
}
TONGUE = Tongue(
    prefixes=("/api/v5/",),
    orders=("POST", "/api/v5/trade/batch-orders"),
    name_of=lambda fields: fields.get("clOrdId", ""),
    answer=answer,
    failure=failure,
)
