"""Orders, and what a venue says of them. Pure values; money and units are `Decimal`, whoever made them.

Order          made by an agent      what a strategy wants
PlacedOrder    made by the harness   the same, with the id it goes under and who wants it
OrderReport    made by a broker      what the venue says became of it
Fill           made by a broker      one execution, in whole or in part
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
    """Return a number as a `Decimal`. An int is exact already; a float is not, so it is refused.

    Args:
        what: the subject of the complaint.

    Raises:
        HarnessMisuse: it is neither.
    """
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, float):
        way_out = f"write Decimal('{value!r}'): floats are not exact"
        raise HarnessMisuse(f"{what}: expected a Decimal, was the float {value!r}; {way_out}")
    hint = f"Decimal({value!r:.80})" if isinstance(value, str) else "Decimal('0.1'), for instance"
    raise HarnessMisuse(f"{what}: expected a Decimal, was {value!r:.80}; write {hint}")


def make_exact(noun: object, *names: str, optional: bool = False) -> None:
    """See to it that fields of a frozen noun are exact, while it is being made.

    Args:
        optional: whether they may be None.
    """
    for name in names:
        value = getattr(noun, name)
        if not isinstance(value, Decimal) and not (optional and value is None):
            # Frozen for everybody else: it has not left its constructor yet.
            object.__setattr__(noun, name, exact(f"{type(noun).__name__}: {name}", value))


class Side(StrEnum):
    """Which way."""

    BUY = "buy"
    SELL = "sell"


class OrderKind(StrEnum):
    """When an order may be filled."""

    MARKET = "market"
    """At once, at what the market asks."""
    LIMIT = "limit"
    """At `limit_price` or better."""
    STOP = "stop"
    """As a market order, once the market has reached `stop_price`."""


class OrderStatus(StrEnum):
    """Where an order stands at the venue. Open ones may have been filled in part."""

    OPEN = "open"
    FILLED = "filled"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    EXPIRED = "expired"


class Source(StrEnum):
    """Whose fact it is: who wanted an order, who says that something happened."""

    STRATEGY = "strategy"
    RISK = "risk"
    OPERATOR = "operator"
    VENUE = "venue"


@frozen
class Order:
    """What somebody wants to trade."""

    symbol: str
    side: Side
    units: Decimal
    """Above 0; rounded down to the instrument's lot before it is placed."""
    kind: OrderKind = OrderKind.MARKET
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    reason: str = ""

    def __attrs_post_init__(self) -> None:
        make_exact(self, "units")
        make_exact(self, "limit_price", "stop_price", optional=True)
        # A word in place of a member is equal to it, but is not it.
        for name, known in (("side", Side), ("kind", OrderKind)):
            word = getattr(self, name)
            if not isinstance(word, known):
                object.__setattr__(self, name, _member(known, name, word))


@frozen
class PlacedOrder:
    """An order on its way to a venue, with everything that identifies it. The argument of the effect that places it."""

    client_id: str
    """From `client_id_for`; the venue keeps it, so that it can be asked later what became of the order."""
    order: Order
    source: Source
    decided: datetime
    """When, by the feed's clock."""


@frozen
class OrderReport:
    """What a venue says of an order."""

    client_id: str
    venue_id: str
    symbol: str
    side: Side
    kind: OrderKind
    units: Decimal
    filled: Decimal
    status: OrderStatus
    reason: str = ""
    """Why it was rejected, if it was."""


@frozen
class Fill:
    """One execution of an order, or of a part of it."""

    fill_id: str
    """The venue's; never twice for a symbol."""
    client_id: str
    """Empty for an order that was not placed by us."""
    symbol: str
    side: Side
    units: Decimal
    price: Decimal
    fee: Decimal
    """In cash."""
    time: datetime
    fee_units: Decimal = ZERO
    """In units of the symbol: what some venues keep of what was bought."""


def _member(known: type[StrEnum], name: str, word: object) -> StrEnum:
    if isinstance(word, str) and word in tuple(known):
        return known(word)
    words = " or ".join(map(repr, map(str, known)))
    raise HarnessMisuse(f"Order: {name}: expected {words}, was {word!r:.80}; say {known.__name__}.{next(iter(known)).name}")


def client_id_for(harness: str, step: int, key: str, salt: str = "") -> str:
    """Return the client order id of an effect: at most 36 letters, digits and `-`; the same for the same effect.

    Args:
        salt: of the account's life, from `salt_of`: a harness of the same name that begins anew has another one.
    """
    told = f"{harness}\0{step}\0{key}" + (f"\0{salt}" if salt else "")
    digest = blake2b(told.encode(), digest_size=8).hexdigest()
    name = re.sub(r"[^a-zA-Z0-9]", "", harness)[:10]
    return f"{name}-{step % 10**8}-{digest}"


def salt_of(*facts: object) -> str:
    """Return eight digits that are the same for the same facts."""
    return blake2b(repr(facts).encode(), digest_size=4).hexdigest()
