"""Screening: decides which orders may be placed, and how many units of each. No I/O.

Invariants: reducing risk is always allowed (cancellations are not screened); every refusal is reported with its order and
reason; without margin no position becomes short; no cash, or buying power, is spent twice.

    risk state  orders of a strategy            orders of the rules (stop-loss, the sale after a drawdown)
    active      all within the limits           allowed
    reducing    only those reducing a position  allowed
    halted      none                            allowed

    source     may sell when data are stale, or the price is missing or not believed
    strategy   no
    rules      no: they wait for the next believed price
    operator   yes: a person has checked
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal, localcontext

from attrs import evolve, frozen

from harnesses.trading.exposure import Exposure, cost_of, filled_at, text_of, tradable
from harnesses.trading.margin_screening import need_on_margin, possible_on_margin
from harnesses.trading.market.instruments import EXACT, Instrument
from harnesses.trading.market.orders import ONE, ZERO, Order, OrderKind, Side, Source, wrong_exit
from harnesses.trading.risk import Limits, Risk, RiskState, is_stale


@frozen
class Wanted:
    """An order, and who wants it."""

    order: Order
    source: Source = Source.STRATEGY


@frozen
class Refusal:
    """An order, or a part of it, that was not placed."""

    order: Order
    """The order, with the refused units."""
    source: Source
    """Who wanted it."""
    by: Source
    """Who refused it."""
    reason: str


@frozen
class Screening:
    """The result of screening: allowed plus refused units equal the wanted units, apart from rounding."""

    allowed: tuple[Wanted, ...]
    refused: tuple[Refusal, ...]


def past_stop_loss(limits: Limits, exposures: Mapping[str, Exposure], costs: Mapping[str, Decimal]) -> dict[str, Exposure]:
    """Return, by symbol, the positions whose loss exceeds the stop-loss.

    Args:
        costs: by symbol, the average cost of a held unit, or what one that is short was sold for.
    """
    if limits.stop_loss == ONE:
        return {}
    return {
        symbol: exposure
        for symbol, exposure in exposures.items()
        if exposure.price is not None and _is_past(exposure, exposure.price, costs.get(symbol, ZERO), limits.stop_loss)
    }


def _is_past(exposure: Exposure, price: Decimal, cost: Decimal, stop_loss: Decimal) -> bool:
    return price > cost * (ONE + stop_loss) if exposure.units < 0 else price < cost * (ONE - stop_loss)


def stop_loss_orders(limits: Limits, exposures: Mapping[str, Exposure], costs: Mapping[str, Decimal]) -> tuple[Wanted, ...]:
    """Return orders that close all positions beyond their stop-loss, less the units being closed already."""
    return sale_of_all(past_stop_loss(limits, exposures, costs), Source.RISK, stop_loss_reason(limits))


def stop_loss_reason(limits: Limits) -> str:
    """Return the reason given for a stop-loss sale."""
    return f"stop-loss: lost more than {limits.stop_loss} of the cost"


def sale_of_all(exposures: Mapping[str, Exposure], source: Source, why: str) -> tuple[Wanted, ...]:
    """Return sales of all positions, or purchases of short ones, less the units being closed already.

    A remainder below one lot is kept.
    """
    sides = {symbol: Side.BUY if one.units < 0 else Side.SELL for symbol, one in exposures.items()}
    free = {symbol: one.instrument.round_units(one.closable(sides[symbol])) for symbol, one in exposures.items()}
    return tuple(
        Wanted(Order(symbol, sides[symbol], units, reason=why), source) for symbol, units in free.items() if units > 0
    )


def screen(
    wanted: Iterable[Wanted],
    *,
    risk: Risk,
    limits: Limits,
    exposures: Mapping[str, Exposure],
    cash: Decimal,
    time: datetime,
    age_s: float,
    power: Decimal | None = None,
) -> Screening:
    """Return the orders that may be placed, with their units; sales come first, so that their proceeds can be spent.

    With margin, those that close something come first.

    Args:
        cash: cash not reserved by open orders.
        power: buying power not reserved by open orders; None without margin.
        time: time of the slice.
        age_s: age of the slice by the feed's clock, in seconds.
    """
    allowed: list[Wanted] = []
    refused: list[Refusal] = []
    known = dict(exposures)
    payable = cash
    """What the venue would take for orders, with its charges."""
    orders = sorted(wanted, key=lambda one: one.order.side is not Side.SELL)
    if power is not None:
        payable = power
        orders = sorted(wanted, key=lambda one: one.order.symbol not in known or known[one.order.symbol].opens(one.order))
    stopped = {one.order.symbol for one in orders if one.source is Source.RISK}
    for one in orders:
        order, exposure = one.order, known.get(one.order.symbol)
        reason = forbidden(one, risk, limits, exposure, time=time, age_s=age_s)
        reason = reason or _malformed(order, lends=exposure is None or exposure.lends)
        if not reason and exposure is not None:
            order = _in_ticks(order, exposure.instrument)
            reason = _malformed(order, lends=exposure.lends) or _misplaced(order, exposure.price) or _overdue(order, time)
        if not reason and order.symbol in stopped and one.source is Source.STRATEGY and exposure and exposure.opens(order):
            reason = f"it is being {'closed' if exposure.lends else 'sold'} already, because of a limit"
        units = ZERO
        if not reason and exposure is not None:
            if exposure.lends:
                why_not = "" if one.source is Source.OPERATOR else _no_entry(order, risk, time)
                units, reason = possible_on_margin(order, limits, exposure, payable, risk.equity, why_not)
                payable -= need_on_margin(order, units, exposure)
            else:
                units, reason = _possible(order, limits, exposure, (cash, payable), risk.equity)
                cash += _change(order, units, exposure)
                payable += _payment(order, units, exposure)
            known[order.symbol] = _after(exposure, order, units)
            if units:
                allowed.append(evolve(one, order=evolve(order, units=units)))
        if reason:
            refused.append(Refusal(evolve(one.order, units=order.units - units), one.source, Source.RISK, reason))
    return Screening(tuple(allowed), tuple(refused))


def forbidden(one: Wanted, risk: Risk, limits: Limits, exposure: Exposure | None, *, time: datetime, age_s: float) -> str:
    """Return why an order may not be placed at all, whatever its units; empty if it may. Arguments as for `screen`."""
    order = one.order
    if exposure is None:
        return f"{order.symbol!r} is not a symbol of the feed"
    if one.source is Source.OPERATOR:
        return ""
    if one.source is Source.STRATEGY and risk.state is RiskState.HALTED:
        return f"halted: {risk.why}"
    no_entry = _no_entry(order, risk, time) if exposure.opens(order) else ""
    if no_entry and risk.state is RiskState.REDUCING:
        return no_entry
    if is_stale(limits, age_s):
        return f"stale data: {age_s:.0f} s old, {limits.max_age_s:g} s allowed"
    if exposure.price is None:
        return exposure.why_not
    return no_entry


def _no_entry(order: Order, risk: Risk, time: datetime) -> str:
    """Return why an order may not open a position; empty if it may."""
    if risk.state is RiskState.REDUCING:
        return f"reducing: {risk.why}"
    if order.symbol in risk.cooldowns and time < risk.cooldowns[order.symbol]:
        return f"cooling down after a loss until {risk.cooldowns[order.symbol]:%Y-%m-%d %H:%M:%S}"
    return ""


def _malformed(order: Order, *, lends: bool) -> str:
    """Return what is invalid about an order itself; empty if nothing is."""
    if not (order.units.is_finite() and order.units > 0):
        return f"expected units above 0, was {order.units}; use the side to sell"
    for kind, price in ((OrderKind.LIMIT, order.limit_price), (OrderKind.STOP, order.stop_price)):
        if order.kind in (kind, OrderKind.OCO) and not _is_price(price):
            return f"a {order.kind} order needs a {kind}_price above 0, was {price}"
    if why := order.wrong_time or order.wrong_trail:
        return why
    if not order.has_exit:
        return wrong_exit(order) if order.kind is OrderKind.OCO else ""
    for name, price in (("take_profit", order.take_profit), ("stop_loss", order.stop_loss)):
        if price is not None and not _is_price(price):
            return f"expected a {name} above 0, was {price}"
    if order.side is Side.SELL and not lends:
        return "only a purchase can have an exit: no position becomes short"
    return wrong_exit(order)


def _misplaced(order: Order, price: Decimal | None) -> str:
    """Return which price of a bracket or trail is on the wrong side of the price that the strategy saw; empty if none is.

    An entry is expected at its own price, or at the market's if that is better for a limit, or beyond a stop.
    """
    if price is None:
        return ""
    what, buys = "the last close", order.side is Side.BUY
    above, below = ("above", "below") if buys else ("below", "above")
    limit = order.limit_price if order.kind is OrderKind.LIMIT and order.has_exit else None
    stop = order.stop_price if order.kind is OrderKind.STOP and order.has_exit else None
    if limit is not None and (limit < price if buys else limit > price):
        what, price = "the limit_price", limit
    if stop is not None and (stop > price if buys else stop < price):
        what, price = "the stop_price", stop
    if order.take_profit is not None and (order.take_profit <= price if buys else order.take_profit >= price):
        return f"expected a take_profit {above} {what}, {text_of(price)}, was {text_of(order.take_profit)}"
    if order.stop_loss is not None and (order.stop_loss >= price if buys else order.stop_loss <= price):
        return f"expected a stop_loss {below} {what}, {text_of(price)}, was {text_of(order.stop_loss)}"
    if order.trail is not None and order.trail >= price and (order.has_exit or order.side is Side.SELL):
        return f"expected a trail below {what}, {text_of(price)}, was {text_of(order.trail)}: its stop would be at 0 or below"
    return ""


def _overdue(order: Order, time: datetime) -> str:
    """Return whether an order is over before it is decided; empty if it is not."""
    if order.good_till is None or order.good_till > time:
        return ""
    return f"expected a good_till after the decision at {time:%Y-%m-%d %H:%M:%S}, was {order.good_till:%Y-%m-%d %H:%M:%S}"


def _is_price(price: Decimal | None) -> bool:
    return price is not None and price.is_finite() and price > 0


def _possible(
    order: Order, limits: Limits, exposure: Exposure, cash: tuple[Decimal, Decimal], equity: Decimal
) -> tuple[Decimal, str]:
    """Return the units that may be traded, rounded to the instrument, and why they are fewer than wanted.

    Args:
        cash: without and with the venue's charges for the orders before.
    """
    units, reason = _within(order, limits, exposure, cash[0], equity)
    instrument = exposure.instrument
    rounded = instrument.round_units(units)
    if order.side is Side.BUY and rounded > 0:
        payable = instrument.affordable(max(cash[1], ZERO), filled_at(order, exposure))
        if payable < rounded:
            rounded, reason = payable, f"cash for only {text_of(payable)} units with fees and slippage"
    return tradable(order, exposure, rounded, reason or f"{units:f} units are less than a lot of {instrument.lot:f}", reason)


def _within(order: Order, limits: Limits, exposure: Exposure, cash: Decimal, equity: Decimal) -> tuple[Decimal, str]:
    """Return the units that position, cash and limits allow, and the reason if they are fewer than wanted."""
    if order.side is Side.SELL:
        free = exposure.free
        return min(order.units, free), "" if order.units <= free else f"only {text_of(free)} units available to sell"
    now, ordered = exposure.price or ZERO, exposure.buying_cost
    worst = max(now, cost_of(order, exposure)) or ONE
    taken = exposure.units * now + (exposure.buying * now if ordered is None else ordered)
    room = max(equity * limits.max_position - taken, ZERO) / worst
    affordable = max(cash, ZERO) / (cost_of(order, exposure) * (ONE + limits.cash_margin))
    if order.units <= min(room, affordable):
        return order.units, ""
    if limits.max_position < ONE and room < affordable:
        return room, f"max_position: only {text_of(room)} units within {limits.max_position} of the equity"
    return min(order.units, affordable), "" if order.units <= affordable else f"cash for only {text_of(affordable)} units"


def _in_ticks(order: Order, instrument: Instrument) -> Order:
    """Return an order with prices rounded to the tick; a limit never gets worse than wanted."""
    if order.limit_price is not None:
        rounded = instrument.price_down if order.side is Side.BUY else instrument.price_up
        order = evolve(order, limit_price=rounded(order.limit_price))
    if order.stop_price is not None:
        order = evolve(order, stop_price=instrument.round_price(order.stop_price))
    if order.trail is not None:
        order = evolve(order, trail=instrument.round_price(order.trail))
    if order.take_profit is not None:
        order = evolve(order, take_profit=instrument.price_up(order.take_profit))
    if order.stop_loss is not None:
        order = evolve(order, stop_loss=instrument.round_price(order.stop_loss))
    return order


def _after(exposure: Exposure, order: Order, units: Decimal) -> Exposure:
    if order.side is Side.SELL:
        return evolve(exposure, selling=exposure.selling + units)
    before = exposure.buying * (exposure.price or ZERO) if exposure.buying_cost is None else exposure.buying_cost
    return evolve(exposure, buying=exposure.buying + units, buying_cost=before + units * cost_of(order, exposure))


def _change(order: Order, units: Decimal, exposure: Exposure) -> Decimal:
    """Return how placing an order changes the cash available to others: a sale adds cash only if it is filled at once."""
    if order.side is Side.BUY:
        return -units * cost_of(order, exposure)
    return units * cost_of(order, exposure) if order.kind is OrderKind.MARKET else ZERO


def _payment(order: Order, units: Decimal, exposure: Exposure) -> Decimal:
    """Return what `_change` does, with the venue's charges."""
    price, instrument = filled_at(order, exposure), exposure.instrument
    if order.side is Side.BUY:
        return -instrument.cost(units, price)
    if order.kind is not OrderKind.MARKET:
        return ZERO
    with localcontext(EXACT):
        return units * price - min(instrument.charges.of(units, price), units * price)
