"""Two steps have the same fingerprint if they were given the same, made the same and left the same state."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.data.delta import Baseline
from harnesses.data.values import detach
from harnesses.governance.limits.step_fingerprints import Fingerprints


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
        "from harnesses.governance.limits.step_fingerprints import Fingerprints;"
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
