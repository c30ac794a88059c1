"""What got better or worse from one run to another: what is different is found, and noise is not called so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from orchestrator import analysis
from orchestrator.analysis.answers.answer import Answer
from orchestrator.analysis.answers.statistics import LEVEL
from orchestrator.analysis.questions import compare_question as compare
from orchestrator.analysis.questions.compare_findings import between, judged_together
from orchestrator.errors import UsageError
from tests.orchestrator.analysis.figured import SOURCES, record, record_all, working
from tests.orchestrator.analysis.noise import false_alarms, side
from tests.orchestrator.analysis.picturing import Diary


def log(path: Path, write: Callable[[Diary], None]) -> Diary:
    diary = Diary(path)
    write(diary)
    return diary


def answered(one: Diary, other: Diary, **options: Any) -> Answer:
    with one.open() as run, other.open() as run2:
        return compare.answer(run, run2, **options)


def verdicts(answer: Answer) -> dict[tuple[Any, Any], Any]:
    return {(row["what"], row["figure"]): row["verdict"] for row in answer.tables[0].dicts()}


def steps(diary: Diary, name: str, seed: int, *, slow: float = 1.0, count: int = 200, failures: int = 0) -> None:
    """Write steps that take a second or so, each about as long as the one before."""
    random, at, took = Random(seed), 0.0, 1.0
    diary.say("started", name, at)
    for number in range(1, count + 1):
        took = 0.5 * took + 0.5 * random.uniform(0.5, 1.5)
        at += took * slow
        diary.say("step", name, at, step=number, input=1, output=1, delta={}, took_us={"work": round(took * slow * 1e6)})
    for attempt in range(1, failures + 1):
        diary.say("failed", name, at, step=count, attempt=attempt, error="ValueError", cause="boom")
        diary.say("started", name, at, step=count, attempt=attempt + 1, after_step=count)


def test_an_attempt_that_was_killed_with_its_program_is_no_failure(tmp_path: Path) -> None:
    def killed(diary: Diary) -> None:
        steps(diary, "h", 1)
        for attempt in range(2, 30):
            diary.say("started", "h", 1000.0 + attempt, step=200, attempt=attempt, after_step=200)

    answer = answered(log(tmp_path / "1", lambda diary: steps(diary, "h", 1)), log(tmp_path / "2", killed))

    assert ("h", "failures") not in verdicts(answer)


def test_what_takes_longer_is_worse_and_what_takes_less_is_better(tmp_path: Path) -> None:
    one = log(tmp_path / "1", lambda diary: steps(diary, "h", 1))
    other = log(tmp_path / "2", lambda diary: steps(diary, "h", 2, slow=1.5))

    slower, faster = answered(one, other), answered(other, one)

    assert verdicts(slower) == {("h", "step_interval_s"): "worse", ("h", "work_s"): "worse"}
    assert verdicts(faster) == {("h", "step_interval_s"): "better", ("h", "work_s"): "better"}
    assert "h: the work of a step: worse" in " ".join(slower.sentences)


def test_noise_is_told_as_such(tmp_path: Path) -> None:
    one = log(tmp_path / "1", lambda diary: steps(diary, "h", 1))
    other = log(tmp_path / "2", lambda diary: steps(diary, "h", 2))

    told = answered(one, other)

    assert set(verdicts(told).values()) <= {"same", "within chance"}
    assert not [sentence for sentence in told.sentences if "worse:" in sentence or "better:" in sentence]


def test_a_run_is_the_same_as_itself(tmp_path: Path) -> None:
    one = log(tmp_path / "1", lambda diary: steps(diary, "h", 1, failures=2))

    told = answered(one, one)

    assert set(verdicts(told).values()) == {"same"}
    assert told.sentences == ("The same in all 3 figures.",)


def test_a_store_is_compared_with_a_log(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = record_all(tmp_path_factory.getbasetemp())

    with analysis.open(folder / SOURCES[0]) as run, analysis.open(folder / SOURCES[1]) as run2:
        told = compare.answer(run, run2)

    assert told.sentences[0].startswith("The same in all")
    assert {row["status_before"] == row["status_after"] for row in told.tables[1].dicts()} == {True}


def test_of_a_few_steps_nothing_is_said(tmp_path: Path) -> None:
    one = log(tmp_path / "1", lambda diary: steps(diary, "h", 1, count=20))
    other = log(tmp_path / "2", lambda diary: steps(diary, "h", 2, count=20, slow=9))

    told = answered(one, other)

    assert set(verdicts(told).values()) == {"not judged"}


def test_failures_are_counted_against_the_steps_that_were_made(tmp_path: Path) -> None:
    one = log(tmp_path / "1", lambda diary: steps(diary, "h", 1))
    other = log(tmp_path / "2", lambda diary: steps(diary, "h", 1, failures=12))
    few = log(tmp_path / "3", lambda diary: steps(diary, "h", 1, failures=3))

    assert verdicts(answered(one, other))["h", "failures"] == "worse"
    assert verdicts(answered(other, one))["h", "failures"] == "better"
    assert verdicts(answered(one, few))["h", "failures"] == "within chance"


def test_harnesses_that_are_numbered_are_repetitions(tmp_path: Path) -> None:
    def lot(slow: float, seed: int) -> Diary:
        diary = Diary(tmp_path / str(seed))
        for at in range(1, 9):
            steps(diary, f"fix-{at}", seed + at, slow=slow, count=12)
        return diary

    told = answered(lot(1, 100), lot(1.5, 200))

    found = verdicts(told)
    assert found["fix*", "work_s"] == "worse"
    assert found["fix-1", "work_s"] == "not judged"


def test_others_are_matched_by_prefix_or_class(tmp_path: Path) -> None:
    def lot(names: str, slow: float) -> Diary:
        diary = Diary(tmp_path / names)
        for name in names.split():
            steps(diary, name, ord(name[-1]), slow=slow, count=12)
        return diary

    one, other = lot("a1 a2 a3 a4 a5", 1), lot("b6 b7 b8 b9 a10", 2)

    assert verdicts(answered(one, other, match="class"))["steps", "work_s"] == "worse"
    assert {what for what, _ in verdicts(answered(one, other, match="prefix"))} == {"a*"}
    with pytest.raises(UsageError, match="match: expected one of name, prefix, class"):
        answered(one, other, match="colour")


def test_what_is_in_one_run_only_is_named(tmp_path: Path) -> None:
    one = log(tmp_path / "1", lambda diary: steps(diary, "gone", 1, count=2))
    other = log(tmp_path / "2", lambda diary: steps(diary, "new", 1, count=3))

    told = answered(one, other)

    assert told.sentences == (
        "There is nothing to compare: no harness is in both runs.",
        "Only before: gone.",
        "Only after: new.",
    )


def test_features_are_compared_one_by_one(tmp_path: Path) -> None:
    for name, at in (("one", 99), ("other", 1)):
        record(tmp_path / name, lambda orchestrator, at=at: orchestrator.start(working(c=at), name="f"))

    with analysis.open(tmp_path / "one" / "run.db") as run, analysis.open(tmp_path / "other" / "steps.jsonl") as run2:
        told = compare.answer(run, run2)

    rows = {row["figure"]: row for row in told.tables[0].dicts()}
    assert (rows["features_passed"]["before"], rows["features_passed"]["after"]) == (2, 3)
    assert rows["features_passed"]["verdict"] == "within chance"
    assert "f: completed, was blocked." in told.sentences


def test_an_empty_run_can_be_compared(tmp_path: Path) -> None:
    record(tmp_path, lambda orchestrator: None)

    with analysis.open(tmp_path / "run.db") as run, analysis.open(tmp_path / "run.db") as run2:
        assert compare.answer(run, run2).sentences == ("There is nothing to compare: no harness is in both runs.",)


def test_noise_is_called_a_difference_no_more_often_than_the_level_says() -> None:
    alarms, lots = false_alarms(range(50), range(8))

    # A whole answer at 5 %: of 50 more than 8, and of 8 more than 3, come less than once in a thousand times.
    assert LEVEL == 0.05
    assert alarms <= 8
    assert lots <= 3


def test_what_is_better_by_half_is_found_nearly_always() -> None:
    random = Random(3)

    found = [judged_together(list(between(side(random), side(random, better=1.8)))) for _ in range(10)]

    better = [{one.figure for one in each if one.verdict == "better"} for each in found]
    assert sum({"work_s", "features_passed", "day_return"} <= each for each in better) >= 8
    assert not [one for each in found for one in each if one.verdict == "worse"]
