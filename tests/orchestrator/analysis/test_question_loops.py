"""Loops are found by the rule that is said, the longest first, each once."""

from __future__ import annotations

import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.analysis.questions import loops_question as loops
from orchestrator.analysis.questions.loops_question import AGAIN
from tests.orchestrator.analysis.asked import rows
from tests.orchestrator.analysis.picturing import Diary


def found(path: Path, outputs: list[object], **more: Any) -> list[tuple[object, ...]]:
    diary = Diary(path / "steps.jsonl")
    for step, output in enumerate(outputs, start=1):
        diary.say("step", "a", step, step=step, output=output, **({"delta": {"set": {"state": step}}} | more))
    with diary.open() as run:
        told = rows(loops.answer(run), "loops")
    return [(row["kind"], row["period"], row["first_step"], row["last_step"]) for row in told]


def test_the_same_output_again_and_again_is_a_loop(tmp_path: Path) -> None:
    assert found(tmp_path, ["x", *["hold"] * 6, "y"]) == [("same", 1, 2, 7)]


def test_fewer_than_the_rule_says_is_none(tmp_path: Path) -> None:
    assert found(tmp_path, ["hold"] * 5) == []


def test_two_and_three_outputs_in_turn_are_loops(tmp_path: Path) -> None:
    assert found(tmp_path, [*"ababababa"]) == [("same", 2, 1, 9)]
    assert found(tmp_path, [*"abcabcabcz"]) == [("same", 3, 1, 9)]


def test_outputs_that_differ_in_their_numbers_are_similar(tmp_path: Path) -> None:
    assert found(tmp_path, [f"try {number} failed" for number in range(8)]) == [("similar", 1, 1, 8)]


def test_a_state_that_does_not_change_is_told(tmp_path: Path) -> None:
    assert found(tmp_path, [chr(97 + step) * step for step in range(1, 21)], delta={}) == [("unchanged", 0, 1, 20)]


@settings(max_examples=20)
@given(st.lists(st.sampled_from("ab"), min_size=1, max_size=40))
def test_the_same_output_is_found_wherever_it_is_repeated(outputs: list[str]) -> None:
    at, runs = 1, []
    for _, group in groupby(outputs):
        length = len(list(group))
        if length > AGAIN:
            runs.append((at, at + length - 1))
        at += length

    with tempfile.TemporaryDirectory() as folder:
        told = found(Path(folder), list(outputs))

    assert sorted((first, last) for kind, period, first, last in told if (kind, period) == ("same", 1)) == runs
