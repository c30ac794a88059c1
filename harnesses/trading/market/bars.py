"""Bars of a market, and parsers for the lines of a file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from attrs import frozen

from harnesses.data.frozen_dict import freeze
from harnesses.errors import OrchestratorError

COLUMNS = ("date", "open", "high", "low", "close", "volume")
SPLIT_COLUMNS = ("symbol", "date", "units")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER = re.compile(r" *\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})? *")
_SMALLEST, _LARGEST, _DECIMALS = Decimal("1E-18"), Decimal("1E20"), 40
"""Bounds within which every product of prices and units is exact; the smallest is the smallest price difference."""


class BadMarketData(OrchestratorError):
    """Market data is invalid. The message names the place, so that the supplier can correct it."""


@frozen
class Bar:
    """Prices and volume of one symbol in one period, such as a day. Prices are not adjusted for later splits."""

    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    volume: Decimal
    """Units traded; whole numbers for shares, any fraction for coins."""
    split: Decimal = Decimal(1)
    """Split ratio: the units that one unit held before this bar has become; 2 in the first bar after a two-for-one split."""


@frozen
class MarketSlice:
    """The bars of all symbols for one time."""

    time: datetime
    """UTC, with zone. For a daily bar, midnight at the start of its day."""
    bars: Mapping[str, Bar]
    """Bars by symbol; a symbol that did not trade is left out."""

    def __attrs_post_init__(self) -> None:
        freeze(self, "bars")


@frozen
class SliceRun(MarketSlice):
    """The slices of a step of several: `time` and `bars` are those of the last one."""

    earlier: tuple[MarketSlice, ...] = ()
    """Those before it, oldest first."""

    @property
    def last(self) -> MarketSlice:
        """The last one alone."""
        return MarketSlice(self.time, self.bars)


def parse_bar(fields: Sequence[str]) -> tuple[datetime, Bar]:
    """Return the time and the bar in the six fields of a line; the first field is parsed by `parse_time`.

    Raises:
        ValueError: a field is invalid; the message says what was expected.
    """
    if len(fields) != len(COLUMNS):
        raise ValueError(f"expected {len(COLUMNS)} fields ({','.join(COLUMNS)}), was {len(fields)}: {','.join(fields)!r:.200}")
    time = parse_time(fields[0])
    open_, high, low, close = (parse_positive(name, text) for name, text in zip(COLUMNS[1:5], fields[1:5], strict=True))
    if not low <= min(open_, close) <= max(open_, close) <= high:
        raise ValueError(f"expected low <= open, close <= high, was open {open_}, high {high}, low {low}, close {close}")
    return time, Bar(open_, high, low, close, _parse_volume(fields[5]))


def _parse_volume(text: str) -> Decimal:
    volume = _plain(text) if _NUMBER.fullmatch(text) else None
    if volume is None or volume >= _LARGEST**2 or _decimals(volume) > _DECIMALS:
        raise ValueError(f"volume: expected a number from 0 up, was {text!r:.80}")
    return volume


def parse_split(fields: Sequence[str]) -> tuple[str, datetime, Decimal]:
    """Return the symbol, time and ratio of a split. Raises `ValueError` as `parse_bar` does."""
    if len(fields) != len(SPLIT_COLUMNS):
        raise ValueError(f"expected {len(SPLIT_COLUMNS)} fields ({','.join(SPLIT_COLUMNS)}), was {len(fields)}")
    return fields[0], parse_time(fields[1]), parse_positive("units", fields[2])


def parse_time(text: str) -> datetime:
    """Return the time in `text`: midnight UTC for `YYYY-MM-DD`, else a date and time with its offset from UTC.

    Raises:
        ValueError: `text` is invalid, or has a time without an offset.
    """
    try:
        if _DATE.fullmatch(text):
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        if _DATE.match(text) and text[10] in "T " and (time := datetime.fromisoformat(text)).tzinfo is not None:
            return time.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"date: expected YYYY-MM-DD, or YYYY-MM-DDTHH:MM:SS with an offset such as Z, was {text!r:.80}")


def parse_positive(name: str, text: str) -> Decimal:
    """Return the number above 0 in `text`.

    Raises:
        ValueError: it is no number, or too small, too large or too long to be counted with exactly.
    """
    number = _plain(text) if _NUMBER.fullmatch(text) else Decimal(0)
    if not number:
        raise ValueError(f"{name}: expected a number above 0, was {text!r:.80}")
    if not _SMALLEST <= number < _LARGEST or _decimals(number) > _DECIMALS:
        bounds = f"from {_SMALLEST} to {_LARGEST} with at most {_DECIMALS} decimals"
        raise ValueError(f"{name}: expected a number {bounds}, was {text!r:.80}")
    return number


def _plain(text: str) -> Decimal:
    """Return a number written with its digits alone: 1e3 is 1000. One that is out of bounds is left as it is."""
    number = Decimal(text)
    return Decimal(f"{number:f}") if "e" in text.lower() and abs(number.adjusted()) <= _DECIMALS else number


def _decimals(number: Decimal) -> int:
    return -int(number.as_tuple().exponent)
