"""Text from agents, made fit to be shown: without secrets, and inert: unable to move the cursor, colour the screen or turn the
line around.
"""

from __future__ import annotations

import sys

from harnesses.diagnostics import control_characters
from harnesses.redaction.redactor import redact_text

CAUSE_WIDTH = 1000
"""Characters of a cause that are shown: what to do stands at its end."""


def inert(text: str) -> str:
    """Return `text` without secrets, every control character written out: `\\x1b`, `\\u202e`. Line feeds and tabs stay."""
    return control_characters.inert(redact_text(text))


def one_line(text: str, width: int = 200) -> str:
    """Return `text` without secrets, inert, on one line, and cut to `width` characters."""
    flat = control_characters.inert(" ".join(redact_text(text).split()))
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def say(text: str) -> None:
    """Tell the operator, on stderr."""
    print(text, file=sys.stderr, flush=True)
