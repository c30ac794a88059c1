"""The order desk of a trading harness: all communication with the venue.

Invariants: every order is an effect, under a client id derived from harness, step, key and the account's salt, so that no
order is placed twice; an order is sent again only if it was certainly not accepted. The decision is recorded before the first
order of a step is sent. A cancellation is an effect that may be repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
from attrs import evolve

from harnesses.base import BaseHarness
from harnesses.effects.effect import OPEN, Answer, Confirmed, Effect, EffectOutcome, NotDone
from harnesses.errors import HarnessMisuse, Latched, Refused, Waiting
from harnesses.trading.account import adopt, with_report
from harnesses.trading.account_model import Cancelled, Decision, OpenOrder
from harnesses.trading.market.bars import MarketSlice
from harnesses.trading.market.broker import Broker, BrokerUnavailable, OrderRefused
from harnesses.trading.market.feed import Feed, instruments_of
from harnesses.trading.market.instruments import Instrument, Margin
from harnesses.trading.market.orders import (
    Cancel,
    OrderReport,
    OrderStatus,
    PlacedOrder,
    Source,
    client_id_for,
    exit_of,
    salt_of,
)
from harnesses.trading.market_turn import Turn, Verb
from harnesses.trading.order_screening import Wanted
from harnesses.trading.position_book import Book, differences
from harnesses.trading.risk import Limits, after_stop_loss

TRIES = 3
"""Maximum times an order is sent while it is certainly not accepted, and maximum times the account is read."""
_DECIDE = "decide"
_ORDER = "order-"
"""Beginning of the keys of orders; an effect with another key may be one of the agent."""


def has_decided(effects: Iterable[Effect]) -> bool:
    """Return whether an earlier attempt at a step has decided what to order, given the effects of that step."""
    return any(effect.key == _DECIDE and effect.outcome is EffectOutcome.CONFIRMED for effect in effects)


class Desk:
    """Communicates with a venue for one harness, through that harness's effects.

    Args:
        symbols: the traded symbols; the rest of the account is ignored.
    """

    def __init__(self, harness: BaseHarness[Any, Any, Any], broker: Broker, symbols: tuple[str, ...], limits: Limits) -> None:
        self.broker = broker
        self.instruments: Mapping[str, Instrument] = {}
        self._harness = harness
        self._symbols = symbols
        self._limits = limits
        self._decision = Decision(None, datetime.min.replace(tzinfo=UTC))

    @property
    def _is_in_memory(self) -> bool:
        """Whether the venue ends with the program."""
        return not getattr(self.broker, "is_lasting", True)

    @property
    def margin(self) -> Margin | None:
        """The terms at which the venue lends; None if it lends nothing, or before it is connected."""
        return next((one.margin for one in self.instruments.values()), None)

    @property
    def lacks(self) -> tuple[str, ...]:
        """What the venue says that it cannot do, a line for each."""
        return tuple(getattr(self.broker, "lacks", ()))

    # at the start

    async def connect(self, feed: Feed) -> tuple[str, ...]:
        """Connect to the broker and load the rules of the symbols.

        Args:
            feed: tells a simulated venue without instruments what its data say about lots and ticks.

        Returns:
            the symbols whose lot nobody knows: the venue trades them in lots of 1.
        """
        derived: Mapping[str, Instrument] = {}
        if guesses := getattr(self.broker, "guesses", False):
            derived = await instruments_of(feed)
            derive: Callable[[Mapping[str, Instrument]], None] = getattr(self.broker, "derive")  # noqa: B009
            derive(derived)
        self.instruments = await self.broker.connect(self._symbols)
        return tuple(symbol for symbol in self._symbols if guesses and symbol not in derived)

    async def taken_up(self) -> Decision | None:
        """Settle the uncertain effects of earlier attempts at this step; return their decision, or None."""
        known = self._harness.effects
        for effect in known:
            if effect.outcome in OPEN and not effect.idempotent and effect.key.startswith(_ORDER):
                await self._harness.settle(effect.key, self._ask)
        return await self._decide() if has_decided(known) else None

    async def _decide(self) -> Decision:
        """Record what the step decides, and return it; what is on record counts."""
        return await self._harness.once(_DECIDE, self._decided, idempotent=True, in_memory=self._is_in_memory)

    async def foreign(self, known: set[str]) -> tuple[OrderReport, ...]:
        """Return the open orders whose client id is not in `known`."""
        return tuple(report for report in await self.broker.open_orders(self._symbols) if report.client_id not in known)

    @property
    def is_shared(self) -> bool:
        """Whether the account is shared with other harnesses, so that it is the sum of several books."""
        return hasattr(self.broker, "shared")

    async def differences(self, book: Book | None) -> tuple[str, ...]:
        """Return the differences between a book, after new fills, and the venue's account, and those of a shared account."""
        others: Callable[[], Awaitable[tuple[str, ...]]] | None = getattr(self.broker, "differences", None)
        try:
            found = () if others is None else await others()
            fills = await self.broker.fills(self._symbols, book.last_fill) if book else ()
        except HarnessMisuse as error:
            return (str(error),)
        if book is None:
            return found
        book = self._financed(book)
        account = await self.broker.account(self._symbols)
        for fill in fills:
            book = book.after(fill)
        return (*differences(book, account), *found)

    async def salt(self, turn: Turn, now: object) -> None:
        """Create the account's salt, from facts that distinguish it from an earlier account at the same venue."""
        book, orders = turn.state.book, await self.broker.open_orders(self._symbols)
        known = sorted(book.last_fill.items()) if book else []
        taken = getattr(self.broker, "accepted", None)
        open_ids = sorted(report.client_id for report in orders)
        facts = (self._harness.name, turn.state.salt, turn.state.cash, known, open_ids, taken, turn.time, now)
        turn.state = evolve(turn.state, salt=salt_of(*map(str, facts)))

    # what the venue says

    async def observe(self, market: MarketSlice) -> None:
        """Pass a slice to a simulated venue. What a venue knows that outlives the program must not be ahead of the steps."""
        if not self._is_in_memory:
            await self._harness.wait_stored()
        await self.broker.observe(market)

    def take_financing(self, turn: Turn) -> None:
        """Charge the book what the venue's loans have cost up to the slice that it has observed last."""
        book = turn.state.book
        if book is not None and (after := self._financed(book)) is not book:
            turn.state = evolve(turn.state, book=after)

    def _financed(self, book: Book) -> Book:
        total: Decimal | None = getattr(self.broker, "financing", None)
        return book if total is None else book.after_financing(total)

    def pass_quietly(self, book: Book, slices: Sequence[MarketSlice] = ()) -> bool:
        """Pass slices to a simulated venue in which nothing can happen; return False if that is not certain."""
        pass_quietly: Callable[[Sequence[MarketSlice], int], bool] | None = getattr(self.broker, "pass_quietly", None)
        if pass_quietly is None:
            return False
        known = max((int(id) for id in book.last_fill.values() if id.isdecimal()), default=0)
        return pass_quietly(slices, known)

    async def adopt(self, turn: Turn) -> None:
        """Replace the book by the venue's account, as of its last fill."""
        last: dict[str, str] = {}
        take_over: Callable[[], Awaitable[None]] | None = getattr(self.broker, "take_over", None)
        if take_over is not None and any(command.do == Verb.ADOPT for command in turn.commands):
            await take_over()
        for _ in range(TRIES):
            last |= {fill.symbol: fill.fill_id for fill in await self.broker.fills(self._symbols, last)}
            account = await self.broker.account(self._symbols)
            if not await self.broker.fills(self._symbols, last):
                turn.adopted = account
                turn.state = adopt(turn.state, account, last)
                return
        raise BrokerUnavailable(f"{self.broker.name}: fills arrive faster than the account can be read; try again")

    async def refresh(self, turn: Turn) -> None:
        """Update the state of our open orders.

        An order that an earlier attempt of this step began to cancel is still open here, with what it has filled: the strategy
        is asked as it was then, and the cancellation is reported when this attempt makes it again.
        """
        known = turn.state.open
        if not known or not any(order.is_open for order in known.values()):
            return
        still = {report.client_id: report for report in await self.broker.open_orders(self._symbols)}
        for id, order in known.items():
            entry = known.get(order.placed.entry_id)
            # An exit is asked for with its entry, as long as that may be filled.
            if not order.is_open or (entry is not None and entry.is_open):
                continue
            report = still.get(id) or await self.broker.find(_known(order))
            lost = evolve(order.report, status=OrderStatus.CANCELLED, reason="the venue no longer has such an order")
            turn.take_report(order.placed, self._before_cancel(order.placed, report or lost))
            if (exit := exit_of(order.placed)) is not None:
                await self._take_exit(turn, exit, is_refresh=True)

    def _before_cancel(self, placed: PlacedOrder, report: OrderReport) -> OrderReport:
        """Return a report as it was before an earlier attempt began to cancel the order or its entry."""
        keys = {_cancel_key(id) for id in (placed.client_id, placed.entry_id) if id}
        if report.status is OrderStatus.CANCELLED and any(effect.key in keys for effect in self._harness.effects):
            return evolve(report, status=OrderStatus.OPEN, reason="")
        return report

    async def _take_exit(self, turn: Turn, exit: PlacedOrder, *, is_new: bool = False, is_refresh: bool = False) -> None:
        """Take the venue's report on the exit of an order that was just reported on: its units follow from that order's fills.

        Args:
            is_new: whether its entry was not known before; the exit of any other is known, or has ended.
        """
        known = turn.state.open.get(exit.client_id)
        if not (is_new if known is None else known.is_open):
            return
        report = await self.broker.find(exit if known is None else _trailed(exit, known.report))
        if report is None and known is not None:
            report = evolve(known.report, status=OrderStatus.CANCELLED, reason="the venue no longer has such an exit")
        if report is not None:
            turn.take_report(exit, self._before_cancel(exit, report) if is_refresh else report)

    async def take_fills(self, turn: Turn, *, until_decision: bool = False, before: datetime | None = None) -> None:
        """Apply the fills since the last known one, up to a time, to the book; see `Turn.take_fills`."""
        book = turn.state.book
        assert book is not None, "the books are open"
        fills = await self.broker.fills(self._symbols, book.last_fill)
        fills = fills if before is None else [fill for fill in fills if fill.time < before]
        turn.take_fills(fills, self._limits, until_decision=until_decision)

    # requests to the venue

    async def cancel(self, turn: Turn) -> None:
        """Cancel orders that should no longer be filled. Allowed in every risk state; only the kill switch prevents it."""
        if not turn.state.open:
            return
        await self._cancel(turn, turn.to_cancel(lends=self.margin is not None))

    async def withdraw(self, turn: Turn, wishes: Sequence[Cancel]) -> None:
        """Cancel orders that the strategy no longer wants. One that is not open, or named again, is recorded as refused."""
        known, first, refused = turn.state.open, dict[str, Cancel](), list[Cancelled]()
        for wish in wishes:
            one = known.get(wish.client_id)
            if one is not None and one.is_open and wish.client_id not in first:
                first[wish.client_id] = wish
                continue
            again = wish.client_id in first
            symbol = one.placed.order.symbol if one else ""
            why = "an earlier wish of this step is for the same order" if again else _not_open(wish.client_id, one)
            refused.append(Cancelled(wish.client_id, symbol, Source.STRATEGY, wish.reason, refused=why))
        await self._cancel(turn, [(known[id], Source.STRATEGY, wish.reason) for id, wish in first.items()])
        turn.cancelled += refused
        turn.withdrawn += wishes

    async def _cancel(self, turn: Turn, wanted: Sequence[tuple[OpenOrder, Source, str]]) -> None:
        tried = {one.client_id for one in turn.cancelled}
        wanted_ids = {one.placed.client_id for one, _, _ in wanted}
        orders = [one for one in wanted if one[0].placed.client_id not in tried]
        for order, source, why in orders:
            placed = order.placed
            done = Cancelled(placed.client_id, placed.order.symbol, source, why)
            try:
                report: OrderReport | None = await self._harness.once(
                    _cancel_key(placed.client_id),
                    self._send_cancel,
                    placed.client_id,
                    placed.order.symbol,
                    idempotent=True,
                    in_memory=self._is_in_memory,
                )
            except Latched as error:
                turn.latched = self._plain(error)
                turn.cancelled.append(evolve(done, refused=turn.latched))
                continue
            turn.cancelled.append(evolve(done, report=report))
            if report is not None:
                turn.state = with_report(turn.state, placed, report)
                exit = exit_of(placed)
                if exit is not None and exit.client_id not in wanted_ids:
                    await self._take_exit(turn, exit)
        if orders:
            await self.take_fills(turn, until_decision=turn.resumed)

    def placed(self, index: int, wanted: Wanted, turn: Turn) -> PlacedOrder:
        """Return the `index`-th order of the step being made, from 1, with its client id."""
        exit_id = self._client_id(f"{_key(index)}-exit", turn) if wanted.order.has_exit else ""
        return PlacedOrder(self._client_id(_key(index), turn), wanted.order, wanted.source, turn.time, exit_id)

    def _client_id(self, key: str, turn: Turn) -> str:
        harness = self._harness
        client_id = client_id_for(harness.name, harness.current_step + 1, key, turn.state.salt)
        shape: Callable[[str], str] | None = getattr(self.broker, "shape_id", None)
        return client_id if shape is None else shape(client_id)

    async def decide(self, turn: Turn, decision: Decision) -> None:
        """Record the orders to place. The kill switch prevents this, and then no order is placed."""
        self._decision = turn.decision = decision
        if decision.placed:
            try:
                turn.decision = await self._decide()
            except Latched as error:
                turn.latched = self._plain(error)

    async def place(self, turn: Turn, dropped: Mapping[str, str]) -> None:
        """Place the decided orders one by one.

        Args:
            dropped: by client id, why an order is not placed, unless an earlier attempt has begun to place it.
        """
        decision = turn.decision
        assert decision is not None, "there is something to place"
        turn.refused += decision.refused
        begun = {effect.key for effect in self._harness.effects if effect.outcome is not EffectOutcome.NOT_DONE}
        for index, placed in enumerate(decision.placed, 1):
            if _key(index) in begun or not (placed.client_id in dropped or turn.latched):
                await self._place(turn, index, placed)
            elif placed.client_id in dropped:
                turn.refuse(placed, Source.RISK, dropped[placed.client_id])
            else:
                turn.refuse(placed, Source.OPERATOR, turn.latched)
        if decision.placed:
            await self.take_fills(turn)

    async def _place(self, turn: Turn, index: int, placed: PlacedOrder) -> None:
        try:
            report = await self._submitted(index, placed)
        except Refused as error:
            turn.refuse(placed, Source.VENUE, self._plain(error))
        except Latched as error:
            turn.latched = self._plain(error)
            turn.refuse(placed, Source.OPERATOR, turn.latched)
        else:
            is_new = placed.client_id not in turn.state.open
            turn.take_report(placed, report)
            if (exit := exit_of(placed)) is not None:
                await self._take_exit(turn, exit, is_new=is_new)
            if placed.source is Source.RISK and turn.closing is None:
                risk = after_stop_loss(turn.state.risk, self._limits, placed.order.symbol, turn.time)
                turn.state = evolve(turn.state, risk=risk)

    async def _submitted(self, index: int, placed: PlacedOrder) -> OrderReport:
        """Return the venue's report on an order; send it again only if it was certainly not accepted."""
        for tries_left in reversed(range(TRIES)):
            try:
                return await self._harness.once(
                    _key(index), self._send_order, placed, reconcile=self._ask, in_memory=self._is_in_memory
                )
            except (Refused, Waiting):
                raise
            except Exception as error:
                outcomes = {effect.key: effect.outcome for effect in self._harness.effects}
                if outcomes.get(_key(index)) is not EffectOutcome.NOT_DONE:
                    raise
                if not tries_left:
                    raise Refused(f"not accepted in {TRIES} attempts: {error}") from error
        raise HarnessMisuse("an order is tried at least once")

    def _plain(self, error: Exception) -> str:
        """Return an error's message without its place, which the step already records."""
        return str(error).removeprefix(f"harness {self._harness.name!r}, step {self._harness.current_step + 1}: ")

    # effects

    async def _decided(self) -> Decision:
        return self._decision

    async def _send_order(self, placed: PlacedOrder) -> OrderReport:
        return _taken(await self.broker.submit(placed))

    async def _send_cancel(self, client_id: str, symbol: str) -> OrderReport | None:
        return await self.broker.cancel(client_id, symbol)

    async def _ask(self, key: str, placed: PlacedOrder | dict[str, Any]) -> Answer:
        """Return the outcome of an order whose effect is uncertain."""
        report = await self.broker.find(msgspec.convert(placed, PlacedOrder) if isinstance(placed, dict) else placed)
        return NotDone() if report is None else Confirmed(_taken(report))


def _key(index: int) -> str:
    return f"{_ORDER}{index}"


def _cancel_key(client_id: str) -> str:
    return f"cancel-{client_id}"


def _not_open(client_id: str, known: OpenOrder | None) -> str:
    """Return why an order cannot be cancelled."""
    if known is not None:
        return f"it is {known.report.status} already"
    return f"unknown client id {client_id!r:.80}: expected that of one of market.orders"


def _known(order: OpenOrder) -> PlacedOrder:
    """Return an order as it is asked for: a stop that trails is where it was reported last.

    Of an exit whose entry has ended, the units that were reported last are final.
    """
    placed = _trailed(order.placed, order.report)
    if not placed.entry_id:
        return placed
    return evolve(placed, entry_ended=True, order=evolve(placed.order, units=order.report.units))


def _trailed(placed: PlacedOrder, report: OrderReport) -> PlacedOrder:
    if report.stop_price is None:
        return placed
    return evolve(placed, order=evolve(placed.order, stop_price=report.stop_price))


def _taken(report: OrderReport) -> OrderReport:
    """Return the report of an accepted order. Raises `OrderRefused` if it was rejected."""
    if report.status is OrderStatus.REJECTED and not report.filled:
        raise OrderRefused(report.reason or "rejected by the venue")
    return report
