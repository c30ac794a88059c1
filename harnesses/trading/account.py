"""The account of a trading harness: how market slices, fills and order reports change its state. No I/O.

    take_slice    applies splits, the price jump guard and indicators
    take_bars     keeps the bars that the strategy sees
    take_fills    applies fills to the book and losses to the risk
    exposures     computes what screening needs for each symbol
    ask           builds the market that the strategy is asked about

A close that jumps is neither believed nor traded at. The account then remembers two prices: the last believed one and the one
that jumped. The next close is compared with the nearer of the two, so that the next bar either discards a wrong tick or
confirms a real fall.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, localcontext

from attrs import evolve

from harnesses.data.frozen_dict import FrozenDict
from harnesses.trading.account_model import Execution, OpenOrder, Price, TradingState
from harnesses.trading.exposure import Exposure
from harnesses.trading.indicators import Indicators, Standing, Standings, after_bar, after_split, values
from harnesses.trading.market.bars import Bar, MarketSlice
from harnesses.trading.market.broker import VenueAccount
from harnesses.trading.market.buying_power import Pending, held_against, power, reserved
from harnesses.trading.market.instruments import EXACT, Instrument
from harnesses.trading.market.orders import (
    ONE,
    ZERO,
    Fill,
    Order,
    OrderKind,
    OrderReport,
    OrderStatus,
    PlacedOrder,
    Replace,
    Side,
    Source,
)
from harnesses.trading.position_book import Book, Position
from harnesses.trading.risk import Limits, Risk, after_loss
from harnesses.trading.strategies import Market, Quote, Strategy
from harnesses.trading.timeframes import Series, after_candle, series_after_split, views

_LATE = 10
"""Maximum slices to wait for the missing fills of an ended order: units that the venue's last report counts as filled."""


def take_slice(state: TradingState, market: MarketSlice, indicators: Indicators, limits: Limits) -> TradingState:
    """Return the state after a slice: splits, marks and indicators applied."""
    book, prices, standings, risk, open_orders = state.book, dict(state.prices), dict(state.standings), state.risk, state.open
    for symbol, bar in market.bars.items():
        before = prices.get(symbol)
        if bar.split != ONE:
            book = book.after_split(symbol, bar.split) if book else None
            before = before and Price(before.close / bar.split, before.mark / bar.split)
            standings[symbol] = FrozenDict(after_split(indicators, standings.get(symbol, {}), float(bar.split)))
        prices[symbol], known = take_bar(before, standings.get(symbol, {}), bar, indicators, limits.max_jump)
        if before is None and book is not None:
            book, risk = _first_valued(book, risk, symbol, bar.close)
        if known is not None:
            standings[symbol] = FrozenDict(known)
    if open_orders:
        waited = {id: one if one.is_open else evolve(one, late=one.late + 1) for id, one in open_orders.items()}
        open_orders = {id: one for id, one in waited.items() if one.late <= _LATE}
    # Not by `evolve`, which takes three times as long: this is made for every bar.
    return TradingState(
        book=book,
        risk=risk,
        time=market.time,
        prices=FrozenDict(prices),
        standings=FrozenDict(standings),
        open=open_orders,
        asked=state.asked,
        salt=state.salt,
        gaps_s=with_gap(state.gaps_s, state.time, market.time),
        series=state.series,
    )


def take_bar(
    before: Price | None, standings: Standings, bar: Bar, indicators: Indicators, max_jump: Decimal
) -> tuple[Price, dict[str, Standing] | None]:
    """Return the price of a symbol after a bar without a split, and the standings, None if the price is not believed."""
    price, compared = _compared(before, bar, max_jump)
    if not price.believed:
        return price, None
    return price, after_bar(indicators, standings, bar, None if compared is None else float(compared))


def withheld_bars(slices: Iterable[MarketSlice], max_jump: Decimal) -> Iterator[tuple[datetime, str]]:
    """Yield time and symbol of each bar whose close is not believed, in the order of the slices."""
    prices: dict[str, Price] = {}
    for market in slices:
        for symbol, bar in market.bars.items():
            before = prices.get(symbol)
            before = before and Price(before.close / bar.split, before.mark / bar.split)
            prices[symbol], _ = _compared(before, bar, max_jump)
            if not prices[symbol].believed:
                yield market.time, symbol


def with_gap(gaps_s: tuple[float, ...], before: datetime | None, time: datetime) -> tuple[float, ...]:
    """Return the seconds between the last slices after one more."""
    return (*gaps_s, (time - before).total_seconds())[-2:] if before else ()


def take_bars(state: TradingState, market: MarketSlice, strategy: Strategy) -> TradingState:
    """Return the state after `take_slice` with the bars that a strategy sees, of believed prices."""
    known, frames = dict(state.series), strategy.timeframes
    for symbol, bar in market.bars.items():
        series = known.get(symbol) or Series()
        if bar.split != ONE:
            series = series_after_split(series, bar.split, frames)
        known[symbol] = (
            after_candle(series, market.time, bar, strategy.bars, frames) if state.prices[symbol].believed else series
        )
    return evolve(state, series=FrozenDict(known))


def with_splits(book: Book, market: MarketSlice | None) -> Book:
    """Return a book with the splits of a slice applied."""
    for symbol, bar in market.bars.items() if market else ():
        if bar.split != ONE:
            book = book.after_split(symbol, bar.split)
    return book


def take_fills(
    state: TradingState, fills: Iterable[Fill], sources: Mapping[str, Source], limits: Limits
) -> tuple[TradingState, list[Execution]]:
    """Return the state with fills applied to its book, and the new fills.

    Args:
        sources: by client id, who wanted each of our orders.
    """
    book, risk, waiting, executions = state.book, state.risk, dict(state.open), list[Execution]()
    assert book is not None, "nothing is filled before the books are open"
    for fill in fills:
        after = book.after(fill)
        if after is book:
            continue
        if held_against(book.units(fill.symbol), fill.side) and after.realised - book.realised < fill.fee:
            risk = after_loss(risk, limits, fill.symbol, fill.time)
        book = after
        if fill.client_id in waiting:
            one = evolve(waiting[fill.client_id], seen=waiting[fill.client_id].seen + fill.units)
            waiting[fill.client_id] = one
        wanted_by = Source.VENUE if fill.reason else sources.get(fill.client_id)
        executions.append(Execution(fill, Source.VENUE, wanted_by))
    if not executions:
        return state, executions
    return evolve(state, book=book, risk=risk, open=_awaited(waiting)), executions


def adopt(state: TradingState, account: VenueAccount, last_fill: Mapping[str, str]) -> TradingState:
    """Return the state with the venue's account as its book; holdings count as bought at the current price."""
    marks = {symbol: price.mark for symbol, price in state.prices.items()}
    with localcontext(EXACT):
        positions = {symbol: Position(units, units * marks.get(symbol, ZERO)) for symbol, units in account.positions.items()}
    before = state.book or Book(ZERO)
    book = evolve(before, cash=account.cash, positions=positions, last_fill=dict(last_fill), financing=account.financing)
    counted = {id: evolve(one, seen=one.report.filled) for id, one in state.open.items()}
    state = evolve(state, book=book, open=_awaited(counted))
    if state.risk.high_water:
        return state
    return evolve(state, risk=Risk(high_water=state.equity, equity=state.equity))


def exposures(state: TradingState, instruments: Mapping[str, Instrument], market: MarketSlice | None) -> dict[str, Exposure]:
    """Return the current and possible holdings of each symbol.

    Args:
        market: the slice to trade at; None uses the last prices, between two slices.
    """
    waiting = tuple(state.open.values())
    return {symbol: _exposure(state, instrument, market, waiting) for symbol, instrument in instruments.items()}


def free_cash(state: TradingState) -> Decimal:
    """Return the cash not reserved by open orders."""
    buys = [one for one in state.open.values() if one.placed.order.side is Side.BUY]
    with localcontext(EXACT):
        return state.cash - sum((one.left * _price_of(one, state) for one in buys), ZERO)


def buying_power(state: TradingState, instruments: Mapping[str, Instrument]) -> Decimal | None:
    """Return the buying power that open orders do not need; None for an account without margin."""
    margin = next((one.margin for one in instruments.values()), None)
    if margin is None or state.book is None:
        return None
    with localcontext(EXACT):
        held = {symbol: one.units for symbol, one in state.book.positions.items() if one.units}
        marks = {symbol: state.prices[symbol].mark for symbol in held if symbol in state.prices}
        orders = [_pending(one, state, instruments) for one in state.open.values() if one.left] if state.open else []
        return power(margin, state.book.cash, held, marks) - (reserved(margin, held, orders) if orders else ZERO)


def _pending(order: OpenOrder, state: TradingState, instruments: Mapping[str, Instrument]) -> Pending:
    want, mark = order.placed.order, _price_of(order, state)
    instrument = instruments.get(want.symbol) or Instrument(want.symbol)
    price = mark if want.kind is OrderKind.LIMIT else instrument.taker_price(mark, buys=want.side is Side.BUY)
    fee = instrument.charges.of(order.left, price)
    return Pending(want.symbol, want.side, order.left, mark, price, fee, order.placed.only_closes)


def ask(
    state: TradingState,
    market: MarketSlice,
    strategy: Strategy,
    known: Mapping[str, Exposure],
    *,
    equity: Decimal,
    previous: datetime | None,
    buying_power: Decimal | None = None,
) -> Market:
    """Return the market that the strategy is asked about: every symbol that may be traded now."""
    standings, series = state.standings, state.series
    quotes = {
        symbol: quote_of(
            strategy,
            one.instrument.lot,
            market.bars[symbol],
            one.units,
            standings.get(symbol, {}),
            series.get(symbol),
            pending=one.buying - one.selling,
            selling=one.selling,
        )
        for symbol, one in known.items()
        if one.price is not None
    }
    orders = tuple(one for one in state.open.values() if one.is_open) if state.open else ()
    positions: Mapping[str, Position] = state.book.positions if state.book else {}
    return Market(market.time, quotes, state.cash, equity, previous, orders, positions, buying_power)


def quote_of(
    strategy: Strategy,
    lot: Decimal,
    bar: Bar,
    units: Decimal,
    standings: Standings,
    series: Series | None,
    *,
    pending: Decimal = ZERO,
    selling: Decimal = ZERO,
) -> Quote:
    """Return what a strategy sees of a symbol at a bar whose close is believed."""
    numbers = values(strategy.indicators, standings)
    if series is None:
        return Quote(bar.close, units, numbers, pending, lot, bar, selling=selling)
    frames = views(series, strategy.timeframes)
    return Quote(bar.close, units, numbers, pending, lot, bar, series.candles, frames, selling)


def replacements(
    wishes: Iterable[Replace], seen: Mapping[str, OpenOrder], cancelled: Mapping[str, OrderReport | None]
) -> list[Order]:
    """Return the orders that are wanted instead of cancelled ones, less what those have filled since they were seen.

    Args:
        seen: the open orders that the strategy knew of, by client id.
        cancelled: the venue's reports on those that are cancelled, by client id; None if it does not have the order.
    """
    orders: list[Order] = []
    for wish in wishes:
        known, report = seen.get(wish.client_id), cancelled.get(wish.client_id)
        if known is None or report is None or report.filled >= report.units or report.status is OrderStatus.OPEN:
            continue
        units = wish.order.units - (report.filled - known.report.filled)
        orders += [evolve(wish.order, units=units)] if units > 0 else []
    return orders


def average_costs(book: Book) -> dict[str, Decimal]:
    """Return the average cost per unit of each position; of a short one what a unit was sold for."""
    return {symbol: one.cost / one.units for symbol, one in book.positions.items() if one.units}


def with_report(state: TradingState, placed: PlacedOrder, report: OrderReport) -> TradingState:
    """Return the state after a report on one of our orders; an order is kept as long as it may still be filled."""
    known = state.open.get(placed.client_id)
    others = {id: one for id, one in state.open.items() if id != placed.client_id}
    others[placed.client_id] = evolve(known, report=report) if known else OpenOrder(placed, report)
    return evolve(state, open=_awaited(others))


def _awaited(orders: Mapping[str, OpenOrder]) -> dict[str, OpenOrder]:
    """Return the orders that may still be filled or have fills missing."""
    return {id: one for id, one in orders.items() if one.is_open or one.left}


def _first_valued(book: Book, risk: Risk, symbol: str, close: Decimal) -> tuple[Book, Risk]:
    """Return book and risk after the first price of a symbol: units adopted without a price count as bought at it."""
    position = book.positions.get(symbol, Position())
    if not position.units or position.cost:
        return book, risk
    with localcontext(EXACT):
        value = position.units * close
        book = evolve(book, positions={**book.positions, symbol: evolve(position, cost=value)})
        return book, evolve(
            risk,
            equity=risk.equity + value,
            high_water=risk.high_water + value,
            day_start_equity=risk.day_start_equity + value,
        )


def _compared(before: Price | None, bar: Bar, max_jump: Decimal) -> tuple[Price, Decimal | None]:
    """Return the price after a bar, and the earlier price it was compared with."""
    if before is None:
        return Price(bar.close, bar.close), None
    compared = before.mark
    if before.close is not compared:
        compared = min(before.mark, before.close, key=lambda price: abs(bar.close - price))
    if abs(bar.close - compared) > compared * max_jump:
        return Price(bar.close, before.mark), compared
    return Price(bar.close, bar.close), compared


def _exposure(
    state: TradingState, instrument: Instrument, market: MarketSlice | None, waiting: Sequence[OpenOrder]
) -> Exposure:
    symbol = instrument.symbol
    price = state.prices.get(symbol)
    traded = price is not None and (market is None or symbol in market.bars)
    units = state.book.units(symbol) if state.book else ZERO
    mark = price.mark if price and traded and price.believed else None
    why_not = "price jumped" if traded else "no bar"
    if not waiting:
        return Exposure(instrument, units, mark, why_not, buying_cost=ZERO)
    ours = [one for one in waiting if one.placed.order.symbol == symbol]
    buys = [one for one in ours if one.placed.order.side is Side.BUY]
    return Exposure(
        instrument=instrument,
        units=units,
        price=mark,
        why_not=why_not,
        buying=sum((one.left for one in buys), ZERO),
        selling=sum((one.left for one in ours if one.placed.order.side is Side.SELL), ZERO),
        buying_cost=sum((one.left * _price_of(one, state) for one in buys), ZERO),
    )


def _price_of(order: OpenOrder, state: TradingState) -> Decimal:
    want = order.placed.order
    known = state.prices.get(want.symbol)
    return want.worst_price or (known.mark if known else ZERO)
