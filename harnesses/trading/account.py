"""Money and positions: what a day of the market and an agent's orders make of them. Pure.

The laws: cash is never negative, no position is ever short, whole units are bought, and once the drawdown has passed its
limit everything is sold and nothing is ever bought again.

    open_day    splits, the guard against jumping prices, the index, the high-water mark, the limit on drawdown
    market      what the agent is asked about
    close_day   the orders, cut to what cash and positions allow, filled at the day's close
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from enum import StrEnum

from attrs import evolve, field, frozen

from harnesses.errors import HarnessMisuse
from harnesses.trading.bars import Bar, MarketDay
from harnesses.trading.rsi import Rsi

ZERO, ONE = Decimal(0), Decimal(1)


class Action(StrEnum):
    """What to do with a symbol."""

    BUY = "BUY"
    SELL = "SELL"
    HOLD = "HOLD"


@frozen
class Limits:
    """What no agent can go beyond."""

    max_drawdown: Decimal = ONE
    """The part of the highest equity that may be lost; 1 sets no limit."""
    max_jump: Decimal = Decimal("0.4")
    """A close further than this part from the one before is not believed, nor traded at, until the next confirms it."""


@frozen
class Holding:
    """What is held, and known, of one symbol."""

    units: Decimal = ZERO
    close: Decimal | None = None
    """The last close, for the guard to compare with."""
    mark: Decimal | None = None
    """The price that the units are valued at: the last close that was no jump."""
    rsi: Rsi = field(factory=Rsi)


@frozen
class TradingState:
    """Everything a trading harness needs to go on. Its size depends on the number of symbols alone."""

    cash: Decimal
    holdings: Mapping[str, Holding]
    high_water: Decimal
    """The highest equity at the end of a day so far."""
    last_day: date | None = None
    """The day of the last step; the next step is about the first day after it."""
    halted: bool = False
    """Whether the limit on drawdown has been passed. There is no way back."""

    @property
    def equity(self) -> Decimal:
        """Cash, and what the holdings are worth."""
        return self.cash + sum((one.units * one.mark for one in self.holdings.values() if one.mark is not None), ZERO)


@frozen
class Signal:
    """What the agent is told of one symbol that it may trade."""

    close: Decimal
    rsi: float | None
    """None until there are prices enough."""
    units: Decimal


@frozen
class Market:
    """What the agent is asked about: one day, after its close."""

    day: date
    signals: Mapping[str, Signal]
    """By symbol; one that did not trade, or whose price is not believed, is missing."""
    cash: Decimal
    equity: Decimal


@frozen
class Order:
    """What the agent wants to do with one symbol."""

    action: Action = Action.HOLD
    amount: Decimal = ZERO
    """Units; what cash or the position does not allow is cut off."""
    reason: str = ""


@frozen
class Trade:
    """What was decided and done with one symbol on one day."""

    action: Action
    amount: Decimal
    """Units bought or sold; 0 for HOLD, and if cash or position allowed none."""
    price: Decimal | None
    """The day's close; None without a bar."""
    rsi: float | None
    reason: str


@frozen
class TradingOutput:
    """What a step has to say: a trade for each symbol, and the account after them."""

    trades: Mapping[str, Trade]
    cash: Decimal
    equity: Decimal
    halted: bool


def open_account(cash: Decimal, symbols: tuple[str, ...]) -> TradingState:
    """Return the state before the first day."""
    return TradingState(cash, {symbol: Holding() for symbol in symbols}, cash)


def open_day(state: TradingState, day: MarketDay, limits: Limits) -> TradingState:
    """Return the state at the day's prices, before any order: indexes, marks, high-water mark, and whether to halt."""
    known = {symbol: state.holdings.get(symbol, Holding()) for symbol in (*state.holdings, *day.bars)}
    holdings = {
        symbol: _take(holding, day.bars[symbol], limits.max_jump) if symbol in day.bars else holding
        for symbol, holding in known.items()
    }
    state = evolve(state, holdings=holdings, last_day=day.day)
    high_water = max(state.high_water, state.equity)
    halted = state.halted or state.equity < high_water * (ONE - limits.max_drawdown)
    return evolve(state, high_water=high_water, halted=halted)


def market(state: TradingState, day: MarketDay) -> Market:
    """Return what the agent is asked about. Takes the state that `open_day` gave."""
    signals = {
        symbol: Signal(bar.close, state.holdings[symbol].rsi.value, state.holdings[symbol].units)
        for symbol, bar in day.bars.items()
        if _believed(state.holdings[symbol])
    }
    return Market(day.day, signals, state.cash, state.equity)


def close_day(state: TradingState, day: MarketDay, orders: Mapping[str, Order]) -> tuple[TradingState, TradingOutput]:
    """Return the state after the orders, and what was done. Takes the state that `open_day` gave.

    Sales come first, so that what they bring in can be spent. Of a halted account the orders do not matter.

    Raises:
        HarnessMisuse: an order is for an unknown symbol, or its amount is no number of units.
    """
    for symbol, order in orders.items():
        _check(symbol, order, state)
    effective = {symbol: _effective(state, symbol, day, orders) for symbol in state.holdings}
    trades: dict[str, Trade] = {}
    for symbol in sorted(effective, key=lambda symbol: effective[symbol].action is not Action.SELL):
        state, trades[symbol] = _fill(state, symbol, effective[symbol], day.bars.get(symbol))
    trades = {symbol: trades[symbol] for symbol in effective}
    return state, TradingOutput(trades, state.cash, state.equity, state.halted)


def _take(holding: Holding, bar: Bar, max_jump: Decimal) -> Holding:
    """Return the holding after a bar of its symbol: split, then compared with the price before it.

    After a jump there are two: the one last believed and the one that jumped. The nearer one counts, so that a wrong tick
    is forgotten, and a true fall believed, with the next bar.
    """
    holding = _split(holding, bar.split)
    if holding.close is None or holding.mark is None:
        return evolve(holding, close=bar.close, mark=bar.close)
    before = min(holding.mark, holding.close, key=lambda price: abs(bar.close - price))
    change = bar.close - before
    if abs(change) > before * max_jump:
        return evolve(holding, close=bar.close)
    return evolve(holding, close=bar.close, mark=bar.close, rsi=holding.rsi.after(float(change)))


def _split(holding: Holding, units: Decimal) -> Holding:
    if units == ONE or holding.close is None or holding.mark is None:
        return holding
    rsi = holding.rsi.after_split(float(units))
    return Holding(holding.units * units, holding.close / units, holding.mark / units, rsi)


def _believed(holding: Holding) -> bool:
    return holding.close is not None and holding.mark == holding.close


def _effective(state: TradingState, symbol: str, day: MarketDay, orders: Mapping[str, Order]) -> Order:
    """Return the order that counts: none without a price to trade at, and once halted, to sell what there is."""
    holding = state.holdings[symbol]
    if state.halted and not holding.units:
        return Order(reason="halted")
    if symbol not in day.bars:
        return Order(reason="no bar")
    if not _believed(holding):
        return Order(reason="price jumped")
    if state.halted:
        return Order(Action.SELL, holding.units, "halted: drawdown")
    return orders.get(symbol, Order())


def _fill(state: TradingState, symbol: str, order: Order, bar: Bar | None) -> tuple[TradingState, Trade]:
    """Return the state after an order, and the trade it came to."""
    holding = state.holdings[symbol]
    amount = _possible(state, holding, order)
    change = amount if order.action is Action.BUY else -amount
    if bar is not None and amount:
        holdings = {**state.holdings, symbol: evolve(holding, units=holding.units + change)}
        state = evolve(state, cash=state.cash - change * bar.close, holdings=holdings)
    return state, Trade(order.action, amount, bar.close if bar else None, holding.rsi.value, order.reason)


def _possible(state: TradingState, holding: Holding, order: Order) -> Decimal:
    """Return how many units of an order cash and position allow."""
    if order.action is Action.SELL:
        return min(order.amount, holding.units)
    if order.action is Action.HOLD or holding.mark is None:
        return ZERO
    return min(order.amount // ONE, state.cash // holding.mark)


def _check(symbol: str, order: Order, state: TradingState) -> None:
    if symbol not in state.holdings:
        raise HarnessMisuse(f"order for {symbol!r}: expected one of {', '.join(state.holdings)}; the feed has no such symbol")
    if not order.amount.is_finite() or order.amount < 0:
        raise HarnessMisuse(f"order for {symbol!r}: expected an amount from 0 up, was {order.amount}; to sell, say SELL")
