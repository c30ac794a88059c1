"""A snapshot comes soon enough for any state to be had, and seldom enough for growth to stay linear."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.recording.snapshot_policy import (
    FAR_STEPS,
    LEAST_BYTES,
    LEAST_OF_LARGE,
    LEAST_STEPS,
    MOST_BYTES,
    UNCHANGED,
    SnapshotPolicy,
)

BODIES = st.lists(st.tuples(st.sampled_from([10, 100, 600, 5_000]), st.booleans(), st.integers(0, 200)), max_size=400)


def saved(savings: SnapshotPolicy, body: int, *, changed: bool, state: int) -> int:
    """Record a step with a body, and a state, of so many bytes; return what is saved beside it."""
    text = savings.snapshot("x" * body, {"set": {"a": 1}} if changed else {}, lambda: "x" * (state - 2))
    return 0 if text is None else len(text)


@settings(max_examples=100, deadline=None)
@given(BODIES, st.integers(1, 500))
def test_what_is_saved_weighs_no_more_than_what_was_recorded(steps: list[tuple[int, bool, int]], scale: int) -> None:
    savings, size, recorded, written = SnapshotPolicy(), 2, 0, 0
    for body, changed, more in steps:
        size += more * scale if changed else 0
        recorded += max(body, LEAST_OF_LARGE) + more * scale
        written += saved(savings, body, changed=changed, state=size)

    assert written <= 2 * recorded + LEAST_OF_LARGE


@pytest.mark.parametrize(("changed", "part"), [(True, 1), (False, UNCHANGED)])
@pytest.mark.parametrize("state", [100, 100_000, 1_000_000])
def test_a_state_is_never_further_from_a_snapshot_than_it_weighs(state: int, changed: bool, part: int) -> None:
    savings = SnapshotPolicy(snapshot_bytes=state)

    gaps = [0]
    for _ in range(20_000):
        gaps[-1] += 1
        if saved(savings, 100, changed=changed, state=state):
            gaps.append(0)

    assert max(gaps) <= max(LEAST_STEPS, (min(state // LEAST_BYTES, FAR_STEPS) + 1) * part)


def test_large_steps_are_not_read_by_the_dozen() -> None:
    savings = SnapshotPolicy(snapshot_bytes=1_000)

    assert [bool(saved(savings, MOST_BYTES // 2, changed=True, state=1_000)) for _ in range(6)] == [False, True] * 3


def test_steps_of_an_earlier_program_count() -> None:
    lives = [SnapshotPolicy(steps, 0, 100_000) for steps in range(0, 400, 10)]

    due = [bool(saved(savings, 10, changed=True, state=100_000)) for savings in lives]

    assert due == [(steps + 1) * LEAST_BYTES >= 100_000 for steps in range(0, 400, 10)]
