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

_RUNS = bytes(ord("x") if chr(code) in "_-~" or (code < 128 and chr(code).isalnum()) else ord(" ") for code in range(256))
_RUN = b"x" * 16
"""Every pattern of an issuer has a run of so many characters without a break."""


_SHAPE = bytes(ord("0") if 48 <= code < 58 else code for code in range(256))
_NEEDLES = tuple({form: None for prefix, _ in PATTERNS for form in (prefix, prefix.encode().translate(_SHAPE).decode())})
"""What the patterns begin with, and how that looks when every digit is a 0."""
_CLEAN: set[bytes] = set()
_MOST_SHAPES = 4096
_LONGEST_SHAPE = 2000


def body_may_hold_secret(body: bytes) -> bool:
    """Return the same for JSON; quickly, if it was asked before for one that differs in nothing but digits.

    What a harness yields differs from step to step in numbers and times, and seldom in words.
    """
    if len(body) > _LONGEST_SHAPE:
        return may_hold_secret(str(body, "utf-8"))
    shape = body.translate(_SHAPE)
    if shape in _CLEAN:
        return False
    if may_hold_secret(str(shape, "utf-8")):
        return True
    if len(_CLEAN) >= _MOST_SHAPES:
        _CLEAN.clear()
    _CLEAN.add(shape)
    return False


def may_hold_secret(text: str) -> bool:
    """Return whether `text` is worth searching: false only if there is certainly no secret in it."""
    low = text.lower()
    return (
        "secret" in low
        or "pass" in low
        or "auth" in low
        or "bearer" in low
        or "credential" in low
        or "phrase" in low
        or "mnemonic" in low
        or ("k" in low and ("key" in low or "token" in low or "cookie" in low))
        or ("w" in low and ("pw" in low or "jwt" in low or "wif" in low))
        or ("-" in low and ("private-lines" in low or "-p " in low or "-securestring" in low or "-api" in low))
        or ("/" in low and "://" in low)
        or ("l" in low and ("curl" in low or "mysql" in low or "redis-cli" in low))
        or (_RUN in text.encode(errors="replace").translate(_RUNS) and any(needle in low for needle in _NEEDLES))
    )


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
