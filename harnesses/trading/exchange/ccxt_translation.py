"""What ccxt says of orders, executions and markets, as our nouns; and what its errors mean. Pure; knows names of ccxt only.

The laws: money and units are the venue's own text, never a float; see `number` in `ccxt_client`. An order counts as refused
only if nothing was sent, or if the exchange itself has answered that it was not taken. No answer, half an answer, an answer of
a machine in between, and "duplicate order" all leave it open.

    nothing was sent                               refused
    status 5xx, a timeout, a broken connection     unknown: Binance says so of its own 5xx
    "duplicate"                                    unknown: one of that id is there already, perhaps this very order
    418, 429, RateLimitExceeded, DDoSProtection    not now: not taken, may be asked again later
    InvalidNonce (-1021)                           wrong time: not taken, our idea of the venue's clock is off
    OrderNotFound                                  not found
    a definite error of ccxt's, with no status or 4xx   refused
    anything else                                  unknown

Source: https://developers.binance.com/docs/binance-spot-api-docs/rest-api/general-api-information, "HTTP Return Codes".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
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


_DEFINITE = frozenset(
    {"ArgumentsRequired", "AuthenticationError", "BadRequest", "InsufficientFunds", "InvalidOrder", "NotSupported"}
) | frozenset({"OperationRejected"})
_LATER = frozenset({"DDoSProtection", "RateLimitExceeded"})


class Verdict(StrEnum):
    """What an error says of what was asked for."""

    REFUSED = "refused"
    """It was not done, and would not be if it were asked again."""
    NOT_NOW = "not now"
    """It was not done; asked too often."""
    WRONG_TIME = "wrong time"
    """It was not done; it came too early or too late by the venue's clock."""
    NOT_FOUND = "not found"
    """The venue does not know what it was asked about."""
    UNKNOWN = "unknown"
    """It may have been done."""


class CallFailed(Exception):
    """A request to an exchange came to nothing, or nobody knows what it came to."""

    def __init__(self, verdict: Verdict, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.verdict = verdict
        self.text = text
        self.retry_after_s = retry_after_s
        """What the venue wants us to wait; None if it does not say."""


def judge(kinds: Collection[str], text: str, *, status: int | None, sent: bool) -> Verdict:
    """Return what an error of ccxt means.

    Args:
        kinds: the names of the error's class and of those above it.
        text: what it says.
        status: of the HTTP response; None if there was none, or if it was not an error's.
        sent: whether anything was sent.
    """
    names = frozenset(kinds)
    if not sent:
        return Verdict.REFUSED
    if status is not None and not 400 <= status < 500:
        return Verdict.UNKNOWN
    if "DuplicateOrderId" in names or "duplicate" in text.lower():
        return Verdict.UNKNOWN
    if status in (418, 429) or (status is not None and names & _LATER):
        return Verdict.NOT_NOW
    if "InvalidNonce" in names and status is not None:
        return Verdict.WRONG_TIME
    if "OrderNotFound" in names:
        return Verdict.NOT_FOUND
    return Verdict.REFUSED if names & _DEFINITE else Verdict.UNKNOWN


def parse_retry_after(value: str | None) -> float | None:
    """Return the seconds that a `Retry-After` header says; None if it says none that can be waited for."""
    try:
        seconds = float(value or "nan")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
