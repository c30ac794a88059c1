"""Secrets that this process holds itself, such as the keys of model providers: replaced wherever they appear.

They are found by their value, also where nothing near them tells that they are secrets. They stay known until the process
ends, since records and logs may still name them after they are replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

_SHORTEST = 12
"""Shorter values are not concealed: they would be found in ordinary text."""
_MOST = 256
"""Maximum number of values; the oldest are forgotten."""
_values: dict[str, None] = {}
_forms: tuple[str, ...] = ()
"""The values as they are and as they are written in JSON, the longest first."""
_finder: re.Pattern[str] | None = None


def conceal_secret(value: str) -> None:
    """Have a value replaced in everything that is redacted by this process from now on. Shorter ones than 12 are ignored."""
    global _forms, _finder
    if len(value) < _SHORTEST or value in _values:
        return
    while len(_values) >= _MOST:
        del _values[next(iter(_values))]
    _values[value] = None
    forms = {form for known in _values for form in (known, json.dumps(known)[1:-1])}
    _forms = tuple(sorted(forms, key=len, reverse=True))
    _finder = re.compile("|".join(map(re.escape, _forms)))


def holds_known_secret(text: str) -> bool:
    """Return whether a concealed value is in a text."""
    return bool(_forms) and any(form in text for form in _forms)


def places_of_known_secrets(texts: Sequence[str]) -> Iterator[int]:
    """Yield the indices of the texts that hold a concealed value."""
    if _forms:
        yield from (place for place, text in enumerate(texts) if holds_known_secret(text))


def find_known_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of concealed values."""
    if _finder is not None:
        for match in _finder.finditer(text):
            yield match.span()
