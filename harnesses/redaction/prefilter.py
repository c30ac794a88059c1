"""Prefilter: decides quickly which texts may contain a secret, so that only those are searched. Pure.

Invariant: a text that the prefilter skips contains nothing that the search would find; a text that it keeps may contain no
secret. The engine never affects what is found, only how many texts are searched in vain.

The engine is RE2 (extra `redaction`): one automaton over all texts of a batch, linear in time whatever the text and the
patterns, and run without the GIL, so that other threads continue. Measured over 512 steps of 370 bytes, each:

    google-re2 2.2 µs (1.1 with random hex)     hyperscan 2.4     ahocorasick-rs 3.4, and 5 hits each to look at
    stdlib `re` with the same pattern 300       stdlib `in` for each word 10

All three have wheels for CPython 3.11 to 3.13 on Linux (x86_64, aarch64), macOS and Windows; only RE2 accepts the patterns of
the rules unchanged. Without it, words are searched one by one with `in`: also linear, but a step that contains a word such as
`pass` or `token` is searched whether or not a value follows.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, count
from typing import Any

from harnesses.redaction.known_secrets import holds_known_secret, places_of_known_secrets
from harnesses.redaction.re2_engine import compile_re2
from harnesses.redaction.secret_rules import Rule, rules
from harnesses.redaction.secret_values import SAID, STAGES

_WINDOW = 1 << 20
"""Bytes per call of the engine: 3 ms."""
_ENGINE_AFTER = 200
"""Texts checked one by one before the engine is built, which takes as long as checking 2,000: too long for a short command."""
_checked = count()
_LONGEST = 1 << 10
"""Maximum length of a match, in bytes: the overlap of two windows."""


def may_hold_secret(text: str) -> bool:
    """Return False only if there is certainly no secret in `text`."""
    if not text:
        return False
    if holds_known_secret(text):
        return True
    engine = _engine() if next(_checked) >= _ENGINE_AFTER else None
    if engine is None:
        low = text.lower()
        return any(word in low for word in _words()) or any(rest.search(text) for rest in _rest())
    return _first(engine, text.encode(errors="replace"), 0) >= 0


def suspects(texts: Sequence[str]) -> Iterator[int]:
    """Yield the indices of the texts that may contain a secret, some of them twice."""
    engine = _engine()
    if engine is None:
        yield from (place for place, text in enumerate(texts) if may_hold_secret(text))
        return
    yield from places_of_known_secrets(texts)
    together = "\n".join(texts)
    joined = together.encode(errors="replace")
    found = _first(engine, joined, 0)
    if found < 0:
        return
    sizes = map(len, texts if together.isascii() else (text.encode(errors="replace") for text in texts))
    ends = list(accumulate(size + 1 for size in sizes))
    while found >= 0:
        place = bisect_right(ends, found)
        yield place
        found = _first(engine, joined, ends[place])


def _first(engine: Any, text: bytes, place: int) -> int:
    """Return the position of the first possible secret at or after `place`; -1 if there is none."""
    size = len(text)
    while place < size:
        found = engine.search(text, place, min(size, place + _WINDOW + _LONGEST))
        if found is not None:
            return int(found.start())
        place += _WINDOW
    return -1


_OPEN = r"""(?:["'`\\\]*]|%22|%27|&quot;|&#34;)"""
_SIGN = (
    rf"{_OPEN}*\s*(?::\s?[a-z][a-z0-9_.\[\]| ]*=|[-=:]?[=:>,;|"
    "→\uff1a\uff1d"
    r"]|\\+uff1[ad]|!=|%3[ad]|-\s)"
    rf"|{_OPEN}+\s*(?:\}}|value|type)|{_OPEN}*(?:\x1b|\\+u001b)\["
)
"""The separator between a name and its value, including type annotations."""
_BEFORE = rf"(?:\s|\\[nrt])*[bfru[]*{_OPEN}*"
_FOREIGN = "\u0080-\U0010ffff"
_VALUE = rf"[0-9.]*[a-z_+/=~%:&?{_FOREIGN}-][a-z0-9+/=_.~%:&?!@#$^*{_FOREIGN}-]"
"""A value that is not a number, so that `tokens` and `max_tokens` are not matched."""
_INSIDE = rf"[a-z0-9+/=_.~%:&?!@#$^*\\\x1b\[;{_FOREIGN}-]"
"""A character of a value, or of an escape in it."""
_DRAWN = rf"(?:[0-9.]+[a-z_+/=~%:&?{_FOREIGN}-][a-z0-9+/=_.~%:&?!@#$^*{_FOREIGN}-]{{4}}|{_VALUE}{{4}}{_INSIDE}{{11}})"
"""A value that is long enough to look random, or begins with digits: in `max_tokens value`, a word is not matched."""
_MIXED = rf"""[^\s"'`,;|<>(){{}}\[\]\\]*[a-z{_FOREIGN}]"""
"""A value that contains a letter."""
_SAID = rf"{_OPEN}*\s+(?:{SAID})[\s:]+{_BEFORE}{_VALUE}{{6}}"
"""A value in a sentence: "the token is …"."""
_BESIDE = rf"{_OPEN}*\s+{_BEFORE}{_VALUE}{{16}}"
_ALONE = ("PRIVATE KEY", "Private-Lines", r"""kind["'\\]*\s*:\s*["'\\]*Secret""")
"""Markers of private keys and manifests."""


def _unsaid(kind: tuple[Rule, ...]) -> set[str]:
    return {re.escape(word) for rule in kind if rule.suspect is None for word in rule.words}


@cache
def suspect() -> str:
    """Return a pattern that matches in every text that may contain a secret, in the syntax shared by RE2 and `re`."""
    names = rules().names
    parts = {f"{word}[a-z0-9_./+=~-]{{8}}" for word in _unsaid(rules().issued.rules)} | _unsaid(rules().shapes.rules)
    ends = ("token", "key", "pass", "phrase")
    kinds = {name.removesuffix(end) for name in names["strong"] for end in ends if name.endswith(end)} - {"", *ends}
    of_kinds = {f"{kind}{end}" for kind in kinds for end in ends}
    alone = (names["strong"] - of_kinds) | names["passwords"] | names["headers"]
    weak, mixed, digits = (
        "|".join(sorted(words))
        for words in (names["weak"] | names["drawn"] | {"pw"}, names["mixed"] | {"pw"}, names["digits"])
    )
    parts |= {
        "|".join(sorted(alone)),
        "art-api",
        "|".join(sorted(map(re.escape, rules().joined))),
        "|".join(re.escape(word) for word, meant in rules().found.items() if meant),
        rf"(?:{'|'.join(sorted(kinds))})(?:[_.-]{{0,2}}(?:{'|'.join(ends)})s?[0-9]{{0,3}}(?:[_.-](?:{STAGES}))?(?:{_SIGN}|{_OPEN}{{0,4}}(?:\s|\\[nrt]))"
        # In a sentence: "the access key of the bucket".
        rf"|[_. -]{{0,2}}(?:{'|'.join(ends)})s?[0-9]{{0,3}}(?:{_SIGN}|[\t\n]|\s\s|{_SAID}|{_BESIDE}))",
        rf"token{_SAID}",
        rf"(?:{mixed})\s{{1,4}}(?:is|was)[\s:]{{1,4}}{_BEFORE}{_VALUE}{{6}}",
        rf"token{_BESIDE}",
        rf"(?:{weak})s?[0-9]{{0,3}}(?:{_SIGN}){_BEFORE}{_VALUE}{{14}}",
        rf"[_-](?:{mixed})s?[0-9]{{0,3}}\s{_BEFORE}{_VALUE}{{4}}",
        rf"[_-](?:{weak})s?[0-9]{{0,3}}\s{_BEFORE}{_DRAWN}",
        rf"(?:{mixed}|{digits})s?[0-9]{{0,3}}(?:{_SIGN}){_BEFORE}{_MIXED}",
        rf"(?:{digits})s?[0-9]{{0,3}}(?:{_SIGN}|\s){_BEFORE}(?:[0-9]{{3}}|{_VALUE}{{4}})",
        rf"(?:{'|'.join(sorted(names['whole']))})s?[0-9]{{0,3}}(?:{_SIGN}|\s)",
    }
    exact = [rule.suspect for rule in (*rules().issued.rules, *rules().shapes.rules) if rule.suspect]
    return "|".join((f"(?i:{'|'.join(sorted(parts))})", *_ALONE, *exact))


def coarse_suspect() -> str:
    """Return a coarser pattern, with more false positives, for an engine with room only for a small automaton."""
    return f"(?i:{'|'.join(map(re.escape, _words()))})|" + "|".join(rest.pattern for rest in _rest())


@cache
def _words() -> tuple[str, ...]:
    """Return lower-case words, one of which is in every text that may contain a secret, except those matched by `_rest`."""
    of_rules = (word for rule in (*rules().issued.rules, *rules().shapes.rules) for word in rule.words if len(word) > 1)
    of_names = (word for kind in ("passwords", "headers") for word in rules().names[kind])
    found = dict.fromkeys((*of_rules, *of_names, *rules().found, "private key", "private-lines", "kind"))
    return tuple(word for word in found if found.keys().isdisjoint(_parts(word)))


def _parts(word: str) -> Iterator[str]:
    """Yield every part of a word but the whole."""
    size = len(word)
    return (word[at:end] for at in range(size) for end in range(at + 1, size + 1) if end - at < size)


@cache
def _rest() -> tuple[re.Pattern[str], ...]:
    """Return patterns for secrets that contain no word of more than one letter."""
    without = (rule for rule in rules().issued.rules if all(len(word) == 1 for word in rule.words))
    return tuple(re.compile(rule.suspect) for rule in without if rule.suspect)


@cache
def _engine() -> Any:
    """Return the compiled automaton; None if the extra is not installed."""
    return compile_re2(suspect(), max_mem=64 << 20)
