"""G10: a state is never refused for its shape by the class that it is of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, Required, TypeAlias, TypedDict, TypeVar, Union
from uuid import UUID

import attrs
import msgspec
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from harnesses.errors import Unstorable
from orchestrator.codec import decode, encode
from orchestrator.states.state_migration import ready
from orchestrator.states.state_types import HarnessTypes
from orchestrator.states.stored_shapes import faults_in

ItemT = TypeVar("ItemT")


class Side(StrEnum):
    BUY = "buy"
    SELL = "sell"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Kind(Enum):
    NEW = "new"
    OLD = "old"


Drawn: TypeAlias = tuple[Any, st.SearchStrategy[Any]]
"""A type, and values of it."""

NAMES = ("a", "b_2", "type", "snake_case", "value", "kind")
_atoms: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(max_size=5),
    bytes: st.binary(max_size=5),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False, places=3),
    datetime: st.datetimes(timezones=st.just(UTC)),
    date: st.dates(),
    time: st.times(),
    timedelta: st.timedeltas(timedelta(-1000), timedelta(1000)),
    UUID: st.uuids(),
    Side: st.sampled_from(Side),
    Level: st.sampled_from(Level),
    Kind: st.sampled_from(Kind),
    Literal["x", "y"]: st.sampled_from(["x", "y"]),
    Any: st.recursive(
        st.none() | st.integers(-5, 5) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
        max_leaves=4,
    ),
}
_keys = (str, int, Decimal, date, datetime, UUID, Side, Level, Kind)
atoms: st.SearchStrategy[Drawn] = st.sampled_from(list(_atoms)).map(lambda cls: (cls, _atoms[cls]))
keys: st.SearchStrategy[Drawn] = st.sampled_from(_keys).map(lambda cls: (cls, _atoms[cls]))


def _of(generic: Any, parameters: Any) -> Any:
    return generic[parameters]


def _optional(kind: Any) -> Any:
    return _of(Union, (kind, None))


def _lists(drawn: Drawn) -> Drawn:
    return _of(list, drawn[0]), st.lists(drawn[1], max_size=3)


def _tuples(drawn: Drawn) -> Drawn:
    return _of(tuple, (drawn[0], ...)), st.lists(drawn[1], max_size=3).map(tuple)


def _fixed(drawn: Iterable[Drawn]) -> Drawn:
    parts = list(drawn)
    return _of(tuple, tuple(kind for kind, _ in parts)), st.tuples(*(values for _, values in parts))


def _dicts(drawn: tuple[Drawn, Drawn]) -> Drawn:
    (key, keyed), (kind, values) = drawn
    return _of(dict, (key, kind)), st.dictionaries(keyed, values, max_size=3)


def _optionals(drawn: Drawn) -> Drawn:
    return _optional(drawn[0]), st.none() | drawn[1]


def _annotated(drawn: Drawn) -> Drawn:
    return _of(Annotated, (drawn[0], msgspec.Meta(description="said"))), drawn[1]


def _with_any(drawn: Drawn) -> Drawn:
    return drawn[0] | Any, drawn[1].map(lambda value: decode(encode(value)))


Fields: TypeAlias = dict[str, Drawn]


def _builds(cls: Any, fields: Fields) -> Drawn:
    return cls, st.builds(cls, **{name: values for name, (_, values) in fields.items()})


def _dataclasses(fields: Fields) -> Drawn:
    return _builds(dataclasses.make_dataclass("Data", [(name, kind) for name, (kind, _) in fields.items()]), fields)


def _attrs(fields: Fields) -> Drawn:
    made = {name: attrs.field(type=kind) for name, (kind, _) in fields.items()}
    cls = attrs.make_class("Attrs", made, frozen=True)
    cls.__annotations__ = {name: kind for name, (kind, _) in fields.items()}  # earlier releases of attrs set none
    return _builds(cls, fields)


def _structs(fields: Fields) -> Drawn:
    return _builds(msgspec.defstruct("Plain", [(name, kind) for name, (kind, _) in fields.items()], frozen=True), fields)


def _arrays(fields: Fields) -> Drawn:
    made = msgspec.defstruct("Row", [(name, kind) for name, (kind, _) in fields.items()], frozen=True, array_like=True)
    return _builds(made, fields)


def _typed_dicts(fields: Fields) -> Drawn:
    names = sorted(fields)
    given = {name: _of(Required if number else NotRequired, fields[name][0]) for number, name in enumerate(names)}
    values = {name: fields[name][1] for name in names}
    made: Any = TypedDict
    return made("Typed", given), st.fixed_dictionaries(
        {name: values[name] for name in names[1:]}, optional={name: values[name] for name in names[:1]}
    )


def _named_tuples(fields: Fields) -> Drawn:
    made: Any = NamedTuple
    return _builds(made("Named", [(name, kind) for name, (kind, _) in fields.items()]), fields)


def _unions(drawn: tuple[Fields, Fields, bool, bool]) -> Drawn:
    """Return a union of two tagged Structs; fields with their defaults may be left out, names may be written otherwise."""
    one, other, omit, renamed = drawn
    options: dict[str, Any] = {
        "frozen": True,
        "tag_field": "@which",
        "omit_defaults": omit,
        "rename": "camel" if renamed else None,
    }
    first = _builds(msgspec.defstruct("First", [(name, kind) for name, (kind, _) in one.items()], tag=True, **options), one)
    made = [(name, _optional(kind), None) for name, (kind, _) in other.items()]
    second = _builds(msgspec.defstruct("Second", made, tag="2nd", **options), other)
    return first[0] | second[0], st.one_of(first[1], second[1], st.just(second[0]()))


def _fields(inner: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Fields]:
    return st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3)


def _records(inner: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    fields = _fields(inner)
    return st.one_of(*(fields.map(made) for made in (_dataclasses, _attrs, _structs, _typed_dicts, _named_tuples, _arrays)))


def _grown(inner: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    fields = _fields(inner)
    return st.one_of(
        _records(inner),
        st.tuples(fields, fields, st.booleans(), st.booleans()).map(_unions),
        inner.map(_lists),
        inner.map(_tuples),
        st.lists(inner, min_size=1, max_size=3).map(_fixed),
        st.tuples(keys, inner).map(_dicts),
        inner.map(_optionals),
        inner.map(_annotated),
        _records(inner).map(_with_any),
    )


types = st.recursive(atoms, _grown, max_leaves=8)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    _fields(types).flatmap(lambda fields: st.sampled_from([_attrs, _dataclasses, _structs]).map(lambda made: made(fields))),
    st.data(),
)
def test_a_state_is_accepted_as_it_is_by_its_own_class(drawn: Drawn, data: st.DataObject) -> None:
    cls, values = drawn
    state = data.draw(values)
    try:
        text = encode(state)
    except Unstorable:
        reject()  # msgspec before 0.20 takes no plain enum as the key of a dict

    assert faults_in(decode(text), cls) == ()
    readied = ready(HarnessTypes(cls, Any, Any), text, 1)
    assert readied.state == state
    assert not readied.is_whole


@dataclasses.dataclass
class Box(Generic[ItemT]):
    item: ItemT
    rest: Box[ItemT] | None = None


@dataclasses.dataclass
class Loose:
    item: Box[int] | Any = None


@pytest.mark.parametrize(
    ("state", "cls"),
    [
        (Box(Box(1), Box(Box(2))), Box[Box[int]]),
        ([Box(1)], list[Box[int]]),
        (Loose({"anything": 1}), Loose),
        (Loose(Box(1)), Loose),
    ],
)
def test_generic_classes_and_unions_with_anything_are_not_refused(state: Any, cls: Any) -> None:
    assert faults_in(decode(encode(state)), cls) == ()


def test_a_field_that_a_generic_class_lacks_is_named() -> None:
    (fault,) = faults_in({"item": 1, "lid": 2}, Box[int])

    assert str(fault) == "lid is stored, but Box has no such field"
