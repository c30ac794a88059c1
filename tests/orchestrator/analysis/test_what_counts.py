"""What counts: no sibling as crashed, no step of another harness, nothing that was pruned, and that is said."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from orchestrator import Orchestrator, analysis
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import gather
from orchestrator.analysis.questions import QUESTIONS
from orchestrator.analysis.questions import cost_question as cost
from orchestrator.analysis.questions import progress_question as progress
from orchestrator.analysis.questions import summary_question as summary
from orchestrator.analysis.questions import throughput_question as throughput
from orchestrator.analysis.questions.compare_sides import sides
from orchestrator.history.forking import fork
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune
from tests.orchestrator.analysis.asked import by_name, rows
from tests.orchestrator.analysis.figured import record, trading
from tests.orchestrator.scripted import Scripted, Steps


async def steady(harness: Scripted) -> Steps:
    """Make a step a second."""
    while True:
        await harness.sleep(1.0)
        yield harness.current_step, None


def go(path: Path, name: str, until: int) -> None:
    """Have a harness make steps until one."""

    async def run() -> None:
        async with Orchestrator(path, handle_signals=False) as orchestrator:
            orchestrator.start(Scripted(steady, 0, until=until), name=name)

    trio.run(run, clock=MockClock(autojump_threshold=0))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of 300 steps, and a fork of the first 250 of them that has made 10 more."""
    path = tmp_path_factory.mktemp("forked") / "run.db"
    go(path, "origin", 300)
    fork(path, "origin", 250, to="fork")
    go(path, "fork", 260)
    return path.parent


@pytest.fixture
def forked(recorded: Path, tmp_path: Path) -> Path:
    """A copy of that run, which a test may prune."""
    return Path(shutil.copytree(recorded, tmp_path / "forked")) / "run.db"


def test_a_sibling_that_was_taken_down_has_not_crashed(eventful: Run) -> None:
    ended = dict(eventful.rows("SELECT harness, ended_by FROM attempts WHERE attempt = 1 AND harness IN ('leader', 'twin')"))

    crashes = by_name(cost.answer(eventful), "crashes")

    assert ended == {"leader": "failed", "twin": "taken_down"}
    assert ("leader" in crashes, "twin" in crashes) == (True, False)
    assert (sides(eventful)["leader"].failures, sides(eventful)["twin"].failures) == (1, 0)


def test_the_frame_and_the_questions_call_the_end_of_an_attempt_the_same(eventful: Run) -> None:
    gather(eventful)

    assert (
        eventful.rows(
            "SELECT harness, attempt, l.ended_by, a.ended_by FROM lives l JOIN attempts a USING (harness, attempt) "
            "WHERE l.ended_by IS DISTINCT FROM a.ended_by"
        )
        == []
    )


def test_what_a_fork_has_taken_over_is_in_no_sum_of_time_and_in_no_rate(forked: Path) -> None:
    with analysis.open(forked) as run:
        told, times, buckets = summary.answer(run), by_name(cost.answer(run), "harnesses"), throughput.answer(run)
        [(own_s,)] = run.rows("SELECT sum(work_s) FROM steps WHERE harness = 'fork' AND step_number > 250")

    assert by_name(told, "harnesses")["fork"]["steps"] == 260
    row = by_name(told, "harnesses")["fork"]
    assert row["steps_per_s"] == pytest.approx(10 / row["alive_s"])
    assert times["fork"]["work_s"] == pytest.approx(own_s)
    assert sum(row["steps"] for row in rows(buckets, "buckets") if row["harness"] is None) == 310
    assert "fork up to 250" in buckets.tables[0].note


@pytest.mark.parametrize(
    "question", ["summary", "throughput", "cost", "progress", "slow", "timeline", "failures", "restarts", "loops"]
)
def test_an_answer_says_that_the_run_was_pruned(forked: Path, question: str) -> None:
    prune(forked, Rule(keep=20, context=20), ["origin"], by="ann")

    with analysis.open(forked) as run:
        [(first,)] = run.rows("SELECT min(step_number) FROM steps WHERE harness = 'origin'")
        said = QUESTIONS[question](run).sentences

    assert f"origin was pruned: steps before {first} are gone; the figures cover the rest." in said


def test_rates_of_a_pruned_run_are_of_the_steps_that_are_left(forked: Path) -> None:
    prune(forked, Rule(keep=20, context=20), ["origin"], by="ann")

    with analysis.open(forked) as run:
        row = by_name(summary.answer(run), "harnesses")["origin"]
        [(first, last, count)] = run.rows(
            """SELECT min("timestamp"), max("timestamp"), count(*) FROM steps WHERE harness = 'origin'"""
        )

    assert row["alive_s"] >= (last - first).total_seconds() > 0
    assert row["steps_per_s"] == pytest.approx((count - 1) / row["alive_s"])


def test_an_attempt_that_a_fork_has_taken_over_was_not_killed(forked: Path) -> None:
    with analysis.open(forked) as run:
        told = by_name(QUESTIONS["restarts"](run), "harnesses")

    assert told.get("fork", {"killed": 0})["killed"] == 0


def test_a_fork_is_compared_by_its_own_steps(forked: Path) -> None:
    with analysis.open(forked) as run:
        found = sides(run)

    assert (found["origin"].steps, found["fork"].steps) == (300, 10)


SOLD = """SELECT symbol, count(*) FILTER (side = 'sell'), sum(realised) - sum(fee) FROM trades
    WHERE step_number > ? GROUP BY symbol ORDER BY symbol"""


@pytest.fixture(scope="module")
def traded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("traded"), lambda orchestrator: orchestrator.start(trading(), name="trading"))


def test_what_a_pruned_account_has_won_is_by_the_book_in_its_oldest_state(traded: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(traded / "run.db", tmp_path))
    shutil.copy(traded / "run.db-head", tmp_path)
    prune(path, Rule(keep=50, context=50), by="ann")

    with analysis.open(traded / "run.db") as whole, analysis.open(path) as run:
        [(first,)] = run.rows("SELECT min(step_number) FROM steps")
        expected = whole.rows(SOLD, [first])
        told = progress.answer(run)

    assert first > 1
    assert any(sales for _, sales, _ in expected)
    assert [(row["symbol"], row["sales"], Decimal(row["gain"])) for row in rows(told, "symbols")] == expected
    assert f"trades are those after step {first}, where what is left begins" in told.sentences[0]


def test_of_a_log_without_its_beginning_nobody_says_what_sales_have_won(traded: Path, tmp_path: Path) -> None:
    lines = (traded / "steps.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "late.jsonl").write_text("".join(lines[len(lines) // 2 :]), encoding="utf-8")

    with analysis.open(tmp_path / "late.jsonl") as run:
        told = progress.answer(run)

    assert {(row["hit_share"], row["gain"]) for row in rows(told, "symbols")} == {(None, None)}
    assert rows(told, "trading")[0]["hit_share"] is None
    assert "what sales have won is not known" in told.sentences[0]
    assert "trading is not recorded here from its beginning" in told.sentences[1]
