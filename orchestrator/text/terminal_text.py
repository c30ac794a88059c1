"""Untrusted text made safe to show: without secrets, and without characters that move the cursor, change colours or reverse
the line.
"""

from __future__ import annotations

import sys

from harnesses.diagnostics import control_characters
from harnesses.redaction.redactor import redact_text

CAUSE_WIDTH = 1000
"""How many characters of a cause are shown: the remedy is at its end."""


def inert(text: str) -> str:
    """Return `text` without secrets and with control characters escaped: `\\x1b`, `\\u202e`. Line feeds and tabs stay."""
    return control_characters.inert(redact_text(text))


def one_line(text: str, width: int = 200) -> str:
    """Return `text` on one line, without secrets, control characters escaped, cut to `width` characters."""
    flat = control_characters.inert(" ".join(redact_text(text).split()))
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def say(text: str) -> None:
    """Print a message for the operator to stderr."""
    print(text, file=sys.stderr, flush=True)
