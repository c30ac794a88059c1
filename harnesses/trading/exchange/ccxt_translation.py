"""What ccxt says of orders, executions and markets, as our nouns. Pure.

The law: money and units are the venue's own text, never a float; see `number` in `ccxt_client`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from harnesses.errors import HarnessMisuse
from harnesses.trading.market.broker import BrokerUnavailable
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import ZERO, Fill, Order, OrderKind, OrderReport, OrderStatus, PlacedOrder, Side

_DECIMAL_PLACES, _TICK_SIZE = 2, 4
"""ccxt's."""
_STATUSES = {
    "open": OrderStatus.OPEN,
    "closed": OrderStatus.FILLED,
    "canceled": OrderStatus.CANCELLED,
    "rejected": OrderStatus.REJECTED,
    "expired": OrderStatus.EXPIRED,
}

Raw = Mapping[str, Any]


def parse_report(raw: Raw, placed: PlacedOrder | None = None) -> OrderReport:
    """Return what ccxt's order says, with what was asked for where it says nothing."""
    order = placed.order if placed is not None else None
    kind = OrderKind.LIMIT if raw.get("type") == "limit" else OrderKind.MARKET
    if raw.get("triggerPrice") is not None:
        kind = OrderKind.STOP
    if order is not None:
        kind = order.kind
    amount = raw.get("amount")
    return OrderReport(
        client_id=str(raw.get("clientOrderId") or ""),
        venue_id=str(raw["id"]),
        symbol=str(raw.get("symbol") or _wanted(order).symbol),
        side=Side(raw.get("side") or _wanted(order).side),
        kind=kind,
        units=exact(amount) if amount is not None else _wanted(order).units,
        filled=exact(raw.get("filled")),
        status=_STATUSES.get(str(raw.get("status")), OrderStatus.OPEN),
    )


def _wanted(order: Order | None) -> Order:
    if order is None:
        raise BrokerUnavailable("an order of the venue lacks its symbol, side or amount: expected all three")
    return order


def parse_fill(raw: Raw, client_id: str, market: Raw) -> Fill:
    """Return what ccxt's trade says, of the order of that client id in that market."""
    told: Sequence[Raw] = raw.get("fees") or [raw.get("fee") or {}]
    fees = [(str(fee["currency"]), exact(fee["cost"])) for fee in told if fee.get("cost")]
    return Fill(
        fill_id=str(raw["id"]),
        client_id=client_id,
        symbol=market["symbol"],
        side=Side(raw["side"]),
        units=exact(raw["amount"]),
        price=exact(raw["price"]),
        # What is paid in a third currency touches neither the cash nor the position that is kept here.
        fee=sum((cost for currency, cost in fees if currency == market["quote"]), ZERO),
        time=datetime.fromtimestamp(raw["timestamp"] / 1000, UTC),
        fee_units=sum((cost for currency, cost in fees if currency == market["base"]), ZERO),
    )


def parse_instrument(market: Raw, precision_mode: int) -> Instrument:
    """Return the rules that ccxt tells of a market."""
    precision, limits = market["precision"], market["limits"]
    return Instrument(
        symbol=market["symbol"],
        lot=_grain(precision["amount"], precision_mode, market["symbol"]),
        tick=_grain(precision["price"], precision_mode, market["symbol"]),
        min_units=exact(limits["amount"].get("min")),
        min_notional=exact(limits["cost"].get("min")),
    )


def _grain(value: object, precision_mode: int, symbol: str) -> Decimal:
    if value is not None and precision_mode == _TICK_SIZE:
        return exact(value).normalize()
    if value is not None and precision_mode == _DECIMAL_PLACES:
        return Decimal(1).scaleb(-int(exact(value)))
    raise HarnessMisuse(
        f"market {symbol!r}: expected a tick and a lot, was {value!r} in ccxt's precision mode {precision_mode}"
    )


def undeclared(kind: OrderKind, has: Raw, features: Raw, market: Raw) -> str:
    """Return what an exchange does not declare of what it takes for an order of a kind to be one; nothing if it declares all.

    Args:
        has, features: ccxt's, of the exchange. What it ignores of an order it does not complain of: a stop without its trigger
            is a market order.
        market: ccxt's, of the symbol.
    """
    needed = "createLimitOrder" if kind is OrderKind.LIMIT else "createMarketOrder"
    if not (has.get("createOrder") and has.get(needed)):
        return f"has[{needed!r}]"
    if kind is not OrderKind.STOP:
        return ""
    told: Raw = features.get(market.get("type") or "spot") or {}
    if market.get("contract"):
        told = told.get("linear" if market.get("linear") else "inverse") or {}
    heeded: Raw = told.get("createOrder") or {}
    return "" if heeded.get("triggerPrice") is True else "features: createOrder: triggerPrice"


def exact(value: object) -> Decimal:
    """Return a number of ccxt's, exactly: it is the venue's text."""
    return ZERO if value is None else Decimal(str(value))


def in_order(series: Sequence[Sequence[Fill]]) -> list[Fill]:
    """Return the fills of several symbols as one series: by time, but those of a symbol never other than the venue has them.

    A venue's clock may be set back between two executions; their ids cannot.
    """
    stamped: list[tuple[datetime, Fill]] = []
    for fills in series:
        latest = datetime.min.replace(tzinfo=UTC)
        for fill in fills:
            latest = max(latest, fill.time)
            stamped.append((latest, fill))
    return [fill for _, fill in sorted(stamped, key=lambda pair: pair[0])]
