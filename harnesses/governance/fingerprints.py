"""The fingerprint of a step: of the state after it, its input and its output. Pure.

The laws: two steps have the same fingerprint if, and only if (but for a chance of 2^-64), they were given the same, made the
same and left the same state, fields that are ignored left out; it is the same in every process; and making one costs what has
changed, not what there is: each top-level field has a hash of its own, a list that grows takes its new items up.

Not so cheap: a field that changes inside, other than by growing at its end, is hashed whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from harnesses.delta import Delta
from harnesses.values import fields_of

_encoder = msgspec.json.Encoder(order="deterministic")
"""Sets have another order in each process."""
SIDES = ("input.", "output.")
"""What the names of fields that are not of the state begin with."""
_WHOLE = "state"
_SPACE = 2**128
_LISTS = (list, tuple)
_UNREADABLE = (TypeError, ValueError, OverflowError, RecursionError, LookupError, AttributeError, msgspec.MsgspecError)


class Fingerprints:
    """Follows the state of one harness.

    Args:
        ignore: what is no progress: top-level fields of the state, and of input and output as `input.name`, `output.name`;
            `input.*` is all of it.
    """

    def __init__(self, ignore: Iterable[str] = ()) -> None:
        self._ignore = frozenset(ignore)
        self._sides = tuple(
            frozenset(name.removeprefix(side) for name in self._ignore if name.startswith(side)) for side in SIDES
        )
        self._parts: dict[Any, int] | None = None
        self._lists: dict[Any, Any] = {}
        self._sum = 0

    def forget(self) -> None:
        """Take the next state as it is: what is known of the one before is not what it began from."""
        self._parts = None

    def take(self, input: object, output: object, delta: Delta, state: Callable[[], Any]) -> str | None:
        """Return the fingerprint of a step; None if it can not be taken, and so is that of no other.

        Args:
            delta: what it has changed since the last one that was taken.
            state: gives the whole state after it.
        """
        try:
            if self._parts is None or "value" in delta:
                self._begin(state())
            elif delta:
                self._follow(delta, state())
            made = hashlib.blake2b(self._sum.to_bytes(16, "big"), digest_size=8)
            made.update(_encoder.encode(tuple(map(_without, (input, output), self._sides))))
            return made.hexdigest()
        except _UNREADABLE:
            self.forget()
            return None

    def _begin(self, state: Any) -> None:
        self._parts, self._lists, self._sum = {}, {}, 0
        for name in _names_of(state):
            self._replace(name, state)

    def _follow(self, delta: Delta, state: Any) -> None:
        for name in delta.get("drop", ()):
            self._put(name, 0)
            self._lists.pop(name, None)
        for name in delta.get("set", ()):
            self._replace(name, state)
        for name, inner in delta.get("in", {}).items():
            if len(inner) == 1 and "append" in inner and name in self._lists:
                self._grow(name, inner["append"])
            else:
                self._replace(name, state)

    def _replace(self, name: Any, state: Any) -> None:
        """Hash a field whole."""
        if str(name) in self._ignore:
            return
        value = _value_of(state, name)
        self._lists.pop(name, None)
        if isinstance(value, _LISTS):
            self._lists[name] = hashlib.blake2b(_encoder.encode(str(name)), digest_size=16, person=b"list")
            self._grow(name, value)
        else:
            made = hashlib.blake2b(_encoder.encode(str(name)), digest_size=16)
            made.update(_encoder.encode(value))
            self._put(name, int.from_bytes(made.digest(), "big"))

    def _grow(self, name: Any, items: Any) -> None:
        """Hash the items that are new at the end of a list; each is a line, so that no two lists are written alike."""
        if str(name) not in self._ignore:
            self._lists[name].update(_encoder.encode_lines(items))
            self._put(name, int.from_bytes(self._lists[name].digest(), "big"))

    def _put(self, name: Any, part: int) -> None:
        parts = self._parts if self._parts is not None else {}
        self._sum = (self._sum - parts.pop(name, 0) + part) % _SPACE
        if part:
            parts[name] = part


def _names_of(state: Any) -> tuple[Any, ...]:
    return tuple(state) if _is_dict(state) else _fields_of(state) or (_WHOLE,)


def _value_of(state: Any, name: Any) -> Any:
    if _is_dict(state):
        return state[name]
    return getattr(state, name) if _fields_of(state) else state


def _without(value: Any, names: frozenset[str]) -> Any:
    """Return what is left of an input or output without fields that are ignored."""
    if not names:
        return value
    if "*" in names:
        return None
    if not _is_dict(value) and not _fields_of(value):
        return value
    return {str(name): _value_of(value, name) for name in _names_of(value) if str(name) not in names}


def _is_dict(state: object) -> bool:
    return isinstance(state, dict)


def _fields_of(state: object) -> tuple[str, ...]:
    cls: type[Any] = state.__class__
    return fields_of(cls) or ()
