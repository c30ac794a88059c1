"""The work that a delta takes: linear in what is compared, bounded whatever it is, counted in calls and not in seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from harnesses.data import delta as deltas
from harnesses.data.delta import Baseline, Delta, apply_to_state
from harnesses.data.values import detach


@frozen
class Node:
    name: str
    below: Any


def calls(function: Callable[[], object]) -> int:
    """Return how many functions are called, ours and built in."""
    count = 0

    def look(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(look)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def between(old: Any, new: Any) -> tuple[Delta, int]:
    """Return the delta of what are separate objects, and the calls that it took."""
    baseline, new = Baseline(detach(old)), detach(new)
    found: list[Delta] = []
    count = calls(lambda: found.append(baseline.advance(new)))
    return found[0], count


def carried(old: Any, delta: Delta) -> bytes:
    read, written = msgspec.json.decode, msgspec.json.encode
    return written(apply_to_state(read(written(old)), read(written(delta))))


def parts(value: Any) -> int:
    inside: Iterable[Any] = value if type(value) is list else value.values() if type(value) is dict else ()
    return 1 + sum(map(parts, inside))


SHAPES: dict[str, Callable[[Any], Any]] = {
    "chain": lambda inner: [inner],
    "last": lambda inner: [1, inner],
    "two": lambda inner: ["op", inner, 1],
    "tree": lambda inner: {"name": "n", "children": [inner]},
    "wide": lambda inner: {"name": "n", "children": [inner] + [{"name": "n", "children": []}] * 5},
    "alike": lambda inner: [inner, inner_of(inner), inner_of(inner)],
    "tuple": lambda inner: (inner, [inner_of(inner)]),
    "record": lambda inner: [Node("n", [inner]), 2],
    "window": lambda inner: [inner, [[2]], [[3]], [[4]], [[5]], [[6]]],
}


def inner_of(value: Any) -> Any:
    """Return a small value that begins as a large one does."""
    return [[0]] if isinstance(value, list) else 0


def nested(shape: str, depth: int, leaf: Any) -> Any:
    value = leaf
    for _ in range(depth):
        value = SHAPES[shape](value)
    return value


@pytest.mark.parametrize("shape", SHAPES)
def test_a_change_far_down_takes_work_linear_in_the_depth(shape: str) -> None:
    _, few = between({"tree": nested(shape, 10, [0])}, {"tree": nested(shape, 10, [1])})
    delta, many = between({"tree": nested(shape, 80, [0])}, {"tree": nested(shape, 80, [1])})

    assert many < 12 * few
    assert carried({"tree": nested(shape, 80, [0])}, delta) == msgspec.json.encode({"tree": nested(shape, 80, [1])})


@pytest.mark.parametrize("depth", [20, 60])
@pytest.mark.parametrize("shape", SHAPES)
def test_equal_values_made_anew_have_no_delta_however_deep(shape: str, depth: int) -> None:
    delta, _ = between([nested(shape, depth, [0])], [nested(shape, depth, [0])])

    assert delta == {}


trees = st.recursive(
    st.integers(0, 2) | st.sampled_from(["", "a", 0.5, None]),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=60,
)


@given(st.lists(st.sampled_from(["[]", "[x,_]", "[_,x]", "{}", "{_}"]), min_size=1, max_size=60), trees, trees, trees)
def test_no_shape_takes_more_calls_than_a_few_for_each_part(ways: list[str], beside: Any, old: Any, new: Any) -> None:
    for way in ways:
        old, new = (
            [x] if way == "[]" else [x, beside] if way == "[x,_]" else [beside, x] if way == "[_,x]"
            else {"a": x} if way == "{}" else {"b": beside, "a": x}
            for x in (old, new)
        )  # fmt: skip

    delta, count = between({"a": old}, {"a": new})

    assert count < 100 * (parts(old) + parts(new))
    assert carried({"a": old}, delta) == msgspec.json.encode({"a": new})


@given(st.dictionaries(st.sampled_from("ab"), trees), st.dictionaries(st.sampled_from("ab"), trees), st.integers(0, 60))
def test_what_takes_too_much_work_is_stored_whole_and_comes_back_as_it_was(old: Any, new: Any, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deltas, "MOST_WORK", most)
        patch.setattr(deltas, "MOST_DEPTH", most % 5)
        delta, _ = between(old, new)

    assert carried(old, delta) == msgspec.json.encode(new)


def test_a_large_state_is_compared_no_further_than_the_work_for_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deltas, "MOST_WORK", 1_000)
    old: dict[str, Any] = {"rows": [[number, [number]] for number in range(20_000)], "other": [1, 2, 3, 4, 5]}
    new: dict[str, Any] = {"rows": [[number, [number]] for number in range(20_000)], "other": [1, 2, 3, 4, 6]}
    new["rows"][-1] = [0]

    delta, count = between(old, new)

    assert count < 30_000
    assert delta["set"]["rows"] == new["rows"]


def test_a_delta_is_no_deeper_than_any_reader_can_follow() -> None:
    delta, _ = between([nested("chain", 180, 0)], [nested("chain", 180, 1)])

    assert str(delta).count("'in'") <= deltas.MOST_DEPTH


def test_a_window_of_records_that_are_copies_is_still_seen_to_slide() -> None:
    old: dict[str, Any] = {"rows": [{"at": [number, {"x": number}]} for number in range(50)]}

    delta, _ = between(old, {"rows": [*old["rows"][2:], {"at": [50, {"x": 50}]}, {"at": [51, {"x": 51}]}]})

    assert delta == {"in": {"rows": {"keep": [2, 50], "append": [{"at": [50, {"x": 50}]}, {"at": [51, {"x": 51}]}]}}}
