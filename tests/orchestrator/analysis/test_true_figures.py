"""Figures that were once wrong, of real runs: of a program that was killed, of settled effects, of budgets, and of resets."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from harnesses import Budget
from orchestrator import Orchestrator, analysis
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures.line_pictures import equity
from orchestrator.analysis.pictures.time_pictures import restarts as restarts_picture
from orchestrator.analysis.pictures.time_pictures import timeline as timeline_picture
from orchestrator.analysis.questions import cost_question as cost
from orchestrator.analysis.questions import slow_question as slow
from orchestrator.analysis.questions import summary_question as summary
from orchestrator.analysis.questions import throughput_question as throughput
from orchestrator.analysis.questions import timeline_question as timeline
from orchestrator.analysis.questions import why_question as why
from orchestrator.cli import main
from orchestrator.cli.doctor.doctor_work import standing
from orchestrator.operating.effect_outcomes import settle
from orchestrator.status import look
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.telemetry.record_counts import Counts
from tests import ROOT
from tests.orchestrator.analysis import killed_run
from tests.orchestrator.analysis.asked import SOURCES, by_name, rows, unsure
from tests.orchestrator.analysis.picturing import BEGIN, Diary, traded
from tests.orchestrator.scripted import Scripted, Steps
from tests.zygote import run_python


@pytest.fixture(scope="module")
def killed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three harnesses whose program was killed once, and that went on in the next one."""
    folder = tmp_path_factory.mktemp("killed")
    for again in ((), ("again",)):
        run_python("-m", killed_run.__name__, folder / "run.db", *again, check=bool(again), cwd=ROOT, timeout=120)
    (folder / "run.jsonl").rename(folder / "steps.jsonl")
    return folder


@pytest.fixture(params=SOURCES)
def killed(request: pytest.FixtureRequest, killed_folder: Path) -> Any:
    with analysis.open(killed_folder / request.param) as run:
        yield run


def test_a_hang_before_a_kill_lasts_until_its_program_was_killed(killed: Run) -> None:
    stall = rows(slow.answer(killed, harness="hanging"), "stalls")[0]
    crashes = by_name(cost.answer(killed), "crashes")

    assert (stall["attempt"], stall["step"]) == (1, 3)
    assert stall["duration_s"] == pytest.approx(killed_run.SECONDS - 2, abs=1)
    assert crashes["hanging"]["lost_s"] == pytest.approx(killed_run.SECONDS - 2, abs=1)


def test_the_timeline_tells_the_hang_from_the_time_without_a_program(killed: Run) -> None:
    spans = [one for one in rows(timeline.answer(killed), "spans") if one["harness"] == "hanging"]

    assert [one["kind"] for one in spans[:2]] == ["running", "gone"]
    assert spans[0]["duration_s"] == pytest.approx(killed_run.SECONDS, abs=1)
    assert spans[1]["duration_s"] == pytest.approx(killed_run.GONE, abs=20)


def test_an_approval_waits_on_after_a_restart(killed: Run) -> None:
    spans = [one for one in rows(timeline.answer(killed), "spans") if one["harness"] == "asking"]

    assert [one["kind"] for one in spans][-3:] == ["waiting", "gone", "waiting"]
    assert all(one["duration_s"] < 1 for one in spans[:-3])


def test_a_program_that_is_killed_is_one_kill_and_no_crash(killed: Run) -> None:
    for picture in (timeline_picture(killed), restarts_picture(killed)):
        assert "a program was killed 1 time" in picture.title
        assert "crashes" not in picture.title


def test_the_trend_counts_no_time_without_a_program(killed: Run) -> None:
    trend = by_name(throughput.answer(killed), "trend")["ticking"]

    assert abs(trend["change_share"]) < 0.1
    assert trend["half_s"] == pytest.approx((killed_run.SECONDS + 50) / 2, abs=2)


def test_the_rate_of_all_is_the_one_that_the_sentence_says(killed: Run) -> None:
    told = summary.answer(killed)
    rate = next(row["steps_per_s"] for row in rows(told, "harnesses") if row["harness"] is None)

    assert f"{rate:.3g} a second" in told.sentences[0]


async def spending(harness: Scripted) -> Steps:
    """Reserve more than is spent."""
    while True:
        async with harness.spending(tokens=100) as spend:
            spend.settle(tokens=90)
        yield harness.current_step, None


def test_why_tells_what_was_spent_and_not_what_was_reserved(tmp_path: Path) -> None:
    go(tmp_path, spending, budget=Budget(tokens=280))

    for source in SOURCES:
        with analysis.open(tmp_path / source) as run:
            assert any("has spent 270 of tokens in 3 reservations" in said for said in why.answer(run, "spending").sentences)


def test_the_time_of_an_effect_ends_with_its_call_and_not_with_a_persons_word(tmp_path: Path) -> None:
    go(tmp_path, unsure)
    path = str(tmp_path / "run.db")
    with analysis.open(path) as run:
        before = run.rows("SELECT took_s FROM effects")

    assert settle(path, "unsure", "pay-7", "done", reason="seen at the bank")

    with closing(SqliteReader(path)) as reader:
        (at,) = look(reader, {})
    assert at.cause.startswith("the outcome of its effect, which was unknown, is settled")
    (check,) = standing(tmp_path / "run.db")
    assert "is settled now" in check.finding
    with analysis.open(path) as run:
        assert run.rows("SELECT took_s, outcome, settled_by FROM effects") == [(*before[0], "confirmed", "operator")]
        assert "it again: the outcome of its effect is settled" in " ".join(why.answer(run, "unsure").sentences)


def test_the_drawdown_that_is_drawn_goes_on_over_a_reset_of_the_limits(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.say("started", "a", 0)
    for step, (worth, recorded) in enumerate(((100, 0), (80, 0.2), (80, 0), (90, 0)), start=1):
        traded(diary, "a", step, step, BEGIN + timedelta(days=step), worth, recorded)

    with diary.open() as run:
        spec = str(equity(run).spec)

    assert "at most 20.00%" in spec
    assert "-0.1}" in spec or "-0.09999999999999998}" in spec


async def idle(harness: Scripted) -> Steps:
    """Make no step."""
    await harness.sleep(10)
    return
    yield


def test_a_harness_without_a_step_has_a_last_step_timestamp_of_its_start(tmp_path: Path) -> None:
    go(tmp_path, idle)
    with closing(SqliteReader(str(tmp_path / "run.db"))) as reader:
        records = reader.records()
    counts = Counts()
    counts.take(records)

    assert counts.harnesses["idle"].last_step_us == records[0].time_us


def go(folder: Path, script: Any, **options: Any) -> None:
    """Run a script to its end, as a store and a log."""

    async def run() -> None:
        async with Orchestrator(folder / "run.db", log=folder / "steps.jsonl", handle_signals=False) as orchestrator:
            orchestrator.start(Scripted(script, 0), name=script.__name__, **options)

    trio.run(run, clock=MockClock(autojump_threshold=0))


def test_an_amount_of_nothing_has_no_exponent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    go(tmp_path, idle)
    query = "SELECT 0::DECIMAL(38, 18) AS none, 0.0000001::DECIMAL(38, 18) AS little"
    for words, shown in (((), "0.0000001"), (("--json",), '"little":"0.0000001"'), (("--csv",), "0,0.0000001")):
        assert main(["sql", str(tmp_path / "run.db"), query, *words]) == 0
        said = capsys.readouterr().out
        assert shown in said.replace(": ", ":")
        assert "E-" not in said
