"""`StreamRedactor`: redacts a text that arrives in pieces. Pure.

    … context, released │ to be released │ held back      ◄── next piece
      └───────── searched for secrets as one text ────┘

Invariant: what is released has no secret, wherever the pieces are cut. The end of the text is held back while it may be the
start of a secret: what is released ends at a space, outside of everything that looks like a secret so far, and `HELD`
characters before the end.
"""

from __future__ import annotations

import re

from harnesses.redaction.detect import cut, merge, spans
from harnesses.redaction.prefilter import may_hold_secret
from harnesses.redaction.secret_values import Span

HELD = 64
"""Characters that are held back at least."""
CONTEXT = 4_096
"""Released characters that are searched again with what follows: the name beside a secret, the header of a table."""
MOST_HELD = 32_768
"""Characters that are held back at most; a longer word is replaced whole."""
_STEP = 256
"""Characters from one search of a text that may hold a secret to the next: a search takes milliseconds."""

_KEY_LINE = re.compile(r"[A-Za-z0-9+/]{16,80}={0,2}\s*")


class StreamRedactor:
    """Redacts one text that arrives in pieces."""

    __slots__ = ("_done", "_next", "_text")

    def __init__(self) -> None:
        self._text = ""
        self._done = 0
        """How much of the text is released."""
        self._next = HELD

    def feed(self, piece: str) -> str:
        """Take the next piece; return what can be released, which may be nothing."""
        self._text += piece
        size = len(self._text)
        if size < self._next:
            return ""
        end = self._boundary(size - HELD)
        if end <= self._done and size - self._done <= MOST_HELD:
            return ""
        if not may_hold_secret(self._text):
            return self._release([], end if end > self._done else size - HELD)
        self._next = size + _STEP
        found = list(merge(spans(self._text)))
        for start, stop in found:
            # One that reaches into what is held back may grow.
            if start < end < stop or stop > size - HELD:
                end = min(end, self._boundary(start))
        if size - self._done > MOST_HELD:
            return self._release([*found, (max(end, self._done), size)], size)
        return self._release(found, end)

    def finish(self) -> str:
        """Return the rest: the text is complete. The next piece begins another text."""
        found = list(merge(spans(self._text))) if may_hold_secret(self._text) else []
        released = self._release(found, len(self._text))
        self._text, self._done, self._next = "", 0, HELD
        return released

    def _boundary(self, most: int) -> int:
        """Return the place after the last space up to `most`, and before lines that may belong to a private key."""
        end = max(self._text.rfind(sign, self._done, max(most, self._done)) for sign in (" ", "\n", "\t")) + 1
        while end > self._done:
            line = max(self._text.rfind("\n", self._done, end - 1) + 1, self._done)
            if _KEY_LINE.fullmatch(self._text, line, end) is None:
                break
            end = line
        return end

    def _release(self, found: list[Span], end: int) -> str:
        begin, self._done = self._done, max(end, self._done)
        if self._done == begin:
            return ""
        inside = [(max(start, begin), min(stop, end)) for start, stop in found if start < end and stop > begin]
        text = cut(self._text[begin:end], [(start - begin, stop - begin) for start, stop in inside])
        if (surplus := self._done - CONTEXT) > 0:
            self._text, self._done, self._next = self._text[surplus:], CONTEXT, self._next - surplus
        return text
