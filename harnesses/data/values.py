"""Allowed values of states, inputs and outputs, and private copies of them. Pure.

Invariant: `detach(value)` shares nothing mutable with `value`. Immutable values are returned as they are, so a frozen attrs
class of numbers, strings and tuples is checked but not copied; lists, dicts and mutable classes are copied. A value that does
not survive a round trip through JSON is refused here, before anything is written.

    atoms        returned as they are        None bool int str bytes Decimal datetime date time timedelta UUID, enums
    float        returned if finite          JSON has no NaN and no infinity
    list, dict   copied                      sets and frozensets too; keys are atoms
    FrozenDict   kept if all inside is
    tuple        kept if all inside is       named tuples too
    attrs,       kept if frozen and all      private fields (`_x`) are refused: msgspec would silently drop them
    dataclasses  inside is, else copied

Nested references to the same list can make a value that is small in memory huge once written. Every walk therefore has a
budget of `CEILING_BYTES`: a container costs `_CONTAINER`, an item `_ITEM`, a text its length.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from itertools import repeat
from math import isfinite
from operator import attrgetter, is_
from typing import Any, TypeVar
from uuid import UUID

import attrs
import msgspec

from harnesses.data.frozen_dict import DICTS, FrozenDict
from harnesses.data.record_size import CEILING_BYTES
from harnesses.errors import RecordTooLarge, Unstorable

T = TypeVar("T")
_CONTAINER = 500
"""Cost of a container: at most 600,000 containers, about one second. Items of a list of atoms are cheaper."""
_ITEM = 8
"""Cost of an item: its bytes in the copy of a list."""


class _Budget:
    """The remaining budget of a walk over a value."""

    __slots__ = ("left",)

    def __init__(self, most: int = CEILING_BYTES) -> None:
        self.left = most

    def charge(self, items: int) -> None:
        """Charge a container with its items.

        Raises:
            RecordTooLarge: the budget is used up.
        """
        self.left -= _CONTAINER + _ITEM * items
        if self.left < 0:
            raise _too_large()

    def charge_texts(self, values: Iterable[Any], kinds: set[type]) -> None:
        """Charge the texts in a collection of atoms of these types."""
        if not _SIZED.isdisjoint(kinds):
            self.left -= sum([len(value) for value in values if value.__class__ is str or value.__class__ is bytes])
            if self.left < 0:
                raise _too_large()


def _too_large() -> RecordTooLarge:
    return RecordTooLarge(
        f"a value is too large to be stored: expected at most {CEILING_BYTES:,} characters, {CEILING_BYTES // _CONTAINER:,} "
        "lists, dicts and records, each counted once per reference; keep large data in a file and record where it is"
    )


_Copier = Callable[[Any, _Budget], Any]

ATOMS: frozenset[type] = frozenset({type(None), bool, int, str, bytes, Decimal, datetime, date, time, timedelta, UUID})
_all_atoms = ATOMS.issuperset
_SIZED: frozenset[type] = frozenset({str, bytes})
_FLOATS: frozenset[type] = frozenset({float})
_KEYS: frozenset[type] = frozenset({str, int, Decimal, date, datetime, UUID})


def detach(value: T, most: int = CEILING_BYTES) -> T:
    """Return a private version of `value`: itself if it is immutable, else a copy.

    Args:
        most: the budget of the walk.

    Raises:
        Unstorable: something inside cannot be stored; the message has the path to it.
        RecordTooLarge: it is larger than any record may be.
    """
    cls: type[Any] = value.__class__
    if cls in ATOMS and cls not in _SIZED:
        return value
    try:
        twin: T = (_COPIERS.get(cls) or _detach)(value, _Budget(most))
    except (_Refused, RecursionError, TypeError) as error:
        raise Unstorable(explain(value)) from error
    return twin


def is_private(value: object, known: object) -> bool:
    """Return whether `value` is immutable, given that `known` is.

    Parts that both share are skipped: a step usually changes one item of a long list. If the answer is False, call `detach`.
    """
    if value is known:
        return True
    try:
        return _is_private(value, known, _Budget())
    except (_Refused, RecursionError, TypeError, RecordTooLarge):
        return False


def _is_private(value: Any, known: Any, budget: _Budget) -> bool:
    if value is known:
        return True
    cls: type[Any] = value.__class__
    if cls in ATOMS:
        return True
    if cls is known.__class__:
        if cls is tuple:
            return _is_private_tuple(value, known, budget)
        if cls not in _PARTS:
            _PARTS[cls] = _parts_of(cls)
        parts_of = _PARTS[cls]
        if parts_of is not None:
            parts = parts_of(value)
            if _all_atoms(map(type, parts)):
                return True
            budget.charge(len(parts))
            return all(map(_is_private, parts, parts_of(known), repeat(budget)))
    return _detach(value, budget) is value


def _is_private_tuple(value: tuple[Any, ...], known: tuple[Any, ...], budget: _Budget) -> bool:
    budget.charge(len(value))
    pairs = [(part, before) for part, before in zip(value, known, strict=False) if part is not before]
    if len(pairs) > 1:
        # The tuple has slid, as a window over the latest entries does.
        ids = set(map(id, known))
        pairs = [(part, before) for part, before in pairs if id(part) not in ids]
    fresh = value[len(known) :]
    return all(_is_private(part, before, budget) for part, before in pairs) and all(
        _detach(part, budget) is part for part in fresh
    )


_PARTS: dict[type, Callable[[Any], tuple[Any, ...]] | None] = {}
"""Getter of the parts of a frozen record, by class; None for any other class."""


def _parts_of(cls: type[Any]) -> Callable[[Any], tuple[Any, ...]] | None:
    names = fields_of(cls)
    plain = names is not None and not any(name.startswith("_") for name in names)
    return field_values(names) if plain and names is not None and is_frozen(cls) else None


def fields_of(cls: type[Any]) -> tuple[str, ...] | None:
    """Return the names of the stored fields of an attrs class, dataclass or plain Struct; None for any other class."""
    if cls not in _FIELDS:
        _FIELDS[cls] = _fields_of(cls)
    return _FIELDS[cls]


def _fields_of(cls: type[Any]) -> tuple[str, ...] | None:
    if attrs.has(cls):
        return tuple(field.name for field in attrs.fields(cls))
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    if issubclass(cls, msgspec.Struct):
        plain = cls.__struct_encode_fields__ == cls.__struct_fields__ and not cls.__struct_config__.array_like
        return cls.__struct_fields__ if plain else None
    return None


_FIELDS: dict[type, tuple[str, ...] | None] = {}


def explain(value: object, path: str = "$") -> str:
    """Return a sentence on the first part of `value` that cannot be stored, with its path: `$.orders[3].price is nan: …`."""
    try:
        found = _find(value, path, 0, _Budget())
    except RecordTooLarge as error:
        return f"{path}: {error}"
    return found or f"{path} cannot be stored: expected values that JSON can represent, got {type(value).__qualname__}"


class _Refused(Exception):
    """A part cannot be stored; `explain` finds its path."""


def _detach(value: Any, budget: _Budget) -> Any:
    cls = value.__class__
    if cls in ATOMS:
        if cls in _SIZED:
            budget.left -= len(value)
            if budget.left < 0:
                raise _too_large()
        return value
    copier = _COPIERS.get(cls)
    if copier is None:
        copier = _COPIERS[cls] = _copier_for(cls)
    return copier(value, budget)


def _float(value: float, budget: _Budget) -> float:
    if isfinite(value):
        return value
    raise _Refused


def _list(value: list[Any], budget: _Budget) -> list[Any]:
    budget.charge(len(value))
    kinds = set(map(type, value))
    if kinds <= ATOMS:
        budget.charge_texts(value, kinds)
        return value.copy()
    return [_detach(item, budget) for item in value]


def _tuple(value: tuple[Any, ...], budget: _Budget) -> tuple[Any, ...]:
    budget.charge(len(value))
    kinds = set(map(type, value))
    if kinds <= ATOMS:
        budget.charge_texts(value, kinds)
        return value
    if kinds <= _FLOATS:
        if all(map(isfinite, value)):
            return value
        raise _Refused
    items = [_detach(item, budget) for item in value]
    return value if all(map(is_, items, value)) else tuple(items)


def _named_tuple(value: Any, budget: _Budget) -> Any:
    budget.charge(len(value))
    items = [_detach(item, budget) for item in value]
    return value if all(map(is_, items, value)) else value.__class__._make(items)


def _dict(value: dict[Any, Any], budget: _Budget) -> dict[Any, Any]:
    # Every step passes here twice, so one loop does it all: sets of the few keys and items would take longer.
    size = _CONTAINER + _ITEM * len(value)
    are_texts = True
    twin = value.copy()
    for key, item in value.items():
        if key.__class__ is str:
            size += len(key)
        else:
            are_texts = False
        cls = item.__class__
        if cls is str or cls is bytes:
            size += len(item)
        elif cls is float:
            if not isfinite(item):
                raise _Refused
        elif cls not in ATOMS:
            twin[key] = _detach(item, budget)
    if not are_texts:
        kinds: set[type] = set(map(type, value))
        if len(kinds) > 1 or not (kinds <= _KEYS or all(issubclass(kind, Enum) for kind in kinds)):
            raise _Refused
    budget.left -= size
    if budget.left < 0:
        raise _too_large()
    return twin


def _frozen_dict(value: FrozenDict[Any, Any], budget: _Budget) -> FrozenDict[Any, Any]:
    cost: int | None = getattr(value, "cost", None)
    if cost is None:
        before = budget.left
        twin = _dict(value, budget)
        if not all(map(is_, twin.values(), value.values())):
            return FrozenDict(twin)
        value.cost = before - budget.left
        return value
    budget.left -= cost
    if budget.left < 0:
        raise _too_large()
    return value


def _set(value: Any, budget: _Budget) -> Any:
    budget.charge(len(value))
    return value.__class__([_detach(item, budget) for item in value])


def _same(value: Any, budget: _Budget) -> Any:
    return value


def _refuse(value: Any, budget: _Budget) -> Any:
    raise _Refused


def _int(value: int, budget: _Budget) -> int:
    return int(value)


def _copier_for(cls: type[Any]) -> _Copier:
    """Return the copier for a class; decided once per class."""
    if issubclass(cls, Enum):
        return _same
    if issubclass(cls, int):
        return _int
    if hasattr(cls, "_make") and issubclass(cls, tuple):
        return _named_tuple
    if issubclass(cls, msgspec.Struct):
        return _record_copier(cls, cls.__struct_fields__, cls)
    names = fields_of(cls)
    if names is None or any(name.startswith("_") for name in names):
        return _refuse
    return _record_copier(cls, names, partial(build, cls))


def build(cls: type[Any], **values: Any) -> Any:
    """Make an object without calling its `__init__`, which may validate, convert or count."""
    twin: Any = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(twin, name, value)
    return twin


def _record_copier(cls: type[Any], names: tuple[str, ...], build: Callable[..., Any]) -> _Copier:
    frozen = is_frozen(cls)
    values_of = field_values(names)

    def copy(value: Any, budget: _Budget) -> Any:
        values = values_of(value)
        budget.charge(len(values))
        items: list[Any] = []
        is_same = frozen
        for part in values:
            # The common parts of a step's output are handled here, without a call for each.
            kind, twin = part.__class__, part
            if kind is str or kind is bytes:
                budget.left -= len(part)
            elif kind not in ATOMS and (kind is not tuple or part):
                twin = _detach(part, budget)
                is_same = is_same and twin is part
            items.append(twin)
        if budget.left < 0:
            raise _too_large()
        if is_same:
            return value
        return build(**dict(zip(names, items, strict=True)))

    return copy


@cache
def field_values(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function from an object to the tuple of its fields' values."""
    if len(names) > 1:
        return attrgetter(*names)
    if names:
        only = attrgetter(names[0])
        return lambda value: (only(value),)
    return lambda value: ()


def is_frozen(cls: type[Any]) -> bool:
    """Return whether the fields of a record of this class cannot be set."""
    if attrs.has(cls):
        return cls.__setattr__ is not object.__setattr__ and "frozen" in cls.__setattr__.__name__
    if issubclass(cls, msgspec.Struct):
        return cls.__struct_config__.frozen
    parameters = getattr(cls, "__dataclass_params__", None)
    return bool(parameters and parameters.frozen)


_COPIERS: dict[type, _Copier] = {
    float: _float,
    list: _list,
    tuple: _tuple,
    dict: _dict,
    FrozenDict: _frozen_dict,
    set: _set,
    frozenset: _set,
}


def _find(value: Any, path: str, depth: int, budget: _Budget) -> str | None:
    """Walk like `detach` and return a sentence on the first value that it, or the encoder, refuses."""
    cls: type[Any] = value.__class__
    budget.charge(len(value) if cls is str else 0)
    if depth > 200:
        return f"{path:.60}… is nested more than 200 deep, or contains itself: expected a tree; break the cycle"
    if cls is str:
        return None if _encodable(value) else f"{path} is not valid text: it holds half a surrogate pair; got {value!r}"
    if cls is float:
        return None if isfinite(value) else f"{path} is {value!r}: JSON has no such number; use None or a Decimal"
    if cls in ATOMS or issubclass(cls, Enum | int):
        return None
    if cls in DICTS:
        return _find_in_dict(value, path, depth, budget)
    if cls in (list, tuple, set, frozenset) or (hasattr(cls, "_make") and issubclass(cls, tuple)):
        found = (_find(item, f"{path}[{index}]", depth + 1, budget) for index, item in enumerate(value))
        return next(filter(None, found), None)
    names = cls.__struct_fields__ if issubclass(cls, msgspec.Struct) else fields_of(cls)
    if names is None:
        return (
            f"{path} cannot be stored: expected numbers, text, Decimal, datetime, enums, lists, tuples, dicts, "
            f"attrs classes or dataclasses, got {cls.__module__}.{cls.__qualname__}; convert it before the yield"
        )
    for name in names:
        if name.startswith("_"):
            return f"{path}.{name} is private and would be lost on disk: rename it to {name.lstrip('_')!r}"
    found = (_find(getattr(value, name), f"{path}.{name}", depth + 1, budget) for name in names)
    return next(filter(None, found), None)


def _find_in_dict(value: dict[Any, Any], path: str, depth: int, budget: _Budget) -> str | None:
    kinds = sorted({type(key).__name__ for key in value})
    if len(kinds) > 1:
        return f"{path} has keys of several types ({', '.join(kinds)}): expected one, since on disk all of them are text"
    for key, item in value.items():
        if type(key) not in _KEYS and not isinstance(key, Enum):
            return f"{path} has the key {key!r}: expected text, a number, a date or an enum, got {type(key).__name__}"
        if found := _find(key, f"{path} (a key)", depth + 1, budget) or _find(item, f"{path}.{key}", depth + 1, budget):
            return found
    return None


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
