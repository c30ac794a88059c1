"""The same again and again is seen in loops of one, two and three steps, and nothing else is."""

from __future__ import annotations

from itertools import cycle, islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.governance.limits.loop_detection import Loops, loops_of


def tripped(fingerprints: str, steps: int) -> int | None:
    """Return the number of the step at which the guard is tripped, from 1."""
    loops = Loops()
    for number, fingerprint in enumerate(fingerprints, 1):
        loops = loops_of(loops.after(fingerprint).plain())
        if loops.period(steps) is not None:
            return number
    return None


@pytest.mark.parametrize(("loop", "at"), [("A", 6), ("AB", 7), ("ABC", 8), ("ABCD", None), ("AAB", 8), ("ABB", 8)])
def test_a_loop_is_seen_after_as_many_steps_as_the_guard_says(loop: str, at: int | None) -> None:
    assert tripped("".join(islice(cycle(loop), 30)), 5) == at


def test_what_came_before_a_loop_does_not_matter() -> None:
    assert tripped("XYZ" + "ABABABABAB", 5) == 10


@pytest.mark.parametrize("path", ["ABCDEFGHIJKLMNOP", "AABBCCDDEEFFGG", "ABACADAEAFAGAH", "AAAAABAAAAABAAAAAB"])
def test_a_path_that_goes_on_is_none(path: str) -> None:
    assert tripped(path, 5) is None


def test_a_step_without_a_fingerprint_is_like_no_other() -> None:
    loops = Loops()
    for _ in range(10):
        loops = loops.after(None)

    assert loops.period(1) is None


def test_who_goes_on_may_have_as_many_steps_again() -> None:
    loops = Loops()
    for _ in range(6):
        loops = loops.after("A")
    assert loops.period(5) == 1

    loops = loops.rested().after("A")

    assert (loops.period(5), loops.period(1)) == (None, 1)


@settings(max_examples=150, deadline=None)
@given(st.text("AB", max_size=12), st.text("ABC", min_size=1, max_size=3), st.integers(1, 6))
def test_every_loop_of_up_to_three_is_seen_whatever_came_before(before: str, loop: str, steps: int) -> None:
    at = tripped(before + "".join(islice(cycle(loop), 20)), steps)

    assert at is not None
    assert at <= len(before) + len(loop) + steps


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(), unique=True, max_size=40))
def test_steps_that_are_all_different_are_never_a_loop(numbers: list[int]) -> None:
    loops = Loops()
    for number in numbers:
        loops = loops.after(str(number))

    assert loops.period(1) is None


def test_what_is_kept_is_bounded() -> None:
    loops = Loops()
    for number in range(1000):
        loops = loops.after(f"{number:032}")

    assert len(str(loops.plain())) < 200


@pytest.mark.parametrize("kept", [{}, {"recent": [1, None, "A", "B", "C"], "runs": ["x"]}, {"runs": [1, 2, 3, 4]}])
def test_whatever_was_kept_can_be_taken_up(kept: dict[str, object]) -> None:
    loops = loops_of(kept)

    assert len(loops.runs) == 3
    assert len(loops.recent) <= 3
