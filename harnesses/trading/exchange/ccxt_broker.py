"""A broker for exchanges supported by ccxt. Tested with Binance spot only; others need `unproven=True`.

Invariant: `find` returns None only once the venue's own clock has passed the time up to which it would accept the order. An
exchange whose requests do not expire (all except `ccxt_client.LAPSING`) never gives that certainty: an order not found there
raises `UnknownOutcome` until an operator settles it.

Assumptions: the venue refuses requests after `timestamp + recvWindow`; its clock never goes back by more than `margin_s`; and
an accepted order is visible within `margin_s`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import trio
from attrs import evolve

from harnesses.errors import HarnessMisuse, UnknownOutcome
from harnesses.trading.exchange.ccxt_client import LAPSING, CcxtClient, CcxtOptions, Raw
from harnesses.trading.exchange.ccxt_translation import (
    CallFailed,
    Verdict,
    exact,
    in_order,
    parse_fill,
    parse_instrument,
    parse_report,
    undeclared,
)
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.broker import BrokerUnavailable, OrderRefused, VenueAccount
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import Fill, OrderKind, OrderReport, PlacedOrder

_REMEMBERED = 10_000
_PAGE = 1000
_PAUSE_S = 0.05


class CcxtBroker:
    """A broker at one exchange.

    Args:
        exchange: ccxt's id of the exchange.
        unproven: whether to allow an exchange or a type of market that has not been tested: such an exchange may ignore a
            parameter of an order and so place a different order.
        max_wait_s: maximum seconds an order may wait for the venue's rate limit before it counts as refused, because it was
            decided on older market data.
    """

    def __init__(self, exchange: str, options: CcxtOptions, *, unproven: bool = False, max_wait_s: float = 5.0) -> None:
        self.name = f"ccxt:{exchange}"
        self._client = CcxtClient(exchange, options)
        self._unproven = unproven
        self._max_wait_s = max_wait_s
        self._sent: OrderedDict[str, float] = OrderedDict()
        """By client id, until when the venue may accept a sent order, in ms of the venue's clock."""
        self._client_ids: OrderedDict[tuple[str, str], str] = OrderedDict()
        """Client ids by symbol and the venue's order id."""

    async def connect(self, symbols: Sequence[str]) -> Mapping[str, Instrument]:
        await self._get_ready()
        markets = self._client.markets
        if unknown := [symbol for symbol in symbols if symbol not in markets]:
            raise HarnessMisuse(f"{self.name} has no market {unknown[0]!r}: expected one of its symbols, such as 'BTC/USDT'")
        if not self._unproven and (other := [symbol for symbol in symbols if not markets[symbol].get("spot")]):
            raise HarnessMisuse(
                f"{self.name}: {other[0]!r} is a market of type {markets[other[0]].get('type')!r}: expected spot, "
                "the only type that is tested; trade a spot market, or accept the risk with unproven=True"
            )
        self._quote(symbols)
        return {symbol: parse_instrument(markets[symbol], self._client.precision_mode) for symbol in symbols}

    async def observe(self, market: MarketSlice) -> None:
        await trio.lowlevel.checkpoint()

    async def submit(self, placed: PlacedOrder) -> OrderReport:
        await self._get_ready()
        self._check_declared(placed)
        deadline_s = trio.current_time() + self._max_wait_s
        while True:
            try:
                raw = await self._send(placed)
            except CallFailed as error:
                if error.verdict in (Verdict.UNKNOWN, Verdict.NOT_FOUND):
                    raise BrokerUnavailable(
                        f"order {placed.client_id}: it is unknown whether {self.name} accepted it: {error.text}; ask `find`"
                    ) from error
                self._sent.pop(placed.client_id, None)
                pause_s = 1.0 if error.retry_after_s is None else error.retry_after_s
                if error.verdict is Verdict.REFUSED or trio.current_time() + pause_s > deadline_s:
                    raise OrderRefused(f"order {placed.client_id}: {self.name} refused it: {error.text}") from error
                # The order was certainly not accepted, so sending it again cannot place it twice.
                await self._recover(error, pause_s)
            else:
                report = parse_report(raw, placed)
                if report.client_id != placed.client_id:
                    raise BrokerUnavailable(
                        f"order {placed.client_id}: {self.name} answered for another order: expected its id, "
                        f"was {report.client_id!r:.80}; ask `find`"
                    )
                self._sent.pop(placed.client_id, None)
                return self._noted(report)

    async def cancel(self, client_id: str, symbol: str) -> OrderReport | None:
        await self._get_ready()
        try:
            await self._ask("cancel_order", None, symbol, params=self._by_client_id(client_id))
        except CallFailed as error:
            # Either unknown or no longer open; the query below tells which.
            if error.verdict is not Verdict.NOT_FOUND:
                raise BrokerUnavailable(f"order {client_id}: {self.name} did not cancel it: {error.text}") from error
        return await self._query(client_id, symbol)

    async def find(self, placed: PlacedOrder) -> OrderReport | None:
        await self._get_ready()
        found = await self._query(placed.client_id, placed.order.symbol, placed)
        if found is not None:
            return found
        if not self._client.lapses:
            raise UnknownOutcome(
                f"order {placed.client_id}: {self.name} does not know it, and does not say until when it might accept it: "
                "expected an exchange whose requests expire; look the order up at the venue, and settle it by hand"
            )
        await self._wait_until_lapsed(placed.client_id)
        found = await self._query(placed.client_id, placed.order.symbol, placed)
        self._sent.pop(placed.client_id, None)
        return found

    async def open_orders(self, symbols: Sequence[str]) -> Sequence[OrderReport]:
        await self._get_ready()
        reports: list[OrderReport] = []
        for symbol in symbols:
            orders = await self._certainly("open orders", "fetch_open_orders", symbol)
            reports += [self._noted(parse_report(raw)) for raw in orders]
        return reports

    async def fills(self, symbols: Sequence[str], after: Mapping[str, str]) -> Sequence[Fill]:
        await self._get_ready()
        series: list[list[Fill]] = []
        for symbol in symbols:
            trades = self._trades_from if self._client.lapses else self._last_trades
            series.append([])
            for raw in await trades(symbol, after.get(symbol)):
                client_id = await self._client_id(symbol, str(raw["order"]))
                series[-1].append(parse_fill(raw, client_id, self._client.markets[symbol]))
        return in_order(series)

    async def account(self, symbols: Sequence[str]) -> VenueAccount:
        await self._get_ready()
        balance = await self._certainly("account", "fetch_balance")
        total: Raw = balance["total"]
        held = {symbol: exact(total.get(self._client.markets[symbol]["base"])) for symbol in symbols}
        positions = {symbol: units for symbol, units in held.items() if units}
        return VenueAccount(cash=exact(total.get(self._quote(symbols))), positions=positions)

    def _by_client_id(self, client_id: str) -> Raw:
        return {"origClientOrderId" if self._client.lapses else "clientOrderId": client_id}

    async def _get_ready(self) -> None:
        if not (self._unproven or self._client.lapses):
            raise HarnessMisuse(
                f"{self.name} is not tested: expected one of {', '.join(sorted(LAPSING))}; at other exchanges a stop may be "
                "executed as a market order, and an order may not be found again; trade at one of those, or accept the "
                "risk with unproven=True"
            )
        try:
            await self._client.get_ready()
        except CallFailed as error:
            raise BrokerUnavailable(f"{self.name} cannot be reached: {error.text}") from error

    def _check_declared(self, placed: PlacedOrder) -> None:
        """Refuse an order before it is sent if the exchange does not declare support for all of its parameters."""
        client, order = self._client, placed.order
        missing = undeclared(order.kind, client.has, client.features, client.markets.get(order.symbol, {}))
        if missing:
            raise OrderRefused(
                f"order {placed.client_id}: {self.name} does not declare {order.kind} orders in {order.symbol}: expected "
                f"{missing} in ccxt's description of the exchange; it was not sent"
            )

    async def _send(self, placed: PlacedOrder) -> Raw:
        """Send the one request that places an order."""

        def remember(stamp_ms: int) -> None:
            options = self._client.options
            self._sent[placed.client_id] = stamp_ms + (options.recv_window_s + options.margin_s) * 1000
            if len(self._sent) > _REMEMBERED:
                # For these, `find` waits longer than necessary.
                self._sent.popitem(last=False)

        order = placed.order
        kind = "limit" if order.kind is OrderKind.LIMIT else "market"
        price = f"{order.limit_price:f}" if order.limit_price is not None and kind == "limit" else None
        params = {"newClientOrderId" if self._client.lapses else "clientOrderId": placed.client_id}
        if order.kind is OrderKind.STOP:
            params["triggerPrice"] = f"{order.stop_price:f}"
        raw: Raw = await self._client.call(
            "create_order", order.symbol, kind, str(order.side), f"{order.units:f}", price, signed=remember, params=params
        )
        return raw

    async def _recover(self, error: CallFailed, pause_s: float) -> None:
        await trio.sleep(pause_s if error.verdict is Verdict.NOT_NOW else _PAUSE_S)
        try:
            await self._client.read_clock()
        except CallFailed as failed:
            raise OrderRefused(f"{self.name} refused an order, and is out of reach since then: {error.text}") from failed

    async def _wait_until_lapsed(self, client_id: str) -> None:
        """Wait until the venue would no longer accept the order, whichever process sent it."""
        try:
            lapses_ms = self._sent.get(client_id)
            if lapses_ms is None:
                options = self._client.options
                lapses_ms = await self._client.read_clock() + (options.recv_window_s + options.margin_s) * 1000
            if await self._client.wait_until(lapses_ms):
                return
        except CallFailed as error:
            raise BrokerUnavailable(f"order {client_id}: {self.name} does not report its time: {error.text}") from error
        raise BrokerUnavailable(
            f"order {client_id}: {self.name}'s clock has not passed the time up to which it would accept it: expected that "
            f"within {self._client.options.patience_s} s; ask again later"
        )

    async def _query(self, client_id: str, symbol: str, placed: PlacedOrder | None = None) -> OrderReport | None:
        """Return the venue's current report on an order; None if it does not know the order."""
        try:
            raw = await self._ask("fetch_order", None, symbol, params=self._by_client_id(client_id))
        except CallFailed as error:
            if error.verdict is Verdict.NOT_FOUND:
                return None
            raise BrokerUnavailable(f"order {client_id}: {self.name} does not report on it: {error.text}") from error
        report = parse_report(raw, placed)
        if report.client_id != client_id:
            raise BrokerUnavailable(
                f"order {client_id}: {self.name} answered for another order: expected its id, was {report.client_id!r:.80}"
            )
        return self._noted(report)

    async def _ask(self, method: str, *args: Any, params: Raw | None = None) -> Any:
        return await self._client.ask(method, *args, private=True, params=params)

    async def _certainly(self, what: str, method: str, *args: Any, params: Raw | None = None) -> Any:
        try:
            return await self._ask(method, *args, params=params)
        except CallFailed as error:
            raise BrokerUnavailable(f"{self.name} does not report the {what}: {error.text}") from error

    async def _trades_from(self, symbol: str, after: str | None) -> Sequence[Raw]:
        """Return all executions of a symbol after an id, reading page by page."""
        trades: list[Raw] = []
        first = 0 if after is None else int(after) + 1
        while True:
            page = await self._certainly("fills", "fetch_my_trades", symbol, None, _PAGE, params={"fromId": first})
            trades += sorted(page, key=lambda raw: int(raw["id"]))
            if len(page) < _PAGE:
                return trades
            first = int(trades[-1]["id"]) + 1

    async def _last_trades(self, symbol: str, after: str | None) -> Sequence[Raw]:
        """Return the executions after an id, for an exchange that reports only the most recent ones."""
        trades: Sequence[Raw] = await self._certainly("fills", "fetch_my_trades", symbol, None, _PAGE)
        ids = [str(raw["id"]) for raw in trades]
        if after in ids:
            return trades[ids.index(after) + 1 :]
        if after is None and len(trades) < _PAGE // 20:
            return trades
        raise BrokerUnavailable(
            f"{self.name} does not report all fills of {symbol}: expected that of {after or 'the beginning'} among the last "
            f"{len(trades)}; look them up at the venue"
        )

    async def _client_id(self, symbol: str, venue_id: str) -> str:
        """Return the client id of an order, which the venue's executions do not contain."""
        if (symbol, venue_id) not in self._client_ids and self._client.lapses:
            # Fetch the later orders too, because the caller asks for the following fills next.
            page = await self._certainly("orders", "fetch_orders", symbol, None, _PAGE, params={"orderId": venue_id})
            for raw in page:
                self._noted(parse_report(raw))
        if (symbol, venue_id) not in self._client_ids:
            raw = await self._certainly("order of a fill", "fetch_order", venue_id, symbol)
            self._noted(evolve(parse_report(raw), venue_id=venue_id, symbol=symbol))
        return self._client_ids[symbol, venue_id]

    def _noted(self, report: OrderReport) -> OrderReport:
        """Remember the client id of the report's order, and return the report."""
        self._client_ids[report.symbol, report.venue_id] = report.client_id
        if len(self._client_ids) > _REMEMBERED:
            self._client_ids.popitem(last=False)
        return report

    def _quote(self, symbols: Sequence[str]) -> str:
        """Return the quote currency that all symbols share."""
        quotes = {str(self._client.markets[symbol]["quote"]) for symbol in symbols}
        if len(quotes) != 1:
            raise HarnessMisuse(f"{self.name}: expected symbols with one quote currency, was {sorted(quotes)}")
        return quotes.pop()
