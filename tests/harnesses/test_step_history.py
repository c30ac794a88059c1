"""The history of a harness whose past is in a store, also when the oldest steps of it have been pruned."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesses.state import StepHistory
from harnesses.step import StateDelta, Step


def step(number: int) -> Step[Any, Any]:
    return Step(number, datetime(2026, 1, 1, tzinfo=UTC), number, number * 2, StateDelta(()))


def history(steps: int, recent: int, oldest: int) -> StepHistory[Any, Any]:
    """Return the history of so many steps, those before `oldest` pruned. A store gives what it has from there on."""
    kept = [step(number) for number in range(oldest, steps + 1)]

    def load(after: int, limit: int) -> list[Step[Any, Any]]:
        return [one for one in kept if one.step_number > after][:limit]

    return StepHistory(steps, tuple(kept[len(kept) - min(recent, len(kept)) :]), load)


@given(st.integers(1, 1300), st.integers(0, 10), st.data())
def test_what_is_kept_is_at_the_same_place_as_before_the_rest_was_pruned(steps: int, recent: int, data: st.DataObject) -> None:
    oldest = data.draw(st.integers(1, steps))
    looked = history(steps, recent, oldest)
    cut = data.draw(st.slices(steps))

    numbers = [one.step_number for one in looked]

    assert len(looked) == steps
    assert numbers == list(range(oldest, steps + 1))
    assert [one.step_number for one in looked[cut]] == [n + 1 for n in range(steps)[cut] if n + 1 >= oldest]
    assert looked[steps - 1].step_number == looked[-1].step_number == steps


def test_to_look_for_a_step_that_was_pruned_says_so() -> None:
    looked = history(200, 10, 160)

    with pytest.raises(IndexError, match="step 3 was pruned"):
        looked[2]
