"""A view of a state is equal to it and taken for it, cannot be changed, and gives what can be changed when it is copied."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import attrs
import msgspec
import pytest

from harnesses import HarnessMisuse
from harnesses.data.read_only import View, read_only
from harnesses.data.values import detach, explain
from harnesses.state import PersistentState

CLOSED = {"match": "the state is read-only"}


@attrs.define
class Slotted:
    total: int = 0
    items: list[int] = attrs.field(factory=list, validator=attrs.validators.instance_of(list))

    def add(self) -> None:
        self.total += 1


@dataclass
class Plain:
    total: int = 0
    inner: Slotted = field(default_factory=Slotted)


@attrs.frozen
class Frozen:
    items: list[int]


class Struct(msgspec.Struct):
    total: int = 0


class Holding(msgspec.Struct):
    total: int
    items: list[int]


class FrozenHolding(msgspec.Struct, frozen=True):
    total: int
    items: list[int]


@dataclass
class Mutable:
    total: int
    items: list[int]


@dataclass(frozen=True)
class Immutable:
    total: int
    items: list[int]


@attrs.frozen
class Evolving:
    total: int
    items: list[int]


class Registered:
    seen: ClassVar[list[type]] = []

    def __init_subclass__(cls) -> None:
        Registered.seen.append(cls)


@dataclass
class Looking(Registered):
    total: int = 0


STATES: list[Any] = [
    {"a": 1, "b": [1, {"c": 2}], "s": {1, 2}},
    [1, [2], (3, [4])],
    {1, 2},
    Slotted(1, [1]),
    Plain(1, Slotted(2, [3])),
    Frozen([1]),
    ({"a": [1]},),
    [Slotted(1, [2])],
]


def _set(state: Any, name: str) -> None:
    setattr(state, name, 7)


CHANGES: list[tuple[Any, Any]] = [
    ({"a": 1}, lambda state: state.__setitem__("a", 2)),
    ({"a": 1}, lambda state: state.__delitem__("a")),
    ({"a": 1}, lambda state: state.update(b=1)),
    ({"a": 1}, lambda state: state.setdefault("b", 1)),
    ({"a": 1}, lambda state: state.pop("a")),
    ({"a": 1}, lambda state: state.popitem()),
    ({"a": 1}, lambda state: state.clear()),
    ({"a": 1}, lambda state: state.__ior__({"b": 1})),
    ({"a": [1]}, lambda state: state["a"].append(2)),
    ([1, 2], lambda state: state.append(1)),
    ([1, 2], lambda state: state.extend([1])),
    ([1, 2], lambda state: state.insert(0, 1)),
    ([1, 2], lambda state: state.remove(1)),
    ([1, 2], lambda state: state.pop()),
    ([1, 2], lambda state: state.clear()),
    ([1, 2], lambda state: state.sort()),
    ([1, 2], lambda state: state.reverse()),
    ([1, 2], lambda state: state.__setitem__(0, 1)),
    ([1, 2], lambda state: state.__delitem__(0)),
    ([1, 2], lambda state: state.__iadd__([1])),
    ([1, 2], lambda state: state.__imul__(2)),
    ({1}, lambda state: state.add(2)),
    ({1}, lambda state: state.discard(1)),
    ({1}, lambda state: state.__ior__({2})),
    (Slotted(), lambda state: _set(state, "total")),
    (Slotted(), lambda state: state.add()),
    (Slotted(), lambda state: delattr(state, "total")),
    (Slotted(0, [1]), lambda state: state.items.append(2)),
    (Plain(), lambda state: _set(state, "total")),
    (Plain(), lambda state: _set(state.inner, "total")),
    (Frozen([1]), lambda state: state.items.append(2)),
    ((1, [2]), lambda state: state[1].append(2)),
]


@pytest.mark.parametrize(("state", "change"), CHANGES)
def test_changing_it_in_place_is_refused(state, change):
    kept: PersistentState[Any, int, int] = PersistentState(state)

    with pytest.raises(HarnessMisuse, **CLOSED):
        change(kept.state)

    assert kept.state == state
    assert kept.take_delta()[1] == {}


@pytest.mark.parametrize("state", STATES, ids=repr)
def test_it_is_taken_for_what_it_shows(state):
    view = read_only(state)

    assert view == state
    assert state == view
    assert isinstance(view, type(state))
    assert view.__class__ is type(state)
    assert repr(view) == repr(state)
    assert msgspec.json.encode(view) == msgspec.json.encode(state)
    assert json.dumps(msgspec.to_builtins(view)) == json.dumps(msgspec.to_builtins(state))


@pytest.mark.parametrize("state", STATES, ids=repr)
@pytest.mark.parametrize("twin", [copy.deepcopy, detach, lambda view: pickle.loads(pickle.dumps(view))])
def test_what_is_made_of_it_can_be_changed(state, twin):
    made = twin(read_only(state))

    assert made == state
    assert type(made) is type(state)
    assert made is not state
    assert explain(made) == explain(state)
    _change_all(made)


def _change_all(value: Any) -> None:
    """Change whatever can be changed, at any depth."""
    if isinstance(value, dict):
        for inner in value.values():
            _change_all(inner)
        value["new"] = 1
    elif isinstance(value, list | tuple):
        for inner in value:
            _change_all(inner)
        if isinstance(value, list):
            value.append(1)
    elif isinstance(value, set):
        value.add(9)
    elif isinstance(value, Slotted | Plain):
        value.total += 1
        _change_all(value.items if isinstance(value, Slotted) else value.inner)


def test_shallow_ways_to_make_another_give_what_can_be_changed():
    numbers, names, tags = read_only([1, 2]), read_only({"a": 1}), read_only({1})

    made = [numbers[:], numbers.copy(), list(numbers), [*numbers], numbers + [3], numbers * 2, copy.copy(numbers)]  # noqa: RUF005
    assert {type(one) for one in made} == {list}
    made = [{**names}, names.copy(), dict(names), names | {"b": 1}, {"b": 1} | names, copy.copy(names)]
    assert {type(one) for one in made} == {dict}
    made = [
        set(tags),
        tags.copy(),
        tags | {2},
        {2} | tags,
        tags - {1},
        tags & {1},
        tags ^ {2},
        tags.union({2}),
        copy.copy(tags),
    ]
    assert {type(one) for one in made} == {set}


def test_evolving_it_gives_what_can_be_changed():
    attrs.evolve(read_only(Slotted(1, [2])), total=2).add()
    replace(read_only(Plain(1)), total=2).total += 1
    copy.copy(read_only(Slotted(1))).add()


def test_a_change_gets_a_state_of_its_own_and_may_use_a_view():
    kept: PersistentState[Any, int, int] = PersistentState({"items": [1]})

    def change(state):
        state["items"].append(2)
        state["seen"] = kept.state["items"]
        return state

    kept.update_state(change)
    kept.update_state(lambda _: kept.state)

    assert kept.state == {"items": [1, 2], "seen": [1]}
    assert type(kept.snapshot()["items"]) is list


def test_it_is_made_once_for_a_state():
    kept: PersistentState[Any, int, int] = PersistentState({"items": [1]})

    assert kept.state is kept.state
    before = kept.state
    kept.update_state(lambda state: {**state, "more": 1})

    assert kept.state is not before
    assert before == {"items": [1]}


@pytest.mark.parametrize("state", [Struct(), Looking(), [Struct()], {"a": Looking()}])
@pytest.mark.parametrize("then", ["state", "update_state", "take_delta"])
def test_what_can_not_be_guarded_is_found_changed_at_the_next_look(state, then):
    kept: PersistentState[Any, int, int] = PersistentState(state)
    view = kept.state
    inner = view[0] if isinstance(view, list) else view["a"] if isinstance(view, dict) else view
    inner.total += 1

    with pytest.raises(HarnessMisuse, **CLOSED):
        {
            "state": lambda: kept.state,
            "update_state": lambda: kept.update_state(lambda old: old),
            "take_delta": kept.take_delta,
        }[then]()

    assert kept.state == state


def test_a_class_that_looks_at_its_subclasses_gets_none():
    Registered.seen.clear()

    assert not View(Looking()).is_guarded

    assert Registered.seen == []


REPLACING: list[tuple[Any, Any]] = [
    (Mutable(0, [1]), replace),
    (Immutable(0, [1]), replace),
    (Slotted(0, [1]), attrs.evolve),
    (Evolving(0, [1]), attrs.evolve),
    (Holding(0, [1]), msgspec.structs.replace),
    (FrozenHolding(0, [1]), msgspec.structs.replace),
    ({"total": 0, "items": [1]}, lambda state, **changes: {**state, **changes}),
]


def _items(state: Any) -> Any:
    return state["items"] if isinstance(state, dict) else state.items


@pytest.mark.parametrize(("state", "replaced"), REPLACING, ids=lambda value: type(value).__name__)
def test_a_new_state_made_of_a_view_holds_plain_containers(state, replaced):
    kept: PersistentState[Any, int, int] = PersistentState(state)

    kept.update_state(lambda _: replaced(kept.state, total=1))

    assert type(_items(kept._state)) is list
    kept.update_state(lambda own: replaced(own, total=2) if _items(own).append(2) is None else own)
    assert kept.state == replaced(state, total=2, items=[1, 2])


@pytest.mark.parametrize(("state", "replaced"), REPLACING, ids=lambda value: type(value).__name__)
def test_what_replace_gives_of_the_own_state_can_be_changed_and_of_a_view_is_told(state, replaced):
    kept: PersistentState[Any, int, int] = PersistentState(state)

    def change(own: Any) -> Any:
        new = replaced(own, total=1)
        _items(new).append(2)
        return new

    kept.update_state(change)

    assert kept.state == replaced(state, total=1, items=[1, 2])
    with pytest.raises(HarnessMisuse, match=r"replace, evolve .* shares its lists and dicts, what change gets is its own"):
        change(kept.state)
