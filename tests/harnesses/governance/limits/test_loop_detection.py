"""The same again and again is seen in loops of one, two and three steps, and nothing else is."""

from __future__ import annotations

import subprocess
import sys
from itertools import cycle, islice
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.data.delta import Baseline
from harnesses.data.values import detach
from harnesses.governance.limits.loop_detection import Fingerprints, Loops, loops_of


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


@frozen
class Log:
    count: int = 0
    lines: tuple[Any, ...] = ()
    words: Any = None


def take(states: list[Any], ignore: tuple[str, ...] = (), *, anew: bool = False) -> list[str | None]:
    """Return the fingerprints of steps that leave these states; `anew`: each taken without knowing the one before."""
    fingerprints, baseline = Fingerprints(ignore), Baseline(detach(states[0]))
    made: list[str | None] = []
    for state in states:
        delta = baseline.advance(detach(state))
        if anew:
            fingerprints.forget()
        made.append(fingerprints.take("in", "out", delta, lambda: baseline.state))
    return made


def test_the_same_state_input_and_output_give_the_same() -> None:
    one, two, three = take([Log(1, ("a",)), Log(2, ("a", "b")), Log(1, ("a",))])

    assert one == three != two


def test_another_input_or_output_gives_another() -> None:
    fingerprints = Fingerprints()

    made = {fingerprints.take(*pair, {}, lambda: Log()) for pair in [("in", "out"), ("in", "o"), ("i", "out"), ("out", "in")]}

    assert len(made) == 4


def test_a_field_that_is_ignored_makes_no_difference() -> None:
    one, two, three = take([Log(1, ("a",)), Log(2, ("a",)), Log(2, ("b",))], ("count",))

    assert one == two != three


@pytest.mark.parametrize(
    ("ignore", "same"),
    [((), False), (("count",), False), (("output.count",), True), (("output.*",), True), (("input.*",), False)],
)
@pytest.mark.parametrize("make", [Log, lambda count: {"count": count, "lines": ()}])
def test_a_field_of_the_output_can_be_ignored_too(ignore: tuple[str, ...], same: bool, make: Any) -> None:
    one, other = (Fingerprints(ignore).take("in", make(count), {}, lambda: Log()) for count in (1, 2))

    assert (one == other) is same
    assert Fingerprints(ignore).take("in", 7, {}, lambda: Log()) is not None


def test_a_list_that_grows_is_the_list_that_was_there_at_once() -> None:
    *_, grown = take([Log(lines=("a",)), Log(lines=("a", "b")), Log(lines=("a", "b", "c"))])

    assert take([Log(lines=("a", "b", "c"))]) == [grown]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Log(lines=("a", "b")), Log(lines=("ab",))),
        (Log(lines=("a\n", "b")), Log(lines=("a", "\nb"))),
        (Log(lines=()), Log(lines=("",))),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        ({"a": [1]}, {"a": 1}),
        (1, 2),
        ([1], [1, 1]),
    ],
)
def test_states_that_differ_have_others(one: Any, other: Any) -> None:
    assert take([one])[0] != take([other])[0]


def test_what_can_not_be_written_has_none_and_the_next_is_taken_anew() -> None:
    fingerprints = Fingerprints()

    assert fingerprints.take("in", object(), {}, lambda: Log(1)) is None
    assert fingerprints.take("in", "out", {}, lambda: Log(1)) == take([Log(1)])[0]


def test_it_is_the_same_in_every_process() -> None:
    code = (
        "from harnesses.governance.limits.loop_detection import Fingerprints;"
        "print(Fingerprints().take('in', 'out', {}, lambda: {'words': {'a', 'b', 'c', 'd'}}))"
    )

    said = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2", "3")
    }

    assert len(said) == 1


items = st.text(max_size=2) | st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2)
tables = st.dictionaries(st.sampled_from("ab"), items | st.dictionaries(st.sampled_from("xy"), items, max_size=2), max_size=2)
logs = st.builds(Log, st.integers(0, 2), st.lists(items | tables, max_size=3).map(tuple), tables | items)
records = st.builds(Log, st.integers(0, 2), st.lists(items | logs, max_size=3).map(tuple), tables | logs | items)
dicts = st.dictionaries(st.sampled_from("abc"), items | tables | logs | st.lists(logs, max_size=3), max_size=3)
many = st.one_of(*(st.lists(kind, min_size=1, max_size=6) for kind in (records, dicts, st.lists(items), st.integers(0, 2))))


@settings(max_examples=200, deadline=None)
@given(many)
def test_following_a_state_gives_what_looking_at_it_whole_gives(states: list[Any]) -> None:
    followed = take(states)

    assert followed == take(states, anew=True)
    assert [one == other for one in followed for other in followed] == [one == other for one in states for other in states]


def test_a_window_that_moves_and_a_list_that_is_cut_are_followed() -> None:
    states = [Log(lines=tuple(range(start, stop))) for start, stop in [(0, 5), (1, 6), (2, 7), (2, 5), (2, 8), (0, 5)]]

    assert take(states) == take(states, anew=True)
    assert len(set(take(states))) == 5
