"""What the venue keeps: cash, positions, orders, trades. Pure: time and price are arguments, money is `Decimal`.

Invariant: the free, locked and traded amounts always add up to the deposits.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from decimal import ROUND_DOWN, Decimal
from typing import Protocol

from attrs import Factory, define, frozen

from .market import SYMBOLS, Symbol

ZERO = Decimal(0)
GRAIN = Decimal("0.00000001")
FEE_RATE = Decimal("0.001")
OPEN = ("NEW", "PARTIALLY_FILLED")


class VenueError(Exception):
    """The venue says no."""

    def __init__(self, code: int, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


@frozen
class Part:
    """A part of an order that is going to be filled."""

    due_ms: int
    units: Decimal
    price: Decimal


@frozen
class Trade:
    """One execution."""

    id: int
    order_id: int
    symbol: str
    is_buyer: bool
    units: Decimal
    price: Decimal
    fee: Decimal
    fee_asset: str
    time_ms: int


@define(eq=False)
class Order:
    """An order, from when it was taken."""

    id: int
    client_id: str
    symbol: Symbol
    side: str
    type: str
    units: Decimal
    limit: Decimal
    stop: Decimal
    time_ms: int
    parts: int
    """In how many parts it is filled once it can be."""
    pace_ms: int
    """Between two of them."""
    status: str = "NEW"
    in_force: str = "GTC"
    filled: Decimal = ZERO
    paid: Decimal = ZERO
    """Or received, in quote."""
    locked: Decimal = ZERO
    updated_ms: int = 0
    plan: list[Part] = Factory(list[Part])
    trades: list[Trade] = Factory(list[Trade])

    @property
    def is_open(self) -> bool:
        """Whether more of it may be filled."""
        return self.status in OPEN

    @property
    def is_buy(self) -> bool:
        """Which way."""
        return self.side == "BUY"


@define
class Balance:
    """What there is of an asset."""

    free: Decimal = ZERO
    locked: Decimal = ZERO


class Prices(Protocol):
    """What the market asks at the moment."""

    def __call__(self, symbol: Symbol) -> Decimal:
        """Return the price of a symbol."""
        ...


class Books:
    """The account at the venue, and all that was ever done in it."""

    def __init__(self, deposits: dict[str, Decimal]) -> None:
        self.deposits = dict(deposits)
        self.balances = {asset: Balance(amount) for asset, amount in deposits.items()}
        for symbol in SYMBOLS.values():
            self.balances.setdefault(symbol.base, Balance())
            self.balances.setdefault(symbol.quote, Balance())
        self.orders: dict[int, Order] = {}
        self.by_client: dict[str, list[Order]] = {}
        self.trades: dict[str, list[Trade]] = {name: [] for name in SYMBOLS}
        self.resting: dict[int, Order] = {}
        """Open, and waiting for its price."""
        self.working: list[tuple[int, int]] = []
        """A heap of when an order's next part is due, and of which."""
        self.changed: list[Order] = []
        """Since the journal last asked."""
        self._last_order = self._last_trade = 0
        self.fees_in_quote = False
        """Whether the fee of a purchase is taken in quote, and not from what was bought."""

    def place(self, order: Order, price: Decimal) -> Order:
        """Take a new order and fill what can be filled now.

        Raises:
            VenueError: it is not taken.
        """
        if any(other.is_open for other in self.by_client.get(order.client_id, ())):
            raise VenueError(-2010, "Duplicate order sent.")
        self._last_order += 1
        order.id = self._last_order
        if order.type == "MARKET" or (order.type == "LIMIT" and crosses(order, price)):
            self._begin(order, price)
        elif order.type == "LIMIT":
            self._lock(order, order.limit * order.units if order.is_buy else order.units)
            self.resting[order.id] = order
        else:
            self.resting[order.id] = order
        self.orders[order.id] = order
        self.by_client.setdefault(order.client_id, []).append(order)
        self.changed.append(order)
        self._work(order, order.time_ms)
        if order.in_force != "GTC" and order.is_open:
            self._close(order, "EXPIRED", order.time_ms)
        return order

    def cancel(self, order: Order, now_ms: int) -> None:
        """Cancel what is left of an open order."""
        if not order.is_open:
            raise VenueError(-2011, "Unknown order sent.")
        self._close(order, "CANCELED", now_ms)

    def find(self, client_id: str) -> Order:
        """Return the last order of that client id."""
        orders = self.by_client.get(client_id)
        if not orders:
            raise VenueError(-2013, "Order does not exist.")
        return orders[-1]

    def advance(self, now_ms: int, prices: Prices) -> None:
        """Let time pass: fill the parts that are due, and begin the orders whose price has come."""
        for order in list(self.resting.values()):
            price = prices(order.symbol)
            if crosses(order, price):
                del self.resting[order.id]
                self._release(order)
                try:
                    self._begin(order, order.limit or price, now_ms)
                except VenueError:
                    self._close(order, "EXPIRED", now_ms)
                    continue
                self._work(order, now_ms)
        while self.working and self.working[0][0] <= now_ms:
            self._work(self.orders[heapq.heappop(self.working)[1]], now_ms)

    def restore(self, orders: Iterable[Order]) -> None:
        """Take up what the journal has kept, oldest first."""
        for order in orders:
            self.orders[order.id] = order
            self.by_client.setdefault(order.client_id, []).append(order)
            self._last_order = order.id
        for trade in sorted((trade for order in self.orders.values() for trade in order.trades), key=lambda trade: trade.id):
            self.trades[trade.symbol].append(trade)
            self._settle(trade)
            self._last_trade = trade.id
        for order in self.orders.values():
            if order.is_open:
                locked, order.locked = order.locked, ZERO
                self._lock(order, locked)
                if order.plan:
                    heapq.heappush(self.working, (order.plan[0].due_ms, order.id))
                else:
                    self.resting[order.id] = order

    def _begin(self, order: Order, price: Decimal, now_ms: int | None = None) -> None:
        """Plan the parts of an order that can be filled, each a tick worse than the one before, and lock what they cost."""
        now_ms = order.time_ms if now_ms is None else now_ms
        worse = order.symbol.tick if order.is_buy else -order.symbol.tick
        pieces = split(order.units, order.parts, order.symbol.step)
        slip = ZERO if order.type == "LIMIT" else worse
        plan = [Part(now_ms + i * order.pace_ms, units, price + slip * i) for i, units in enumerate(pieces)]
        self._lock(order, sum((part.units * part.price for part in plan), ZERO) if order.is_buy else order.units)
        order.plan = plan

    def _work(self, order: Order, now_ms: int) -> None:
        while order.plan and order.plan[0].due_ms <= now_ms and order.is_open:
            self._fill(order, order.plan.pop(0), now_ms)
        if order.plan and order.is_open:
            heapq.heappush(self.working, (order.plan[0].due_ms, order.id))

    def _fill(self, order: Order, part: Part, now_ms: int) -> None:
        self._last_trade += 1
        cost = part.units * part.price
        in_base = order.is_buy and not self.fees_in_quote
        fee_asset = order.symbol.base if in_base else order.symbol.quote
        fee = ((part.units if in_base else cost) * FEE_RATE).quantize(GRAIN, ROUND_DOWN)
        trade = Trade(
            self._last_trade, order.id, order.symbol.name, order.is_buy, part.units, part.price, fee, fee_asset, now_ms
        )
        taken = cost if order.is_buy else part.units
        order.locked -= taken
        paying = self.balances[order.symbol.quote if order.is_buy else order.symbol.base]
        paying.locked -= taken
        paying.free += taken
        self._settle(trade)
        order.trades.append(trade)
        self.trades[trade.symbol].append(trade)
        order.filled += part.units
        order.paid += cost
        order.updated_ms = now_ms
        order.status = "FILLED" if order.filled == order.units else "PARTIALLY_FILLED"
        self.changed.append(order)

    def _settle(self, trade: Trade) -> None:
        symbol = SYMBOLS[trade.symbol]
        sign = 1 if trade.is_buyer else -1
        self.balances[symbol.base].free += sign * trade.units
        self.balances[symbol.quote].free -= sign * trade.units * trade.price
        self.balances[trade.fee_asset].free -= trade.fee

    def _close(self, order: Order, status: str, now_ms: int) -> None:
        order.status, order.updated_ms, order.plan = status, now_ms, []
        self.resting.pop(order.id, None)
        self._release(order)
        self.changed.append(order)

    def _lock(self, order: Order, amount: Decimal) -> None:
        balance = self.balances[order.symbol.quote if order.is_buy else order.symbol.base]
        if balance.free < amount:
            raise VenueError(-2010, "Account has insufficient balance for requested action.")
        balance.free -= amount
        balance.locked += amount
        order.locked += amount

    def _release(self, order: Order) -> None:
        balance = self.balances[order.symbol.quote if order.is_buy else order.symbol.base]
        balance.free += order.locked
        balance.locked -= order.locked
        order.locked = ZERO


def crosses(order: Order, price: Decimal) -> bool:
    """Return whether a limit or stop order can be filled at `price`."""
    if order.type == "LIMIT":
        return price <= order.limit if order.is_buy else price >= order.limit
    return price >= order.stop if order.is_buy else price <= order.stop


def split(units: Decimal, parts: int, step: Decimal) -> Sequence[Decimal]:
    """Return `units` in at most so many parts, each a multiple of `step`."""
    each = (units / parts / step).to_integral_value(ROUND_DOWN) * step
    return [units] if parts == 1 or each == 0 else [each] * (parts - 1) + [units - each * (parts - 1)]
