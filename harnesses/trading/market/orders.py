"""Orders, and a venue's reports on them, as values. Money and units are always `Decimal`.

Order          made by an agent      what a strategy wants
Cancel         made by an agent      an open order that it no longer wants
Replace        made by an agent      an open order, and the one that it wants instead
PlacedOrder    made by the harness   an order with its client id and who wants it
OrderReport    made by a broker      the state of an order at the venue
Fill           made by a broker      one execution of an order, full or partial
"""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from hashlib import blake2b

from attrs import frozen

from harnesses.errors import HarnessMisuse

ZERO, ONE = Decimal(0), Decimal(1)


def exact(what: str, value: object) -> Decimal:
    """Return a number as a `Decimal`. An int is accepted; a float is refused, because it is not exact.

    Args:
        what: the subject of the error message.

    Raises:
        HarnessMisuse: the value is neither a Decimal nor an int.
    """
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, float):
        way_out = f"write Decimal('{value!r}'): floats are not exact"
        raise HarnessMisuse(f"{what}: expected a Decimal, was the float {value!r}; {way_out}")
    hint = f"Decimal({value!r:.80})" if isinstance(value, str) else "a Decimal such as Decimal('0.1')"
    raise HarnessMisuse(f"{what}: expected a Decimal, was {value!r:.80}; write {hint}")


def make_exact(noun: object, *names: str, optional: bool = False) -> None:
    """Convert fields of a frozen value to `Decimal`, from its `__attrs_post_init__`.

    Args:
        optional: whether they may be None.
    """
    for name in names:
        value = getattr(noun, name)
        if not isinstance(value, Decimal) and not (optional and value is None):
            # Allowed on a frozen object only here, while it is being constructed.
            object.__setattr__(noun, name, exact(f"{type(noun).__name__}: {name}", value))


class Side(StrEnum):
    """Direction of an order."""

    BUY = "buy"
    SELL = "sell"


class OrderKind(StrEnum):
    """When an order may be filled."""

    MARKET = "market"
    """At once, at the market price."""
    LIMIT = "limit"
    """At `limit_price` or better."""
    STOP = "stop"
    """As a market order, once the market reaches `stop_price`."""
    OCO = "oco"
    """One cancels the other: as a limit order or as a stop order, whichever is reached first."""


class TimeInForce(StrEnum):
    """How long an order may be filled."""

    GTC = "gtc"
    """Until it is cancelled."""
    IOC = "ioc"
    """At once, as far as possible; the rest is cancelled."""
    FOK = "fok"
    """At once and whole, or not at all."""
    DAY = "day"
    """On the day of its decision (UTC)."""
    GTD = "gtd"
    """Before `good_till`."""


AT_ONCE = (TimeInForce.IOC, TimeInForce.FOK)


class OrderStatus(StrEnum):
    """State of an order at the venue. An open order may be partially filled."""

    OPEN = "open"
    FILLED = "filled"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    EXPIRED = "expired"


class Source(StrEnum):
    """Origin of a fact: who wanted an order, or who reported something."""

    STRATEGY = "strategy"
    RISK = "risk"
    OPERATOR = "operator"
    VENUE = "venue"


@frozen
class Order:
    """A wanted trade."""

    symbol: str
    side: Side
    units: Decimal
    """Above 0; rounded down to the instrument's lot before the order is placed."""
    kind: OrderKind = OrderKind.MARKET
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    reason: str = ""
    take_profit: Decimal | None = None
    """Limit price of the exit: an order that closes what this one has filled, as far as it has filled it."""
    stop_loss: Decimal | None = None
    """Stop price of the exit."""
    trail: Decimal | None = None
    """Distance at which its stop price, or that of its exit, follows the best price of the market: it never falls back."""
    time_in_force: TimeInForce = TimeInForce.GTC
    """Of this order; its exit is open until it is filled or cancelled."""
    good_till: datetime | None = None
    """With `TimeInForce.GTD`; UTC, with zone."""

    def __attrs_post_init__(self) -> None:
        make_exact(self, "units")
        make_exact(self, "limit_price", "stop_price", "take_profit", "stop_loss", "trail", optional=True)
        # A plain string equals the enum member, but is not one.
        for name, known in (("side", Side), ("kind", OrderKind), ("time_in_force", TimeInForce)):
            word = getattr(self, name)
            if not isinstance(word, known):
                object.__setattr__(self, name, _member(known, name, word))

    @property
    def has_exit(self) -> bool:
        """Whether it is a bracket: an entry with an exit."""
        return self.take_profit is not None or self.stop_loss is not None

    @property
    def only_closes(self) -> bool:
        """Whether it never opens a position at a venue with margin: one with two prices is an exit."""
        return self.kind is OrderKind.OCO

    @property
    def wrong_trail(self) -> str:
        """What is wrong with its trail; empty if nothing is."""
        if self.trail is None:
            return ""
        if not (self.trail.is_finite() and self.trail > 0):
            return f"expected a trail above 0, was {self.trail}"
        stop = self.stop_loss if self.has_exit else self.stop_price
        return "" if stop is not None else "trail: expected a stop_price, or the stop_loss of an exit, to begin with, was none"

    @property
    def wrong_time(self) -> str:
        """What is wrong with its time in force; empty if nothing is."""
        if (self.good_till is not None) != (self.time_in_force is TimeInForce.GTD):
            return f"good_till: expected {'none' if self.good_till else 'a time'} with time_in_force {self.time_in_force}"
        if self.good_till is not None and self.good_till.tzinfo is None:
            return f"good_till: expected a time with zone, was {self.good_till}"
        if self.time_in_force in AT_ONCE and self.kind not in (OrderKind.MARKET, OrderKind.LIMIT):
            return f"time_in_force {self.time_in_force}: expected a market or limit order, was a {self.kind} order"
        return ""

    def is_over(self, decided: datetime, now: datetime) -> bool:
        """Return whether an order decided at a time may no longer be filled in a bar that begins at another."""
        if self.time_in_force is TimeInForce.DAY:
            return now.date() > decided.date()
        return self.good_till is not None and now >= self.good_till

    @property
    def worst_price(self) -> Decimal | None:
        """The highest price that it names; None for a market order."""
        if self.limit_price is None or self.stop_price is None:
            return self.limit_price or self.stop_price
        return max(self.limit_price, self.stop_price)


@frozen
class Cancel:
    """A wish to cancel an open order of ours."""

    client_id: str
    """Of one of `Market.orders`: `one.placed.client_id`."""
    reason: str = ""


@frozen
class Replace:
    """A wish for another order instead of an open one of ours, which is cancelled first.

    The new order is for as many units less as the old one has filled since the strategy saw it. If nothing is left of the old
    one, none is placed. If the limits refuse the new one, the old one is cancelled nevertheless.
    """

    client_id: str
    order: Order


@frozen
class PlacedOrder:
    """An order to be sent to a venue, with its client id. The argument of the effect that places it."""

    client_id: str
    """From `client_id_for`; the venue stores it, so that the order can be looked up later."""
    order: Order
    source: Source
    decided: datetime
    """When it was decided, by the feed's clock."""
    exit_id: str = ""
    """Client id of its exit; empty for an order without one."""
    entry_id: str = ""
    """Client id of the order that this one is the exit of; empty for any other."""
    entry_ended: bool = False
    """Whether that order has ended, so that the units of the exit are final."""

    @property
    def only_closes(self) -> bool:
        """Whether it never opens a position at a venue with margin: it is an exit."""
        return bool(self.entry_id) or self.order.only_closes


@frozen
class OrderReport:
    """The venue's report on an order."""

    client_id: str
    venue_id: str
    symbol: str
    side: Side
    kind: OrderKind
    units: Decimal
    """In total; of an exit, what its entry has filled so far."""
    filled: Decimal
    status: OrderStatus
    reason: str = ""
    """Why it was rejected, if it was."""
    stop_price: Decimal | None = None
    """Where a trailing stop is now; None for any other order."""


@frozen
class Fill:
    """One execution of an order, full or partial."""

    fill_id: str
    """The venue's id of the fill; unique for a symbol."""
    client_id: str
    """Empty for an order that is not ours."""
    symbol: str
    side: Side
    units: Decimal
    price: Decimal
    fee: Decimal
    """Fee in cash."""
    time: datetime
    fee_units: Decimal = ZERO
    """Fee in units of the symbol, which some venues deduct from what was bought."""
    reason: str = ""
    """Why the venue traded by itself, such as a margin call; empty for the fill of an order."""


def _member(known: type[StrEnum], name: str, word: object) -> StrEnum:
    if isinstance(word, str) and word in tuple(known):
        return known(word)
    words = " or ".join(map(repr, map(str, known)))
    raise HarnessMisuse(f"Order: {name}: expected {words}, was {word!r:.80}; use {known.__name__}.{next(iter(known)).name}")


def wrong_exit(order: Order) -> str:
    """Return what is wrong with the prices of an exit, or of an order with two prices; empty if nothing is."""
    sells = order.side is Side.BUY if order.has_exit else order.side is Side.SELL
    limit, stop = (order.take_profit, order.stop_loss) if order.has_exit else (order.limit_price, order.stop_price)
    if limit is None or stop is None or (stop < limit if sells else limit < stop):
        return ""
    names = ("take_profit", "stop_loss") if order.has_exit else ("limit_price", "stop_price")
    return f"expected a {names[0]} {'above' if sells else 'below'} the {names[1]}, were {limit} and {stop}"


def exit_of(placed: PlacedOrder) -> PlacedOrder | None:
    """Return the exit of an order, for all of its units; None for an order without one."""
    entry = placed.order
    if not entry.has_exit:
        return None
    both = entry.take_profit is not None and entry.stop_loss is not None
    order = Order(
        symbol=entry.symbol,
        side=Side.SELL if entry.side is Side.BUY else Side.BUY,
        units=entry.units,
        kind=OrderKind.OCO if both else OrderKind.STOP if entry.take_profit is None else OrderKind.LIMIT,
        limit_price=entry.take_profit,
        stop_price=entry.stop_loss,
        reason=entry.reason and f"exit: {entry.reason}",
        trail=entry.trail,
    )
    return PlacedOrder(placed.exit_id, order, placed.source, placed.decided, entry_id=placed.client_id)


def trailed(stop: Decimal, trail: Decimal, side: Side, *, high: Decimal, low: Decimal) -> Decimal:
    """Return a stop price after a bar, if it follows the best price at a distance."""
    return max(stop, high - trail) if side is Side.SELL else min(stop, low + trail)


def client_id_for(harness: str, step: int, key: str, salt: str = "") -> str:
    """Return the client order id of an effect: at most 36 letters, digits and `-`; always the same for the same effect.

    Args:
        salt: from `salt_of`; distinguishes a new harness from an earlier one of the same name.
    """
    told = f"{harness}\0{step}\0{key}" + (f"\0{salt}" if salt else "")
    digest = blake2b(told.encode(), digest_size=8).hexdigest()
    name = re.sub(r"[^a-zA-Z0-9]", "", harness)[:10]
    return f"{name}-{step % 10**8}-{digest}"


def salt_of(*facts: object) -> str:
    """Return eight digits derived from the facts, always the same for the same facts."""
    return blake2b(repr(facts).encode(), digest_size=4).hexdigest()
