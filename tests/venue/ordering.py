"""Orders for tests."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from harnesses.trading.market.orders import Order, OrderKind, PlacedOrder, Side, Source

BTC, ETH = "BTC/USDT", "ETH/USDT"
MOMENT = datetime(2025, 1, 1, tzinfo=UTC)


def placed(
    client_id: str,
    side: Side = Side.BUY,
    units: str = "0.001",
    *,
    kind: OrderKind = OrderKind.MARKET,
    limit: str | None = None,
    stop: str | None = None,
) -> PlacedOrder:
    """Return an order for Bitcoin."""
    limit_price, stop_price = (None if text is None else Decimal(text) for text in (limit, stop))
    order = Order(BTC, side, Decimal(units), kind, limit_price, stop_price)
    return PlacedOrder(client_id, order, Source.STRATEGY, MOMENT)
