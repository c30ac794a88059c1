"""Whether a harness does the same again and again: fingerprints of its steps, and loops in them. Pure.

    A A A A A A     period 1: each step shows what the one before showed
    A B A B A B     period 2: … the one before that
    A B C A B C     period 3

A step shows something again if its fingerprint is that of the step 1, 2 or 3 before it. `run` steps in a row that do so, all
at the same distance, are as long as the guard's `steps` when it is tripped: with `steps = 5` at the sixth A, at the seventh of
A B A B A B A, at the eighth of A B C A B C A B. Longer loops are not seen, nor are those that count: name such fields in
`ignore`.

A fingerprint is of the state after a step, its input and its output. That of the state is kept up with its changes:

    a dict or record   a sum of parts, one for each key
    a list             a sum of parts, one for each place
    all else, and what is deeper than three levels: the hash of its JSON, whole

The laws: two steps have the same fingerprint if, and only if (but for a chance of 2^-64), they were given the same, made the
same and left the same state, fields that are ignored left out; it is the same in every process, whatever way the state came to
be; making one costs what has changed, not what there is (a window that moves is hashed whole); and what is held is bounded: 8
bytes for each item of a list, some 150 for each key, three fingerprints and three counters, which are plain data.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
from attrs import field, frozen

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


class RecordDigest:
    """A dict or record.

    Args:
        ignore: keys that are left out.
    """

    __slots__ = ("_depth", "_ignore", "_inner", "_parts", "_sum")

    def __init__(self, value: Any, depth: int = DEPTH, ignore: frozenset[str] = frozenset()) -> None:
        self._depth, self._ignore = depth, ignore
        self._parts: dict[Any, int] = {}
        self._inner: dict[Any, Digest] = {}
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


class ListDigest:
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


Digest: TypeAlias = RecordDigest | ListDigest


def _part(index: int, item: Any) -> int:
    return hash_text(b"%x:%s" % (index, encode(item)))


def _node(value: Any, depth: int) -> Digest | None:
    if depth <= 0:
        return None
    if value.__class__ in (list, tuple):
        return ListDigest(value)
    return RecordDigest(value, depth) if is_dict(value) or field_names(value) else None


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


SIDES = ("input.", "output.")
"""What the names of fields that are not of the state begin with."""
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
        self._state: RecordDigest | None = None

    def forget(self) -> None:
        """Take the next state as it is: what is known of the one before is not what it began from."""
        self._state = None

    def take(self, input: object, output: object, delta: Delta, state: Callable[[], Any]) -> str | None:
        """Return the fingerprint of a step; None if it cannot be taken, and so is that of no other.

        Args:
            delta: what it has changed since the last one that was taken.
            state: gives the whole state after it.
        """
        try:
            if self._state is None or "value" in delta:
                self._state = RecordDigest(state(), ignore=self._ignore)
            elif delta:
                self._state.follow(delta, state())
            made = hashlib.blake2b(b"%x" % self._state.digest, digest_size=8)
            made.update(encode(tuple(map(_without, (input, output), self._sides))))
            return made.hexdigest()
        except _UNREADABLE:
            self.forget()
            return None


def _without(value: Any, names: frozenset[str]) -> Any:
    """Return what is left of an input or output without fields that are ignored."""
    if not names:
        return value
    if "*" in names:
        return None
    if not is_dict(value) and not field_names(value):
        return value
    return {str(name): value_of(value, name) for name in names_of(value) if str(name) not in names}


PERIODS = 3


def _texts(items: Any) -> tuple[str | None, ...]:
    return tuple(item if isinstance(item, str) else None for item in items)[:PERIODS]


def _counts(items: Any) -> tuple[int, ...]:
    counts = tuple(item if type(item) is int else 0 for item in items)[:PERIODS]
    return counts + (0,) * (PERIODS - len(counts))


@frozen
class Loops:
    """What was seen lately."""

    recent: tuple[str | None, ...] = field(default=(), converter=_texts)
    """Fingerprints, the latest first; None for a step that has none."""
    runs: tuple[int, ...] = field(default=(), converter=_counts)
    """For each period, how many steps in a row have shown what was there so many steps before."""

    def after(self, fingerprint: str | None) -> Loops:
        """Return it after one more step."""
        runs = [
            self.runs[place] + 1
            if fingerprint is not None and place < len(self.recent) and self.recent[place] == fingerprint
            else 0
            for place in range(PERIODS)
        ]
        return Loops((fingerprint, *self.recent)[:PERIODS], runs)

    def rested(self) -> Loops:
        """Return it with nothing counted: who goes on may have as many steps again. What was seen is still known."""
        return Loops(self.recent)

    def period(self, steps: int) -> int | None:
        """Return the shortest period in which `steps` steps have shown nothing new; None if there is none."""
        return next((place + 1 for place, run in enumerate(self.runs) if run >= steps), None)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON can carry it."""
        return {"recent": list(self.recent), "runs": list(self.runs)}


def loops_of(plain: Mapping[str, Any]) -> Loops:
    """Return what `Loops.plain` has made these data of."""
    return Loops(plain.get("recent", ()), plain.get("runs", ()))
