"""The summary says how much, how fast and where the time went: the same of a store and of a log."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator import analysis
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.questions import summary_question as summary
from orchestrator.errors import UsageError
from tests.orchestrator.analysis.asked import NAMES, SOURCES, by_name, rows
from tests.orchestrator.analysis.picturing import Diary

MADE = (1, 2, 4, 2, 1, 3, 4, 10, 6, 1)
"""Steps, by name."""


def test_each_harness_is_told_of_with_its_steps_attempts_and_status(eventful: Run) -> None:
    told = by_name(summary.answer(eventful), "harnesses")

    assert [(name, row["steps"]) for name, row in told.items()] == [(None, sum(MADE)), *zip(NAMES, MADE, strict=True)]
    assert {name: row["attempts"] for name, row in told.items() if row["attempts"] != 1} == {
        None: 22,
        "hopeless": 6,
        "leader": 2,
        "poisoned": 6,
        "twin": 2,
    }
    assert told["hopeless"]["status"] == "gave_up"
    assert [told["hopeless"][column] for column in ("restarts", "failures")] == [5, 6]
    assert (told["unsure"]["status"], told["asking"]["approvals_open"]) == ("blocked", 1)


def test_steps_add_up_to_those_of_the_store(asked: Path, eventful: Run) -> None:
    with closing(sqlite3.connect(asked / "run.db")) as db:
        counted: dict[str, int] = dict(db.execute("SELECT harness, count(*) FROM steps GROUP BY harness").fetchall())

    told = by_name(summary.answer(eventful), "harnesses")

    assert {name: row["steps"] for name, row in told.items() if name and row["steps"]} == counted
    assert told[None]["steps"] == sum(counted.values())


def test_the_time_of_a_step_is_told_with_what_it_went_into(eventful: Run) -> None:
    told = summary.answer(eventful)

    latency, time = by_name(told, "latency")["steady"], by_name(told, "time")["steady"]
    assert latency["work_p50_s"] == pytest.approx(0.5, abs=1e-5)
    assert latency["work_max_s"] == pytest.approx(0.5, abs=1e-5)
    shares = [time[f"{part}_share"] for part in ("agent", "effects", "waiting", "own", "commit", "held")]
    assert shares == pytest.approx([0.2, 0.3, 0.5, 0, 0, 0], abs=1e-4)
    assert sum(shares) == pytest.approx(1)


def test_effects_are_counted_by_what_became_of_them(eventful: Run) -> None:
    told = rows(summary.answer(eventful), "effects")

    named = [(row["harness"], row["confirmed"], row["refused"], row["unknown"], row["not_done"], row["begun"]) for row in told]
    assert named == [
        (None, 10, 1, 1, 0, 0),
        ("refused", 0, 1, 0, 0, 0),
        ("steady", 10, 0, 0, 0, 0),
        ("unsure", 0, 0, 1, 0, 0),
    ]


def test_store_and_log_give_the_same_summary(asked: Path) -> None:
    answers = []
    for source in SOURCES:
        with analysis.open(asked / source) as run:
            answers.append(summary.answer(run))

    assert answers[0] == answers[1]


def test_what_stands_out_is_said_in_sentences(eventful: Run) -> None:
    said = "\n".join(summary.answer(eventful).sentences)

    assert said.startswith("10 harnesses made 34 steps within ")
    assert "hopeless gave up after step 2: 5 restarts within 60 s; RuntimeError: no luck with /srv/data/2.txt." in said
    assert "1 request of asking waits for a person" in said
    assert "Of 1 effect of unsure the outcome is not on record" in said
    assert "Attempts failed again and again: hopeless 6 times and poisoned 6 times." in said


def test_percentiles_and_rate_are_exact(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("started", "a", 0)
    for index in range(100):
        diary.say("step", "a", index + 1, step=index + 1, took_us={"work": (index + 1) * 10_000, "commit": 2000})
    diary.say("completed", "a", 200, step=100)

    with diary.open() as run:
        told = summary.answer(run)

    latency, row = rows(told, "latency")[0], rows(told, "harnesses")[0]
    assert [latency[f"work_{which}_s"] for which in ("p50", "p95", "p99", "max")] == pytest.approx(
        [0.505, 0.9505, 0.9901, 1.0]
    )
    assert latency["commit_p50_s"] == pytest.approx(0.002)
    assert (row["steps_per_s"], row["alive_s"]) == (0.5, 200.0)


def test_steps_that_are_older_than_their_times_are_measured_by_their_moments(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("started", "a", 0)
    for index in range(4):
        diary.say("step", "a", 2.0 * (index + 1), step=index + 1)

    with diary.open() as run:
        told = summary.answer(run)

    assert rows(told, "latency")[0]["work_p50_s"] == 2.0
    assert rows(told, "time") == []
    assert "4 steps were recorded without times" in next(one.note for one in told.tables if one.name == "latency")


def test_time_that_a_harness_is_not_alive_does_not_count(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.life("a", 9)
    diary.say("started", "a", 1000, attempt=2, step=9)
    diary.say("step", "a", 1010, attempt=2, step=10, took_us={"work": 1})

    with diary.open() as run:
        row = rows(summary.answer(run), "harnesses")[0]

    assert (row["alive_s"], row["steps_per_s"], row["status"]) == (20.0, 0.5, "running")


def test_one_harness_alone_is_told_of_if_asked_for(eventful: Run) -> None:
    told = summary.answer(eventful, harness="steady")

    assert [row["harness"] for row in rows(told, "harnesses")] == ["steady"]


def test_a_harness_that_is_not_there_is_a_mistake_that_names_those_that_are(eventful: Run) -> None:
    with pytest.raises(UsageError, match="no harness 'nobody': expected one of asking, hopeless"):
        summary.answer(eventful, harness="nobody")


@pytest.mark.parametrize(
    ("kinds", "status"),
    [
        (("started", "failed", "restarting", "paused"), "paused"),
        (("started", "failed", "restarting", "paused", "resumed"), "backing_off"),
        (("started", "failed", "restarting", "paused", "resumed", "started"), "running"),
        (("started", "paused", "resumed"), "running"),
    ],
)
def test_a_harness_that_was_let_go_on_during_its_back_off_is_backing_off(
    tmp_path: Path, kinds: tuple[str, ...], status: str
) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    for at, kind in enumerate(kinds):
        diary.say(kind, "a", at, cause="", error="E", delay_s=60.0)

    with diary.open() as run:
        assert rows(summary.answer(run), "harnesses")[0]["status"] == status
        assert run.rows("SELECT status FROM harnesses") == [(status,)]
