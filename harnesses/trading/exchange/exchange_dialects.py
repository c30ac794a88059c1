"""What each exchange can do and how it wants to be asked: a table of tested dialects, and what ccxt declares of all others.

Invariant: an order kind that is not in an exchange's row is never sent there under another kind.

    exchange   client id        an order is found by     stop            a request lapses by      fee of a purchase
    binance    as it is         fetch_order by id        triggerPrice    timestamp, recvWindow    in units bought
    kraken     UUID             open and past, by id     stopLossPrice   deadline of the order    in cash
    okx        32 alphanumeric  fetch_order by id        none ¹          timestamp, 30 s          in units bought
    bybit      as it is         open and past, by id     none ¹          timestamp, recv window   in units bought
    coinbase   UUID             all since, searched      none            expiry of the signature  in cash
    others ²   as it is         fetch_order by id        none            never                    unknown

    ¹ a triggered order becomes another order under another id, so that its fills would be in no book
    ² only with `unproven=True`, if ccxt sends the client id there; no purchases at the market price: some exchanges take the
      units of one for money

An exchange that takes a request for a fixed time after its timestamp is sent an earlier timestamp, so that the request lapses
after `recv_window_s` there as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Any
from uuid import UUID

from attrs import field, frozen

from harnesses.trading.market.orders import AT_ONCE, Order, OrderKind, Side, TimeInForce

Raw = Mapping[str, Any]
DAY_MS = 86_400_000
_OVERLAP_MS = 3_600_000
"""By how much two windows of time overlap."""


class IdForm(StrEnum):
    """The form of a client order id."""

    PLAIN = "1 to 36 letters, digits, `-` and `_`"
    UUID = "a UUID"
    ALPHANUMERIC = "1 to 32 letters and digits"


_FORMS = {
    IdForm.PLAIN: re.compile(r"[A-Za-z0-9_-]{1,36}"),
    IdForm.UUID: re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    IdForm.ALPHANUMERIC: re.compile(r"[A-Za-z0-9]{1,32}"),
}


class Expiry(StrEnum):
    """How a request says until when it may be accepted."""

    WINDOW = "parameters timestamp and recvWindow"
    HEADER = "headers of time and receive window"
    BACKDATED = "an earlier timestamp, which is valid for a fixed time"
    DEADLINE = "parameter deadline of an order"
    NONE = "it does not"


class Lookup(StrEnum):
    """How an order is found by its client id."""

    QUERY = "one request"
    LISTS = "the lists of open and of past orders, each asked for the id"
    SEARCH = "the list of all orders since it was decided, searched for the id"


class Pages(StrEnum):
    """How earlier executions are asked for."""

    FROM_ID = "from an id on"
    CURSOR = "by a cursor"
    BILL = "before a bill id"
    OFFSET = "by an offset, of all symbols together"
    LAST = "not at all: only the last ones"


@frozen
class Dialect:
    """How one exchange is traded at."""

    exchange: str
    id_form: IdForm = IdForm.PLAIN
    placing_id: str = "clientOrderId"
    """ccxt's parameter for the client id of a new order."""
    finding_id: str | None = "clientOrderId"
    """ccxt's parameter for the client id of a known order; None if it must be asked for by the exchange's own id."""
    lookup: Lookup = Lookup.QUERY
    past: str = "fetch_closed_orders"
    """ccxt's method for the list of past orders."""
    names_order: str | None = None
    """The exchange's field for the client id of the order in an execution; None if the order is to be asked for by its id."""
    extra: Raw = field(factory=dict[str, Any])
    """ccxt's further parameters of a purchase at the market price, so that its units are those of the base."""
    always: Raw = field(factory=dict[str, Any])
    """ccxt's further parameters of every order."""
    unified_only: bool = False
    """Whether only a unified account is tested: another one would take the units of a purchase for money."""
    stop: str | None = "triggerPrice"
    """ccxt's parameter for the price of a stop at the market price; None if the exchange has none that stays one order."""
    at_once: bool = False
    """Whether it takes limit orders with ccxt's parameter `timeInForce` IOC and FOK."""
    expiry: Expiry = Expiry.NONE
    fixed_s: float = 0.0
    """Seconds for which the exchange takes a backdated request after its timestamp."""
    shortest_s: float = 0.0
    """Minimum seconds until a request may lapse."""
    longest_s: float = 60.0
    pages: Pages = Pages.LAST
    page: int = 1000
    """Executions in a page."""
    window_days: int | None = None
    """The longest time for which executions and past orders are listed at once, the latest if none is named; None: any."""
    history_days: int | None = None
    """For how long the exchange lists executions; None if for ever."""
    mark: str = ""
    """Put before the id of a fill, where ids that are numbers do not increase."""
    answers_id: bool = True
    """Whether the answer to a new order has its client id."""
    fees_in_cash: bool = False
    """Whether the fee of a purchase is taken in cash, and not from what was bought."""
    options: Raw = field(factory=dict[str, Any])
    """ccxt's options of the exchange; None removes one of ours."""
    asks_currencies: bool = True
    """Whether ccxt loads the list of currencies too; False where that needs permissions that trading does not."""
    proven: bool = False

    def shape_id(self, client_id: str) -> str:
        """Return the client id of the exchange for one from `client_id_for`; always the same for the same."""
        digest = blake2b(client_id.encode(), digest_size=16).digest()
        match self.id_form:
            case IdForm.PLAIN:
                return client_id
            case IdForm.UUID:
                return str(UUID(bytes=digest, version=4))
            case IdForm.ALPHANUMERIC:
                return digest.hex()

    def takes_id(self, client_id: str) -> bool:
        """Return whether the exchange takes a client id as it is."""
        return _FORMS[self.id_form].fullmatch(client_id) is not None

    def window_s(self, wanted_s: float) -> float:
        """Return for how many seconds a request is valid, if `wanted_s` are wanted."""
        return min(max(wanted_s, self.shortest_s), self.longest_s)

    def windows(self, now_ms: float, since_ms: float) -> Iterator[Raw]:
        """Return the parameters that ask for a list from now back to a time, or as far back as it goes: the latest first."""
        yield {}
        if self.window_days is None:
            return
        length_ms, oldest_ms = self.window_days * DAY_MS, int(since_ms)
        if self.history_days is not None:
            oldest_ms = max(oldest_ms, int(now_ms) - self.history_days * DAY_MS + _OVERLAP_MS)
        start_ms = int(now_ms) - length_ms
        while start_ms > oldest_ms:
            end_ms = start_ms + _OVERLAP_MS
            start_ms = max(end_ms - length_ms, oldest_ms)
            yield {"startTime": start_ms, "endTime": end_ms}

    def market_purchase(self, units: str) -> Raw:
        """Return ccxt's further parameters of a purchase of so many units at the market price."""
        made = dict(self.extra)
        if "order_configuration" in made:
            # ccxt would send the money to be spent instead.
            made["order_configuration"] = {"market_market_ioc": {"base_size": units}}
        return made

    def request_fields(self, method: str, stamp_ms: int, window_ms: int) -> Raw:
        """Return the parameters by which a request made at `stamp_ms` lapses."""
        if self.expiry is Expiry.WINDOW:
            return {"timestamp": stamp_ms, "recvWindow": window_ms}
        if self.expiry is Expiry.DEADLINE and method == "create_order":
            until = datetime.fromtimestamp((stamp_ms + window_ms) / 1000, UTC)
            return {"deadline": until.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
        return {}

    def stamp(self, exchange: Any, stamp_ms: int, window_ms: int) -> None:
        """Have a ccxt exchange sign its next requests as made at `stamp_ms`."""
        if self.expiry is Expiry.HEADER:
            exchange.options["recvWindow"] = window_ms
            exchange.nonce = lambda: stamp_ms
        elif self.expiry is Expiry.BACKDATED:
            exchange.nonce = lambda: stamp_ms + window_ms - int(self.fixed_s * 1000)
            # Of a signed token, which ccxt makes valid for 120 s.
            exchange.seconds = lambda: (stamp_ms + window_ms) // 1000 - 120


_DIALECTS = (
    Dialect(
        "binance",
        placing_id="newClientOrderId",
        finding_id="origClientOrderId",
        at_once=True,
        expiry=Expiry.WINDOW,
        pages=Pages.FROM_ID,
        proven=True,
    ),
    Dialect(
        "binanceus",
        placing_id="newClientOrderId",
        finding_id="origClientOrderId",
        at_once=True,
        expiry=Expiry.WINDOW,
        pages=Pages.FROM_ID,
        proven=True,
    ),
    Dialect(
        "kraken",
        id_form=IdForm.UUID,
        lookup=Lookup.LISTS,
        # Or else it may take the fee of a sale from what is held, and ccxt would not say so.
        always={"oflags": "fciq"},
        stop="stopLossPrice",
        expiry=Expiry.DEADLINE,
        # Kraken takes deadlines from 2 s on, and tells its time in whole seconds.
        shortest_s=3.5,
        longest_s=55.0,
        pages=Pages.OFFSET,
        page=50,
        answers_id=False,
        fees_in_cash=True,
        proven=True,
    ),
    Dialect(
        "okx",
        id_form=IdForm.ALPHANUMERIC,
        stop=None,
        expiry=Expiry.BACKDATED,
        fixed_s=30.0,
        longest_s=30.0,
        pages=Pages.BILL,
        page=100,
        # https://www.okx.com/docs-v5, "Get transaction details (last 3 months)".
        history_days=90,
        asks_currencies=False,
        proven=True,
    ),
    Dialect(
        "bybit",
        finding_id="orderLinkId",
        lookup=Lookup.LISTS,
        past="fetch_canceled_and_closed_orders",
        extra={"marketUnit": "baseCoin"},
        unified_only=True,
        stop=None,
        expiry=Expiry.HEADER,
        pages=Pages.CURSOR,
        page=100,
        # https://bybit-exchange.github.io/docs/v5/order/execution and order-list.
        names_order="orderLinkId",
        window_days=7,
        history_days=730,
        mark="t",
        asks_currencies=False,
        proven=True,
    ),
    Dialect(
        "coinbase",
        id_form=IdForm.UUID,
        placing_id="client_order_id",
        extra={"createMarketBuyOrderRequiresPrice": False, "order_configuration": {}},
        finding_id=None,
        lookup=Lookup.SEARCH,
        stop=None,
        expiry=Expiry.BACKDATED,
        # Coinbase tells its time, and is told that of a request, in whole seconds.
        shortest_s=3.5,
        fixed_s=30.0,
        longest_s=30.0,
        pages=Pages.CURSOR,
        page=100,
        fees_in_cash=True,
        options={"fetchMarkets": "fetchMarketsV3", "fetchBalance": "v3PrivateGetBrokerageAccounts"},
        asks_currencies=False,
        proven=True,
    ),
)
HELD = (OrderKind.STOP, OrderKind.OCO)
"""Kinds that are held by us where an exchange does not have them, if the user says so."""
PROVEN = {dialect.exchange: dialect for dialect in _DIALECTS if dialect.proven}
"""Dialects that the tests prove at a hostile venue that speaks them."""


def dialect_of(exchange: str) -> Dialect:
    """Return the dialect of an exchange: its row in the table, or that of an exchange that is not tested."""
    # Where ccxt declares a trigger price, it may mean another order: at Crypto.com a stop sale is sent as a take-profit.
    return PROVEN.get(exchange) or Dialect(exchange, stop=None, answers_id=False)


_NEEDED = {
    "createOrder": "place orders",
    "cancelOrder": "cancel orders",
    "fetchOpenOrders": "list open orders",
    "fetchMyTrades": "list executions",
    "fetchBalance": "tell the account",
}


def missing(has: Raw) -> Sequence[str]:
    """Return what trading needs and the exchange cannot do, according to ccxt's `has`: a line for each."""
    return [f"it cannot {what} (has[{name!r}])" for name, what in _NEEDED.items() if not has.get(name)]


def lacks(dialect: Dialect, has: Raw, features: Raw, market: Raw, *, holds: bool) -> Sequence[str]:
    """Return what cannot be had at the exchange and what is done about it: a line for each.

    Args:
        market: ccxt's, of a symbol to be traded.
        holds: whether stops are held by us.
    """
    lines: list[str] = []
    for kind in OrderKind:
        if why := undeclared(dialect, kind, has, features, market):
            held = holds and kind in HELD
            do = "held here, and sent as a market order once a bar reaches them" if held else "refused before they are sent"
            hint = '; stops="hold" holds them here' if kind in HELD and not holds else ""
            lines.append(f"{kind} orders{' and exits' if kind is OrderKind.OCO else ''}: {do}: {why}{hint}")
    if not dialect.proven:
        lines.append(f"purchases at the market price: refused before they are sent: {_UNSIZED}; limit orders are placed")
    times = [str(time) for time in TimeInForce if time is not TimeInForce.GTC and not (dialect.at_once and time in AT_ONCE)]
    lines.append(f"time in force {', '.join(times)}: refused before they are sent: not tested there")
    if dialect.expiry is Expiry.NONE:
        lines.append("requests do not lapse: an order that is not found after a lost answer needs a person to settle it")
    if not has.get("fetchTime"):
        lines.append("it does not tell its time: the clock of this machine is used")
    if dialect.pages is Pages.LAST:
        lines.append("only its latest executions can be listed: after a long pause, fills may have to be looked up by hand")
    return lines


_UNSIZED = "not tested there, and some exchanges take the units of one for money"


def unsized(dialect: Dialect, order: Order) -> str:
    """Return why the units of an order may be taken for something else at an exchange; empty if they are not."""
    is_purchase = order.side is Side.BUY and order.kind is not OrderKind.LIMIT
    return f"a purchase at the market price is {_UNSIZED}; place a limit order" if is_purchase and not dialect.proven else ""


def untimed(dialect: Dialect, order: Order) -> str:
    """Return why an exchange does not take an order's time in force; empty if it does."""
    time = order.time_in_force
    if order.wrong_time or time is TimeInForce.GTC or (dialect.at_once and time in AT_ONCE and order.kind is OrderKind.LIMIT):
        return order.wrong_time
    can = "gtc, and ioc or fok of a limit order" if dialect.at_once else "gtc"
    return f"time_in_force: expected {can}, was {time} of a {order.kind} order"


def undeclared(dialect: Dialect, kind: OrderKind, has: Raw, features: Raw, market: Raw) -> str:
    """Return what an order kind needs and the exchange does not have; empty if it has all.

    Args:
        has, features: ccxt's, of the exchange. An exchange ignores undeclared parameters without an error: a stop without its
            trigger would become a market order.
        market: ccxt's, of the symbol.
    """
    needed = "createLimitOrder" if kind is OrderKind.LIMIT else "createMarketOrder"
    if not (has.get("createOrder") and has.get(needed)):
        return f"expected has[{needed!r}] in ccxt's description of the exchange"
    if kind is OrderKind.OCO:
        return "it has none that is found and filled under the id it was placed with"
    if kind is not OrderKind.STOP:
        return ""
    if dialect.stop is None and not dialect.proven:
        return "not tested there"
    if dialect.stop is None:
        return "it has none at the market price that is found and filled under the id it was placed with"
    told: Raw = features.get(market.get("type") or "spot") or {}
    if market.get("contract"):
        told = told.get("linear" if market.get("linear") else "inverse") or {}
    heeded: Raw = told.get("createOrder") or {}
    if heeded.get(dialect.stop) is True:
        return ""
    return f"expected features: createOrder: {dialect.stop} in ccxt's description of the exchange"
