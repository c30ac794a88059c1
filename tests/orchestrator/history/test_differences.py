"""What changed between two states is told by paths, all of it and nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator import MemoryStore, UsageError
from orchestrator.history import Change, ChangeKind, between, diff
from tests.orchestrator.buying import run

VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, -0.0, 1.0]) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["a", "b", "a b", "é"]), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({"account": {"cash": 100}}, {"account": {"cash": 90}}, ["account.cash: 100 -> 90"]),
        (
            {"features": [{}, {}, {}, {"passes": False}]},
            {"features": [{}, {}, {}, {"passes": True}]},
            ["features[3].passes: false -> true"],
        ),
        ({"fills": [1]}, {"fills": [1, 2, 3]}, ["fills[1]: + 2", "fills[2]: + 3"]),
        ({"fills": [1, 2]}, {"fills": [1]}, ["fills[1]: - 2"]),
        ({"window": [1, 2, 3]}, {"window": [2, 3, 4]}, ["window[0]: - 1", "window[2]: + 4"]),
        ({"a": 1}, {"b": 1}, ["a: - 1", "b: + 1"]),
        ({"EUR/USD": {"a b": 1}}, {"EUR/USD": {"a b": 2}}, ['["EUR/USD"]["a b"]: 1 -> 2']),
        ({"a": 1}, {"a": "1"}, ['a: 1 -> "1"']),
        ({"a": 1}, {"a": True}, ["a: 1 -> true"]),
        ({"a": 1}, {"a": 1.0}, ["a: 1 -> 1.0"]),
        ({"a": []}, {"a": {}}, ["a: [] -> {}"]),
        ({"a": None}, {}, ["a: - null"]),
        (1, 2, ["state: 1 -> 2"]),
        ([1], [1, 2], ["[1]: + 2"]),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, []),
    ],
)
def test_a_change_is_told_by_its_path(before: Any, after: Any, lines: list[str]) -> None:
    assert [change.line for change in between(before, after)] == lines


@settings(max_examples=150, deadline=None)
@given(VALUES, VALUES)
def test_the_changes_are_all_there_is_between_two_states(before: Any, after: Any) -> None:
    assert written(applied(before, between(before, after))) == written(after)


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_nothing_changed_is_nothing_told(state: Any) -> None:
    assert between(state, msgspec.json.decode(msgspec.json.encode(state))) == ()


def test_what_is_told_is_inert_and_without_secrets() -> None:
    (change,) = between({"a\x1b[31m": 1}, {"a\x1b[31m": "password=hunter2secret"})

    assert "\x1b" not in change.line
    assert "hunter2secret" not in change.line


async def test_it_is_told_between_two_steps_of_a_harness_either_way() -> None:
    store = MemoryStore()
    await run(store, 3)

    assert [change.line for change in diff(store, "buying", 1, 3)] == ["cash: 99 -> 94", "fills[1]: + 2", "fills[2]: + 3"]
    assert [change.line for change in diff(store, "buying", 3, 1)] == ["cash: 94 -> 99", "fills[1]: - 2", "fills[2]: - 3"]
    assert diff(store, "buying", 2, 2) == ()
    with pytest.raises(UsageError, match="has no step 4"):
        diff(store, "buying", 1, 4)


def test_a_change_is_plain_data_too() -> None:
    changes = between({"a": [1, 2], "c": 0}, {"a": [2, 3], "c": 1})

    assert [change.plain() for change in changes] == [
        {"path": "a[0]", "place": ["a", 0], "kind": "removed", "before": 1},
        {"path": "a[1]", "place": ["a", 1], "kind": "added", "after": 3},
        {"path": "c", "place": ["c"], "kind": "changed", "before": 0, "after": 1},
    ]


def written(state: Any) -> bytes:
    return msgspec.json.encode(state, order="sorted")


def applied(state: Any, changes: tuple[Change, ...]) -> Any:
    """Return a state with changes made to it: first what is gone, from the end, then all else."""
    root = {"": msgspec.json.decode(msgspec.json.encode(state))}
    gone = [change for change in changes if change.kind is ChangeKind.REMOVED]
    for change in reversed(gone):
        holder, key = holder_of(root, change)
        assert written(holder.pop(key)) == written(change.before)
    for change in changes:
        holder, key = holder_of(root, change) if change.kind is not ChangeKind.REMOVED else ({}, "")
        if change.kind is ChangeKind.CHANGED:
            assert written(holder[key]) == written(change.before)
        if change.kind is ChangeKind.ADDED and isinstance(holder, list):
            assert key == len(holder)
            holder.append(change.after)
        else:
            holder[key] = change.after
    return root[""]


def holder_of(root: Any, change: Change) -> tuple[Any, Any]:
    *way, last = ("", *change.place)
    for part in way:
        root = root[part]
    return root, last
