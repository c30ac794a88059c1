"""Orders that an exchange does not have, held here until a bar reaches one of their prices. No I/O.

Invariant: an order is reached only by a bar that begins after it was decided; a dropped order is never reached. An exit is
reached only by a bar that comes after its entry was known to have filled something.

What is held is not stored here: the harness asks about its open orders after a restart, and each is then held again. The last
bars are kept, so that an order that is held again is compared with the bar that came first after the restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from attrs import evolve

from harnesses.trading.market.bars import Bar, MarketSlice
from harnesses.trading.market.orders import ZERO, OrderReport, OrderStatus, PlacedOrder, Side, trailed


class HeldOrders:
    """The stops, exits and orders with two prices of one broker."""

    def __init__(self) -> None:
        self._open: dict[str, PlacedOrder] = {}
        self._ended: dict[str, tuple[OrderStatus, str]] = {}
        self._last: dict[str, tuple[datetime, Bar]] = {}
        """The last bar of each symbol, whichever harness of the account has seen it."""
        self._moved: dict[str, Decimal] = {}
        """Where stops that trail are after the last bar. That bar is compared with where they were before."""

    def hold(self, placed: PlacedOrder) -> OrderReport:
        """Hold an order, with the units that it has now, unless it was dropped or refused; return its state."""
        if placed.client_id not in self._ended:
            if (known := self._open.get(placed.client_id)) is not None:
                placed = _with_stop(placed, known.order.stop_price)
            self._open[placed.client_id] = placed
        status, reason = self._ended.get(placed.client_id, (OrderStatus.OPEN, ""))
        return evolve(self._report(placed), status=status, reason=reason)

    def has(self, client_id: str) -> bool:
        """Return whether an order is held, or was until it was dropped or refused."""
        return client_id in self._open or client_id in self._ended

    def is_open(self, client_id: str) -> bool:
        """Return whether an order is held now."""
        return client_id in self._open

    def has_ended(self, client_id: str) -> bool:
        """Return whether an order was dropped or refused while it was held."""
        return client_id in self._ended

    def observe(self, market: MarketSlice) -> tuple[PlacedOrder, ...]:
        """Take a slice; return the held orders that it reaches. The stop prices of the others follow it, if they trail.

        A bar that is older than the last one of its symbol is passed over.
        """
        time, last, reached = market.time, self._last, list[PlacedOrder]()
        bars = {symbol: bar for symbol, bar in market.bars.items() if symbol not in last or time >= last[symbol][0]}
        for id, placed in tuple(self._open.items()):
            symbol = placed.order.symbol
            if symbol not in bars:
                continue
            if symbol in last and time > last[symbol][0]:
                self._open[id] = placed = _with_stop(placed, self._moved.pop(id, None))
            if (moved := _after_bar(placed, time, bars[symbol])) is not None:
                self._moved[id] = moved
            if _is_reached(placed, time, bars[symbol]):
                reached.append(placed)
        last |= {symbol: (time, bar) for symbol, bar in bars.items()}
        return tuple(reached)

    def is_reached(self, placed: PlacedOrder) -> bool:
        """Return whether the last bar of its symbol reaches an order that was decided before it."""
        last = self._last.get(placed.order.symbol)
        return last is not None and _is_reached(placed, *last)

    def drop(self, client_id: str, why: str = "cancelled while it was held") -> OrderReport | None:
        """Drop an order for good; return its state, or None if it is not held."""
        placed = self._open.pop(client_id, None)
        if placed is None:
            return None
        self._ended[client_id] = (OrderStatus.CANCELLED, why)
        return self.hold(placed)

    def refuse(self, placed: PlacedOrder, why: str) -> OrderReport:
        """Drop an order whose market order the exchange has refused."""
        self._open.pop(placed.client_id, None)
        self._ended[placed.client_id] = (OrderStatus.REJECTED, why)
        return self.hold(placed)

    def release(self, client_id: str) -> None:
        """Forget an order that the exchange has now."""
        self._open.pop(client_id, None)
        self._moved.pop(client_id, None)

    def reports(self, symbols: Sequence[str]) -> list[OrderReport]:
        """Return the held orders in these symbols."""
        return [self._report(placed) for placed in self._open.values() if placed.order.symbol in symbols]

    def _report(self, placed: PlacedOrder) -> OrderReport:
        stop = None if placed.order.trail is None else self._moved.get(placed.client_id, placed.order.stop_price)
        return evolve(_report(placed), stop_price=stop)


def _is_reached(placed: PlacedOrder, time: datetime, bar: Bar) -> bool:
    order = placed.order
    if not order.units or time <= placed.decided:
        return False
    stop, limit = order.stop_price, order.limit_price
    if order.side is Side.BUY:
        return (stop is not None and bar.high >= stop) or (limit is not None and bar.low <= limit)
    return (stop is not None and bar.low <= stop) or (limit is not None and bar.high >= limit)


def _after_bar(placed: PlacedOrder, time: datetime, bar: Bar) -> Decimal | None:
    """Return where the stop price of an order is after a bar; None if it does not trail."""
    order = placed.order
    if order.trail is None or order.stop_price is None or not order.units or time <= placed.decided:
        return None
    return trailed(order.stop_price, order.trail, order.side, high=bar.high, low=bar.low)


def _with_stop(placed: PlacedOrder, stop: Decimal | None) -> PlacedOrder:
    return placed if stop is None else evolve(placed, order=evolve(placed.order, stop_price=stop))


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
