"""Coinbase's words. Signed with a time in seconds that is valid for 30 s; a known client id gets its order back.

Source: https://docs.cdp.coinbase.com/api-reference/advanced-trade-api (orders, accounts, products).
"""

from __future__ import annotations

import hmac
import json
import re
from datetime import UTC, datetime
from uuid import UUID

from ..books import Order, Trade, VenueError
from ..market import SYMBOLS, Symbol
from .speaking import Acts, Counter, Json, Request, Tongue, find, scrambled, symbol_of

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_STATUS = {"NEW": "OPEN", "PARTIALLY_FILLED": "OPEN", "FILLED": "FILLED", "CANCELED": "CANCELLED", "EXPIRED": "EXPIRED"}
_VALID_S = 30
_BROKERAGE = "/api/v3/brokerage/"


def answer(counter: Counter, request: Request) -> object:
    """Answer a request."""
    if request.path == "/v2/time":
        return {"data": {"epoch": int(counter.now_ms // 1000)}}
    what = request.path.removeprefix(_BROKERAGE)
    if what == "market/products":
        return {"products": [] if b"product_type=FUTURE" in request.query else [_product(one) for one in SYMBOLS.values()]}
    _check(counter, request)
    if what.startswith("orders/historical/") and what.rsplit("/", 1)[1] not in ("batch", "fills"):
        return {"order": _told(_by_id(counter, what.rsplit("/", 1)[1]))}
    return _PRIVATE[what](counter, request.fields)


def _check(counter: Counter, request: Request) -> None:
    time = request.headers["cb-access-timestamp"]
    wanted = hmac.digest(b"secret", (time + request.method + request.path).encode() + request.body, "sha256").hex()
    if request.headers["cb-access-sign"] != wanted:
        raise VenueError(401, "invalid signature", 401)
    if abs(counter.now_ms / 1000 - int(time)) > _VALID_S:
        raise VenueError(401, "request timestamp expired", 401)


def _product(symbol: Symbol) -> Json:
    return {
        "product_id": _id(symbol),
        "base_currency_id": symbol.base,
        "quote_currency_id": symbol.quote,
        "product_type": "SPOT",
        "base_increment": f"{symbol.step}",
        "price_increment": f"{symbol.tick}",
        "quote_increment": f"{symbol.tick}",
        "base_min_size": f"{symbol.step}",
        "quote_min_size": f"{symbol.min_notional}",
        "status": "online",
        "trading_disabled": False,
    }


def _place(counter: Counter, fields: Json) -> Json:
    client_id = fields["client_order_id"]
    if not _UUID.fullmatch(client_id):
        raise VenueError(0, "client_order_id is no UUID")
    if known := find(counter.orders(), client_id):
        return _placed(known[0])
    [(name, told)] = fields["order_configuration"].items()
    kind = {"market_market_ioc": "market", "limit_limit_gtc": "limit"}[name]
    if "base_size" not in told:
        raise VenueError(0, "the venue would take the units for money")
    symbol = symbol_of(*fields["product_id"].split("-"))
    return _placed(counter.place(client_id, symbol, fields["side"], kind, told["base_size"], told.get("limit_price")))


def _placed(order: Order) -> Json:
    told = {"order_id": _order_id(order.id), "product_id": _id(order.symbol), "side": order.side}
    return {"success": True, "success_response": told | {"client_order_id": order.client_id}}


def _cancel(counter: Counter, fields: Json) -> Json:
    order = _by_id(counter, fields["order_ids"][0])
    if order.is_open:
        counter.cancel(order)
        return {"results": [{"success": True, "order_id": _order_id(order.id)}]}
    return {"results": [{"success": False, "failure_reason": "UNKNOWN_CANCEL_ORDER", "order_id": _order_id(order.id)}]}


def _orders(counter: Counter, fields: Json) -> Json:
    orders = counter.orders(symbol_of(*fields["product_id"].split("-")), open=True if "order_status" in fields else None)
    since_ms = datetime.fromisoformat(fields["start_date"]).timestamp() * 1000 if "start_date" in fields else 0
    orders, first = [one for one in orders if one.time_ms >= since_ms], int(fields.get("cursor") or 0)
    until = first + int(fields["limit"])
    return {"orders": [_told(one) for one in orders[first:until]], "cursor": str(until) if until < len(orders) else ""}


def _fills(counter: Counter, fields: Json) -> Json:
    trades, first = counter.trades(symbol_of(*fields["product_id"].split("-"))), int(fields.get("cursor") or 0)
    until = first + int(fields["limit"])
    return {
        "fills": [_trade(counter, one) for one in trades[first:until]],
        "cursor": str(until) if until < len(trades) else "",
    }


def _trade(counter: Counter, trade: Trade) -> Json:
    order = counter.order_of(trade)
    return {
        "trade_id": _order_id(trade.id + 10**9),
        "order_id": _order_id(order.id),
        "product_id": _id(order.symbol),
        "trade_time": _time(trade.time_ms),
        "price": f"{trade.price}",
        "size": f"{trade.units}",
        "size_in_quote": False,
        "commission": f"{trade.fee}",
        "side": "BUY" if trade.is_buyer else "SELL",
        "liquidity_indicator": "TAKER",
    }


def _accounts(counter: Counter, fields: Json) -> Json:
    accounts = [
        {
            "uuid": asset,
            "currency": asset,
            "type": "ACCOUNT_TYPE_CRYPTO",
            "available_balance": {"value": f"{one.free}", "currency": asset},
            "hold": {"value": f"{one.locked}", "currency": asset},
        }
        for asset, one in counter.books.balances.items()
    ]
    return {"accounts": accounts, "has_next": False, "cursor": ""}


def _told(order: Order) -> Json:
    size = {"base_size": f"{order.units}"}
    limit = {"limit_limit_gtc": size | {"limit_price": f"{order.limit}", "post_only": False}}
    return {
        "order_id": _order_id(order.id),
        "client_order_id": order.client_id,
        "product_id": _id(order.symbol),
        "side": order.side,
        "order_configuration": limit if order.limit else {"market_market_ioc": size},
        "order_type": order.type,
        "status": _STATUS[order.status],
        "filled_size": f"{order.filled}",
        "created_time": _time(order.time_ms),
        "total_fees": "0",
    }


def _by_id(counter: Counter, id: str) -> Order:
    found = [one for one in counter.orders() if _order_id(one.id) == id]
    if not found:
        raise VenueError(404, "order with this orderID was not found", 404)
    return found[0]


def _order_id(number: int) -> str:
    return str(UUID(int=int(scrambled(number))))


def _id(symbol: Symbol) -> str:
    return f"{symbol.base}-{symbol.quote}"


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def failure(error: VenueError) -> tuple[int, bytes]:
    """Say no: to an order with status 200."""
    if error.status != 400:
        return error.status, json.dumps({"error": "unknown", "error_details": str(error), "message": str(error)}).encode()
    name = {-2010: "INSUFFICIENT_FUND"}.get(error.code, "INVALID_ORDER")
    return 200, json.dumps({"success": False, "error_response": {"error": name, "message": str(error)}}).encode()


_PRIVATE: Acts = {
    "orders": _place,
    "orders/batch_cancel": _cancel,
    "orders/historical/batch": _orders,
    "orders/historical/fills": _fills,
    "accounts": _accounts,
    "transaction_summary": lambda counter, fields: {"fee_tier": {"taker_fee_rate": "0.001", "maker_fee_rate": "0.001"}},
}
TONGUE = Tongue(
    prefixes=(_BROKERAGE, "/v2/"),
    orders=("POST", f"{_BROKERAGE}orders"),
    name_of=lambda fields: fields["client_order_id"],
    answer=answer,
    failure=failure,
    fees_in_quote=True,
)
