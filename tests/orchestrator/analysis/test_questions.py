"""What holds for every question: on an empty run, on one event, on a live run, from every source, whatever was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator import Orchestrator, analysis
from orchestrator.analysis.answers.answer import Answer
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.questions import QUESTIONS
from orchestrator.cli import main
from orchestrator.cli.query.answer_tables import csv_lines, json_lines, text_lines
from orchestrator.store import SqliteStore
from tests.orchestrator.analysis.asked import SOURCES, rows
from tests.orchestrator.analysis.picturing import Diary
from tests.orchestrator.scripted import Scripted, poll

ASKED = tuple(
    name for name in ("summary", "timeline", "slow", "failures", "restarts", "throughput", "loops") if name in QUESTIONS
)
SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
HOSTILE = f"[bold]x[/] \x1b[31m\x1b]0;owned\x07\r\u202egnp.exe\u2028 =1+1 {SECRET}"


def shown(answer: Answer) -> str:
    """Return an answer in every form."""
    lines = [
        *text_lines(answer, width=80),
        *json_lines(answer),
        *(line for table in answer.tables for line in csv_lines(table)),
    ]
    return "\n".join(lines)


@pytest.mark.parametrize("question", ASKED)
def test_a_store_in_which_nothing_is_recorded_can_be_asked(tmp_path: Path, question: str) -> None:
    SqliteStore(tmp_path / "run.db").close()

    with analysis.open(tmp_path / "run.db") as run:
        told = QUESTIONS[question](run)

    assert told.sentences
    assert not any(table.rows for table in told.tables)


@pytest.mark.parametrize("question", ASKED)
def test_a_run_of_one_event_can_be_asked(tmp_path: Path, question: str) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("started", "a", 0)

    with diary.open() as run:
        told = QUESTIONS[question](run)

    assert told.question == question
    assert shown(told)


@pytest.mark.parametrize("question", ASKED)
def test_one_step_without_a_beginning_can_be_asked(tmp_path: Path, question: str) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("step", "a", 0, step=7, attempt=3, output=None)

    with diary.open() as run:
        assert shown(QUESTIONS[question](run))


@pytest.mark.parametrize("question", ASKED)
def test_what_is_asked_of_one_harness_tells_of_no_other(eventful: Run, question: str) -> None:
    told = QUESTIONS[question](eventful, harness="leader")

    assert {row["harness"] for table in told.tables for row in table.dicts() if "harness" in row} <= {"leader"}


@pytest.mark.parametrize("question", ASKED)
def test_answers_are_plain_data(eventful: Run, question: str) -> None:
    told = QUESTIONS[question](eventful)

    for table in told.tables:
        assert json.loads(json.dumps(table.dicts(), allow_nan=False)) == table.dicts()


@pytest.mark.parametrize("question", ASKED)
def test_store_and_log_give_the_same_answer(asked: Path, question: str) -> None:
    answers = []
    for source in SOURCES:
        with analysis.open(asked / source) as run:
            answers.append(QUESTIONS[question](run))

    assert answers[0] == answers[1]


@pytest.mark.parametrize("question", ASKED)
def test_exported_parquet_gives_the_same_answer(asked: Path, question: str) -> None:
    parquet = asked / "records.parquet"
    if not parquet.exists():
        main(
            ["--store", str(asked / "run.db"), "export", "--what", "records", "--format", "parquet", "--output", str(parquet)]
        )

    answers = []
    for source in (asked / "run.db", parquet):
        with analysis.open(source) as run:
            answers.append(QUESTIONS[question](run))

    assert answers[0] == answers[1]


async def test_a_run_can_be_asked_while_it_is_being_written(tmp_path: Path, autojump_clock: object) -> None:
    path = tmp_path / "run.db"

    async with Orchestrator(path) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="live")
        await trio.sleep(5.5)
        with analysis.open(path) as run:
            told = {question: QUESTIONS[question](run) for question in ASKED}
        handle.stop()

    figures = told["summary"].tables[0].dicts()[0]
    assert (figures["status"], figures["steps"]) == ("running", 6)
    assert told["timeline"].tables[0].dicts()[-1]["open"] is True


@pytest.mark.parametrize("question", ASKED)
def test_what_agents_wrote_is_inert_and_holds_no_secret(tmp_path: Path, question: str) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    for attempt in range(1, 7):
        diary.say("started", "a", attempt, attempt=attempt)
        diary.say("step", "a", attempt + 0.1, attempt=attempt, step=attempt, input=HOSTILE, output=HOSTILE, summary=HOSTILE)
        diary.say("intent", "a", attempt + 0.2, attempt=attempt, step=attempt + 1, key=HOSTILE)
        diary.say("failed", "a", attempt + 0.3, attempt=attempt, step=attempt, error="E", cause=HOSTILE, traceback=HOSTILE)
        diary.say("restarting", "a", attempt + 0.3, attempt=attempt, step=attempt, cause=HOSTILE, delay_s=0.5)

    with diary.open() as run:
        told = shown(QUESTIONS[question](run))

    assert not {"\x1b", "\x07", "\r", "\u202e", "\u2028"} & set(told)
    assert SECRET not in told


LIVES = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from(("step", "step", "step", "started", "failed", "restarting", "paused", "completed", "stopped")),
        st.integers(0, 10_000_000),
    ),
    max_size=25,
)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LIVES)
def test_the_sums_of_every_question_agree(tmp_path: Path, happened: list[tuple[str, str, int]]) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    at_us, steps, attempts = 0, dict.fromkeys("ab", 0), dict.fromkeys("ab", 0)
    for name, kind, after_us in happened:
        at_us += after_us
        steps[name] += kind == "step"
        attempts[name] += kind == "started"
        more: dict[str, Any] = {"took_us": {"work": after_us}} if kind == "step" else {"cause": "", "error": "E"}
        diary.say(kind, name, at_us / 1e6, step=steps[name], attempt=max(1, attempts[name]), **more)

    with diary.open() as run:
        told = {question: QUESTIONS[question](run) for question in ASKED}

    made = {name: count for name, count in steps.items() if any(one[0] == name for one in happened)}
    assert {row["harness"]: row["steps"] for row in rows(told["summary"], "harnesses") if row["harness"]} == made
    buckets = [row for row in rows(told["throughput"], "buckets") if row["harness"]]
    assert {name: sum(row["steps"] for row in buckets if row["harness"] == name) for name in made} == made
    assert sum(row["count"] for row in rows(told["failures"], "failures")) == [one[1] for one in happened].count("failed")
    assert all(row["duration_s"] >= 0 for row in rows(told["timeline"], "spans"))
