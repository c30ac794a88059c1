"""Deltas: the difference between two states, and applying it. Pure.

A delta is as large as the change, not as the state: growing a list stores the appended items, a change deep inside stores the
path and the new value. Both states must be private copies (`values.detach`), so that parts with the same identity can be
skipped as unchanged.

    {"drop": {key: null}}      this key is gone (applied before all others)
    {"set": {key: value}}      this key, field or index now has this value
    {"in": {key: delta}}       something changed inside
    {"keep": [start, stop]}    of the old list only old[start:stop] is left (before `set` and `in`)
    {"append": [value, …]}     and these follow
    {"order": {key: null, …}}  the keys are in this order now
    {"value": value}           the whole state is new (of classes with their own encoding, or migrated)

A state without fields (a number, a list) is treated as if it had one field, `state`.

The work is linear in the size of the change and bounded: a change of more than `MOST_WORK` parts, or deeper than `MOST_DEPTH`
levels, is stored whole.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from operator import is_, ne
from typing import Any, TypeAlias, cast

import msgspec

from harnesses.data.frozen_dict import DICTS
from harnesses.data.values import field_values, fields_of

Delta: TypeAlias = dict[str, Any]

_EXACT = frozenset({type(None), bool, int, str, bytes})
"""Types whose equal values always have the same JSON; for other types they may not: 0.0 and -0.0, 1.0 and 1.00."""
_TEXT = frozenset({str})


def _do_floats_differ(old: float, new: float) -> bool:
    return old != new or (not old and str(old) != str(new))


def _do_times_differ(old: datetime, new: datetime) -> bool:
    if old.tzinfo is UTC and new.tzinfo is UTC:
        return old != new
    return _written(old) != _written(new)


_DIFFER: dict[type, Callable[[Any, Any], object]] = {
    **dict.fromkeys(_EXACT, ne),
    float: _do_floats_differ,
    # Zero if sign, digits and exponent are the same: so is the text then.
    Decimal: Decimal.compare_total,
    datetime: _do_times_differ,
}
"""By type of both values, whether they differ in JSON: true, or a number other than 0."""
_WHOLE = ("state",)
MOST_WORK = 1_000_000
"""Maximum number of parts compared for one step.

Beyond it, the current field is stored whole, since comparing further would block every other harness for longer than storing
it.
"""
MOST_DEPTH = 100
"""Maximum depth of a delta; a deeper change is stored whole from there on, so that any reader can handle the nesting."""
_written = msgspec.json.Encoder().encode


class Baseline:
    """The last recorded state, kept to compare the next one with it."""

    __slots__ = ("_names", "_undo", "_values", "_values_of", "_whole", "state")

    def __init__(self, state: object, *, whole: bool = False) -> None:
        self.state = state
        self._whole = whole
        """Whether the state differs from what is recorded, so that the first delta must contain all of it."""
        cls = type(state)
        self._names = _names_of(cls)
        self._values_of: Callable[[Any], tuple[Any, ...]] = (
            (lambda state: (state,)) if self._names is _WHOLE else field_values(self._names or ())
        )
        self._values = self._values_of(state)
        self._undo: tuple[object, tuple[Any, ...]] | None = None

    def advance(self, new: Any) -> Delta:
        """Return what changed since the baseline, and make `new` the baseline."""
        old = self.state
        if self._whole:
            self._undo = (old, self._values)
            self.state, self._values = new, self._values_of(new)
            return {"value": new}
        if new is old:
            self._undo = None
            return {}
        self._undo = (old, self._values)
        self.state = new
        if self._names is None:
            cls: type[Any] = new.__class__
            return _between_states(cast(Any, old), new) if cls in DICTS else _change_of(old, new, _Work())
        before, self._values = self._values, self._values_of(new)
        return _between_fields(self._names, before, self._values)

    def undo(self) -> None:
        """Undo the last `advance`: its step was not recorded."""
        if self._undo is not None:
            self.state, self._values = self._undo
            self._undo = None

    @property
    def recorded(self) -> object:
        """The last recorded state, also while an `advance` is not recorded yet."""
        return self.state if self._undo is None else self._undo[0]

    def keep(self) -> None:
        """Confirm the last `advance`: its step is recorded."""
        self._undo = None
        self._whole = False


def _names_of(cls: type[Any]) -> tuple[str, ...] | None:
    """Return the fields by which states of a class are compared; None for a dict and for a class with its own encoding."""
    if cls in DICTS:
        return None
    names = fields_of(cls)
    if names is None:
        return None if issubclass(cls, msgspec.Struct) else _WHOLE
    return names or _WHOLE


def modified(delta: Delta) -> tuple[str, ...]:
    """Return the names of the top-level fields that `delta` changes. Also accepts a delta decoded from JSON."""
    if len(delta) == 1 and "set" in delta:
        names: tuple[Any, ...] = tuple(delta["set"])
        return names if _TEXT.issuperset(map(type, names)) else tuple(map(str, names))
    if "value" in delta:
        return _WHOLE
    return tuple(str(name) for part in ("set", "in", "drop") for name in delta.get(part, ()))


def apply_to_state(data: Any, delta: Delta) -> Any:
    """Apply a decoded `delta` to the JSON data of a whole state; return the result. May mutate `data`."""
    if "value" in delta:
        return delta["value"]
    if isinstance(data, dict):
        return apply(cast(Any, data), delta)
    return apply({"state": data}, delta)["state"]


def apply(data: Any, delta: Delta) -> Any:
    """Apply a decoded `delta` to JSON data; return the result. May mutate `data`."""
    if "keep" in delta:
        start, stop = delta["keep"]
        data = data[start:stop]
    is_list: bool = isinstance(data, list)
    index: Callable[[str], Any] = int if is_list else str
    for key in delta.get("drop", {}):
        del data[key]
    for key, value in delta.get("set", {}).items():
        data[index(key)] = value
    for key, inner in delta.get("in", {}).items():
        data[index(key)] = apply(data[index(key)], inner)
    if "append" in delta:
        data.extend(delta["append"])
    if "order" in delta:
        data = {key: data[key] for key in delta["order"]}
    return data


class _Spent(Exception):
    """The work limit of one step is exceeded."""


class _Work:
    """The remaining work of one step."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_WORK

    def spend(self, parts: int) -> None:
        self.left -= parts + 1
        if self.left < 0:
            raise _Spent


def _change_of(old: Any, new: Any, work: _Work) -> Delta:
    """Return the delta of one field of a state."""
    try:
        return _between(old, new, work, MOST_DEPTH)
    except (_Spent, RecursionError):
        return {"value": new}


def _between(old: Any, new: Any, work: _Work, depth: int) -> Delta:
    """Return the delta from `old` to `new`; empty if both encode to the same JSON.

    Raises:
        _Spent: the comparison exceeds the remaining work.
    """
    if old is new:
        return {}
    cls = new.__class__
    if old.__class__ is not cls and not (cls in DICTS and old.__class__ in DICTS):
        return {"value": new}
    differ = _DIFFER.get(cls)
    if differ is not None:
        return {"value": new} if differ(old, new) else {}
    if not depth:
        return {} if _are_alike(old, new, work) else {"value": new}
    if cls in DICTS:
        return _between_dicts(old, new, work, depth - 1)
    if cls is list or cls is tuple:
        return _between_lists(old, new, work, depth - 1)
    names = fields_of(cls)
    if names is None:
        return {} if _are_alike(old, new, work) else {"value": new}
    work.spend(len(names))
    delta: Delta = {}
    values_of = field_values(names)
    for name, before, after in zip(names, values_of(old), values_of(new)):  # noqa: B905 - all three have the fields of one class
        if before is not after:
            differ = _DIFFER.get(after.__class__)
            if differ is None or before.__class__ is not after.__class__:
                _note(delta, name, after, _between(before, after, work, depth - 1))
            elif differ(before, after):
                delta.setdefault("set", {})[name] = after
    return delta


def _are_alike(old: Any, new: Any, work: _Work) -> bool:
    """Return whether both encode to the same JSON.

    Raises:
        _Spent: the comparison exceeds the remaining work.
    """
    if old is new:
        return True
    cls = new.__class__
    if old.__class__ is not cls and not (cls in DICTS and old.__class__ in DICTS):
        return False
    differ = _DIFFER.get(cls)
    if differ is not None:
        return not differ(old, new)
    if cls in DICTS:
        work.spend(len(new))
        return list(old) == list(new) and all(_are_alike(old[key], value, work) for key, value in new.items())
    if cls is list or cls is tuple:
        work.spend(len(new) // _AT_ONCE)
        return len(old) == len(new) and all(_are_alike(*pair, work) for pair in zip(old, new) if pair[0] is not pair[1])  # noqa: B905
    names = fields_of(cls)
    if names is None:
        written = _written(new)
        work.spend(len(written) // _AT_ONCE)
        return _written(old) == written
    work.spend(len(names))
    values_of = field_values(names)
    return all(_are_alike(*pair, work) for pair in zip(values_of(old), values_of(new), strict=True))


_AT_ONCE = 16
"""Bytes, or items compared by identity only, that count as one part of work."""


def _between_fields(names: tuple[str, ...], before: tuple[Any, ...], after: tuple[Any, ...]) -> Delta:
    # Hot loop of every step: the common change, of a number or a text, is handled inline.
    delta: Delta = {}
    changed: dict[str, Any] = {}
    work = None
    for name, old, new in zip(names, before, after):  # noqa: B905 - all three have the fields of one class
        if old is not new:
            cls = new.__class__
            differ = _DIFFER.get(cls)
            if differ is None or cls is not old.__class__:
                work = work or _Work()
                _note(delta, name, new, _change_of(old, new, work))
            elif differ(old, new):
                if cls in _EXACT:
                    changed[name] = new
                else:
                    delta.setdefault("set", {})[name] = new
    if changed:
        if delta:
            changed.update(delta.get("set", ()))
        delta["set"] = changed
    return delta


def _note(delta: Delta, key: Any, new: Any, inner: Delta) -> bool:
    """Add the change of one field, key or index to `delta`; return whether there was one."""
    if not inner:
        return False
    if "value" in inner:
        delta.setdefault("set", {})[key] = new
    else:
        delta.setdefault("in", {})[key] = inner
    return True


def _between_states(old: dict[Any, Any], new: dict[Any, Any]) -> Delta:
    """Return the delta of a dict state; a key that takes too much work is stored whole."""
    work = _Work()
    return _between_keys(old, new, lambda before, after: _change_of(before, after, work))


def _between_dicts(old: dict[Any, Any], new: dict[Any, Any], work: _Work, depth: int) -> Delta:
    work.spend(len(new))
    return _between_keys(old, new, lambda before, after: _between(before, after, work, depth))


def _between_keys(old: dict[Any, Any], new: dict[Any, Any], between: Callable[[Any, Any], Delta]) -> Delta:
    delta: Delta = {}
    for key, value in new.items():
        if key not in old:
            delta.setdefault("set", {})[key] = value
        elif value is not (before := old[key]):
            differ = _DIFFER.get(value.__class__)
            if differ is None or before.__class__ is not value.__class__:
                _note(delta, key, value, between(before, value))
            elif differ(before, value):
                delta.setdefault("set", {})[key] = value
    if len(old) == len(new) and list(old) == list(new):
        return delta
    kept = [key for key in old if key in new]
    if len(kept) < len(old):
        delta["drop"] = {key: None for key in old if key not in new}
    if kept != list(new)[: len(kept)]:
        delta["order"] = dict.fromkeys(new)
    return delta


def _between_lists(old: Any, new: Any, work: _Work, depth: int) -> Delta:
    work.spend(max(len(old), len(new)) // _AT_ONCE)
    shared = min(len(old), len(new))
    delta: Delta = {}
    if all(map(is_, old, new)):
        if shared < len(old):
            delta["keep"] = [0, shared]
    elif len(old) == len(new) == 1:
        return {"value": new} if _between(old[0], new[0], work, depth) else {}
    else:
        first = _between(old[0], new[0], work, depth)
        start = _slid(old, new, work) if first else 0
        if start:
            delta, shared = {"keep": [start, len(old)]}, len(old) - start
        elif len(new) < len(old):
            return {"value": new}
        else:
            changes = int(_note(delta, 0, new[0], first))
            for index in range(1, shared):
                if old[index] is not new[index]:
                    changes += _note(delta, index, new[index], _between(old[index], new[index], work, depth))
                    if changes * 2 > shared:
                        break
            if changes * 2 > shared:
                return {"value": new}
    if shared < len(new):
        delta["append"] = list(new[shared:])
    return delta


def _slid(old: Any, new: Any, work: _Work) -> int:
    """Return how many items were removed from the front of `old`, if the rest of it starts `new`; else 0.

    A sliding window over the latest readings changes this way at every step.
    """
    first, tried = new[0], 0
    for start in range(1, len(old)):
        if old[start] is first:
            if len(old) - start <= len(new) and all(map(is_, old[start:], new)):
                return start
            tried += 1
            if tried == 4:
                break
    for start in range(1, min(len(old), 5)):
        # Mutable records are copied, so their identity differs; compare their contents.
        if len(old) - start <= len(new) and all(_are_alike(*pair, work) for pair in zip(old[start:], new)):  # noqa: B905
            return start
    return 0
