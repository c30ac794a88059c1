"""Loops are found by the rule that is said, the longest first, each once."""

from __future__ import annotations

import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.governance import Guardrails, NoProgress, terms
from orchestrator import Orchestrator, analysis
from orchestrator.analysis.questions import loops_question as loops
from orchestrator.analysis.questions.loops_question import AGAIN
from orchestrator.analysis.sources import store_source
from tests.orchestrator.analysis.asked import rows
from tests.orchestrator.analysis.picturing import Diary
from tests.orchestrator.scripted import Scripted, Steps


def found(path: Path, outputs: list[object], deltas: list[object] | None = None, **more: Any) -> list[tuple[object, ...]]:
    diary = Diary(path / "steps.jsonl")
    for step, output in enumerate(outputs, start=1):
        delta = {"set": {"state": output}} if deltas is None else deltas[step - 1]
        diary.say("step", "a", step, step=step, output=output, **({"delta": delta} | more))
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


def test_steps_that_get_on_are_no_loop_though_their_outputs_are_the_same(tmp_path: Path) -> None:
    assert found(tmp_path, ["hold"] * 9, [{"set": {"count": step}} for step in range(9)]) == []
    assert found(tmp_path, ["hold"] * 9, [{"in": {"seen": {"append": [1]}}}] * 9) == []
    assert found(tmp_path, [f"try {number} failed" for number in range(8)]) == []


def test_a_state_that_does_not_change_is_told(tmp_path: Path) -> None:
    assert found(tmp_path, [chr(97 + step) * step for step in range(1, 21)], delta={}) == [("unchanged", 0, 1, 20)]


async def polling(harness: Scripted) -> Steps:
    """See three other things, then the same, at another time each; count the looks, which is no progress."""
    while harness.current_step < 12:
        harness.update_state(lambda count: count + 1)
        yield {"at": harness.current_step}, {"seen": min(harness.current_step, 3)}


@pytest.mark.parametrize("is_ignored", [True, False])
def test_with_the_guardrail_no_progress_a_loop_is_what_it_counts_as_one(tmp_path: Path, is_ignored: bool) -> None:
    ignore = ("state", "input.at") if is_ignored else ()

    async def run() -> None:
        async with Orchestrator(tmp_path / "run.db", handle_signals=False) as orchestrator:
            guard = NoProgress(steps=5, ignore=ignore, policy="tell")
            orchestrator.start(Scripted(polling, 0), name="a", **terms(Guardrails(no_progress=guard)))

    trio.run(run)
    for least in (1, 1 << 30):
        with analysis.open(tmp_path / "run.db") as opened, pytest.MonkeyPatch.context() as patch:
            patch.setattr(store_source, "LEAST", least)
            told = rows(loops.answer(opened), "loops")
        assert [(row["kind"], row["first_step"], row["last_step"]) for row in told] == [("same", 4, 12)] * is_ignored


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
