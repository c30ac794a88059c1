"""Laws of `detach`: it shares nothing that can change, keeps what cannot, and refuses what cannot be stored."""

from __future__ import annotations

import collections
import dataclasses
import re
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from uuid import UUID

import attrs
import msgspec
import pytest
from attrs import define, field, frozen
from hypothesis import given
from hypothesis import strategies as st

from harnesses import Unstorable
from harnesses.data.values import detach, explain, fields_of, is_private
from harnesses.errors import RecordTooLarge


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Pair(NamedTuple):
    left: Any
    right: Any


@frozen
class Leaf:
    value: Any = 0


@define
class Node:
    value: Any = 0
    children: list[Any] = field(factory=list[Any])


@dataclasses.dataclass
class Record:
    value: Any = 0


@dataclasses.dataclass(frozen=True)
class FrozenRecord:
    value: Any = 0


class Struct(msgspec.Struct):
    value: Any = 0


@frozen
class Private:
    _secret: int = 0


@dataclasses.dataclass
class PrivateRecord:
    _secret: int = 0


# values, drawn

atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.sampled_from([Decimal("1.00"), datetime(2024, 12, 24, tzinfo=UTC), date(2024, 12, 24), time(9, 30), timedelta(1)]),
    st.sampled_from([UUID(int=7), Colour.RED, Level.LOW]),
)


def _pure(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    one_of: list[st.SearchStrategy[Any]] = [
        st.lists(inner, max_size=4).map(tuple),
        st.builds(Leaf, inner),
        st.builds(FrozenRecord, inner),
        st.builds(Pair, inner, inner),
    ]
    return st.one_of(one_of)


def _any(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    one_of: list[st.SearchStrategy[Any]] = [
        _pure(inner),
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.builds(Node, inner, st.lists(inner, max_size=3)),
        st.builds(Record, inner),
        st.sets(st.integers(), max_size=3),
    ]
    return st.one_of(one_of)


pure_values = st.recursive(atoms, _pure, max_leaves=12)
values = st.recursive(atoms, _any, max_leaves=12)


def written(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def parts(value: Any) -> list[Any]:
    """Return the value and everything inside it."""
    inside: list[Any]
    if isinstance(value, dict):
        inside = list(value.values())
    elif isinstance(value, list | tuple | set):
        inside = list(cast("list[Any]", value))
    else:
        inside = [getattr(value, name) for name in fields_of(type(value)) or ()]
    return [value, *(part for item in inside for part in parts(item))]


def spoil(value: Any) -> None:
    """Change everything inside the value that can be changed."""
    for part in parts(value):
        if isinstance(part, list):
            part.append("spoilt")
        elif isinstance(part, dict):
            part["spoilt"] = True
        elif isinstance(part, set):
            part.add(-1)
        elif isinstance(part, Node | Record):
            part.value = "spoilt"


# what is copied and what is not


@given(values)
def test_a_detached_value_equals_what_it_was_made_from(value: Any) -> None:
    copy = detach(value)

    assert copy == value
    assert type(copy) is type(value)
    assert written(copy) == written(value)


@given(values)
def test_spoiling_the_original_does_not_show_on_the_copy(value: Any) -> None:
    copy = detach(value)
    before = written(copy)

    spoil(value)

    assert written(copy) == before


@given(values)
def test_spoiling_the_copy_does_not_show_on_the_original(value: Any) -> None:
    before = written(value)

    spoil(detach(value))

    assert written(value) == before


@given(pure_values)
def test_what_can_not_change_is_returned_as_it_is(value: Any) -> None:
    assert detach(value) is value


@given(values)
def test_detaching_again_changes_nothing(value: Any) -> None:
    assert detach(detach(value)) == detach(value)


def test_only_the_part_that_can_change_is_copied() -> None:
    kept, changeable = Leaf((1, 2)), [1]

    copy = detach({"kept": kept, "changeable": changeable})

    assert copy["kept"] is kept
    assert copy["changeable"] == [1]
    assert copy["changeable"] is not changeable


def _single(item: Any) -> Any:
    return (item,)


def _pair(item: Any) -> Any:
    return Pair(0, item)


@pytest.mark.parametrize("make", [Leaf, FrozenRecord, _pair, _single])
def test_something_frozen_around_something_changeable_is_copied(make: Callable[[Any], Any]) -> None:
    inside = [1]

    copy = detach(make(inside))
    inside.append(2)

    assert copy == make([1])


@pytest.mark.parametrize("value", [[], {}, set[int](), Node(), Record()])
def test_what_can_change_is_copied_even_if_empty(value: Any) -> None:
    assert detach(value) is not value
    assert detach(value) == value


def test_a_class_that_checks_itself_is_copied_without_being_made_again() -> None:
    made: list[int] = []

    @define
    class Checked:
        items: list[int]

        def __attrs_post_init__(self) -> None:
            made.append(1)

    checked = Checked([1])

    assert detach(checked) == checked
    assert made == [1]


def test_a_field_that_is_not_an_argument_is_copied_too() -> None:
    @define
    class Counter:
        count: int = field(init=False, default=0)

    counter = Counter()
    counter.count = 7

    assert detach(counter).count == 7


@pytest.mark.parametrize("key", ["a", 1, Decimal("1.5"), date(2024, 12, 24), UUID(int=7)])
def test_a_key_may_be_text_a_number_a_date_or_an_id(key: object) -> None:
    assert detach({key: 1}) == {key: 1}


def test_keys_may_be_members_of_an_enum() -> None:
    assert detach({Colour.RED: [1]}) == {Colour.RED: [1]}


# what is refused


class Custom:
    pass


def _endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def _endless_node() -> Node:
    node = Node()
    node.children.append({"parent": node})
    return node


def _deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "$ is nan: JSON has no such number"),
        ([0.0, float("inf")], "$[1] is inf: JSON has no such number"),
        ({"a": (1, -float("inf"))}, "$.a[1] is -inf"),
        (Node(children=[Leaf(float("nan"))]), "$.children[0].value is nan"),
        (object(), "$ cannot be stored: expected numbers, text, Decimal"),
        ({"orders": [0, {"at": object()}]}, "$.orders[1].at cannot be stored"),
        (Leaf(Custom()), "$.value cannot be stored"),
        (Pair(1, Custom()), "$[1] cannot be stored"),
        (Custom, "$ cannot be stored"),
        (len, "$ cannot be stored"),
        (1j, "$ cannot be stored"),
        (range(3), "$ cannot be stored"),
        (iter([1]), "$ cannot be stored"),
        (LookupError("no"), "$ cannot be stored"),
        (collections.OrderedDict(a=1), "$ cannot be stored"),
        (collections.deque([1]), "$ cannot be stored"),
        (MappingProxyType({"a": 1}), "$ cannot be stored"),
        (bytearray(b"a"), "$ cannot be stored"),
        (Private(1), "$._secret is private and would be lost on disk: rename it to 'secret'"),
        ([PrivateRecord(1)], "$[0]._secret is private"),
        ({(1, 2): 3}, "$ has the key (1, 2): expected text, a number, a date or an enum, got tuple"),
        ({"a": {None: 1}}, "$.a has the key None"),
        ({True: 1}, "$ has the key True"),
        ({1.5: 1}, "$ has the key 1.5"),
        ({b"a": 1}, "$ has the key b'a'"),
        (_endless(), "is nested more than 200 deep, or contains itself"),
        (_endless_node(), "is nested more than 200 deep, or contains itself"),
        (_deep(5_000), "is nested more than 200 deep, or contains itself"),
    ],
)
def test_what_can_not_be_stored_is_refused_with_the_path_to_it(value: object, message: str) -> None:
    with pytest.raises(Unstorable, match=re.escape(message)):
        detach(value)


@given(values, st.sampled_from([float("nan"), object(), Private(), {(): 1}, Custom]))
def test_something_unstorable_is_refused_wherever_it_hides(value: Any, bad: Any) -> None:
    for hidden in ([value, bad], {"a": {"b": bad}, "c": value}, Leaf((value, bad)), Node(bad, [value]), Pair(value, bad)):
        with pytest.raises(Unstorable, match=r"^\$[.\[]"):
            detach(hidden)


def test_a_long_value_does_not_make_a_long_message() -> None:
    with pytest.raises(Unstorable) as caught:
        detach(_endless())

    assert len(str(caught.value)) < 200


def test_the_first_of_several_is_named() -> None:
    assert explain([1, float("inf"), object()]).startswith("$[1] is inf")


def test_the_path_begins_with_what_the_caller_calls_it() -> None:
    assert explain({"price": float("nan")}, "output").startswith("output.price is nan")


def test_text_that_is_no_text_is_explained() -> None:
    assert "half a surrogate pair" in explain(["\ud800"])
    assert "half a surrogate pair" in explain({"\udfff": 1})


def test_a_moderately_deep_value_is_stored() -> None:
    assert written(detach(_deep(150))) == b"[" * 150 + b"0" + b"]" * 150


# fields


@pytest.mark.parametrize(
    ("cls", "names"),
    [(Leaf, ("value",)), (Node, ("value", "children")), (Record, ("value",)), (Struct, ("value",)), (dict, None), (int, None)],
)
def test_the_fields_of_a_class_are_those_that_are_stored(cls: type, names: tuple[str, ...] | None) -> None:
    assert fields_of(cls) == names


def test_a_class_without_fields_is_a_value() -> None:
    empty = attrs.make_class("Empty", [], frozen=True)()

    assert detach(empty) is empty


@frozen
class Couple:
    first: Any
    second: Any


def doubled(depth: int, make: Callable[[Any, Any], Any]) -> Any:
    """Return something of `depth` levels that holds 2 ** depth parts, and takes up no more than `depth`."""
    value: Any = (1,)
    for _ in range(depth):
        value = make(value, value)
    return value


@pytest.mark.parametrize("value", [
    doubled(40, lambda one, two: [one, two]),
    doubled(40, lambda one, two: (one, two)),
    doubled(40, Couple),
    doubled(40, Pair),
    doubled(40, lambda one, two: {"one": one, "two": two}),
    ["x" * 10**6] * 1000,
    [{"text": b"x" * 10**6}] * 1000,
    [[1] * 10**5] * 1000,
], ids=["lists", "tuples", "records", "named", "dicts", "texts", "bytes", "items"])  # fmt: skip
def test_what_is_small_in_memory_and_huge_when_it_is_written_is_refused_within_its_budget(value: Any) -> None:
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        with pytest.raises(RecordTooLarge, match="too large to be stored"):
            detach(value, 10**6)
    finally:
        sys.setprofile(None)
    assert calls < 50_000


def test_what_would_never_be_walked_to_its_end_is_explained_and_not_private() -> None:
    value = doubled(40, lambda one, two: (one, two))

    assert "too large to be stored" in explain(value)
    assert not is_private(value, None)
