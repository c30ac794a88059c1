"""Indicators: numbers about the prices of one symbol, one price at a time. Pure.

The law: where an indicator stands after n prices depends on where it stood after n - 1 and the new price alone, so that a
harness that is resumed goes on exactly where it was.

An `Indicator` is a setting (which index, over how many prices) and lives in the program; a `Standing` is what it has come to
and lives in the state of the harness, by symbol and by the name that the strategy gives it. All kinds share the one class,
so that a state read back from disk is the state that was written, whatever the strategy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attrs import field, frozen


def _floats(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(map(float, values))


@frozen
class Standing:
    """Where an indicator stands. Numbers about prices, not money: floats will do, and JSON carries them exactly."""

    seen: int = 0
    """How much it has seen, counted up to what it needs."""
    values: tuple[float, ...] = field(default=(), converter=_floats)
    """Its own; what they mean is known to the indicator alone."""


NEW = Standing()


class Indicator(Protocol):
    """How one number comes of prices. Equal settings give equal numbers; another setting needs another name."""

    def after(self, standing: Standing, price: float, before: float | None) -> Standing:
        """Return where it stands after `price`.

        Args:
            standing: where it stood; `NEW` before the first price.
            before: the price to compare with, in units of the same split; None for the first.
        """
        ...

    def after_split(self, standing: Standing, units: float) -> Standing:
        """Return the same standing in the prices that follow a split: they are `units` times smaller."""
        ...

    def value(self, standing: Standing) -> float | None:
        """Return the number; None as long as it has not seen enough."""
        ...


Indicators = Mapping[str, Indicator]
"""By name. The name of one is never used for another setting, or a resumed harness would mix the two."""
Standings = Mapping[str, Standing]
"""Of one symbol, by the names of `Indicators`. One that is missing has seen nothing yet."""


def after_price(indicators: Indicators, standings: Standings, price: float, before: float | None) -> dict[str, Standing]:
    """Return the standings after a price; see `Indicator.after`. Those of indicators that are no more are dropped."""
    return {name: one.after(standings.get(name, NEW), price, before) for name, one in indicators.items()}


def after_split(indicators: Indicators, standings: Standings, units: float) -> dict[str, Standing]:
    """Return the standings in the prices that follow a split; see `Indicator.after_split`."""
    return {name: one.after_split(standings.get(name, NEW), units) for name, one in indicators.items()}


def values(indicators: Indicators, standings: Standings) -> dict[str, float | None]:
    """Return the numbers by name, for `Quote.indicators`."""
    return {name: one.value(standings.get(name, NEW)) for name, one in indicators.items()}
