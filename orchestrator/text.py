"""Text from agents, made fit to be shown: without secrets, and inert: unable to move the cursor, colour the screen or turn the
line around.
"""

from __future__ import annotations

import re

from harnesses.secrets import redact_text

_LIVE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def inert(text: str) -> str:
    """Return `text` without secrets, every control character written out: `\\x1b`, `\\u202e`. Line feeds and tabs stay."""
    return _inert(redact_text(text))


def one_line(text: str, width: int = 200) -> str:
    """Return `text` without secrets, inert, on one line, and cut to `width` characters."""
    flat = _inert(" ".join(redact_text(text).split()))
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def inert_json(text: str) -> str:
    """Return JSON text with the same meaning in which control characters are escaped, those too that JSON allows."""
    return _LIVE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _inert(text: str) -> str:
    return _LIVE.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
