"""Screening: decides which orders may be placed, and how many units of each. No I/O.

Invariants: reducing risk is always allowed (cancellations are not screened); every refusal is reported with its order and
reason; no position becomes short; no cash is spent twice.

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

from harnesses.trading.market.instruments import EXACT, Instrument
from harnesses.trading.market.orders import ONE, ZERO, Order, OrderKind, Side, Source, wrong_exit
from harnesses.trading.risk import Limits, Risk, RiskState, is_stale


@frozen
class Exposure:
    """Current and possible holdings of one symbol."""

    instrument: Instrument
    units: Decimal = ZERO
    price: Decimal | None = None
    """The price to trade at now; None if there is none."""
    why_not: str = "no bar"
    """Why there is no price."""
    buying: Decimal = ZERO
    """Units that open orders may still buy."""
    buying_cost: Decimal | None = None
    """Maximum cost of these, each at its order's price; None to use the current price."""
    selling: Decimal = ZERO
    """Units that open orders may still sell."""

    @property
    def free(self) -> Decimal:
        """Units that may be sold."""
        return max(self.units - self.selling, ZERO)


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
        costs: by symbol, the average cost of a held unit.
    """
    if limits.stop_loss == ONE:
        return {}
    return {
        symbol: exposure
        for symbol, exposure in exposures.items()
        if exposure.price is not None and exposure.price < costs.get(symbol, ZERO) * (ONE - limits.stop_loss)
    }


def stop_loss_orders(limits: Limits, exposures: Mapping[str, Exposure], costs: Mapping[str, Decimal]) -> tuple[Wanted, ...]:
    """Return sales of all positions beyond their stop-loss, less the units being sold already."""
    return sale_of_all(past_stop_loss(limits, exposures, costs), Source.RISK, stop_loss_reason(limits))


def stop_loss_reason(limits: Limits) -> str:
    """Return the reason given for a stop-loss sale."""
    return f"stop-loss: lost more than {limits.stop_loss} of the cost"


def sale_of_all(exposures: Mapping[str, Exposure], source: Source, why: str) -> tuple[Wanted, ...]:
    """Return sales of all positions, less the units being sold already; a remainder below one lot is kept."""
    free = {symbol: one.instrument.round_units(one.free) for symbol, one in exposures.items()}
    return tuple(Wanted(Order(symbol, Side.SELL, units, reason=why), source) for symbol, units in free.items() if units > 0)


def screen(
    wanted: Iterable[Wanted],
    *,
    risk: Risk,
    limits: Limits,
    exposures: Mapping[str, Exposure],
    cash: Decimal,
    time: datetime,
    age_s: float,
) -> Screening:
    """Return the orders that may be placed, with their units; sales come first, so that their proceeds can be spent.

    Args:
        cash: cash not reserved by open orders.
        time: time of the slice.
        age_s: age of the slice by the feed's clock, in seconds.
    """
    allowed: list[Wanted] = []
    refused: list[Refusal] = []
    known = dict(exposures)
    payable = cash
    """What the venue would take for orders, with its charges."""
    orders = sorted(wanted, key=lambda one: one.order.side is not Side.SELL)
    stopped = {one.order.symbol for one in orders if one.source is Source.RISK}
    for one in orders:
        order, exposure = one.order, known.get(one.order.symbol)
        reason = forbidden(one, risk, limits, exposure, time=time, age_s=age_s) or _malformed(order)
        if not reason and exposure is not None:
            order = _in_ticks(order, exposure.instrument)
            reason = _malformed(order) or _misplaced(order, exposure.price) or _overdue(order, time)
        if not reason and order.symbol in stopped and order.side is Side.BUY and one.source is Source.STRATEGY:
            reason = "it is being sold already, because of a limit"
        units = ZERO
        if not reason and exposure is not None:
            units, reason = _possible(order, limits, exposure, (cash, payable), risk.equity)
            known[order.symbol] = _after(exposure, order, units)
            cash += _change(order, units, exposure)
            payable += _payment(order, units, exposure)
            if units:
                allowed.append(evolve(one, order=evolve(order, units=units)))
        if reason:
            refused.append(Refusal(evolve(one.order, units=order.units - units), one.source, Source.RISK, reason))
    return Screening(tuple(allowed), tuple(refused))


def forbidden(one: Wanted, risk: Risk, limits: Limits, exposure: Exposure | None, *, time: datetime, age_s: float) -> str:
    """Return why an order may not be placed at all, whatever its units; empty if it may. Arguments as for `screen`."""
    order, buys = one.order, one.order.side is Side.BUY
    if exposure is None:
        return f"{order.symbol!r} is not a symbol of the feed"
    if one.source is Source.OPERATOR:
        return ""
    if one.source is Source.STRATEGY and risk.state is RiskState.HALTED:
        return f"halted: {risk.why}"
    if buys and risk.state is RiskState.REDUCING:
        return f"reducing: {risk.why}"
    if is_stale(limits, age_s):
        return f"stale data: {age_s:.0f} s old, {limits.max_age_s:g} s allowed"
    if exposure.price is None:
        return exposure.why_not
    if buys and order.symbol in risk.cooldowns and time < risk.cooldowns[order.symbol]:
        return f"cooling down after a loss until {risk.cooldowns[order.symbol]:%Y-%m-%d %H:%M:%S}"
    return ""


def _malformed(order: Order) -> str:
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
    if order.side is Side.SELL:
        return "only a purchase can have an exit: no position becomes short"
    return wrong_exit(order)


def _misplaced(order: Order, price: Decimal | None) -> str:
    """Return which price of a bracket or trail is on the wrong side of the price that the strategy saw; empty if none is.

    An entry is expected at its own price, or at the market's if that is better for a limit, or beyond a stop.
    """
    if price is None:
        return ""
    what = "the last close"
    if order.kind is OrderKind.LIMIT and order.limit_price is not None and order.limit_price < price and order.has_exit:
        what, price = "the limit_price", order.limit_price
    if order.kind is OrderKind.STOP and order.stop_price is not None and order.stop_price > price and order.has_exit:
        what, price = "the stop_price", order.stop_price
    if order.take_profit is not None and order.take_profit <= price:
        return f"expected a take_profit above {what}, {_text(price)}, was {_text(order.take_profit)}"
    if order.stop_loss is not None and order.stop_loss >= price:
        return f"expected a stop_loss below {what}, {_text(price)}, was {_text(order.stop_loss)}"
    if order.trail is not None and order.trail >= price and (order.has_exit or order.side is Side.SELL):
        return f"expected a trail below {what}, {_text(price)}, was {_text(order.trail)}: its stop would be at 0 or below"
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
        payable = instrument.affordable(max(cash[1], ZERO), _filled_at(order, exposure))
        if payable < rounded:
            rounded, reason = payable, f"cash for only {_text(payable)} units with fees and slippage"
    if not rounded:
        return ZERO, reason or f"{units:f} units are less than a lot of {instrument.lot:f}"
    if rounded < instrument.min_units:
        return ZERO, f"{rounded:f} units are less than the minimum of {instrument.min_units:f}"
    worth = rounded * _cost(order, exposure)
    if worth and worth < instrument.min_notional:
        return ZERO, f"{_text(worth)} is less than the minimum of {instrument.min_notional:f}"
    return rounded, reason


def _within(order: Order, limits: Limits, exposure: Exposure, cash: Decimal, equity: Decimal) -> tuple[Decimal, str]:
    """Return the units that position, cash and limits allow, and the reason if they are fewer than wanted."""
    if order.side is Side.SELL:
        free = exposure.free
        return min(order.units, free), "" if order.units <= free else f"only {_text(free)} units available to sell"
    now, ordered = exposure.price or ZERO, exposure.buying_cost
    worst = max(now, _cost(order, exposure)) or ONE
    taken = exposure.units * now + (exposure.buying * now if ordered is None else ordered)
    room = max(equity * limits.max_position - taken, ZERO) / worst
    affordable = max(cash, ZERO) / (_cost(order, exposure) * (ONE + limits.cash_margin))
    if order.units <= min(room, affordable):
        return order.units, ""
    if limits.max_position < ONE and room < affordable:
        return room, f"max_position: only {_text(room)} units within {limits.max_position} of the equity"
    return min(order.units, affordable), "" if order.units <= affordable else f"cash for only {_text(affordable)} units"


def _cost(order: Order, exposure: Exposure) -> Decimal:
    """Return the expected price of a unit, including slippage and fees."""
    return order.worst_price or exposure.price or ZERO


def _filled_at(order: Order, exposure: Exposure) -> Decimal:
    """Return the expected price of a unit, with slippage unless it is limited."""
    price = _cost(order, exposure)
    if order.kind is OrderKind.LIMIT:
        return price
    with localcontext(EXACT):
        return exposure.instrument.taker_price(price, buys=order.side is Side.BUY)


def _text(number: Decimal) -> str:
    return f"{round(number, 8).normalize():f}"


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
    return evolve(exposure, buying=exposure.buying + units, buying_cost=before + units * _cost(order, exposure))


def _change(order: Order, units: Decimal, exposure: Exposure) -> Decimal:
    """Return how placing an order changes the cash available to others: a sale adds cash only if it is filled at once."""
    if order.side is Side.BUY:
        return -units * _cost(order, exposure)
    return units * _cost(order, exposure) if order.kind is OrderKind.MARKET else ZERO


def _payment(order: Order, units: Decimal, exposure: Exposure) -> Decimal:
    """Return what `_change` does, with the venue's charges."""
    price, instrument = _filled_at(order, exposure), exposure.instrument
    if order.side is Side.BUY:
        return -instrument.cost(units, price)
    if order.kind is not OrderKind.MARKET:
        return ZERO
    with localcontext(EXACT):
        return units * price - min(instrument.charges.of(units, price), units * price)
