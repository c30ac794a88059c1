"""Splits text into search words: lower-case, stemmed, without duplicates. Pure.

Invariant: stored texts and queries pass through the same function, so `rounding prices` finds `price rounded`.

Words are letters and digits; `fix_rounding-v2` is found whole and by its parts. Stemming follows the first steps of Porter's
algorithm, and a little more: enough for `caching`, `cached` and `caches` to match, too little for `university` and `universe`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

MOST = 400
"""Maximum number of distinct words in one query."""
_WORD = re.compile(r"[^\W_]+(?:[-_.][^\W_]+)*")
_PARTS = re.compile(r"[-_.]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_VOWEL = re.compile(r"[aeiouy]")
_STOP = (
    "a an and are as at be been but by can could did do does for from had has have how if in into is it its may more most "
    "must no not of on or our out over shall should so some such than that the their them then there these they this those "
    "to too under up was we were what when where which while who why will with would you your also all any each per"
)
STOP = frozenset(_STOP.split())
"""Stop words, which say nothing about the subject of a text."""
_ROUNDS = 3
"""Maximum number of endings removed from one word, so that `reminders` and `remind` match."""
_ENDINGS = {
    ending: instead
    for endings, instead in (
        ("izations ization isation", "ize"),
        ("ational ations ation ators ator", "ate"),
        ("fulness", "ful"),
        ("ousness", "ous"),
        ("iveness", "ive"),
        ("ments", "ment"),
        ("ities", "ity"),
        ("ically", "ic"),
        ("ances", "ance"),
        ("ences", "ence"),
        ("nesses ness", ""),
        ("ises ise", "ize"),
        ("ings", "ing"),
    )
    for ending in endings.split()
}
"""Replacements of word endings; the first that matches is used."""


def words(text: str) -> tuple[str, ...]:
    """Return the search words of a text, without duplicates, in order."""
    return tuple(dict.fromkeys(all_words(text)))


def all_words(text: str) -> Iterator[str]:
    """Yield the search words of a text, including repetitions."""
    for match in _WORD.finditer(unicodedata.normalize("NFKC", text)):
        yield from _forms(match[0])


@lru_cache(65536)
def _forms(word: str) -> tuple[str, ...]:
    """Return the search forms of a word: its stemmed parts, and if there are several parts also the whole."""
    parts = [part for piece in _PARTS.split(word) for part in _HUMP.split(piece)]
    found = [stem(part.casefold()) for part in parts if part.casefold() not in STOP and (len(part) > 1 or part.isdigit())]
    whole = word.casefold()
    return tuple(found) if len(parts) == 1 else (*found, whole)


def stem(word: str) -> str:
    """Return the stem of a word; short words and words with digits or non-ASCII letters stay unchanged."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    word = _singular(word)
    for _ in range(_ROUNDS):
        shorter = _shorter(word)
        if shorter == word:
            break
        word = shorter
    return _bare(word)


def _shorter(word: str) -> str:
    for ending, instead in _ENDINGS.items():
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + instead
    return _without_verb_ending(word)


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _without_verb_ending(word: str) -> str:
    for ending in ("ingly", "edly", "ing", "ed", "er", "ly"):
        if word.endswith(ending):
            left = word[: -len(ending)]
            if len(left) >= 3 and _VOWEL.search(left):
                return left[:-1] if left[-1] == left[-2] and left[-1] not in "lsz" else left
    return word


def _bare(word: str) -> str:
    """Return a word without a silent final `e`, and with a final `y` as `i`: `retry` and `retri` match."""
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    if word.endswith("y") and len(word) > 3:
        word = word[:-1] + "i"
    return word
