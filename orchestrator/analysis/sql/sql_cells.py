"""What a query gives, as plain data that goes through a pipe, and back as what Python calls it. Pure.

DuckDB              in the pipe                          in Python
whole numbers       numbers                              int
DOUBLE, FLOAT       numbers; NaN, Infinity as text       float
DECIMAL             text                                 Decimal
TIMESTAMP, DATE     text, ISO 8601                       datetime, date
JSON                text                                 str
LIST, STRUCT, MAP   lists and objects                    list, dict; what is in them as in the pipe
anything else       text                                 str
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TypeAlias, cast

Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"

_MADE: dict[str, Callable[[str], Any]] = {
    "TIMESTAMP": datetime.fromisoformat,
    "DATE": date.fromisoformat,
    "TIME": time.fromisoformat,
    "DOUBLE": float,
    "FLOAT": float,
}


def is_said_in_words(type: str) -> bool:
    """Return whether a column of a type of DuckDB is to be turned into text by DuckDB itself: Python knows less of it."""
    return any(word in type for word in ("TIME ZONE", "INTERVAL", "TIMESTAMP_", "BIT", "UNION", "VARIANT", "BIGNUM"))


def plain(value: Any) -> Plain:
    """Return one value as it goes through the pipe."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [plain(part) for part in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in cast("dict[object, Any]", value).items()}
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return str(value)


def made(value: Plain, type: str) -> Any:
    """Return a value from the pipe as Python has it."""
    if not isinstance(value, str):
        return value
    if type.startswith("DECIMAL"):
        return Decimal(value)
    make = _MADE.get(type)
    try:
        return make(value) if make is not None else value
    except ValueError:
        # A date of the year 290000, which SQL has and Python has not.
        return value
