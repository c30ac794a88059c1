"""Laws of `PersistentState`: the state is private, a change replaces it whole, and history is oldest first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import define, evolve, field, frozen

from harnesses import HarnessMisuse, PersistentState, StateDelta, StateError, Step, Unstorable


@frozen
class Account:
    balance: int = 0
    orders: tuple[str, ...] = ()


@define
class Basket:
    items: list[str] = field(factory=list[str])


def recorded(steps: int, max_context_steps: int = 10) -> PersistentState[int, int, int]:
    state: PersistentState[int, int, int] = PersistentState(0, max_context_steps)
    for number in range(1, steps + 1):
        state.record(number, number, -number, StateDelta())
    return state


def restored(steps: int, max_context_steps: int) -> tuple[PersistentState[int, int, int], list[tuple[int, int]]]:
    """Return a state whose past is elsewhere, and a list that grows with each time it is read from there."""
    past = list(recorded(steps).step_history)
    reads: list[tuple[int, int]] = []

    def load(after: int, count: int) -> list[Step[int, int]]:
        reads.append((after, count))
        return past[after : after + count]

    state: PersistentState[int, int, int] = PersistentState(0, max_context_steps)
    state.restore(steps, steps, load)
    return state, reads


def numbers(steps: Any) -> list[int]:
    return [step.step_number for step in steps]


# privacy


def test_the_callers_initial_state_is_not_shared() -> None:
    initial = {"items": ["a"]}
    state: PersistentState[dict[str, list[str]], int, int] = PersistentState(initial)

    initial["items"].append("b")
    state.update_state(lambda old: {"items": [*old["items"], "c"]})

    assert state.state == {"items": ["a", "c"]}
    assert initial == {"items": ["a", "b"]}


def test_two_states_made_from_one_value_do_not_share_it() -> None:
    initial = Basket(["a"])
    one: PersistentState[Basket, int, int] = PersistentState(initial)
    other: PersistentState[Basket, int, int] = PersistentState(initial)

    one.update_state(lambda basket: basket.items.append("b") or basket)  # type: ignore[func-returns-value]

    assert one.state == Basket(["a", "b"])
    assert other.state == initial == Basket(["a"])


def test_changing_what_state_returns_is_refused_and_a_context_is_a_copy() -> None:
    state: PersistentState[Basket, int, int] = PersistentState(Basket(["a"]))

    with pytest.raises(HarnessMisuse, match="read-only"):
        state.state.items.append("b")
    state.load_context().state.items.append("c")

    assert state.state == Basket(["a"])


def test_a_frozen_state_is_shown_without_a_copy() -> None:
    account = Account(1, ("a",))

    state: PersistentState[Account, int, int] = PersistentState(account)

    assert state.state is account


def test_keeping_hold_of_the_new_state_gives_no_way_in() -> None:
    kept: list[Basket] = []
    state: PersistentState[Basket, int, int] = PersistentState(Basket())

    def change(basket: Basket) -> Basket:
        kept.append(Basket(["a"]))
        return kept[0]

    state.update_state(change)
    kept[0].items.append("b")

    assert state.state == Basket(["a"])


# changes


def test_a_change_may_alter_and_return_what_it_got_and_the_old_value_stays() -> None:
    state: PersistentState[dict[str, int], int, int] = PersistentState({"a": 1})
    before = state.state

    state.update_state(lambda old: old.update(b=2) or old)

    assert state.state == {"a": 1, "b": 2}
    assert before == {"a": 1}


def test_a_change_that_alters_the_state_and_then_raises_did_not_happen() -> None:
    state: PersistentState[Basket, int, int] = PersistentState(Basket(["a"]))

    def change(basket: Basket) -> Basket:
        basket.items.append("b")
        raise LookupError

    with pytest.raises(LookupError):
        state.update_state(change)

    assert state.state == Basket(["a"])


def test_a_change_that_returns_none_is_refused_with_the_remedy() -> None:
    state: PersistentState[Basket, int, int] = PersistentState(Basket(["a"]))

    with pytest.raises(StateError, match="returned None: expected a Basket; return the new state"):
        state.update_state(lambda basket: basket.items.append("b"))  # type: ignore[arg-type, return-value]

    assert state.state == Basket(["a"])


@pytest.mark.parametrize(
    ("initial", "new"),
    [
        (Account(), {"balance": 1}),
        (Account(), Account),
        ({"balance": 0}, Account()),
        (0, True),
        (0, 0.5),
        ([1], (1,)),
        ("idle", None),
        (None, "idle"),
    ],
)
def test_a_change_to_another_type_is_refused(initial: object, new: object) -> None:
    state: PersistentState[object, int, int] = PersistentState(initial)

    with pytest.raises(StateError, match="update_state: the change returned"):
        state.update_state(lambda _: new)

    assert state.state == initial
    assert state.state.__class__ is type(initial)


def test_the_error_names_both_types() -> None:
    state: PersistentState[Any, int, int] = PersistentState(Account())

    with pytest.raises(StateError, match="expected an Account, got dict; return the whole new state"):
        state.update_state(lambda _: {"balance": 1})


def test_a_state_of_none_may_stay_none() -> None:
    state: PersistentState[None, int, int] = PersistentState(None)

    state.update_state(lambda _: None)

    assert state.take_delta() == (StateDelta(), {})


def test_a_change_to_something_unstorable_did_not_happen() -> None:
    state: PersistentState[dict[str, Any], int, int] = PersistentState({"a": 1})

    with pytest.raises(Unstorable, match=r"\$\.b\[1\] is nan"):
        state.update_state(lambda _: {"a": 2, "b": [0.0, float("nan")]})

    assert state.state == {"a": 1}
    assert state.take_delta() == (StateDelta(), {})


def test_an_unstorable_initial_state_is_refused() -> None:
    with pytest.raises(Unstorable, match=r"\$\.stream cannot be stored.*builtins\.object"):
        PersistentState({"stream": object()})


# what changed


def test_the_delta_names_what_changed_since_it_was_last_taken() -> None:
    state: PersistentState[Account, int, int] = PersistentState(Account())

    state.update_state(lambda account: evolve(account, balance=1))
    first = state.take_delta()
    state.update_state(lambda account: evolve(account, orders=("buy",)))
    second = state.take_delta()

    assert first == (StateDelta(("balance",)), {"set": {"balance": 1}})
    assert second == (StateDelta(("orders",)), {"in": {"orders": {"append": ["buy"]}}})
    assert state.take_delta() == (StateDelta(), {})


def test_a_change_that_is_undone_before_the_step_is_no_change() -> None:
    state: PersistentState[Account, int, int] = PersistentState(Account())

    state.update_state(lambda account: evolve(account, balance=1))
    state.update_state(lambda account: evolve(account, balance=0))

    assert state.take_delta() == (StateDelta(), {})


def test_the_summary_belongs_to_the_step_being_made() -> None:
    state: PersistentState[Account, int, int] = PersistentState(Account())

    state.update_state(lambda account: evolve(account, balance=1), summary="deposit of 1")
    state.update_state(lambda account: evolve(account, balance=2))

    assert state.take_delta()[0] == StateDelta(("balance",), "deposit of 1")
    assert state.take_delta()[0].summary is None


def test_a_summary_is_kept_even_if_nothing_changed() -> None:
    state: PersistentState[Account, int, int] = PersistentState(Account())

    state.update_state(lambda account: account, summary="looked, left it alone")

    assert state.take_delta()[0] == StateDelta((), "looked, left it alone")


def test_the_snapshot_is_the_state_as_of_the_last_delta() -> None:
    state: PersistentState[Account, int, int] = PersistentState(Account())
    state.update_state(lambda account: evolve(account, balance=1))
    state.take_delta()

    state.update_state(lambda account: evolve(account, balance=2))

    assert state.snapshot() == Account(1)
    assert state.state == Account(2)


def test_rewind_undoes_what_no_delta_has_taken() -> None:
    state: PersistentState[Basket, int, int] = PersistentState(Basket(["a"]))

    state.update_state(lambda basket: Basket([*basket.items, "b"]), summary="more")
    state.rewind()

    assert state.state == Basket(["a"])
    assert state.take_delta() == (StateDelta(), {})


def test_a_delta_that_is_taken_back_is_part_of_the_next_one() -> None:
    state: PersistentState[Account, int, int] = PersistentState(Account())
    state.update_state(lambda account: evolve(account, balance=1))
    state.take_delta()

    state.untake_delta()
    state.update_state(lambda account: evolve(account, orders=("buy",)))

    assert state.take_delta()[0].modified == ("balance", "orders")


# a past that is elsewhere


def test_restore_takes_up_the_state_and_the_next_delta_starts_there() -> None:
    state, _ = restored(3, 10)

    state.update_state(lambda number: number + 1)

    assert state.state == 4
    assert state.take_delta() == (StateDelta(("state",)), {"set": {"state": 4}})
    assert state.take_delta() == (StateDelta(), {})


@pytest.mark.parametrize("bound", [0, 1, 4, 10, 20])
def test_a_restored_history_reads_like_a_tuple_of_all_steps(bound: int) -> None:
    every = recorded(10).step_history
    history = restored(10, bound)[0].step_history

    assert len(history) == 10
    assert numbers(history) == numbers(every)
    assert [numbers([history[index]]) for index in range(-10, 10)] == [numbers([every[index]]) for index in range(-10, 10)]


@pytest.mark.parametrize("bound", [0, 4])
@pytest.mark.parametrize("part", [slice(2), slice(-2, None), slice(3, 8), slice(None, None, 3), slice(None, None, -1)])
def test_a_restored_history_is_sliced_like_a_tuple(bound: int, part: slice) -> None:
    assert numbers(restored(10, bound)[0].step_history[part]) == numbers(recorded(10).step_history[part])


@pytest.mark.parametrize("part", [slice(5, 5), slice(10, None), slice(8, 3)])
def test_an_empty_slice_reads_nothing(part: slice) -> None:
    state, reads = restored(10, 0)

    assert list(state.step_history[part]) == []
    assert reads == []


def test_the_recent_steps_of_a_restored_history_are_read_once_and_not_before_they_are_asked_for() -> None:
    state, reads = restored(10, 4)
    assert reads == []

    for _ in range(3):
        assert numbers(state.recent_steps(4)) == numbers(state.load_context().recent_steps) == [7, 8, 9, 10]
        assert numbers(state.step_history[-4:]) == [7, 8, 9, 10]

    assert reads == [(6, 4)]


@pytest.mark.parametrize(("count", "expected"), [(0, []), (1, [10]), (4, [7, 8, 9, 10]), (6, [5, 6, 7, 8, 9, 10])])
def test_the_recent_steps_of_a_restored_history_may_be_more_than_its_context(count: int, expected: list[int]) -> None:
    assert numbers(restored(10, 4)[0].recent_steps(count)) == expected


@pytest.mark.parametrize("index", [10, -11, 1_000])
def test_a_restored_history_has_an_end(index: int) -> None:
    with pytest.raises(IndexError):
        restored(10, 4)[0].step_history[index]


def test_a_long_history_is_read_page_by_page() -> None:
    state, reads = restored(1_200, 10)

    assert numbers(state.step_history) == list(range(1, 1_201))
    assert reads == [(0, 500), (500, 500), (1_000, 200)]


@pytest.mark.parametrize("asked_before", [False, True])
def test_a_restored_history_grows_with_what_is_recorded_and_stored(asked_before: bool) -> None:
    stored = list(recorded(11).step_history)
    state: PersistentState[int, int, int] = PersistentState(0, 4)
    state.restore(10, 10, lambda after, count: stored[after : after + count])
    if asked_before:
        state.load_context()

    state.append(stored[10])

    assert len(state.step_history) == 11
    assert numbers(state.step_history) == list(range(1, 12))
    assert numbers(state.load_context().recent_steps) == [8, 9, 10, 11]


# history


def test_record_returns_the_step_stamped_in_utc() -> None:
    state: PersistentState[int, str, str] = PersistentState(0)
    before = datetime.now(UTC)

    step = state.record(7, "in", "out", StateDelta(("a",), "why"))

    assert before <= step.timestamp <= datetime.now(UTC)
    assert step.timestamp.tzinfo is UTC
    assert (step.step_number, step.input, step.output, step.state_delta) == (7, "in", "out", StateDelta(("a",), "why"))
    assert list(state.step_history) == [step]


def test_what_was_recorded_does_not_change_with_what_it_was_made_from() -> None:
    state: PersistentState[int, list[int], dict[str, list[int]]] = PersistentState(0)
    given, answer = [1], {"seen": [1]}

    state.record(1, given, answer, StateDelta())
    given.append(2)
    answer["seen"].append(2)

    assert state.step_history[0].input == [1]
    assert state.step_history[0].output == {"seen": [1]}


def test_the_history_that_was_read_does_not_grow() -> None:
    state = recorded(1)
    seen = state.step_history

    state.record(2, 0, 0, StateDelta())

    assert numbers(seen) == [1]
    assert numbers(state.step_history) == [1, 2]


@pytest.mark.parametrize(
    ("count", "expected"),
    [(-1, []), (-100, []), (0, []), (1, [3]), (2, [2, 3]), (3, [1, 2, 3]), (4, [1, 2, 3]), (1_000_000, [1, 2, 3])],
)
def test_recent_steps_are_the_last_ones_oldest_first(count: int, expected: list[int]) -> None:
    assert numbers(recorded(3).recent_steps(count)) == expected


@pytest.mark.parametrize("count", [-1, 0, 5])
def test_an_empty_history_has_no_recent_steps(count: int) -> None:
    assert recorded(0).recent_steps(count) == ()


@pytest.mark.parametrize(
    ("bound", "steps", "expected"),
    [(0, 3, []), (1, 3, [3]), (5, 10, [6, 7, 8, 9, 10]), (5, 5, [1, 2, 3, 4, 5]), (5, 2, [1, 2]), (5, 0, [])],
)
def test_a_context_holds_at_most_its_bound(bound: int, steps: int, expected: list[int]) -> None:
    assert numbers(recorded(steps, bound).load_context().recent_steps) == expected


def test_a_context_holds_ten_steps_unless_told_otherwise() -> None:
    state: PersistentState[int, int, int] = PersistentState(0)
    for number in range(1, 13):
        state.record(number, 0, 0, StateDelta())

    assert numbers(state.load_context().recent_steps) == list(range(3, 13))
    assert state.load_context().relevant_knowledge == {}


@pytest.mark.parametrize("bound", [-1, 2.5, "10", None])
def test_a_bound_that_is_no_whole_number_from_0_up_is_refused(bound: Any) -> None:
    with pytest.raises(HarnessMisuse, match="max_context_steps: expected a whole number from 0 up, got"):
        PersistentState(0, bound)
