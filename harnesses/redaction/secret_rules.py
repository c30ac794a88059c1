"""The rules for recognising secrets, loaded from `secret_rules.toml` on first use. No other state.

names       names whose values are secret
issued      values with a known format: a prefix chosen by the issuer, and what follows
shapes      values known by their context: commands, files, headers, addresses
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from json import dumps
from math import log2
from typing import Any

from attrs import frozen

from harnesses.redaction.word_index import WordIndex


@frozen
class Rule:
    """A pattern, with further conditions on its matches."""

    id: str
    words: Sequence[str]
    """Lower-case words, one of which is in every text that the pattern matches."""
    pattern: str
    entropy: float = 0.0
    """Minimum entropy of the secret, in bits per character."""
    judge: str = "any"
    low: bool = False
    """Whether the pattern applies to the lower-cased text."""
    suspect: str | None = None
    """A prefilter pattern that matches every text with such a secret, in syntax common to RE2 and `re`; None if not needed."""

    @property
    def finder(self) -> re.Pattern[str]:
        """The pattern, compiled on first use."""
        return _compile(self.pattern)

    def is_varied(self, value: str) -> bool:
        """Return whether a value has as many different characters as a secret of this kind must have."""
        if not self.entropy:
            return True
        shares = [value.count(char) / len(value) for char in set(value)]
        return -sum(share * log2(share) for share in shares) >= self.entropy


class Group:
    """A set of rules, with an index of those worth trying on a text."""

    __slots__ = ("_by_word", "rules")

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._by_word: dict[str, list[int]] = {}
        for place, rule in enumerate(self.rules):
            for word in rule.words:
                self._by_word.setdefault(word, []).append(place)

    @property
    def words(self) -> Iterable[str]:
        """The words of its rules."""
        return self._by_word

    def worth_trying(self, words: Iterable[str]) -> list[Rule]:
        """Return the rules that have one of these words."""
        tried = {place for word in words for place in self._by_word.get(word, ())}
        return [self.rules[place] for place in sorted(tried)]


@frozen
class Rules:
    """All rules for recognising secrets."""

    names: dict[str, frozenset[str]]
    """Names by strength, without the separators between their words."""
    joined: frozenset[str]
    """Names of several words, with all separators."""
    found: dict[str, str]
    """Lower-case spellings by which names are found in text; escaped letters (`\\u00f1`) map to what they stand for."""
    issued: Group
    shapes: Group
    index: WordIndex
    """The words of `found`, first and in their order, and of both groups."""
    anywhere: frozenset[str]
    """Ids of issued values that may follow a letter."""
    often_words: frozenset[str]
    """Ids of issued values whose prefix is also a common end of a name."""


@cache
def rules() -> Rules:
    """Return all rules, loaded once."""
    data: dict[str, Any] = tomllib.loads(files("harnesses.redaction").joinpath("secret_rules.toml").read_text("utf-8"))
    words = {kind: text.lower().split() for kind, text in data["names"].items()}
    found = words.pop("found")
    several = [name for names in words.values() for name in names if name != _squeeze(name)]
    joined = [name.replace("_", sign) for name in several for sign in ("", "_", "-", ".", " ")]
    own = [_build_prefix_rule(start, rest) for start, rest in data["prefixes"].items()]
    spelled = _with_escapes([*found, *joined])
    issued, shapes = Group((*own, *(Rule(**rule) for rule in data["issued"]))), Group(Rule(**rule) for rule in data["shape"])
    return Rules(
        names={kind: frozenset(map(_squeeze, names)) for kind, names in words.items()},
        joined=frozenset(joined),
        found=spelled,
        issued=issued,
        shapes=shapes,
        index=WordIndex((*spelled, *issued.words, *shapes.words)),
        anywhere=frozenset(data["joined"]["anywhere"].split()),
        often_words=frozenset(data["joined"]["often_words"].split()),
    )


def _squeeze(name: str) -> str:
    return "".join(filter(str.isalnum, name))


def _build_prefix_rule(start: str, rest: str) -> Rule:
    begin = re.escape(start)
    return Rule(id=start, words=(start.lower(),), pattern=begin + rest, suspect=f"{begin}[A-Za-z0-9_./+=~-]{{8}}")


def _with_escapes(words: list[str]) -> dict[str, str]:
    escaped = {dumps(form)[1:-1].lower(): word for word in words if not word.isascii() for form in (word, word.capitalize())}
    twice = {form.replace("\\", "\\\\"): word for form, word in escaped.items()}
    return {**dict.fromkeys(words, ""), **escaped, **twice}


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
