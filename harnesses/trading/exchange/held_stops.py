"""Stop orders that an exchange does not have, held here until a bar reaches their price. No I/O.

Invariant: a stop is reached only by a bar that begins after it was decided; a dropped stop is never reached.

What is held is not stored here: the harness asks about its open orders after a restart, and each is then held again. The last
bars are kept, so that a stop that is held again is compared with the bar that came first after the restart.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.orders import ZERO, OrderReport, OrderStatus, PlacedOrder, Side


class HeldStops:
    """The stops of one broker."""

    def __init__(self) -> None:
        self._open: dict[str, PlacedOrder] = {}
        self._ended: dict[str, tuple[OrderStatus, str]] = {}
        self._market: MarketSlice | None = None

    def hold(self, placed: PlacedOrder) -> OrderReport:
        """Hold a stop, unless it was dropped or refused; return its state."""
        if placed.client_id not in self._ended:
            self._open[placed.client_id] = placed
        status, reason = self._ended.get(placed.client_id, (OrderStatus.OPEN, ""))
        return evolve(_report(placed), status=status, reason=reason)

    def observe(self, market: MarketSlice) -> tuple[PlacedOrder, ...]:
        """Take a slice; return the held stops that it reaches."""
        self._market = market
        return tuple(placed for placed in self._open.values() if self.is_reached(placed))

    def is_reached(self, placed: PlacedOrder) -> bool:
        """Return whether the last slice reaches a stop that was decided before it."""
        order, market = placed.order, self._market
        if market is None or order.symbol not in market.bars or market.time <= placed.decided or order.stop_price is None:
            return False
        bar = market.bars[order.symbol]
        return bar.high >= order.stop_price if order.side is Side.BUY else bar.low <= order.stop_price

    def drop(self, client_id: str) -> OrderReport | None:
        """Drop a stop for good; return its state, or None if it is not held."""
        placed = self._open.pop(client_id, None)
        if placed is None:
            return None
        self._ended[client_id] = (OrderStatus.CANCELLED, "cancelled while it was held")
        return self.hold(placed)

    def refuse(self, placed: PlacedOrder, why: str) -> OrderReport:
        """Drop a stop whose market order the exchange has refused."""
        self._open.pop(placed.client_id, None)
        self._ended[placed.client_id] = (OrderStatus.REJECTED, why)
        return self.hold(placed)

    def release(self, client_id: str) -> None:
        """Forget a stop that the exchange has now."""
        self._open.pop(client_id, None)

    def reports(self, symbols: Sequence[str]) -> list[OrderReport]:
        """Return the held stops in these symbols."""
        return [_report(placed) for placed in self._open.values() if placed.order.symbol in symbols]


def _report(placed: PlacedOrder) -> OrderReport:
    order = placed.order
    return OrderReport(
        client_id=placed.client_id,
        venue_id="held",
        symbol=order.symbol,
        side=order.side,
        kind=order.kind,
        units=order.units,
        filled=ZERO,
        status=OrderStatus.OPEN,
    )
