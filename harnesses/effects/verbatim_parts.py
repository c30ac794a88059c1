"""Puts back the parts of a redacted result that have to be read back as they were, such as arguments of tool calls. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def with_verbatim(clean: str, text: str, paths: Sequence[str]) -> str:
    """Return a redacted result, as JSON, with the parts at `paths` as they were before.

    Args:
        clean: the redacted result.
        text: the result before it was redacted.
        paths: names joined by dots, such as `message.calls.arguments`; a name below a list is that of each item.
    """
    if clean is text:
        return text
    made, given = _decode(clean), _decode(text)
    for path in paths:
        _put_back(made, given, path.split("."))
    return str(_encode(made), "utf-8")


def _put_back(made: Any, given: Any, names: Sequence[str]) -> None:
    if isinstance(made, list) and isinstance(given, list):
        for one, other in zip(cast(Sequence[Any], made), cast(Sequence[Any], given), strict=True):
            _put_back(one, other, names)
    elif isinstance(made, dict) and isinstance(given, dict):
        name, *rest = names
        twin, origin = cast(dict[str, Any], made), cast(dict[str, Any], given)
        if name in twin and name in origin:
            if rest:
                _put_back(twin[name], origin[name], rest)
            else:
                twin[name] = origin[name]
