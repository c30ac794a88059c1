"""Control and invisible characters: terminal controls, bidirectional marks, zero-width characters. Pure.

Invariant: text from agents, markets and files is written and displayed without them. `inert` shows them as escapes, for
people; `inert_json` escapes them without changing the meaning of the JSON.
"""

from __future__ import annotations

import re

_ACTIVE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, except tabs and line feeds
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff"
    r"\uffa0\ufff0-\ufffb\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    # So far: invisible, or changes the text direction. The two selectors of how an emoji is drawn stay, but not in a row.
    r"\ud800-\udfff]"  # lone surrogates, which no file can hold
    r"|(?<=[\ufe0e\ufe0f])[\ufe0e\ufe0f]"
)


def inert(text: str) -> str:
    """Return `text` with every such character shown as an escape: `\\x1b`, `\\u202e`. Line feeds and tabs stay."""
    return text if _is_plain(text) else _ACTIVE.sub(_written_out, text)


def inert_json(text: str) -> str:
    """Return equivalent JSON text in which every such character is escaped, including those that JSON allows."""
    return text if _is_plain(text) else _ACTIVE.sub(_escaped, text)


def _is_plain(text: str) -> bool:
    """Return whether all characters are ASCII that prints: most texts are, and the pattern takes ten times as long."""
    return text.isascii() and text.isprintable()


def _written_out(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
