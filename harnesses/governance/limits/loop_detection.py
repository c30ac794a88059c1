"""Loop detection: fingerprints of a harness's steps, and repetitions in them. Pure.

    A A A A A A     period 1: each step repeats the previous one
    A B A B A B     period 2: … the one before that
    A B C A B C     period 3

A step is a repetition if its fingerprint equals that of the step 1, 2 or 3 before it. The guard trips when as many consecutive
steps as its `steps` are repetitions at the same distance: with `steps = 5` at the sixth A, at the seventh step of A B A B A B
A, at the eighth of A B C A B C A B. Longer loops are not detected, nor loops with a counter: list such fields in `ignore`.

A fingerprint covers the state after a step, its input and its output. The state's part is updated incrementally:

    a dict or record   a sum of parts, one for each key
    a list             a sum of parts, one for each place
    all else, and what is deeper than three levels: the hash of its JSON, whole

Invariants: two steps have the same fingerprint if, and only if (with an error probability of 2^-64), their input, output and
resulting state are equal, without ignored fields. It is the same in every process, however the state was reached. Its cost is
proportional to the change, not to the state (a sliding window is hashed whole). Memory is bounded: 8 bytes per list item, some
150 per key, three fingerprints and three counters, which are plain data.
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
"""Encoder with a deterministic order: sets iterate differently in each process."""
DEPTH = 3
"""Levels of the state that are hashed incrementally."""
_WHOLE = "state"
_SPACE = 2**64


def hash_text(text: bytes) -> int:
    """Return a 64-bit hash of a text."""
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


class RecordDigest:
    """Incremental hash of a dict or record.

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
        """The hash of the current value."""
        return hash_text(b"{%x" % self._sum)

    def follow(self, delta: Delta, value: Any) -> None:
        """Apply a change; `value` is the result."""
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
    """Incremental hash of a list or tuple."""

    __slots__ = ("_parts", "_sum")

    def __init__(self, value: Any) -> None:
        self._parts = array("Q")
        self._sum = 0
        self._append(value)

    @property
    def digest(self) -> int:
        """The hash of the current value."""
        return hash_text(b"[%x:%x" % (len(self._parts), self._sum))

    def follow(self, delta: Delta, value: Any) -> None:
        """Apply a change; `value` is the result."""
        start, stop = delta.get("keep", (0, len(self._parts)))
        if start:
            # The position of every item changes.
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
    """Return the keys of a dict or the fields of a record; for any other state, its single name in a delta."""
    return tuple(state) if is_dict(state) else field_names(state) or (_WHOLE,)


def value_of(state: Any, name: Any) -> Any:
    """Return the value of a key or field."""
    if is_dict(state):
        return state[name]
    return getattr(state, name) if field_names(state) else state


def is_dict(state: object) -> bool:
    return isinstance(state, dict)


def field_names(state: object) -> tuple[str, ...]:
    cls: type[Any] = state.__class__
    return fields_of(cls) or ()


SIDES = ("input.", "output.")
"""Prefixes of fields of input and output."""
_UNREADABLE = (TypeError, ValueError, OverflowError, RecursionError, LookupError, AttributeError, msgspec.MsgspecError)


class Fingerprints:
    """Computes the fingerprints of one harness's steps.

    Args:
        ignore: fields that do not count as progress: top-level fields of the state, and of input and output as `input.name`,
            `output.name`; `input.*` is all of it.
    """

    def __init__(self, ignore: Iterable[str] = ()) -> None:
        self._ignore = frozenset(ignore)
        self._sides = tuple(
            frozenset(name.removeprefix(side) for name in self._ignore if name.startswith(side)) for side in SIDES
        )
        self._state: RecordDigest | None = None

    def forget(self) -> None:
        """Rebuild from the next state: the last known state is not its predecessor."""
        self._state = None

    def take(self, input: object, output: object, delta: Delta, state: Callable[[], Any]) -> str | None:
        """Return the fingerprint of a step; None if it cannot be computed, which equals no other.

        Args:
            delta: the changes since the last fingerprinted step.
            state: returns the whole state after it.
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
    """Return an input or output without the ignored fields."""
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
    """Recent fingerprints, and counts of repetitions."""

    recent: tuple[str | None, ...] = field(default=(), converter=_texts)
    """Fingerprints, latest first; None for a step without one."""
    runs: tuple[int, ...] = field(default=(), converter=_counts)
    """For each period, how many consecutive steps were repetitions at that distance."""

    def after(self, fingerprint: str | None) -> Loops:
        """Return the value after one more step."""
        runs = [
            self.runs[place] + 1
            if fingerprint is not None and place < len(self.recent) and self.recent[place] == fingerprint
            else 0
            for place in range(PERIODS)
        ]
        return Loops((fingerprint, *self.recent)[:PERIODS], runs)

    def rested(self) -> Loops:
        """Return the value with all counts reset but the fingerprints kept, which grants as many steps again."""
        return Loops(self.recent)

    def period(self, steps: int) -> int | None:
        """Return the shortest period in which `steps` consecutive steps were repetitions; None if there is none."""
        return next((place + 1 for place, run in enumerate(self.runs) if run >= steps), None)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON-compatible data."""
        return {"recent": list(self.recent), "runs": list(self.runs)}


def loops_of(plain: Mapping[str, Any]) -> Loops:
    """Decode the result of `Loops.plain`."""
    return Loops(plain.get("recent", ()), plain.get("runs", ()))
