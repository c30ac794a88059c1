"""A `FrozenDict` is a dict that nothing can change, so a state made of them is never copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from attrs import frozen

from harnesses import HarnessMisuse, Unstorable
from harnesses.data.delta import Baseline
from harnesses.data.frozen_dict import FrozenDict, freeze
from harnesses.data.read_only import read_only
from harnesses.data.values import detach
from harnesses.state import PersistentState

PRICES = FrozenDict({"A": Decimal("1.00"), "B": Decimal(2)})


@frozen
class Account:
    prices: Any = PRICES
    items: tuple[Any, ...] = ()

    def __attrs_post_init__(self) -> None:
        freeze(self, "prices")


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.update(A=1),
        lambda one: one.pop("A"),
        lambda one: one.popitem(),
        lambda one: one.clear(),
        lambda one: one.setdefault("C", 1),
        lambda one: one.__setitem__("A", 1),
        lambda one: one.__delitem__("A"),
        lambda one: one.__ior__({"A": 1}),
    ],
)
def test_changing_it_is_refused(change: Callable[[Any], object]) -> None:
    with pytest.raises(HarnessMisuse, match=r"FrozenDict\..*cannot be changed"):
        change(PRICES)


def test_it_is_a_dict_in_every_other_way() -> None:
    assert dict(PRICES) == PRICES
    assert msgspec.json.encode(PRICES) == msgspec.json.encode(dict(PRICES))
    assert pickle.loads(pickle.dumps(PRICES)) == PRICES
    assert copy.copy(PRICES) is PRICES
    assert type({**PRICES}) is dict


def test_a_state_of_them_is_not_copied_and_one_read_back_is_the_same() -> None:
    kept = PersistentState(Account())
    changed = Account({"A": Decimal(3)}, (FrozenDict(a=1.5),))

    kept.update_state(lambda _: changed)

    assert kept.state is changed
    assert kept.load_context().state is changed
    read = msgspec.json.decode(msgspec.json.encode(changed), type=Account)
    assert (read.prices, type(read.prices)) == ({"A": "3"}, FrozenDict)


@pytest.mark.parametrize("inside", [[1], {"a": 1}, FrozenDict(a=[1])])
def test_what_can_be_changed_inside_is_copied(inside: Any) -> None:
    one = FrozenDict(x=inside)

    for twin in (detach(one), detach(one), read_only(one)):
        assert twin == one
        assert twin["x"] is not inside


def test_what_can_not_be_stored_inside_is_refused_each_time() -> None:
    one = FrozenDict(x=float("nan"))

    for _ in range(2):
        with pytest.raises(Unstorable, match=r"\$\.x is nan"):
            detach(one)


@pytest.mark.parametrize("before", [{"A": 1, "B": 2}, FrozenDict({"A": 1, "B": 2})])
def test_its_delta_is_that_of_a_dict(before: dict[str, int]) -> None:
    after = FrozenDict({"A": 1, "B": 3, "C": 4})

    expected = Baseline({"s": {"A": 1, "B": 2}}).advance({"s": dict(after)})
    assert Baseline({"s": before}).advance({"s": after}) == expected
    assert Baseline(before).advance(after) == expected["in"]["s"]


@pytest.mark.parametrize("wrap", [lambda inside: Account(items=(inside,)), lambda inside: FrozenDict(x=inside)])
def test_each_level_of_a_deep_value_is_walked_once(wrap: Callable[[Any], Any]) -> None:
    value: Any = [1]
    for _ in range(40):
        value = wrap(value)

    assert detach(value) == value  # A walk that did each level twice would never end.
