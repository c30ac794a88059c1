"""The figures of a trading account, for whoever watches it from outside: equity, and positions as parts of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, localcontext

from harnesses.trading.account_model import TradingState
from harnesses.trading.market.instruments import EXACT


def figures(state: TradingState) -> Mapping[str, Decimal]:
    """Return `equity`, and `position:SYMBOL` for each that is held, as a part of the equity; nothing before the books open.

    A position without a price that is believed yet counts nothing, as in the equity itself.
    """
    if state.book is None:
        return {}
    equity, held = state.equity, {symbol: one.units for symbol, one in state.book.positions.items() if one.units}
    with localcontext(EXACT):
        parts = {
            f"position:{symbol}": units * state.prices[symbol].mark / equity
            for symbol, units in held.items()
            if symbol in state.prices and equity > 0
        }
    return {"equity": equity, **parts}


def moment(state: TradingState) -> datetime | None:
    """Return the time of the last slice: the day of a replay is that of its data."""
    return state.time
