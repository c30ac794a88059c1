"""Indicators advanced bar by bar, over splits and over disk, are what pandas and TA-Lib compute over the whole series."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest

from harnesses import Agent, HarnessMisuse
from harnesses.trading import (
    Atr,
    Bar,
    Bollinger,
    Donchian,
    Ema,
    Macd,
    Obv,
    PaperBroker,
    RateOfChange,
    ReplayFeed,
    Rsi,
    Sma,
    Stochastic,
    Strategy,
    TaLib,
    TradingHarness,
    Vwap,
)
from harnesses.trading.feeds.bar_files import add_splits, read_bars
from harnesses.trading.indicators import Indicators, Standing, after_bar, after_split, values

DATA = Path(__file__).parents[3] / "examples" / "data"
OURS: Indicators = {
    "sma": Sma(20),
    "roc": RateOfChange(10),
    "ema": Ema(20),
    "rsi": Rsi(14),
    "macd": Macd(),
    "bands": Bollinger(20, 2.5),
    "atr": Atr(14),
    "channel": Donchian(20),
    "stochastic": Stochastic(14, 3, 3),
    "vwap": Vwap(20),
    "obv": Obv(),
}
TALIB = ("ADX", "BBANDS", "CDLDOJI", "AROON", "MFI")


@pytest.fixture(scope="module")
def bars() -> list[Bar]:
    """Twelve years of a share with two splits, and bars without volume or movement in between."""
    found = {"AAPL": read_bars(DATA / "aapl.csv")}
    add_splits(DATA / "splits.csv", found, whole=True)
    bars = list(found["AAPL"].values())
    return [*bars[:1500], *[Bar(*[bars[1499].close] * 4, Decimal(0))] * 30, *bars[1500:]]


@pytest.fixture(scope="module")
def frame(bars) -> pd.DataFrame:
    """The same bars, adjusted for the splits as if they had happened before the first."""
    frame = pd.DataFrame(
        {name: [float(getattr(bar, name)) for bar in bars] for name in ("open", "high", "low", "close", "volume")}
    )
    units = pd.Series([float(bar.split) for bar in bars]).cumprod()
    for name in ("open", "high", "low", "close"):
        frame[name] *= units
    frame["volume"] /= units
    return frame.assign(units=units)


def advanced(indicators: Indicators, bars: list[Bar], *, disk_every: int = 0) -> pd.DataFrame:
    """Return the numbers after each bar; the standings are written and read again after each `disk_every` bars."""
    standings: dict[str, Standing] = {}
    before: float | None = None
    rows = []
    for number, bar in enumerate(bars, 1):
        if bar.split != 1:
            standings = after_split(indicators, standings, float(bar.split))
            before = before and before / float(bar.split)
        standings = after_bar(indicators, standings, bar, before)
        before = float(bar.close)
        if disk_every and not number % disk_every:
            standings = msgspec.json.decode(msgspec.json.encode(standings), type=dict[str, Standing])
        rows.append(values(indicators, standings))
    return pd.DataFrame(rows, dtype=float)


def by_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers of `OURS` from their definitions."""
    close, high, low, volume = frame.close, frame.high, frame.low, frame.volume

    def ema(series: pd.Series, window: int) -> pd.Series:
        known = series.dropna()
        seeded = pd.concat([pd.Series([known[:window].mean()], index=[known.index[window - 1]]), known[window:]])
        return seeded.ewm(span=window, adjust=False).mean().reindex(series.index)

    def wilder(series: pd.Series, window: int) -> pd.Series:
        known = series.dropna()
        seeded = pd.concat([pd.Series([known[:window].mean()], index=[known.index[window - 1]]), known[window:]])
        return seeded.ewm(alpha=1 / window, adjust=False).mean().reindex(series.index)

    change = close.diff()
    up, down = wilder(change.clip(lower=0), 14), wilder(-change.clip(upper=0), 14)
    macd = ema(close, 12) - ema(close, 26)
    mean, deviation = close.rolling(20).mean(), close.rolling(20).apply(lambda part: np.std(part), raw=True)
    reach = pd.concat([high - low, (high - close.shift()).abs(), (low - close.shift()).abs()], axis=1).max(axis=1)
    reach[0] = np.nan
    top, bottom = high.rolling(20).max(), low.rolling(20).min()
    least, most = low.rolling(14).min(), high.rolling(14).max()
    raw = (100 * (close - least) / (most - least)).where((most > least) | most.isna(), 50.0)
    typical = (high + low + close) / 3
    traded = volume.rolling(20).apply(lambda part: part.sum(), raw=True)
    weighted = (typical * volume).rolling(20).apply(lambda part: part.sum(), raw=True)
    return pd.DataFrame(
        {
            "sma": mean,
            "roc": close.pct_change(10) * 100,
            "ema": ema(close, 20),
            "rsi": 100 * up / (up + down),
            "macd": macd,
            "macd.signal": ema(macd, 9),
            "macd.histogram": macd - ema(macd, 9),
            "bands": mean,
            "bands.upper": mean + 2.5 * deviation,
            "bands.lower": mean - 2.5 * deviation,
            "atr": wilder(reach, 14),
            "channel": (top + bottom) / 2,
            "channel.upper": top,
            "channel.lower": bottom,
            "stochastic": raw.rolling(3).mean(),
            "stochastic.d": raw.rolling(3).mean().rolling(3).mean(),
            "vwap": weighted.where(traded > 0) / traded.where(traded > 0),
            "obv": (np.sign(change.fillna(1)) * volume).cumsum(),
        }
    )


FREE = ("roc", "rsi", "stochastic", "stochastic.d")
"""Numbers that a split does not change."""


def adjusted(found: pd.DataFrame, units: pd.Series) -> pd.DataFrame:
    """Return numbers in the prices and volumes of their bars, adjusted for the splits before."""
    factors = {name: 1.0 if name in FREE else 1 / units if name == "obv" else units for name in found}
    return pd.DataFrame({name: found[name] * factor for name, factor in factors.items()})


def test_each_indicator_is_what_its_definition_says_at_every_bar_over_splits(bars, frame):
    expected = by_pandas(frame)

    found = adjusted(advanced(OURS, bars), frame.units)

    assert list(found) == list(expected)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-8, atol=1e-8)


def test_standings_read_back_from_disk_go_on_exactly(bars):
    pd.testing.assert_frame_equal(advanced(OURS, bars[:400], disk_every=7), advanced(OURS, bars[:400]), check_exact=True)


def test_each_indicator_is_that_of_talib(bars, frame):
    talib = pytest.importorskip("talib")
    high, low, close, volume = (frame[name].to_numpy() for name in ("high", "low", "close", "volume"))
    upper, middle, lower = talib.BBANDS(close, 20, 2.5, 2.5)
    macd, signal, histogram = talib.MACD(close)
    k, d = talib.STOCH(high, low, close, 14, 3, 0, 3, 0)
    expected = {
        "sma": talib.SMA(close, 20),
        "roc": talib.ROC(close, 10),
        "ema": talib.EMA(close, 20),
        "rsi": talib.RSI(close, 14),
        "bands": middle,
        "bands.upper": upper,
        "bands.lower": lower,
        "atr": talib.ATR(high, low, close, 14),
        "obv": talib.OBV(close, volume),
        "channel.upper": talib.MAX(high, 20),
        "channel.lower": talib.MIN(low, 20),
    }
    later = {"macd": macd, "macd.signal": signal, "macd.histogram": histogram, "stochastic": k, "stochastic.d": d}

    found = adjusted(advanced(OURS, bars), frame.units)

    for name, series in expected.items():
        np.testing.assert_allclose(found[name], series, rtol=1e-9, atol=1e-9, err_msg=name)
    for name, series in later.items():
        # TA-Lib begins both averages at the same price; and a bar that did not move counts as 0 there, not as 50.
        at = [*range(500, 1480), *range(1600, len(series))]
        np.testing.assert_allclose(found[name][at], series[at], rtol=1e-9, atol=1e-9, err_msg=name)


def test_functions_of_talib_advance_by_bars_and_come_to_what_they_are_over_the_whole_series(bars, frame):
    talib = pytest.importorskip("talib.abstract")
    indicators = {name: TaLib(name) for name in TALIB}
    series = {name: frame[name].to_numpy() for name in ("open", "high", "low", "close", "volume")}

    found = advanced(indicators, bars[:1400], disk_every=100)

    for name in TALIB:
        outputs = talib.Function(name)({key: one[:1400] for key, one in series.items()})
        names, known = talib.Function(name).output_names, talib.Function(name).lookback
        for output, whole in zip(names, outputs if isinstance(outputs, list) else [outputs], strict=True):
            line = found[name if output == names[0] else f"{name}.{output}"]
            scale = frame.units[:1400] if name == "BBANDS" else 1.0
            np.testing.assert_allclose((line * scale)[known:], whole[known:], rtol=1e-7, err_msg=f"{name} {output}")
            assert line[:known].isna().all()


@pytest.mark.parametrize(
    ("function", "parameters", "more", "why"),
    [
        ("NOPE", {}, {}, "a function of TA-Lib"),
        ("RSI", {"period": 3}, {}, "parameters it accepts"),
        ("RSI", {"timeperiod": -3}, {}, "its lookback"),
        ("RSI", {}, {"bars": 14}, "more than its lookback of 14, got 14"),
        ("OBV", {}, {}, "use Obv"),
        ("MAVP", {}, {}, "inputs of a bar, got 'periods'"),
    ],
)
def test_a_function_of_talib_that_cannot_advance_by_bars_is_refused_at_once(function, parameters, more, why):
    pytest.importorskip("talib")
    with pytest.raises(HarnessMisuse, match=why):
        TaLib(function, parameters, **more)


def test_averages_that_can_not_cross_are_refused():
    with pytest.raises(ValueError, match="fast < slow"):
        Macd(26, 12)


async def test_a_harness_stopped_and_resumed_shows_its_strategy_the_same_numbers(bars, autojump_clock):
    start = datetime(2000, 3, 1, tzinfo=UTC)
    series = {start + timedelta(day): bar for day, bar in enumerate(bars[:150])}

    async def numbers(ends: list[int]) -> list[dict[str, float | None]]:
        seen: list[dict[str, float | None]] = []

        async def look(run):
            seen.extend(dict(quote.indicators) for quote in run.input.quotes.values())
            return []

        state = None
        for end in ends:
            feed = ReplayFeed({"A": dict(list(series.items())[:end])})
            harness = TradingHarness(feed, PaperBroker(Decimal(1_000_000)), Strategy(Agent(look), OURS), initial_state=state)
            await harness.run()
            state = harness.state
        return seen

    assert await numbers([60, 90, 150]) == await numbers([150])
