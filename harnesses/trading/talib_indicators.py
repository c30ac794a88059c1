"""Indicators of TA-Lib, computed at each bar over the last bars; the extra `indicators`. No I/O.

TA-Lib computes whole series. A `TaLib` keeps as many bars as it needs in its standing, and takes the last value: what depends
on all prices since the beginning (the cumulative functions) is refused, and an average that never quite forgets (`EMA`, `RSI`,
…) is that of the last `bars` bars.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from attrs import field, frozen

from harnesses.diagnostics.extras import load_extra
from harnesses.errors import HarnessMisuse
from harnesses.trading.indicators import Prices, Standing

_COLUMNS = Prices._fields
_CUMULATIVE = "Output is path-dependent"
"""TA-Lib's mark of functions that sum up all prices."""


@frozen
class TaLib:
    """A function of TA-Lib, such as `TaLib("ADX", {"timeperiod": 14})`.

    Its first output has the name of the indicator, the others that of TA-Lib: `bands`, `bands.middleband`, `bands.lowerband`.
    An input `price` is the close.

    Raises:
        HarnessMisuse: TA-Lib has no such function or parameter, it needs more than bars, or it is cumulative.
        NotReady: TA-Lib is not installed.
    """

    function: str
    parameters: Mapping[str, float] = field(factory=dict[str, float])
    bars: int | None = None
    """Number of bars it is computed over; None takes ten times its lookback and 100, so that averages forget their start."""

    def __attrs_post_init__(self) -> None:
        _ = self._series

    @property
    def _series(self) -> _Series:
        return _series(self.function, tuple(self.parameters.items()), self.bars)

    def after_bar(self, standing: Standing, bar: Prices, before: float | None) -> Standing:
        """Return the standing after a bar: the inputs of the last bars, bar by bar."""
        series = self._series
        kept = standing.values[len(series.columns) :] if standing.seen >= series.window else standing.values
        return Standing(min(standing.seen + 1, series.window), (*kept, *(bar[column] for column in series.columns)))

    def after_split(self, standing: Standing, units: float) -> Standing:
        """Return the standing adjusted for a split: prices become smaller, volumes larger."""
        factors = [units if _COLUMNS[column] == "volume" else 1.0 / units for column in self._series.columns]
        return Standing(standing.seen, tuple(one * factors[at % len(factors)] for at, one in enumerate(standing.values)))

    def lines(self, standing: Standing) -> Mapping[str, float | None]:
        """Return the last value of each output."""
        series = self._series
        if standing.seen <= series.lookback:
            return dict.fromkeys(series.names)
        table = series.numpy.array(standing.values).reshape(standing.seen, -1)
        columns = {_COLUMNS[column]: table[:, at].copy() for at, column in enumerate(series.columns)}
        outputs = series.function(columns)
        last = [float(one[-1]) for one in (outputs if len(series.names) > 1 else (outputs,))]
        return {name: None if value != value else value for name, value in zip(series.names, last, strict=True)}


@frozen(eq=False)
class _Series:
    """A function of TA-Lib with its parameters."""

    function: Any
    numpy: Any
    columns: tuple[int, ...]
    """The inputs, as indices of `Prices`."""
    names: tuple[str, ...]
    """The outputs; the first is nameless."""
    lookback: int
    """Bars before the first value."""
    window: int


@cache
def _series(name: str, parameters: tuple[tuple[str, float], ...], bars: int | None) -> _Series:
    abstract, numpy = (load_extra(one, "indicators", "an indicator of TA-Lib") for one in ("talib.abstract", "numpy"))
    try:
        function = abstract.Function(name)
        function.set_parameters(dict(parameters))
        lookback = int(function.lookback)
    except Exception as error:
        raise HarnessMisuse(
            f"TaLib {name}: expected a function of TA-Lib and parameters it accepts, got {dict(parameters)}: {error}; see "
            "talib.get_functions()"
        ) from error
    inputs = tuple(_inputs(function.input_names))
    if other := [one for one in inputs if one not in _COLUMNS]:
        raise HarnessMisuse(f"TaLib {name}: expected inputs of a bar, got {other[0]!r}; choose another function")
    if _CUMULATIVE in function.function_flags:
        raise HarnessMisuse(
            f"TaLib {name}: expected a function of the last bars, got one of all bars since the first; use Obv(), or another"
        )
    window = lookback * 10 + 100 if bars is None else bars
    if not 0 <= lookback < window:
        raise HarnessMisuse(
            f"TaLib {name}: bars: expected more than its lookback of {lookback}, got {window}; give it more bars or other "
            "parameters"
        )
    names = ("", *function.output_names[1:])
    return _Series(function, numpy, tuple(map(_COLUMNS.index, inputs)), names, lookback, window)


def _inputs(names: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns of a function's inputs, as TA-Lib names them."""
    for name in names.values():
        if isinstance(name, str):
            yield name
        else:
            yield from name
