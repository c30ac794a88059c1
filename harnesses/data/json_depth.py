"""Judges how deeply JSON text is nested without parsing it. Pure.

Invariant: text that passes can be parsed, copied and stored by code that recurses into it.
"""

from __future__ import annotations

import re

MAX_LEVELS = 100
"""Levels of lists and objects in JSON from outside: half of what a record may have, see `values`."""
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{\]}]', re.DOTALL)


def is_too_deep(text: str, most: int = MAX_LEVELS) -> bool:
    """Return whether lists and objects in JSON text are nested in more than `most` levels."""
    if text.count("[") + text.count("{") <= most:
        return False
    level = 0
    for found in _TOKEN.finditer(text):
        sign = found[0]
        if sign in "[{":
            level += 1
            if level > most:
                return True
        elif sign in "]}":
            level -= 1
    return False
