"""The rules about secrets, read from `secret_rules.toml` when they are first needed. The only state is what was read.

names       what says that a value beside it is secret
issued      values known by their own look: a beginning that the issuer chose, and what follows
shapes      values known by what stands around them: commands, files, headers, addresses
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


@frozen
class Rule:
    """A pattern, and what is asked of what it finds."""

    id: str
    words: Sequence[str]
    """In small letters: one of them is in every text in which there is something to find."""
    pattern: str
    entropy: float = 0.0
    """Bits a character that the secret has at least."""
    judge: str = "any"
    low: bool = False
    """Whether the pattern is for the text in small letters."""
    suspect: str | None = None
    """Matches in every text that holds one, in the syntax that RE2 and Python share; nothing if another rule's does."""

    @property
    def finder(self) -> re.Pattern[str]:
        """The pattern, compiled when it is first needed."""
        return _compile(self.pattern)

    def is_varied(self, value: str) -> bool:
        """Return whether a value has as many different characters as a secret of this kind."""
        if not self.entropy:
            return True
        shares = [value.count(char) / len(value) for char in set(value)]
        return -sum(share * log2(share) for share in shares) >= self.entropy


class Group:
    """Rules, and which of them are worth trying on a text."""

    __slots__ = ("_by_word", "rules")

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._by_word: dict[str, list[int]] = {}
        for place, rule in enumerate(self.rules):
            for word in rule.words:
                self._by_word.setdefault(word, []).append(place)

    def worth_trying(self, low: str) -> list[Rule]:
        """Return the rules of which a word is in a text in small letters."""
        tried = {place for word, places in self._by_word.items() if word in low for place in places}
        return [self.rules[place] for place in sorted(tried)]


@frozen
class Rules:
    """All that is known of secrets."""

    names: dict[str, frozenset[str]]
    """Without the signs that may join their words."""
    joined: frozenset[str]
    """Names of several words, as they may be written."""
    found: dict[str, str]
    """What names are found by in text, in small letters; for letters that are written out (`\\u00f1`), what they stand for."""
    issued: Group
    shapes: Group
    anywhere: frozenset[str]
    """Ids of issued values that may stand behind a letter."""
    often_words: frozenset[str]
    """Ids of issued values whose beginning is the end of many a name."""


@cache
def rules() -> Rules:
    """Return the rules."""
    data: dict[str, Any] = tomllib.loads(files("harnesses.redaction").joinpath("secret_rules.toml").read_text("utf-8"))
    words = {kind: text.lower().split() for kind, text in data["names"].items()}
    found = words.pop("found")
    several = [name for names in words.values() for name in names if name != _squeeze(name)]
    joined = [name.replace("_", sign) for name in several for sign in ("", "_", "-", ".", " ")]
    own = [_build_prefix_rule(start, rest) for start, rest in data["prefixes"].items()]
    return Rules(
        names={kind: frozenset(map(_squeeze, names)) for kind, names in words.items()},
        joined=frozenset(joined),
        found=_with_escapes([*found, *joined]),
        issued=Group((*own, *(Rule(**rule) for rule in data["issued"]))),
        shapes=Group(Rule(**rule) for rule in data["shape"]),
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
