"""Removes secrets from text and plain data before they are written or shown. Pure.

Invariant: a secret is replaced by `[REDACTED]` and leaves no other trace: no part, length or position. Numbers, dates and
everything else that is not text stay unchanged. Redaction is idempotent, and its time is linear in the length of the text.

    redact(value)           a value of the same shape; the very same object if there is no secret in it
    redact_text(text)       the text without the secrets in it
    may_hold_secret(text)   False if there is certainly none: saves the search
    suspects(texts)         the same for many texts in one pass
    LineRedactor()          for lines that arrive one by one, including keys that span several lines

A secret is recognised by the name beside it (`secret_values`), by its own form, or by its context (`secret_rules`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

from harnesses.data.frozen_dict import DICTS, FrozenDict
from harnesses.data.values import field_values, fields_of
from harnesses.redaction.detect import cut, spans
from harnesses.redaction.known_secrets import holds_known_secret
from harnesses.redaction.prefilter import may_hold_secret, suspects
from harnesses.redaction.private_keys import begins_key, ends_key, key_line
from harnesses.redaction.secret_values import BESIDE_SECRETS, MARK, Strength, is_secret, is_secret_number, strength

__all__ = ["MARK", "LineRedactor", "may_hold_secret", "redact", "redact_text", "suspects"]

T = TypeVar("T")
_ROUNDS = 4
_INSIDE = (
    ("kind", ("Secret",), ("data", "stringData")),
    ("kty", ("oct", "RSA", "EC", "OKP"), ("k", "d", "p", "q", "dp", "dq", "qi")),
    ("op", ("auth",), ("args",)),
    ("action", ("auth",), ("params",)),
)
"""Secrets identified by a sibling entry: in Kubernetes manifests, JSON Web Keys, messages to exchanges."""
_LONGEST_NAME = 80
"""Characters up to which it is remembered of a key that it holds no secret."""
_DEEPEST = 200
"""Maximum number of levels searched; deeper values are redacted whole."""


def redact_text(text: str) -> str:
    """Return `text` with every secret in it replaced by `[REDACTED]`; the same object if there is none."""
    if not may_hold_secret(text):
        return text
    for _ in range(_ROUNDS):
        # Removing one secret may reveal another in the rest of the text.
        found = spans(text)
        if not found:
            break
        text = cut(text, found)
    return text


def redact(value: T) -> T:
    """Return a copy of `value` with every secret in it replaced; the same object if there is none.

    Searches dicts, lists, tuples and the fields of records (attrs, dataclasses), and uses the keys and field names.
    """
    return cast(T, _redact(value, "", 0))


class LineRedactor:
    """Redacts lines that arrive one by one, including private keys that span several lines."""

    __slots__ = ("is_inside",)

    def __init__(self, *, is_inside: bool = False) -> None:
        self.is_inside = is_inside
        """Whether the next line may belong to a private key."""

    def line(self, text: str) -> str:
        """Return a line with its secrets replaced."""
        if self.is_inside:
            if ends_key(text):
                self.is_inside = False
                return text
            if key_line(text):
                return MARK
            self.is_inside = False
        if begins_key(text):
            self.is_inside = True
        return redact_text(text)


def _redact(value: Any, name: str, depth: int) -> Any:
    cls: type[Any] = value.__class__
    if cls is str:
        return _redact_named(value, name)
    if cls is int:
        return MARK if name and is_secret_number(value, strength(name)) else value
    if depth > _DEEPEST:
        return MARK if cls in (dict, FrozenDict, list, tuple) or fields_of(cls) else value
    if cls in DICTS:
        return _dict(value, name, depth)
    if cls is list or cls is tuple:
        return _items(value, name, depth)
    names = None if isinstance(value, str | bytes | int | float) or value is None else fields_of(cls)
    if names:
        return _record(value, names, depth)
    return value


def _redact_named(text: str, name: str) -> str:
    if not text:
        return text
    if name and is_secret(text, strength(name)):
        return MARK
    return redact_text(text)


def _dict(value: dict[Any, Any], name: str, depth: int) -> dict[Any, Any]:
    inside = name if strength(name) >= Strength.STRONG and name.rstrip("0123456789").lower().endswith("s") else ""
    told = _describe_pair(value)
    secret = [names for key, kinds, names in _INSIDE if value.get(key) in kinds]
    changed = False
    twin: dict[Any, Any] = {}
    for key, item in value.items():
        new_key = _find_unused_key(_redact_key(key), twin) if key.__class__ is str else key
        known = told if key == "value" and told else _name_of(key, inside)
        new = _redact(item, "secrets" if any(key in names for names in secret) else known, depth + 1)
        changed = changed or new is not item or new_key is not key
        twin[new_key] = new
    return twin if changed else value


def _redact_key(key: str) -> str:
    if len(key) <= _LONGEST_NAME and _is_clean(key) and not holds_known_secret(key):
        return key
    return redact_text(key)


@lru_cache(4096)
def _is_clean(name: str) -> bool:
    """Return whether a name certainly holds no secret, apart from those that this process holds."""
    return not may_hold_secret(name)


def _name_of(key: object, inside: str) -> str:
    if not isinstance(key, str):
        return inside
    return key if not inside or key.lower() in BESIDE_SECRETS or strength(key) else inside


def _describe_pair(value: Mapping[Any, Any]) -> str:
    """Return the name in a name-value pair: `{"name": "DB_PASSWORD", "value": …}`."""
    told: Any = value.get("name", value.get("key")) if "value" in value else ""
    return told if isinstance(told, str) else ""


def _find_unused_key(key: str, twin: Mapping[Any, Any]) -> str:
    if MARK not in key:
        return key
    count, unused = 1, key
    while unused in twin:
        count += 1
        unused = f"{key} {count}"
    return unused


def _items(value: Sequence[Any], name: str, depth: int) -> Sequence[Any]:
    items = [_redact(item, _before(value, place) or name, depth + 1) for place, item in enumerate(_words(value))]
    if all(new is old for new, old in zip(items, value, strict=True)):
        return value
    return items if value.__class__ is list else tuple(items)


def _words(value: Sequence[Any]) -> Sequence[Any]:
    """Return the words of a command with secrets removed that only their combination reveals: `["curl", "-u", "ann:…"]`."""
    if not all(item.__class__ is str for item in value) or not any(item.startswith("-") for item in value):
        return value
    command = " ".join(value)
    found = spans(command) if may_hold_secret(command) else []
    words: list[str] = []
    begin = 0
    for word in value:
        end = begin + len(word)
        inside = [(max(start, begin) - begin, min(stop, end) - begin) for start, stop in found if start < end and stop > begin]
        words.append(cut(word, inside))
        begin = end + 1
    return words if found else value


def _before(value: Sequence[Any], place: int) -> str:
    """Return the name that the previous item gives to this one: a command-line option, a header name."""
    before = value[place - 1] if place else None
    if not isinstance(before, str) or len(before) > 80:
        return ""
    if before.startswith("-") and not str(value[place]).startswith("-"):
        return before if strength(before) >= Strength.STRONG else ""
    return before if len(value) == 2 and strength(before) >= Strength.HEADER else ""


def _record(value: Any, names: tuple[str, ...], depth: int) -> Any:
    old = field_values(names)(value)
    new = [_redact(item, name, depth + 1) for name, item in zip(names, old, strict=True)]
    if all(one is other for one, other in zip(new, old, strict=True)):
        return value
    twin: Any = object.__new__(value.__class__)
    for name, item in zip(names, new, strict=True):
        object.__setattr__(twin, name, item)
    return twin
