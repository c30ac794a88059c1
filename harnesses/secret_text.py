"""Where in a text the secrets are. Pure.

Each rule gives places in the text; `cut` puts them together, so that secrets which overlap are one. No rule looks further
from any place than a bounded number of characters, unless what it has read is consumed: hostile text costs no more than its
length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from harnesses.secret_addresses import in_addresses, in_headers
from harnesses.secret_commands import commanded
from harnesses.secret_keys import private_keys
from harnesses.secret_named import assigned
from harnesses.secret_patterns import ANYWHERE, OFTEN_WORDS, PATTERNS
from harnesses.secret_values import MARK, Span


def cut(text: str, found: Iterable[Span]) -> str:
    """Return `text` with the mark in place of what was found."""
    parts: list[str] = []
    done = 0
    for start, end in _merged(found):
        parts += (text[done:start], MARK)
        done = end
    return "".join((*parts, text[done:])) if parts else text


def _merged(found: Iterable[Span]) -> Iterator[Span]:
    begin = end = -1
    for start, stop in sorted(found):
        if start > end:
            if end > begin:
                yield begin, end
            begin, end = start, stop
        else:
            end = max(end, stop)
    if end > begin:
        yield begin, end


def spans(text: str) -> list[Span]:
    """Return where the secrets are; the places may overlap."""
    low = _lowered(text)
    found = list(_issued(text, low))
    found += private_keys(text)
    if "://" in low:
        found += in_addresses(text)
    found += in_headers(text, low)
    found += assigned(text, low)
    found += commanded(text, low)
    return found


def _lowered(text: str) -> str:
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(small if len(small := char.lower()) == 1 else char for char in text)


def _issued(text: str, low: str) -> Iterator[Span]:
    for prefix, pattern in PATTERNS:
        if prefix in low:
            for match in pattern.finditer(text):
                if prefix == "eyj" and "." not in match[0]:
                    continue
                if prefix in ANYWHERE or not _joined(text, match.start(), prefix):
                    yield match.span()


_ESCAPE_END = re.compile(
    r"""(?:(?:[\x1b\x9b]|\\e|\\0?33|\\x1b|u001b|\^\[)\[[0-9;:?]{0,20}|\[[0-9][0-9;:]{0,19})[A-Za-z]  # of a terminal
      | \x1b[()][A-Z0-9] | %[0-9A-Fa-f]{2} | =[0-9A-F]{2} | \\u[0-9A-Fa-f]{4} | \\x[0-9A-Fa-f]{2}
      | \\[abefnrtv] | \\[0-7]{1,3}
    """,
    re.VERBOSE,
)
_LONGEST_ESCAPE = 26


def _joined(text: str, start: int, prefix: str) -> bool:
    """Return whether what begins here is the middle of a word. The end of an escape before it, `\\n` or `%3D`, is none."""
    before = text[start - 1 : start]
    if before in ("_", "-"):
        return prefix in OFTEN_WORDS
    if not (before.isascii() and before.isalnum()):
        return False
    place = max(0, start - _LONGEST_ESCAPE)
    return not any(_ESCAPE_END.fullmatch(text, begin, start) for begin in range(place, start - 1))
