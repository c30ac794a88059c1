"""Characters that act on who shows a text, or are not seen: controls, marks that turn the line around, zero-width ones. Pure.

The law: text from agents, markets and files is written and shown without them. `inert` writes them out, for people;
`inert_json` escapes them, so that the JSON means the same.
"""

from __future__ import annotations

import re

_ACTIVE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but for tabs and line feeds
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    r"\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # unseen, or turns the line around
    r"\ud800-\udfff]"  # halves of characters, which no file can hold
)


def inert(text: str) -> str:
    """Return `text` with every such character written out: `\\x1b`, `\\u202e`. Line feeds and tabs stay."""
    return _ACTIVE.sub(_written_out, text)


def inert_json(text: str) -> str:
    """Return JSON text with the same meaning in which every such character is escaped, those too that JSON allows."""
    return _ACTIVE.sub(_escaped, text)


def _written_out(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
