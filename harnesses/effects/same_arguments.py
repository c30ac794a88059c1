"""Whether an effect that a crash interrupted is resumed with the arguments it was begun with, also after an upgrade."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

_decode = msgspec.json.Decoder().decode


def is_same(recorded: str, arguments: str, values: Sequence[object]) -> bool:
    """Return whether recorded arguments are those of a call, apart from fields that their classes have got since.

    Args:
        recorded: JSON of the arguments that the effect was begun with.
        arguments: JSON of the arguments of the call.
        values: the arguments of the call. A field of their classes that is not on record counts as its default.
    """
    if recorded == arguments:
        return True
    before, now = _decode(recorded), _decode(arguments)
    return before == now or (_has_all(now, before) and _filled(before, values) == [*values])


def _filled(recorded: Sequence[Any], values: Sequence[object]) -> list[object] | None:
    """Return recorded arguments with the defaults of the fields that are not there."""
    try:
        return [msgspec.convert(one, type(value)) for one, value in zip(recorded, values, strict=True)]
    except (ValueError, TypeError):
        return None


def _has_all(now: object, before: object) -> bool:
    """Return whether a value has every part that another has, unchanged."""
    if isinstance(now, dict) and isinstance(before, dict):
        parts, kept = cast(dict[str, object], now), cast(dict[str, object], before)
        return kept.keys() <= parts.keys() and all(_has_all(parts[name], kept[name]) for name in kept)
    if isinstance(now, list) and isinstance(before, list):
        rows, others = cast(list[object], now), cast(list[object], before)
        return len(rows) == len(others) and all(map(_has_all, rows, others))
    return now == before
