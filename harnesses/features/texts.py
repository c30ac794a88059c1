"""Text from agents and validators: cut to size, and made inert. Pure.

The law: what is kept of a text, and what is shown of it, is bounded; and nothing of it can act on who shows it.
"""

from __future__ import annotations

import re

from harnesses.features.record import MAX_TEXT

_LIVE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def last_part(text: str, most: int = MAX_TEXT) -> str:
    """Return at most the last `most` characters: a traceback ends with what went wrong."""
    return text if len(text) <= most else f"…{text[len(text) - most + 1 :]}"


def inert(text: str) -> str:
    """Return `text` with every control character written out: `\\x1b`, `\\u202e`. Line feeds and tabs stay."""
    return _LIVE.sub(_written_out, text)


def one_line(text: str, most: int = 200) -> str:
    """Return `text` inert, on one line, and cut to its first `most` characters."""
    flat = " ".join(inert(text[: 4 * most]).split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def first_line(text: str, most: int = 200) -> str:
    """Return the first line of `text` that says something, inert and cut to size."""
    return next((one_line(line, most) for line in text[:MAX_TEXT].splitlines() if line.strip()), "")


def _written_out(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
