"""Daily bars: the nouns, and how a line of a file becomes one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation

from attrs import frozen

from harnesses.errors import OrchestratorError

COLUMNS = ("date", "open", "high", "low", "close", "volume")
SPLIT_COLUMNS = ("symbol", "date", "units")


class BadMarketData(OrchestratorError):
    """Market data is not what it should be. Whoever supplies it can mend it; the message says where."""


@frozen
class Bar:
    """What one symbol did on one day. Prices as they were that day, not adjusted."""

    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    volume: int
    split: Decimal = Decimal(1)
    """Units that one unit of the day before has become: 2 on the day of a two-for-one split."""


@frozen
class MarketDay:
    """What happened on one day of trading."""

    day: date
    bars: Mapping[str, Bar]
    """By symbol; a symbol that was not traded that day is missing."""


def parse_bar(fields: Sequence[str]) -> tuple[date, Bar]:
    """Return the day and the bar that the six fields of a line say.

    Raises:
        ValueError: they do not; the message says what was expected.
    """
    if len(fields) != len(COLUMNS):
        raise ValueError(f"expected {len(COLUMNS)} fields ({','.join(COLUMNS)}), was {len(fields)}: {','.join(fields)!r:.200}")
    day = parse_date(fields[0])
    open_, high, low, close = (parse_positive(name, text) for name, text in zip(COLUMNS[1:5], fields[1:5], strict=True))
    if not low <= min(open_, close) <= max(open_, close) <= high:
        raise ValueError(f"expected low <= open, close <= high, was open {open_}, high {high}, low {low}, close {close}")
    if not (fields[5].isascii() and fields[5].isdigit()):
        raise ValueError(f"volume: expected a whole number from 0 up, was {fields[5]!r:.80}")
    return day, Bar(open_, high, low, close, int(fields[5]))


def parse_split(fields: Sequence[str]) -> tuple[str, date, Decimal]:
    """Return the symbol, the day and the units of a split. Raises `ValueError` as `parse_bar` does."""
    if len(fields) != len(SPLIT_COLUMNS):
        raise ValueError(f"expected {len(SPLIT_COLUMNS)} fields ({','.join(SPLIT_COLUMNS)}), was {len(fields)}")
    return fields[0], parse_date(fields[1]), parse_positive("units", fields[2])


def parse_date(text: str) -> date:
    """Return the date that `text` says as `YYYY-MM-DD`."""
    try:
        if len(text) == 10:
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise ValueError(f"date: expected YYYY-MM-DD, was {text!r:.80}")


def parse_positive(name: str, text: str) -> Decimal:
    """Return the finite number above 0 that `text` says."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if number.is_finite() and number > 0:
        return number
    raise ValueError(f"{name}: expected a number above 0, was {text!r:.80}")
