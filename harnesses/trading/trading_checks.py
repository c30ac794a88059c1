"""Checks of a trading harness's parts and of its strategy's answers, before they are used. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from math import isfinite
from typing import cast

from harnesses.errors import HarnessMisuse
from harnesses.trading.exposure import Exposure
from harnesses.trading.market.instruments import Margin
from harnesses.trading.market.orders import Cancel, Order, Replace
from harnesses.trading.risk import Limits
from harnesses.trading.strategies import Strategy


def check_parts(feed: object, broker: object, strategy: object, limits: object) -> None:
    """Raise `HarnessMisuse` unless each part has the right type; all except the feed may be None."""
    _check_has("feed", feed, "next_slice", "a feed, such as ReplayFeed.read({'SPY': 'spy.csv'})")
    if broker is not None:
        _check_has("broker", broker, "submit", "a broker, such as PaperBroker(), or None")
    if strategy is not None and not isinstance(strategy, Strategy):
        raise _misuse("strategy", "a Strategy or None", strategy, "write rsi_strategy(), or Strategy(Agent(function))")
    if limits is not None and not isinstance(limits, Limits):
        raise _misuse("limits", "Limits or None", limits, "write Limits(max_drawdown=Decimal('0.1')), or use constraints")


def check_seconds(period_s: object, patience_s: object) -> None:
    """Raise `HarnessMisuse` unless both are valid durations."""
    if not (isinstance(period_s, int | float) and isfinite(period_s) and period_s >= 0):
        raise _misuse("period_s", "seconds from 0 up", period_s, "with 60 the feed is asked once a minute")
    if not (isinstance(patience_s, int | float) and patience_s >= 0):
        raise _misuse("patience_s", "seconds from 0 up", patience_s, "leave it out for 300")


def check_count(name: str, number: object) -> None:
    """Raise `HarnessMisuse` unless it is a whole number above 0."""
    if not isinstance(number, int) or number < 1:
        raise _misuse(name, "a whole number from 1 up", number, "with 1 each bar has a step of its own")


def check_lots(exposures: Iterable[Exposure], equity: Decimal) -> None:
    """Raise `HarnessMisuse` if the whole account cannot buy the smallest order of a symbol.

    Args:
        exposures: at the first slice of the account; those without a price are not judged.
    """
    for one in exposures:
        instrument, price = one.instrument, one.price
        means = equity if instrument.margin is None else equity * instrument.margin.leverage
        if price is None or one.units or instrument.cost(instrument.least_units, price) <= means:
            continue
        raise HarnessMisuse(
            f"TradingHarness: {instrument.symbol}: expected an account that can buy the smallest order, was {equity:.2f} for "
            f"{instrument.least_units:f} at {price:f}; give the venue an instrument with a smaller lot, start anew with "
            "more cash and another --store (a venue keeps the cash of its first start), or leave the symbol out"
        )


def check_margin(strategy: Strategy, margin: Margin | None, venue: str) -> None:
    """Raise `HarnessMisuse` if the strategy sells short, and the venue lends nothing."""
    if strategy.shorts and margin is None:
        raise HarnessMisuse(
            f"TradingHarness: strategy {strategy.name!r} sells short: expected a venue with margin, was {venue}, which lends "
            "nothing; trade on paper with PaperBroker(margin=Margin(…)), in a run file broker = { paper = true, margin = "
            "{ borrow_rate = … } }, or have the strategy hold long positions only"
        )


def wishes_from(name: str, answer: object) -> Sequence[Order | Cancel | Replace]:
    """Return the orders and changes of orders in a strategy's answer.

    Raises:
        HarnessMisuse: the answer is not a sequence of orders.
    """
    if isinstance(answer, Sequence) and not isinstance(answer, str | bytes):
        wrong = [one for one in cast(Sequence[object], answer) if not isinstance(one, Order | Cancel | Replace)]
        if not wrong:
            return cast(Sequence[Order | Cancel | Replace], answer)
        raise HarnessMisuse(f"strategy {name!r}: expected a list of Order, was one with {wrong[0]!r:.120}; use Order(…)")
    way_out = "return [order]" if isinstance(answer, Order) else "return [] for none"
    raise HarnessMisuse(f"strategy {name!r}: expected a list of Order, was {answer!r:.120}; {way_out}")


def _check_has(name: str, part: object, method: str, expected: str) -> None:
    if isinstance(part, type):
        raise _misuse(name, expected, part, f"create one: {part.__name__}(…)")
    if not callable(getattr(part, method, None)):
        raise _misuse(name, expected, part, f"add the method {method}")


def _misuse(name: str, expected: str, was: object, way_out: str) -> HarnessMisuse:
    return HarnessMisuse(f"TradingHarness: {name}: expected {expected}, was {was!r:.120}; {way_out}")
