"""A state is derived fast as it is derived step by step, and what is no step is told."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.data.delta import Baseline
from orchestrator.codec import decode, encode
from orchestrator.errors import StoreCorrupt
from orchestrator.store.rules.state_rules import derive
from tests.orchestrator.replayed import replay

ATOMS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4)
VALUES = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=5), max_leaves=12
)
STATES = st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4), min_size=1, max_size=12)


def bodies_of(states: list[Any]) -> list[str]:
    """Return what the steps from the first state to the last would have recorded."""
    baseline = Baseline(states[0])
    return [encode({"input": 1, "output": [2], "delta": baseline.advance(state)}) for state in states[1:]]


@settings(max_examples=60, deadline=None)
@given(STATES, st.integers(1, 4))
def test_it_comes_to_what_a_replay_comes_to(states: list[Any], size: int) -> None:
    bodies = bodies_of(states)
    pages = [",".join(bodies[start : start + size]) for start in range(0, len(bodies), size)]

    found = derive(encode(states[0]), pages)

    assert found == replay(encode(states[0]), bodies)
    assert decode(found) == decode(encode(states[-1]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 9)), max_size=60), st.booleans())
def test_a_window_slides_grows_and_changes_within(moves: list[tuple[int, int, int]], nested: bool) -> None:
    window = [[number] for number in range(8)]
    states: list[Any] = [{"in": {"window": window}} if nested else window]
    for gone, come, number in moves:
        window = [*window[gone:], *([[number]] * come)]
        if window and number % 3 == 0:
            window = [*window[:-1], [number, number]]
        states.append({"in": {"window": window}} if nested else window)

    assert derive(encode(states[0]), bodies_of(states)) == replay(encode(states[0]), bodies_of(states))


def test_what_changed_nothing_leaves_the_text_as_it_is() -> None:
    assert derive('{"a": 1 }', ['{"delta":{},"input":0,"output":0}']) == '{"a": 1 }'


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        '{"delta":1}',
        '{"input":1}',
        '{"delta":{"in":{"gone":{"set":{"a":1}}}}}',
        '{"delta":{"drop":{"b":null}}}',
    ],
)
def test_what_is_no_step_is_told(body: str) -> None:
    with pytest.raises(StoreCorrupt, match="a state cannot be read back"):
        derive('{"a":1}', [body])


def test_garbage_is_collected_again_afterwards() -> None:
    with pytest.raises(StoreCorrupt):
        derive("{}", ["broken"])

    assert gc.isenabled()
