"""Whether stored data has the shape of a class: every stored field is declared, and every required field is stored. Pure.

Invariant: data that passes is read back without loss, at any depth of lists, dicts and unions. Classes encoded in another way
(as arrays or tuples) are left to the converter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast, get_origin

from attrs import field, frozen
from msgspec import inspect

from harnesses.data.migrations import called
from harnesses.data.values import fields_of

MOST_FAULTS = 20
"""Limit on the faults that are named; a list of thousands of records has the same fault in each."""


@frozen
class Fault:
    """A field that only one side has."""

    path: str
    """Path of the field, `orders[].price`; one path stands for all items of a list or dict."""
    is_stored: bool
    """Whether the store has it and the class has not; otherwise the class has it, without a default."""
    owner: str
    """Name of the class."""

    def __str__(self) -> str:
        return (
            f"{self.path} is stored, but {self.owner} has no such field" if self.is_stored else f"{self.path} has no default"
        )


@frozen
class _Fields:
    """Fields of one class."""

    name: str
    kinds: Mapping[str, inspect.Type]
    required: frozenset[str]
    ignored: frozenset[str] = frozenset()


_Node: TypeAlias = Any


@frozen
class _Walk:
    faults: dict[Fault, None] = field(factory=dict[Fault, None])
    known: dict[int, _Fields | None] = field(factory=dict[int, "_Fields | None"])
    """Fields by the identity of their type, so that a type used in thousands of records is inspected once."""

    def visit(self, path: str, data: Any, kind: _Node) -> None:
        """Compare data with a type, recursively."""
        if len(self.faults) >= MOST_FAULTS:
            return
        if isinstance(data, dict):
            self._visit_dict(path, cast(dict[str, Any], data), kind)
        elif isinstance(data, list):
            self._visit_list(path, data, kind)  # pyright: ignore[reportUnknownArgumentType]

    def _visit_dict(self, path: str, data: dict[str, Any], kind: _Node) -> None:
        kind = _chosen(kind, data)
        if isinstance(kind, inspect.DictType):
            if _has_classes(kind.value_type):
                for value in data.values():
                    self.visit(f"{path}[]", value, kind.value_type)
            return
        if id(kind) not in self.known:
            self.known[id(kind)] = _fields_of(kind)
        fields = self.known[id(kind)]
        if fields is None:
            return
        prefix = f"{path}." if path else ""
        for name, value in data.items():
            if name in fields.kinds:
                self.visit(f"{prefix}{name}", value, fields.kinds[name])
            elif name not in fields.ignored:
                self.faults[Fault(f"{prefix}{name}", True, fields.name)] = None
        for name in fields.kinds:
            if name in fields.required and name not in data:
                self.faults[Fault(f"{prefix}{name}", False, fields.name)] = None

    def _visit_list(self, path: str, data: list[Any], kind: _Node) -> None:
        kind = _chosen(kind, data)
        if isinstance(kind, inspect.TupleType):
            for value, item in zip(data, kind.item_types, strict=False):
                self.visit(f"{path}[]", value, item)
            return
        member: _Node = getattr(kind, "item_type", None)
        if member is not None and _has_classes(member):
            for value in data:
                self.visit(f"{path}[]", value, member)


def faults_in(data: Any, cls: Any) -> tuple[Fault, ...]:
    """Return where plain data and a type differ in shape; at most `MOST_FAULTS` places."""
    kind = _type_info(cls)
    if kind is None:
        return ()
    walk = _Walk()
    walk.visit("", data, kind)
    return tuple(walk.faults)[:MOST_FAULTS]


def _type_info(cls: Any) -> inspect.Type | None:
    try:
        return inspect.type_info(cls)
    except (TypeError, NameError):
        return None  # The converter reports what is wrong with the type.


def _chosen(kind: _Node, data: Any) -> _Node:
    """Return the member of a union that data of this form belongs to, without wrappers."""
    if isinstance(kind, inspect.Metadata):
        return _chosen(kind.type, data)
    if not isinstance(kind, inspect.UnionType):
        return kind
    types = tuple(map(_unwrapped, kind.types))
    if any(isinstance(one, inspect.AnyType) for one in types):
        return None  # It is read back as plain data, whatever its other members are.
    found = [one for one in types if _may_hold(one, data)]
    tagged = [one for one in found if isinstance(one, inspect.StructType) and one.tag_field is not None]
    for one in tagged:
        if isinstance(data, dict) and cast(dict[str, Any], data).get(one.tag_field or "") == one.tag:
            return one
    rest = [one for one in found if one not in tagged]
    return rest[0] if rest else None


def _unwrapped(kind: _Node) -> _Node:
    return _unwrapped(kind.type) if isinstance(kind, inspect.Metadata) else kind


def _may_hold(kind: _Node, data: Any) -> bool:
    if isinstance(data, dict):
        return isinstance(kind, _OBJECTS)
    return isinstance(kind, inspect.TupleType) or hasattr(kind, "item_type")


_OBJECTS = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType, inspect.DictType)


def _fields_of(kind: _Node) -> _Fields | None:
    if isinstance(kind, inspect.StructType) and kind.array_like:
        return None
    if not isinstance(kind, inspect.StructType | inspect.DataclassType | inspect.TypedDictType):
        return None
    cls: Any = get_origin(kind.cls) or kind.cls  # A parametrised generic class, `Box[int]`, is not a class itself.
    # Keys that are written but not read back: fields that `__init__` does not take, the tag of a Struct.
    ignored = {*(fields_of(cls) or ()), *([kind.tag_field] if isinstance(kind, inspect.StructType) else [])}
    kinds = {one.encode_name: one.type for one in kind.fields}
    required = frozenset(one.encode_name for one in kind.fields if one.required)
    return _Fields(called(cls), kinds, required, frozenset(name for name in ignored if name and name not in kinds))


def _has_classes(kind: _Node) -> bool:
    """Return whether values of a type may contain a class; numbers and text need not be walked."""
    return any(isinstance(one, (*_OBJECTS, inspect.UnionType)) or _contains(one) for one in _members(kind))


def _contains(kind: _Node) -> bool:
    if isinstance(kind, inspect.TupleType):
        return any(map(_has_classes, kind.item_types))
    item = getattr(kind, "item_type", None)
    return item is not None and _has_classes(item)


def _members(kind: _Node) -> Iterator[_Node]:
    kind = _unwrapped(kind)
    yield from map(_unwrapped, kind.types) if isinstance(kind, inspect.UnionType) else (kind,)
