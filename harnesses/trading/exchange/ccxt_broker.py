"""A broker for exchanges supported by ccxt: the dialects of `exchange_dialects`, spot; others need `unproven=True`.

Invariant: `find` returns None only once the venue's own clock has passed the time up to which it would accept the order. An
exchange whose requests do not lapse (all that are not in that table) never gives that certainty: an order not found there
raises `UnknownOutcome` until an operator settles it.

Assumptions: the venue refuses requests that have lapsed; its clock never goes back by more than `margin_s`; and an accepted
order is visible within `margin_s`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import trio
from attrs import evolve

from harnesses.errors import HarnessMisuse, UnknownOutcome
from harnesses.trading.exchange.ccxt_client import CcxtClient, CcxtOptions, Raw
from harnesses.trading.exchange.ccxt_translation import (
    CallFailed,
    Verdict,
    exact,
    in_order,
    parse_fill,
    parse_instrument,
    parse_report,
)
from harnesses.trading.exchange.exchange_dialects import (
    HELD,
    PROVEN,
    Lookup,
    Pages,
    lacks,
    missing,
    undeclared,
    unsized,
    untimed,
)
from harnesses.trading.exchange.exchange_fills import Executions
from harnesses.trading.exchange.held_orders import HeldOrders
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.broker import BrokerUnavailable, OrderRefused, VenueAccount
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import (
    AT_ONCE,
    ZERO,
    Fill,
    OrderKind,
    OrderReport,
    OrderStatus,
    PlacedOrder,
    Side,
    exit_of,
)

_REMEMBERED = 10_000
_PAGE = 1000
_PAUSE_S = 0.05
_EARLIER = timedelta(days=2)
"""How long before its order was placed a decision may seem to have been made: bars carry the time of their start."""


class _NotTaken(OrderRefused):
    """The venue has not accepted an order, but may accept it later."""


class CcxtBroker:
    """A broker at one exchange.

    Args:
        exchange: ccxt's id of the exchange.
        unproven: whether to allow an exchange or a type of market that has not been tested: such an exchange may ignore a
            parameter of an order and so place a different order.
        max_wait_s: maximum seconds an order may wait for the venue's rate limit before it counts as refused, because it was
            decided on older market data.
        stops: what is done with a stop order at an exchange that has none at the market price, with an order with two prices
            and with an exit. "refuse" refuses it before it is sent. "hold" holds it here, and sends it as a market order once
            a bar has reached its price: between two bars, and while the program does not run, nothing watches.
    """

    def __init__(
        self,
        exchange: str,
        options: CcxtOptions,
        *,
        unproven: bool = False,
        max_wait_s: float = 5.0,
        stops: Literal["refuse", "hold"] = "refuse",
    ) -> None:
        if stops not in ("refuse", "hold"):
            raise HarnessMisuse(f"ccxt:{exchange}: stops: expected 'refuse' or 'hold', was {stops!r}")
        self.name = f"ccxt:{exchange}"
        self._client = CcxtClient(exchange, options)
        self._dialect = self._client.dialect
        self._unproven = unproven
        self._is_checked = False
        if not (unproven or self._dialect.proven):
            raise HarnessMisuse(
                f"{self.name} is not tested: expected one of {', '.join(sorted(PROVEN))}; at other exchanges a stop may be "
                "executed as a market order, and an order may not be found again; trade at one of those, or accept the "
                "risk with unproven=True"
            )
        if stops == "hold" and not self._client.lapses:
            raise HarnessMisuse(
                f"{self.name}: stops: expected 'refuse', because a market order of unknown outcome is never certain there, "
                "was 'hold'; trade at one of the tested exchanges"
            )
        self._held = HeldOrders() if stops == "hold" else None
        self._deciding = trio.Lock()
        """Of what becomes of held orders: harnesses that share the account see the same bars at the same time."""
        self.lacks: Sequence[str] = ()
        """What cannot be had at this exchange, a line for each; known once it is connected."""
        self._max_wait_s = max_wait_s
        self._sent: OrderedDict[str, float] = OrderedDict()
        """By client id, until when the venue may accept a sent order, in ms of the venue's clock."""
        self._executions = Executions(self._client, self.name)
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
        client, holds = self._client, self._held is not None
        if cannot := missing(client.has):
            raise HarnessMisuse(f"{self.name} cannot be traded at: {'; '.join(cannot)}; choose another exchange")
        tables = [lacks(self._dialect, client.has, client.features, markets[symbol], holds=holds) for symbol in symbols]
        lines = [line for table in tables for line in table]
        self.lacks = tuple(f"{self.name}: {line}" for line in dict.fromkeys(lines))
        mode, in_cash = client.precision_mode, self._dialect.fees_in_cash
        rules = {symbol: parse_instrument(markets[symbol], mode, fees_in_cash=in_cash) for symbol in symbols}
        if not self._dialect.proven:
            self._rehearse(rules[symbols[0]])
        return rules

    def _rehearse(self, rules: Instrument) -> None:
        """Raise `HarnessMisuse` unless ccxt sends the client id with a new order, and with the question about it."""
        client_id, rehearse = "rehearsal-1-0123456789abcdef", self._client.rehearse
        units, price = f"{rules.least_units * 1000:f}", f"{(rules.tick or rules.lot) * 1000:f}"
        params = {self._dialect.placing_id: client_id}
        texts = {
            "a new order": rehearse("create_order", rules.symbol, "limit", "buy", units, price, params=params),
            "the question about an order": rehearse(
                "fetch_order", None, rules.symbol, params={str(self._dialect.finding_id): client_id}
            ),
        }
        for what, text in texts.items():
            if not re.search(rf"(?<![\w-]){client_id}(?![\w-])", text):
                raise HarnessMisuse(
                    f"{self.name} cannot be traded at: ccxt does not send the client id as it is with {what}, so that an "
                    "order of unknown outcome could not be found again; choose another exchange"
                )

    def shape_id(self, client_id: str) -> str:
        """Return the client id that the exchange takes for one of ours; always the same for the same."""
        return self._dialect.shape_id(client_id)

    async def observe(self, market: MarketSlice) -> None:
        await trio.lowlevel.checkpoint()
        if self._held is not None:
            for placed in self._held.observe(market):
                async with self._deciding:
                    if self._held.is_open(placed.client_id):
                        await self._release(placed)

    async def submit(self, placed: PlacedOrder) -> OrderReport:
        await self._get_ready()
        if not self._dialect.takes_id(placed.client_id):
            raise OrderRefused(
                f"order {placed.client_id}: expected {self._dialect.id_form} as its client id at {self.name}; "
                "it was not sent; use `shape_id`"
            )
        if why := untimed(self._dialect, placed.order):
            raise OrderRefused(f"order {placed.client_id}: {self.name} does not take it: {why}; it was not sent")
        if placed.order.has_exit and self._held is None:
            raise OrderRefused(
                f'order {placed.client_id}: {self.name} has no exits: expected stops="hold", which holds them here; '
                "it was not sent"
            )
        if self._is_held(placed):
            assert self._held is not None, "it is held"
            report = self._held.hold(placed)
        else:
            self._check_declared(placed)
            report = await self._place(placed)
        if self._held is not None and (exit := exit_of(placed)) is not None:
            self._held.hold(_sized(exit, ZERO))
        return report

    async def _place(self, placed: PlacedOrder) -> OrderReport:
        """Send an order until it is certain that it was accepted, or refused."""
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
                if error.verdict is Verdict.REFUSED:
                    raise OrderRefused(f"order {placed.client_id}: {self.name} refused it: {error.text}") from error
                if trio.current_time() + pause_s > deadline_s:
                    raise _NotTaken(f"order {placed.client_id}: {self.name} refused it: {error.text}") from error
                # The order was certainly not accepted, so sending it again cannot place it twice.
                await self._recover(error, pause_s)
            else:
                report = parse_report(raw, placed)
                if not report.client_id and not self._dialect.answers_id:
                    # The answer on the connection of the request, which is used for nothing else.
                    report = evolve(report, client_id=placed.client_id)
                if report.client_id != placed.client_id:
                    raise BrokerUnavailable(
                        f"order {placed.client_id}: {self.name} answered for another order: expected its id, "
                        f"was {report.client_id!r:.80}; ask `find`"
                    )
                self._sent.pop(placed.client_id, None)
                return self._noted(report)

    async def cancel(self, client_id: str, symbol: str) -> OrderReport | None:
        await self._get_ready()
        if self._held is not None:
            async with self._deciding:
                if (report := self._held.drop(client_id)) is not None:
                    return report
        return await self._cancel(client_id, symbol)

    async def _cancel(self, client_id: str, symbol: str) -> OrderReport | None:
        """Cancel an order that is not held."""
        failed: CallFailed | None = None
        try:
            venue_id, params = await self._cancel_key(client_id, symbol)
            if venue_id or params:
                await self._ask("cancel_order", venue_id, symbol, params=params)
        except CallFailed as error:
            # Either unknown or no longer open; the query below tells which.
            if error.verdict not in (Verdict.NOT_FOUND, Verdict.REFUSED):
                raise BrokerUnavailable(f"order {client_id}: {self.name} did not cancel it: {error.text}") from error
            failed = error
        report = await self._query(client_id, symbol)
        if failed is not None and report is not None and report.status is OrderStatus.OPEN:
            raise BrokerUnavailable(f"order {client_id}: {self.name} did not cancel it: {failed.text}") from failed
        return report

    async def _cancel_key(self, client_id: str, symbol: str) -> tuple[str | None, Raw]:
        """Return the exchange's own id and the parameters by which an order is cancelled; nothing if it has no such order."""
        if self._dialect.finding_id is not None and self._dialect.proven:
            return None, {self._dialect.finding_id: client_id}
        report = await self._query(client_id, symbol)
        return (report.venue_id, {}) if report is not None and report.status is OrderStatus.OPEN else (None, {})

    async def find(self, placed: PlacedOrder) -> OrderReport | None:
        await self._get_ready()
        if self._is_held(placed):
            async with self._deciding:
                return await self._query(placed.client_id, placed.order.symbol, placed) or await self._find_held(placed)
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

    def _is_held(self, placed: PlacedOrder) -> bool:
        """Return whether an order is held here, because the exchange has none of its kind."""
        if self._held is None:
            return False
        return bool(placed.entry_id) or (placed.order.kind in HELD and bool(self._undeclared(placed)))

    async def _find_held(self, placed: PlacedOrder) -> OrderReport:
        """Return the report on an order that the exchange does not have: it is held, again after a restart."""
        assert self._held is not None, "it is held"
        if placed.entry_id:
            return await self._find_exit(placed)
        report = self._held.hold(placed)
        if report.status is not OrderStatus.OPEN or not self._held.is_reached(placed):
            return report
        # The market order of an earlier program may still arrive.
        return await self._release(placed, again=True)

    async def _find_exit(self, placed: PlacedOrder) -> OrderReport:
        """Return the report on an exit that is not at the exchange: it is held, with what its entry has filled."""
        assert self._held is not None, "it is held"
        was_held = self._held.has(placed.client_id)
        if not was_held:
            # The market order of an earlier program may still arrive.
            await self._wait_until_lapsed(placed.client_id)
            found = await self._query(placed.client_id, placed.order.symbol, placed)
            if found is not None:
                return found
        placed = await self._with_entry(placed)
        report = self._held.hold(placed)
        if report.status is not OrderStatus.OPEN:
            return report
        if placed.entry_ended and not placed.order.units:
            return self._held.drop(placed.client_id, "its entry was not filled") or report
        if was_held or not placed.entry_ended or not self._held.is_reached(placed):
            return report
        return await self._release(placed)

    async def _with_entry(self, placed: PlacedOrder) -> PlacedOrder:
        """Return an exit with the units that its entry has filled so far."""
        assert self._held is not None, "it is held"
        if placed.entry_ended:
            return placed
        if self._held.has(placed.entry_id):
            # Of an entry that is held itself, nothing is filled.
            return evolve(_sized(placed, ZERO), entry_ended=self._held.has_ended(placed.entry_id))
        entry = await self._query(placed.entry_id, placed.order.symbol, _entry_of(placed))
        if entry is None:
            return evolve(_sized(placed, ZERO), entry_ended=True)
        return evolve(_sized(placed, entry.filled), entry_ended=entry.status is not OrderStatus.OPEN)

    async def _without_entry(self, placed: PlacedOrder) -> PlacedOrder:
        """Cancel what is left of the entry of an exit; return the exit with what can be sold of it.

        An exchange may have taken its fee from what was bought.
        """
        assert self._held is not None, "it is held"
        symbol, units = placed.order.symbol, placed.order.units
        if not placed.entry_ended:
            entry = self._held.drop(placed.entry_id) or await self._cancel(placed.entry_id, symbol)
            units = units if entry is None else entry.filled
        market = self._client.markets[symbol]
        balance = await self._certainly("account", "fetch_balance")
        free: Raw = balance["free"]
        instrument = parse_instrument(market, self._client.precision_mode)
        sellable = instrument.round_units(min(units, exact(free.get(market["base"]))))
        return evolve(_sized(placed, sellable), entry_ended=True)

    async def _release(self, placed: PlacedOrder, *, again: bool = False) -> OrderReport:
        """Send a held order as a market order, under its client id, unless the exchange has it already.

        Args:
            again: whether it may have been sent before, so that it is sent only once that order has certainly lapsed.

        Raises:
            BrokerUnavailable: the exchange does not take it now; it is still held.
        """
        assert self._held is not None, "it is held"
        found = await self._query(placed.client_id, placed.order.symbol, placed)
        if found is None and (again or placed.client_id in self._sent):
            await self._wait_until_lapsed(placed.client_id)
            found = await self._query(placed.client_id, placed.order.symbol, placed)
        if found is None:
            placed = await self._without_entry(placed) if placed.entry_id else placed
            if not placed.order.units:
                return self._held.refuse(placed, "nothing of it is free to be sold")
            order = evolve(placed.order, kind=OrderKind.MARKET, limit_price=None, stop_price=None)
            try:
                found = await self._place(evolve(placed, order=evolve(order, trail=None)))
            except _NotTaken as error:
                raise BrokerUnavailable(f"{error}; the stop is held until {self.name} takes it") from error
            except OrderRefused as error:
                return self._held.refuse(placed, str(error))
        self._held.release(placed.client_id)
        return found

    async def open_orders(self, symbols: Sequence[str]) -> Sequence[OrderReport]:
        await self._get_ready()
        reports: list[OrderReport] = []
        for symbol in symbols:
            orders = await self._certainly("open orders", "fetch_open_orders", symbol)
            reports += [self._noted(parse_report(raw)) for raw in orders]
        return reports if self._held is None else reports + self._held.reports(symbols)

    async def fills(self, symbols: Sequence[str], after: Mapping[str, str]) -> Sequence[Fill]:
        await self._get_ready()
        series: list[list[Fill]] = []
        for symbol in symbols:
            series.append([])
            for raw in await self._executions.after(symbol, after.get(symbol), page=_PAGE):
                client_id = await self._client_id(symbol, raw)
                series[-1].append(parse_fill(raw, client_id, self._client.markets[symbol], self._dialect.mark))
        return in_order(series)

    async def account(self, symbols: Sequence[str]) -> VenueAccount:
        await self._get_ready()
        balance = await self._certainly("account", "fetch_balance")
        total: Raw = balance["total"]
        held = {symbol: exact(total.get(self._client.markets[symbol]["base"])) for symbol in symbols}
        positions = {symbol: units for symbol, units in held.items() if units}
        return VenueAccount(cash=exact(total.get(self._quote(symbols))), positions=positions)

    async def _get_ready(self) -> None:
        try:
            await self._client.get_ready()
            if self._dialect.unified_only and not self._is_checked:
                is_unified = (await self._client.ask("is_unified_enabled", private=True))[1]
                if not is_unified:
                    raise HarnessMisuse(f"{self.name}: expected a unified account, the only kind that is tested; upgrade it")
                self._is_checked = True
        except CallFailed as error:
            raise BrokerUnavailable(f"{self.name} cannot be reached: {error.text}") from error

    def _check_declared(self, placed: PlacedOrder) -> None:
        """Refuse an order before it is sent if the exchange does not declare support for all of its parameters."""
        if why := unsized(self._dialect, placed.order):
            raise OrderRefused(f"order {placed.client_id}: {self.name}: {why}; it was not sent")
        if why := self._undeclared(placed):
            raise OrderRefused(
                f"order {placed.client_id}: {self.name} has no {placed.order.kind} orders in {placed.order.symbol}: {why}; "
                "it was not sent"
            )

    def _undeclared(self, placed: PlacedOrder) -> str:
        client, order = self._client, placed.order
        if order.trail is not None and not order.has_exit:
            return "it has no trailing stop that is tested"
        return undeclared(self._dialect, order.kind, client.has, client.features, client.markets.get(order.symbol, {}))

    async def _send(self, placed: PlacedOrder) -> Raw:
        """Send the one request that places an order."""

        def remember(stamp_ms: int) -> None:
            self._sent[placed.client_id] = stamp_ms + (self._client.window_s + self._client.options.margin_s) * 1000
            if len(self._sent) > _REMEMBERED:
                # For these, `find` waits longer than necessary.
                self._sent.popitem(last=False)

        order = placed.order
        kind = "limit" if order.kind is OrderKind.LIMIT else "market"
        price = f"{order.limit_price:f}" if order.limit_price is not None and kind == "limit" else None
        params = {self._dialect.placing_id: placed.client_id, **self._dialect.always}
        if kind == "market" and order.side is Side.BUY and order.kind is OrderKind.MARKET:
            params |= self._dialect.market_purchase(f"{order.units:f}")
        if order.time_in_force in AT_ONCE:
            params["timeInForce"] = order.time_in_force.upper()
        if order.kind is OrderKind.STOP:
            assert self._dialect.stop is not None, "a kind that the exchange does not have is not sent"
            params[self._dialect.stop] = f"{order.stop_price:f}"
        raw: Raw = await self._client.call(
            "create_order", order.symbol, kind, str(order.side), f"{order.units:f}", price, signed=remember, params=params
        )
        return raw

    async def _recover(self, error: CallFailed, pause_s: float) -> None:
        await trio.sleep(pause_s if error.verdict is Verdict.NOT_NOW else _PAUSE_S)
        try:
            await self._client.read_clock()
        except CallFailed as failed:
            raise _NotTaken(f"{self.name} refused an order, and is out of reach since then: {error.text}") from failed

    async def _wait_until_lapsed(self, client_id: str) -> None:
        """Wait until the venue would no longer accept the order, whichever process sent it."""
        try:
            lapses_ms = self._sent.get(client_id)
            if lapses_ms is None:
                client = self._client
                lapses_ms = await client.read_clock() + (client.window_s + client.options.margin_s) * 1000
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
            raw = await self._look_up(client_id, symbol, placed)
        except CallFailed as error:
            if error.verdict is Verdict.NOT_FOUND:
                return None
            raise BrokerUnavailable(f"order {client_id}: {self.name} does not report on it: {error.text}") from error
        if raw is None:
            return None
        report = parse_report(raw, placed)
        if not report.client_id and self._dialect.lookup is Lookup.QUERY and not self._dialect.proven:
            # The answer to a question in which the id was sent.
            report = evolve(report, client_id=client_id)
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

    async def _look_up(self, client_id: str, symbol: str, placed: PlacedOrder | None) -> Raw | None:
        """Return ccxt's order of a client id; None, or an error, if the venue does not know it."""
        dialect = self._dialect
        if dialect.lookup is Lookup.QUERY:
            order: Raw = await self._ask("fetch_order", None, symbol, params={str(dialect.finding_id): client_id})
            return order
        if dialect.lookup is Lookup.LISTS:
            return await self._look_up_in_lists(client_id, symbol, placed)
        return await self._search(client_id, symbol, placed)

    async def _look_up_in_lists(self, client_id: str, symbol: str, placed: PlacedOrder | None) -> Raw | None:
        """Return the order of a client id from the lists of open and of past orders, these back to its decision, if known."""
        since_ms = 0.0 if placed is None else (placed.decided - _EARLIER).timestamp() * 1000
        # First the open ones: an order that is filled meanwhile is in the second list.
        lists: list[tuple[str, Raw]] = [("fetch_open_orders", {})]
        lists += [(self._dialect.past, window) for window in self._dialect.windows(self._client.now_ms(), since_ms)]
        for method, window in lists:
            params = {str(self._dialect.finding_id): client_id, **window}
            for order in await self._ask(method, symbol, None, None, params=params):
                if order.get("clientOrderId") == client_id:
                    found: Raw = order
                    return found
        return None

    async def _search(self, client_id: str, symbol: str, placed: PlacedOrder | None) -> Raw | None:
        """Return the order of a client id among all orders since it was decided, of the last days if that is not known."""
        known = next((id for (of, id), ours in self._client_ids.items() if ours == client_id and of == symbol and id), None)
        if known is not None:
            order: Raw = await self._ask("fetch_order", known, symbol)
            return order
        since = placed.decided if placed is not None else datetime.fromtimestamp(self._client.now_ms() / 1000, UTC)
        since_ms, cursor = int((since - _EARLIER).timestamp() * 1000), ""
        while True:
            params = {"cursor": cursor} if cursor else None
            page: Sequence[Raw] = await self._ask("fetch_orders", symbol, since_ms, self._dialect.page, params=params)
            for order in page:
                self._noted(parse_report(order))
            if found := [order for order in page if order.get("clientOrderId") == client_id]:
                return found[0]
            cursor = next((str(order["info"]["cursor"]) for order in page if order["info"].get("cursor")), "")
            if not cursor:
                return None

    async def _client_id(self, symbol: str, execution: Raw) -> str:
        """Return the client id of the order of an execution."""
        if self._dialect.names_order is not None:
            return str(execution["info"].get(self._dialect.names_order) or "")
        venue_id = str(execution["order"])
        if (symbol, venue_id) not in self._client_ids and self._dialect.pages is Pages.FROM_ID:
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


def _sized(exit: PlacedOrder, units: Decimal) -> PlacedOrder:
    return evolve(exit, order=evolve(exit.order, units=units))


def _entry_of(exit: PlacedOrder) -> PlacedOrder:
    """Return the entry of an exit as far as it must be known to look it up."""
    side = Side.SELL if exit.order.side is Side.BUY else Side.BUY
    return evolve(exit, client_id=exit.entry_id, order=evolve(exit.order, side=side, kind=OrderKind.MARKET))
