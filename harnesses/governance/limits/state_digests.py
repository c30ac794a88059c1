"""Digests of a state that are kept up with its changes. Pure.

    a dict or record   a sum of parts, one for each key
    a list             a sum of parts, one for each place
    all else, and what is deeper than three levels: the hash of its JSON, whole

The laws: what a digest is depends on the value alone, not on the way it came to be; following a change costs what has changed;
and what is held is 8 bytes for each item of a list, and some 150 for each key. A window that moves is hashed whole.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from harnesses.data.delta import Delta
from harnesses.data.values import fields_of

encode = msgspec.json.Encoder(order="deterministic").encode
"""Sets have another order in each process."""
DEPTH = 3
"""Levels of the state that are followed part by part."""
_WHOLE = "state"
_SPACE = 2**64


def hash_text(text: bytes) -> int:
    """Return 64 bits that stand for a text."""
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


class Keyed:
    """A dict or record.

    Args:
        ignore: keys that are left out.
    """

    __slots__ = ("_depth", "_ignore", "_inner", "_parts", "_sum")

    def __init__(self, value: Any, depth: int = DEPTH, ignore: frozenset[str] = frozenset()) -> None:
        self._depth, self._ignore = depth, ignore
        self._parts: dict[Any, int] = {}
        self._inner: dict[Any, Node] = {}
        self._sum = 0
        self._take(names_of(value), value)

    @property
    def digest(self) -> int:
        """What stands for it."""
        return hash_text(b"{%x" % self._sum)

    def follow(self, delta: Delta, value: Any) -> None:
        """Take in a change; `value` is what it has led to."""
        for name in delta.get("drop", ()):
            self._sum = (self._sum - self._parts.pop(name, 0)) % _SPACE
            self._inner.pop(name, None)
        self._take(delta.get("set", ()), value)
        for name, change in delta.get("in", {}).items():
            inner = self._inner.get(name)
            if inner is None:
                self._take((name,), value)
            else:
                inner.follow(change, value_of(value, name))
                self._put(name, inner.digest)

    def _take(self, names: Iterable[Any], value: Any) -> None:
        for name in names:
            if self._ignore and str(name) in self._ignore:
                continue
            part = value_of(value, name)
            inner = _node(part, self._depth - 1)
            if inner is None:
                self._inner.pop(name, None)
                self._put(name, hash_text(encode(part)))
            else:
                self._inner[name] = inner
                self._put(name, inner.digest)

    def _put(self, name: Any, digest: int) -> None:
        part = hash_text(b"%s:%x" % (str(name).encode("utf-8", "surrogatepass"), digest))
        self._sum = (self._sum - self._parts.get(name, 0) + part) % _SPACE
        self._parts[name] = part


class Listed:
    """A list or tuple."""

    __slots__ = ("_parts", "_sum")

    def __init__(self, value: Any) -> None:
        self._parts = array("Q")
        self._sum = 0
        self._append(value)

    @property
    def digest(self) -> int:
        """What stands for it."""
        return hash_text(b"[%x:%x" % (len(self._parts), self._sum))

    def follow(self, delta: Delta, value: Any) -> None:
        """Take in a change; `value` is what it has led to."""
        start, stop = delta.get("keep", (0, len(self._parts)))
        if start:
            # Every item has another place.
            self._parts, self._sum = array("Q"), 0
            self._append(value)
            return
        while len(self._parts) > stop:
            self._sum = (self._sum - self._parts.pop()) % _SPACE
        for index in (*delta.get("set", ()), *delta.get("in", ())):
            part = _part(int(index), value[int(index)])
            self._sum = (self._sum - self._parts[int(index)] + part) % _SPACE
            self._parts[int(index)] = part
        self._append(delta.get("append", ()))

    def _append(self, items: Iterable[Any]) -> None:
        for item in items:
            part = _part(len(self._parts), item)
            self._parts.append(part)
            self._sum = (self._sum + part) % _SPACE


Node: TypeAlias = Keyed | Listed


def _part(index: int, item: Any) -> int:
    return hash_text(b"%x:%s" % (index, encode(item)))


def _node(value: Any, depth: int) -> Node | None:
    if depth <= 0:
        return None
    if value.__class__ in (list, tuple):
        return Listed(value)
    return Keyed(value, depth) if is_dict(value) or field_names(value) else None


def names_of(state: Any) -> tuple[Any, ...]:
    """Return the keys of a dict, the fields of a record; of all else the one name that a delta has for it."""
    return tuple(state) if is_dict(state) else field_names(state) or (_WHOLE,)


def value_of(state: Any, name: Any) -> Any:
    """Return what a name stands for."""
    if is_dict(state):
        return state[name]
    return getattr(state, name) if field_names(state) else state


def is_dict(state: object) -> bool:
    return isinstance(state, dict)


def field_names(state: object) -> tuple[str, ...]:
    cls: type[Any] = state.__class__
    return fields_of(cls) or ()
