"""Decide which texts may hold a secret, so that only those are searched. Pure.

The law: a text that is passed over holds nothing that the search would find; one that is not may hold none. What is found
never depends on the engine, only how many texts are searched for nothing.

The engine is RE2 (extra `redaction`): one automaton over all texts of a batch, linear in time whatever the text and the
patterns, and run without holding the interpreter, so that other threads go on. Measured over 512 steps of 370 bytes, each:

    google-re2 2.2 µs (1.1 with random hex)     hyperscan 2.4     ahocorasick-rs 3.4, and 5 hits each to look at
    stdlib `re` with the same pattern 300       stdlib `in` for each word 10

All three have wheels for CPython 3.11 to 3.13 on Linux (x86_64, aarch64), macOS and Windows; RE2 alone reads the patterns of
the rules as they are. Without it, words are looked for one by one with `in`: linear as well, but a step with a word such as
`pass` or `token` in it is searched whether or not a value follows.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import accumulate
from typing import Any

from harnesses.secret_patterns import PATTERNS

_RARE = (
    *("passw", "passphrase", "passcode", "secret", "credential", "authorization", "bearer", "cookie", "mnemonic", "phrase"),
    *("private key", "private-lines", "requirepass", "curl", "mysql", "sshpass", "redis-cli", "mongo", "htpasswd"),
    *("art-api", "securestring", "hooks.slack.com", "/api/webhooks", "sig=", "signature=", "seed words", "recovery words"),
)
"""Words that make a text worth searching by themselves."""
_NAMES = ("pass", "pwd", "pw", "token", "key", "auth", "jwt", "wif", "phrase")
"""Words that do if a value follows."""
_STARTS = tuple(re.sub(r"\\(.)", r"\1", pattern.pattern)[: len(prefix)] for prefix, pattern in PATTERNS)
_WORDS = (*_RARE, *_NAMES, "://", "login", *map(str.lower, _STARTS))
_OPEN = r"""["'`\\\]]"""
_SIGN = rf"{_OPEN}{{0,6}}\s{{0,8}}(?::\s{{0,2}}[a-z][a-z0-9_.\[\]| ]{{0,30}}=|[=:>,|]|!=)|{_OPEN}{{1,6}}\s*(?:\}}|value)|\s"
"""Between a name and its value, annotations included."""
_VALUE = "[0-9.]{0,40}[a-z_+/=~%:&?-][a-z0-9+/=_.~%:&?-]{4}"
"""No number: `tokens` and `max_tokens` are no suspects."""
SUSPECT = "|".join(
    (
        f"(?i:{'|'.join(map(re.escape, _RARE))})",
        r"""://[^\s"@]*@|(?i:login.*-p )""",
        rf"(?i:(?:{'|'.join(_NAMES)})s?[0-9]{{0,3}}(?:{_SIGN})(?:\s|\\[nrt]){{0,9}}[bfru]{{0,2}}{_OPEN}{{0,8}}{_VALUE})",
        f"(?:{'|'.join('[0-9]:AA' if start == 'AA' else re.escape(start) for start in _STARTS)})[A-Za-z0-9_./+=~-]{{8}}",
    )
)
"""What begins every secret, or stands before it, in the syntax that RE2 and `re` share."""

_WINDOW = 1 << 20
"""Bytes that one call of the engine looks at: 3 ms."""
_LONGEST = 1 << 10
"""Bytes that what is looked for has at most: windows overlap so far."""


def may_hold_secret(text: str) -> bool:
    """Return whether `text` is worth searching: false only if there is certainly no secret in it."""
    engine = _engine()
    if engine is None:
        low = text.lower()
        return any(word in low for word in _WORDS)
    return _first(engine, text.encode(errors="replace"), 0) >= 0


def suspects(texts: Sequence[str]) -> Iterator[int]:
    """Return which of some texts may hold a secret, by their places."""
    engine = _engine()
    if engine is None:
        yield from (place for place, text in enumerate(texts) if may_hold_secret(text))
        return
    encoded = [text.encode(errors="replace") for text in texts]
    joined = b"\n".join(encoded)
    found = _first(engine, joined, 0)
    if found < 0:
        return
    ends = list(accumulate(len(text) + 1 for text in encoded))
    while found >= 0:
        place = bisect_right(ends, found)
        yield place
        found = _first(engine, joined, ends[place])


def _first(engine: Any, text: bytes, place: int) -> int:
    """Return where the first thing that may be a secret begins, from a place on; -1 if there is none."""
    size = len(text)
    while place < size:
        found = engine.search(text, place, min(size, place + _WINDOW + _LONGEST))
        if found is not None:
            return int(found.start())
        place += _WINDOW
    return -1


@cache
def _engine() -> Any:
    """Return the compiled automaton; None if the extra is not installed."""
    try:
        re2: Any = import_module("re2")
    except ImportError:
        return None
    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    options.max_mem = 64 << 20
    return re2.compile(SUSPECT.encode(), options)
