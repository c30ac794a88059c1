"""Laws of the delta: what is read back and applied gives exactly the new state, and it is as large as the change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

import msgspec
import pytest
from attrs import evolve, field, frozen
from hypothesis import example, given
from hypothesis import strategies as st

from harnesses import PersistentState
from harnesses.data.delta import Baseline, Delta, apply_to_state, modified
from harnesses.data.values import detach


class Mood(Enum):
    BULL = "bull"
    BEAR = "bear"


@frozen
class Order:
    price: Any = 0
    tags: list[Any] = field(factory=list[Any])
    secret: str = field(default="", repr=False)


@frozen
class Account:
    balance: Any = 0
    orders: Any = ()
    book: Any = field(factory=dict[str, Any])
    first: Order = field(factory=Order)


class Point(NamedTuple):
    x: Any
    y: Any


# how a state travels


def written(value: object) -> bytes:
    """Return the value's JSON with sorted keys: 1, true and 1.0 differ in it, and so do 0.0 and -0.0."""
    return msgspec.json.encode(value, order="sorted")


def between(old: object, new: object) -> Delta:
    return Baseline(detach(old)).advance(detach(new))


def carried(old: object, delta: Delta) -> bytes:
    """Return the JSON of what a reader makes of the old state and the delta on disk."""
    read = msgspec.json.decode
    return written(apply_to_state(read(msgspec.json.encode(old)), read(msgspec.json.encode(delta))))


def size(delta: Delta) -> int:
    return len(msgspec.json.encode(delta))


def changed(old: Any, new: Any, change: Callable[[Any], Any]) -> Delta:
    """Return the delta of a change made the way a harness makes it."""
    state: PersistentState[Any, Any, Any] = PersistentState(old)
    state.update_state(change)
    delta = state.take_delta()[1]
    assert written(state.state) == written(new)
    assert carried(old, delta) == written(new)
    return delta


# values and changes, drawn

atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e300]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([Decimal("1.0"), Decimal("1.00"), Decimal("1"), Decimal("-0"), Decimal("0")]),
    st.sampled_from([datetime(2024, 12, 24, tzinfo=UTC), timedelta(seconds=1), Mood.BULL, Mood.BEAR, b"\x00", b""]),
    st.text(max_size=4),
)
names = st.sampled_from(["a", "b", "c", "0", "1", "set", "in", "keep", "drop", "append", "value", "state"])


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=6),
        st.dictionaries(names, inner, max_size=5),
        st.builds(Order, inner, st.lists(inner, max_size=3), st.text(max_size=1)),
        st.builds(Point, inner, inner),
    )


values = st.recursive(atoms, _grown, max_leaves=12)
accounts = st.builds(Account, values, st.lists(values, max_size=6), st.dictionaries(names, values, max_size=5))


@st.composite
def edits(draw: st.DrawFn, value: Any) -> Any:
    """Draw what becomes of a value: kept, replaced, or changed somewhere inside."""
    if isinstance(value, list):
        return draw(_list_edits(value))
    if isinstance(value, dict):
        return draw(_dict_edits(value))
    if isinstance(value, Order):
        return evolve(value, **{name: draw(edits(getattr(value, name))) for name in draw(st.sets(_order_fields))})
    return value if draw(st.booleans()) else draw(values)


_order_fields = st.sampled_from(["price", "tags", "secret"])


@st.composite
def _list_edits(draw: st.DrawFn, old: list[Any]) -> Any:
    start = draw(st.integers(0, len(old)))
    stop = draw(st.integers(start, len(old)))
    kept = old[start:stop]
    more: list[Any] = draw(st.lists(values, max_size=2))
    inside = draw(st.booleans())
    if kept and inside:
        index = draw(st.integers(0, len(kept) - 1))
        kept[index] = draw(edits(kept[index]))
    outcomes: list[list[Any]] = [[*kept, *more], [*old, *more], [*more, *old], old[start:], old[:stop], kept]
    return outcomes[draw(st.integers(0, len(outcomes) - 1))]


@st.composite
def _dict_edits(draw: st.DrawFn, old: dict[str, Any]) -> Any:
    dropped = draw(st.sets(names))
    kept = {key: draw(edits(item)) for key, item in old.items() if key not in dropped}
    return {**kept, **draw(st.dictionaries(names, values, max_size=2))}


dict_states = st.dictionaries(names, values, max_size=5)


@st.composite
def edited(draw: st.DrawFn, first: st.SearchStrategy[Any]) -> tuple[Any, Any]:
    old = draw(first)
    return old, draw(edits(old))


dict_pairs = edited(dict_states)
list_pairs = edited(st.lists(values, max_size=6))


@st.composite
def account_pairs(draw: st.DrawFn) -> tuple[Account, Account]:
    old = draw(accounts)
    fields = draw(st.sets(st.sampled_from(["balance", "orders", "book", "first"])))
    return old, evolve(old, **{name: draw(edits(getattr(old, name))) for name in fields})


# the laws


@given(st.one_of(dict_pairs, list_pairs, account_pairs(), st.tuples(dict_states, dict_states), st.tuples(accounts, accounts)))
@example(({"a": True}, {"a": 1}))
@example(({"a": 1}, {"a": 1.0}))
@example(({"a": 0.0}, {"a": -0.0}))
@example(({"a": [0.0]}, {"a": [-0.0]}))
@example(({"a": Decimal("1.0")}, {"a": Decimal("1.00")}))
@example(({"a": [1, 2, 3]}, {"a": []}))
@example(({"a": {"b": 1}}, {"a": {}}))
@example(({"a": []}, {"a": {}}))
@example(([1, 2, 3], [3]))
@example(([1, 2, 3, 4], [2, 3]))
@example(({"a": [1, 2, 3, 4]}, {"a": [2, 3]}))
@example(([1, 2, 3, 4], [2, 3, 5, 6, 7]))
@example(([[1], [2]], [[1, 2], [2]]))
def test_a_delta_read_back_and_applied_gives_exactly_the_new_state(pair: tuple[Any, Any]) -> None:
    old, new = pair

    delta = between(old, new)

    assert carried(old, delta) == written(new)


@given(st.one_of(dict_pairs, list_pairs, account_pairs()))
@example(({"b": 1, "a": 2}, {"a": 2, "b": 1}))
@example(([{"b": 1, "a": 2}], [{"a": 2, "b": 1}]))
def test_a_delta_is_empty_exactly_when_both_are_written_alike(pair: tuple[Any, Any]) -> None:
    """The keys of a dict count in their order."""
    old, new = pair

    delta = between(old, new)

    assert (delta == {}) is (msgspec.json.encode(old) == msgspec.json.encode(new))


@given(dict_pairs)
@example(({"a": True, "b": 1}, {"a": 1, "b": 1.0}))
def test_the_names_are_exactly_the_keys_whose_json_changed(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    old, new = pair
    missing = object()

    changed_keys = modified(between(old, new))

    def differs(key: str) -> bool:
        one, other = old.get(key, missing), new.get(key, missing)
        return one is missing or other is missing or written(one) != written(other)

    assert sorted(changed_keys) == sorted(key for key in {*old, *new} if differs(key))


@given(account_pairs())
def test_the_names_are_exactly_the_fields_whose_json_changed(pair: tuple[Account, Account]) -> None:
    old, new = pair

    changed_fields = modified(between(old, new))

    fields = ("balance", "orders", "book", "first")
    differing = [name for name in fields if written(getattr(old, name)) != written(getattr(new, name))]
    assert sorted(changed_fields) == sorted(differing)


@given(st.one_of(dict_pairs, account_pairs()))
def test_the_names_are_the_same_for_the_delta_on_disk(pair: tuple[Any, Any]) -> None:
    delta = between(*pair)

    assert modified(msgspec.json.decode(msgspec.json.encode(delta))) == modified(delta)


@given(values, st.lists(values, max_size=4))
def test_deltas_taken_one_after_the_other_add_up(first: Any, others: list[Any]) -> None:
    baseline = Baseline(detach({"it": first}))
    data: Any = msgspec.json.decode(msgspec.json.encode({"it": first}))

    for value in others:
        delta = baseline.advance(detach({"it": value}))
        data = apply_to_state(data, msgspec.json.decode(msgspec.json.encode(delta)))

    assert written(data) == written({"it": [first, *others][-1]})


# states of every kind


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (0, 1),
        (0, 0),
        (0.0, -0.0),
        ("idle", "busy"),
        (None, None),
        (Decimal("1.0"), Decimal("1.00")),
        (Mood.BULL, Mood.BEAR),
        (datetime(2024, 12, 24, tzinfo=UTC), datetime(2024, 12, 25, tzinfo=UTC)),
        ([1], [1, 2]),
        ((1, 2), (2, 3)),
        (Point(1, 2), Point(1, 3)),
        ({}, {"a": 1}),
        ({"a": 1}, {}),
    ],
)
def test_a_state_of_any_kind_is_carried(old: object, new: object) -> None:
    delta = between(old, new)

    assert carried(old, delta) == written(new)
    assert bool(delta) is (written(old) != written(new))


@pytest.mark.parametrize(("old", "new"), [(0, 1), ([1], [1, 2]), ((1,), (2,)), (Point(1, 2), Point(1, 3)), ("a", "b")])
def test_a_state_without_fields_is_called_state(old: object, new: object) -> None:
    assert modified(between(old, new)) == ("state",)


def test_a_field_that_its_class_does_not_print_is_compared_too() -> None:
    delta = between(Order(secret="one"), Order(secret="two"))

    assert delta == {"set": {"secret": "two"}}


def test_equal_states_made_anew_have_no_delta() -> None:
    old = {"a": [1.5, {"b": Decimal("1.0")}], "c": Order(1, ["x"])}
    new = {"a": [1.5, {"b": Decimal("1.0")}], "c": Order(1, ["x"])}

    assert between(old, new) == {}


def test_a_delta_shares_nothing_with_the_baseline_that_the_next_change_could_alter() -> None:
    state: PersistentState[dict[str, list[int]], int, int] = PersistentState({"a": []})

    state.update_state(lambda old: {"a": [1]})
    first = state.take_delta()[1]
    state.update_state(lambda old: old["a"].append(2) or old)  # type: ignore[func-returns-value]

    assert first == {"in": {"a": {"append": [1]}}}


# as large as the change


@pytest.mark.parametrize("count", [0, 1, 100, 10_000])
def test_appending_to_a_list_stores_what_was_appended(count: int) -> None:
    old = {"prices": [float(number) for number in range(count)]}

    delta = changed(old, {"prices": [*old["prices"], 0.5]}, lambda state: {"prices": [*state["prices"], 0.5]})

    assert delta == {"in": {"prices": {"append": [0.5]}}}


def _orders(count: int) -> list[Any]:
    return [{"id": number, "legs": [number]} for number in range(count)]


def _records(count: int) -> list[Any]:
    return [Order(number, [number]) for number in range(count)]


@pytest.mark.parametrize("make", [_orders, _records])
def test_appending_to_a_list_of_records_stores_what_was_appended(make: Callable[[int], list[Any]]) -> None:
    old = {"orders": make(10_000)}

    last = make(10_001)[-1]

    delta = changed(old, {"orders": [*old["orders"], last]}, lambda state: {"orders": [*state["orders"], last]})

    assert delta == {"in": {"orders": {"append": [last]}}}


def test_appending_in_place_stores_what_was_appended() -> None:
    old = {"orders": _orders(10_000)}

    delta = changed(old, {"orders": [*_orders(10_000), 0]}, lambda state: state["orders"].append(0) or state)

    assert delta == {"in": {"orders": {"append": [0]}}}


def test_appending_deep_inside_stores_the_way_and_what_was_appended() -> None:
    old = Account(book={"bids": {"xetra": list(range(10_000))}, "asks": list(range(10_000))})

    def change(account: Account) -> Account:
        account.book["bids"]["xetra"].append(-1)
        return account

    delta = changed(old, evolve(old, book={**old.book, "bids": {"xetra": [*range(10_000), -1]}}), change)

    assert delta == {"in": {"book": {"in": {"bids": {"in": {"xetra": {"append": [-1]}}}}}}}


def test_changing_one_item_of_a_list_stores_that_item() -> None:
    old = {"orders": _orders(10_000)}

    def change(state: Any) -> Any:
        state["orders"][5_000]["legs"].append("filled")
        return state

    new = {
        "orders": [{**order, "legs": [*order["legs"], "filled"][: 1 + (order["id"] == 5_000)]} for order in _orders(10_000)]
    }
    delta = changed(old, new, change)

    assert delta == {"in": {"orders": {"in": {5_000: {"in": {"legs": {"append": ["filled"]}}}}}}}


@pytest.mark.parametrize("more", [0, 1, 3])
def test_a_sliding_window_stores_what_came_in(more: int) -> None:
    window = [number + 0.5 for number in range(10_000)]
    new = [*window[2:], *([0.25] * more)]

    delta = changed({"window": window}, {"window": new}, lambda state: {"window": [*state["window"][2:], *([0.25] * more)]})

    assert size(delta) < 70


def test_a_sliding_window_of_frozen_records_stores_what_came_in() -> None:
    window = tuple(Point(number, -number) for number in range(10_000))

    delta = changed(
        Account(orders=window),
        Account(orders=(*window[1:], Point(0, 0))),
        lambda account: evolve(account, orders=(*account.orders[1:], Point(0, 0))),
    )

    assert size(delta) < 70


def test_a_list_cut_off_at_the_end_stores_where() -> None:
    old = {"log": list(range(10_000))}

    delta = changed(old, {"log": list(range(4_000))}, lambda state: {"log": state["log"][:4_000]})

    assert delta == {"in": {"log": {"keep": [0, 4_000]}}}


def test_two_thousand_appends_cost_two_thousand_times_one_append() -> None:
    state: PersistentState[dict[str, list[float]], int, int] = PersistentState({"prices": []})
    total = 0

    for _ in range(2_000):
        state.update_state(lambda old: {"prices": [*old["prices"], 0.5]})
        total += size(state.take_delta()[1])

    assert total == 2_000 * size({"in": {"prices": {"append": [0.5]}}})


def test_a_change_of_one_key_among_many_stores_that_key() -> None:
    old = {"book": {str(number): [number] for number in range(10_000)}}

    delta = changed(old, {"book": {**old["book"], "7": [8]}}, lambda state: {"book": {**state["book"], "7": [8]}})

    assert size(delta) < 70
