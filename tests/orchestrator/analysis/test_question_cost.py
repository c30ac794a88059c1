"""What was spent, and on what: exact where money is, by time where nothing tells of money."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator import analysis
from orchestrator.analysis.answers.answer import Answer
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.questions import cost_question as cost
from orchestrator.analysis.questions import slow_question as slow
from tests.orchestrator.analysis.figured import SOURCES, record, record_all
from tests.orchestrator.analysis.picturing import Diary


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_all(tmp_path_factory.getbasetemp())


@pytest.fixture(params=SOURCES)
def run(request: pytest.FixtureRequest, recorded: Path) -> Iterator[Run]:
    with analysis.open(recorded / request.param) as opened:
        yield opened


def table(answer: Answer, name: str) -> dict[str, dict[str, Any]]:
    return {
        row["harness" if name != "pools" else "pool"]: row for one in answer.tables if one.name == name for row in one.dicts()
    }


def test_what_was_charged_to_budgets_is_told_exactly(run: Run) -> None:
    told = cost.answer(run)

    row = table(told, "harnesses")["spender"]
    assert (row["steps"], row["tokens"], row["money"]) == (3, 90, "0.3")
    pool = table(told, "pools")["harness/spender"]
    assert (pool["spends"], pool["tokens"], pool["money"]) == (3, 90, "0.3")


def test_a_passed_feature_costs_what_all_tries_have_cost(run: Run) -> None:
    row = table(cost.answer(run), "passed")["features"]

    assert (row["passed"], row["tries"], row["agent_per_pass_s"]) == (2, 8, 4.0)
    assert (row["money_per_pass"], row["tokens_per_pass"]) == (None, None)


def test_tries_that_did_not_pass_were_in_vain(run: Run) -> None:
    told = cost.answer(run, harness="features")

    row = table(told, "passed")["features"]
    assert (row["in_vain"], row["in_vain_agent_s"], row["in_vain_share"]) == (5, 5.0, 0.625)
    assert told.sentences[1] == "features: 2 passed in 8 tries; each took 4 s of an agent; 5 tries in vain, 62 % of it."


def test_without_money_time_stands_for_it_and_that_is_said(run: Run) -> None:
    told = cost.answer(run, harness="pipe")

    assert "no money is recorded, so time is used in its place" in told.sentences[0]


def test_waiting_for_people_is_told(run: Run) -> None:
    row = table(cost.answer(run), "approvals")["spender"]

    assert (row["category"], row["asked"], row["approved"], row["unanswered"]) == ("publish", 1, 1, 0)
    assert row["waited_s"] > 0


def test_what_an_agent_says_of_its_tokens_counts_where_no_budget_does(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "log")
    for step, (status, tokens) in enumerate((("not_validated", 300), ("passed", 100)), 1):
        given = {"kind": "turn", "feature_id": "a", "turn": step}
        diary.say("step", "f", step, step=step, input=given, output={"status": status, "result": {"tokens": tokens}}, delta={})

    with diary.open() as run:
        row = table(cost.answer(run), "passed")["f"]

    assert (row["tokens_per_pass"], row["in_vain_tokens"], row["in_vain_share"]) == (400, 300, 0.75)


def test_money_of_a_step_is_money_of_its_feature(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "log")
    for step, money in enumerate(("0.100000000000000001", "0.2"), 1):
        spent = {"money": money, "tokens": 5}
        diary.say("budget", "f", step, step=step, change="settled", pools=["all"], reservation=1, amounts=spent, spent=spent)
        given = {"kind": "turn", "feature_id": "a", "turn": step}
        status = "passed" if step == 2 else "not_validated"
        diary.say("step", "f", step, step=step, input=given, output={"status": status}, delta={})

    with diary.open() as run:
        row = table(cost.answer(run), "passed")["f"]

    assert (row["money_per_pass"], row["in_vain_money"]) == ("0.300000000000000001", "0.100000000000000001")


def test_what_was_under_way_in_a_crash_is_lost(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "log")
    diary.say("started", "h", 0)
    diary.say("step", "h", 10, step=1, input=1, output=1, delta={})
    diary.say("failed", "h", 14, step=1, error="ValueError", cause="boom")
    diary.say("restarting", "h", 14, step=1, cause="boom", delay_s=2.0, due=0.0)
    diary.say("started", "h", 16, attempt=2, step=1, after_step=1)
    diary.say("completed", "h", 20, attempt=2, step=1)

    with diary.open() as run:
        row = table(cost.answer(run), "crashes")["h"]

    assert (row["attempts"], row["crashed"], row["steps_of_crashed"], row["lost_s"], row["restart_delay_s"]) == (2, 1, 1, 4, 2)


def test_an_empty_run_has_cost_nothing(tmp_path: Path) -> None:
    record(tmp_path, lambda orchestrator: None)

    with analysis.open(tmp_path / "run.db") as run:
        told = cost.answer(run)

    assert [one.name for one in told.tables] == ["harnesses"]
    assert told.tables[0].rows == ()


def test_the_tries_at_features_are_made_once_for_all_questions(run: Run) -> None:
    slow.answer(run)

    cost.answer(run)

    tables = [name for (name,) in run.rows("SELECT table_name FROM duckdb_tables() WHERE NOT internal")]
    assert {"feature_steps", "features"} <= set(tables)
