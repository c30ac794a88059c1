"""Converts ccxt's orders, executions and markets to our values, and classifies its errors. No I/O; does not import ccxt.

Invariants: money and units are parsed from the venue's own text, never from a float; see `number` in `ccxt_client`. An order
counts as refused only if nothing was sent, or if the exchange itself answered that it was not accepted. No answer, a partial
answer, an answer of an intermediary, and "duplicate order" leave the outcome unknown.

    nothing was sent                               refused
    status 5xx, a timeout, a broken connection     unknown: Binance documents this for its own 5xx
    "duplicate"                                    unknown: an order with that id exists already, perhaps this one
    418, 429, RateLimitExceeded, DDoSProtection    not now: not accepted, may be sent again later
    InvalidNonce (-1021)                           wrong time: not accepted, our estimate of the venue's clock is off
    OrderNotFound                                  not found
    a definite ccxt error, with no status or 4xx   refused
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
from harnesses.trading.market.instruments import Charges, Instrument
from harnesses.trading.market.orders import ZERO, Fill, Order, OrderKind, OrderReport, OrderStatus, PlacedOrder, Side

_DECIMAL_PLACES, _TICK_SIZE = 2, 4
"""Values of ccxt's precision modes."""
_STATUSES = {
    "open": OrderStatus.OPEN,
    "closed": OrderStatus.FILLED,
    "canceled": OrderStatus.CANCELLED,
    "rejected": OrderStatus.REJECTED,
    "expired": OrderStatus.EXPIRED,
}

Raw = Mapping[str, Any]


def parse_report(raw: Raw, placed: PlacedOrder | None = None) -> OrderReport:
    """Return ccxt's order as a report; fields that it lacks are taken from the placed order."""
    order = placed.order if placed is not None else None
    kind = OrderKind.LIMIT if raw.get("type") == "limit" else OrderKind.MARKET
    if raw.get("triggerPrice") is not None or raw.get("stopLossPrice") is not None:
        kind = OrderKind.STOP
    if order is not None:
        kind = order.kind
    amount, status = raw.get("amount"), _STATUSES.get(str(raw.get("status")), OrderStatus.OPEN)
    units = exact(amount) if amount is not None else _wanted(order).units
    return OrderReport(
        client_id=str(raw.get("clientOrderId") or ""),
        venue_id=str(raw["id"]),
        symbol=str(raw.get("symbol") or _wanted(order).symbol),
        side=Side(raw.get("side") or _wanted(order).side),
        kind=kind,
        units=units,
        filled=exact(raw["filled"]) if raw.get("filled") is not None else _filled(units, status, str(raw["id"])),
        status=status,
    )


def _filled(units: Decimal, status: OrderStatus, venue_id: str) -> Decimal:
    """Return what is filled of an order if the venue does not say: of an open one, its fills tell."""
    if status in (OrderStatus.CANCELLED, OrderStatus.EXPIRED):
        raise BrokerUnavailable(
            f"order {venue_id} at the venue is {status}, but not how much of it is filled: expected `filled` in ccxt's order; "
            "look it up at the venue"
        )
    return units if status is OrderStatus.FILLED else ZERO


def _wanted(order: Order | None) -> Order:
    if order is None:
        raise BrokerUnavailable("the venue's order lacks its symbol, side or amount: expected all three")
    return order


def parse_fill(raw: Raw, client_id: str, market: Raw, mark: str = "") -> Fill:
    """Return ccxt's trade as a fill of the order with that client id in that market.

    Args:
        mark: put before its id.

    Raises:
        BrokerUnavailable: it lacks a number, which must not be guessed.
    """
    told: Sequence[Raw] = raw.get("fees") or [raw.get("fee") or {}]
    lacking = [name for name in ("side", "amount", "price", "timestamp") if raw.get(name) is None]
    lacking += ["fee's currency" for fee in told if fee.get("cost") and exact(fee["cost"]) and not fee.get("currency")]
    if lacking:
        raise BrokerUnavailable(
            f"execution {raw['id']} in {market['symbol']} lacks its {' and '.join(lacking)}: expected it in ccxt's trade; "
            "look it up at the venue"
        )
    fees = [(str(fee["currency"]), exact(fee["cost"])) for fee in told if fee.get("cost")]
    return Fill(
        fill_id=mark + str(raw["id"]),
        client_id=client_id,
        symbol=market["symbol"],
        side=Side(raw["side"]),
        units=exact(raw["amount"]),
        price=exact(raw["price"]),
        # A fee in a third currency changes neither the cash nor the position that are tracked here.
        fee=sum((cost for currency, cost in fees if currency == market["quote"]), ZERO),
        time=datetime.fromtimestamp(raw["timestamp"] / 1000, UTC),
        fee_units=sum((cost for currency, cost in fees if currency == market["base"]), ZERO),
    )


def parse_instrument(market: Raw, precision_mode: int, *, fees_in_cash: bool = False) -> Instrument:
    """Return the trading rules that ccxt gives for a market.

    Args:
        fees_in_cash: whether the fee of a purchase is taken in cash, so that the cash must cover it.
    """
    precision, limits = market["precision"], market["limits"]
    return Instrument(
        symbol=market["symbol"],
        lot=_grain(precision["amount"], precision_mode, market["symbol"]),
        tick=_grain(precision["price"], precision_mode, market["symbol"]),
        min_units=exact(limits["amount"].get("min")),
        min_notional=exact(limits["cost"].get("min")),
        charges=Charges(rate=exact(market.get("taker"))) if fees_in_cash else Charges(),
    )


def _grain(value: object, precision_mode: int, symbol: str) -> Decimal:
    if value is not None and precision_mode == _TICK_SIZE:
        return exact(value).normalize()
    if value is not None and precision_mode == _DECIMAL_PLACES:
        return Decimal(1).scaleb(-int(exact(value)))
    raise HarnessMisuse(
        f"market {symbol!r}: expected a tick and a lot, was {value!r} in ccxt's precision mode {precision_mode}; "
        "give a paper broker `instruments`, or trade at another exchange"
    )


def exact(value: object) -> Decimal:
    """Return a number of ccxt's as an exact `Decimal`, from the venue's text."""
    return ZERO if value is None else Decimal(str(value))


def in_order(series: Sequence[Sequence[Fill]]) -> list[Fill]:
    """Return the fills of several symbols ordered by time, keeping the venue's order for each symbol.

    A venue's clock may be set back between two executions; their ids are always increasing.
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
_TAKEN = ("duplicate", "51016", "cl_ord_id", "client order id already")
"""Signs that an order of that client id exists already: Binance and Bybit, OKX's code, Kraken, OKX."""
_LATER = frozenset({"DDoSProtection", "RateLimitExceeded"})


class Verdict(StrEnum):
    """What an error tells about the outcome of a request."""

    REFUSED = "refused"
    """It took no effect, and would not if sent again."""
    NOT_NOW = "not now"
    """It took no effect, because of the rate limit."""
    WRONG_TIME = "wrong time"
    """It took no effect, because it arrived too early or too late by the venue's clock."""
    NOT_FOUND = "not found"
    """The venue does not know the order."""
    UNKNOWN = "unknown"
    """It may have taken effect."""


class CallFailed(Exception):
    """A request to an exchange failed, or its outcome is unknown."""

    def __init__(self, verdict: Verdict, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.verdict = verdict
        self.text = text
        self.retry_after_s = retry_after_s
        """Seconds that the venue asks us to wait; None if it does not say."""


def judge(kinds: Collection[str], text: str, *, status: int | None, sent: bool) -> Verdict:
    """Return the verdict on a ccxt error.

    Args:
        kinds: the names of the error's class and its base classes.
        text: the error's message.
        status: of the HTTP response; None if there was none, or if it was a success.
        sent: whether anything was sent.
    """
    names = frozenset(kinds)
    if not sent:
        return Verdict.REFUSED
    if status is not None and not 400 <= status < 500:
        return Verdict.UNKNOWN
    if "DuplicateOrderId" in names or any(sign in text.lower() for sign in _TAKEN):
        return Verdict.UNKNOWN
    if status in (418, 429) or (status is not None and names & _LATER):
        return Verdict.NOT_NOW
    if "InvalidNonce" in names and status is not None:
        return Verdict.WRONG_TIME
    if "OrderNotFound" in names:
        return Verdict.NOT_FOUND
    return Verdict.REFUSED if names & _DEFINITE else Verdict.UNKNOWN


def parse_retry_after(value: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header; None if it is missing or unusable."""
    try:
        seconds = float(value or "nan")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
