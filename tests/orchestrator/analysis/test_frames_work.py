"""The frames of features, tasks, fills and equity: what real runs have recorded, from the store and the log alike."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from harnesses.trading.report.report_figures import account_of
from harnesses.trading.report.trading_report import steps
from orchestrator import analysis
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from tests.orchestrator.analysis.figured import SOURCES, coding, record, record_all, working
from tests.orchestrator.analysis.picturing import Diary

FRAMES = ("features", "feature_standing", "trades", "equity")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_all(tmp_path_factory.getbasetemp())


@pytest.fixture(params=SOURCES)
def run(request: pytest.FixtureRequest, recorded: Path) -> Iterator[Run]:
    with analysis.open(recorded / request.param) as opened:
        yield opened


@pytest.mark.parametrize("frame", FRAMES)
def test_store_and_log_give_the_same_rows(recorded: Path, frame: str) -> None:
    rows = []
    for source in SOURCES:
        with analysis.open(recorded / source) as run:
            rows.append((run.frame(frame).columns, run.rows(f"SELECT * FROM {frame} ORDER BY ALL")))

    assert rows[0] == rows[1]
    assert rows[0][1]


def test_each_try_at_a_feature_is_a_row_with_what_became_of_it(run: Run) -> None:
    rows = run.rows(
        "SELECT step_number, kind, feature, turn, status, passed, regressed, blocked FROM features "
        "WHERE harness = 'features' AND step_number < 10 ORDER BY seq"
    )

    assert rows == [
        (2, "turn", "a", 1, "not_validated", False, False, False),
        (3, "turn", "a", 2, "passed", True, False, False),
        (4, "turn", "b", 1, "chat_failed", False, False, False),
        (5, "turn", "b", 2, "passed", True, False, False),
        (6, "recheck", "a", None, "set_back", None, True, False),
        (7, "turn", "a", 3, "passed", True, False, False),
        (8, "recheck", "b", None, "rechecked", None, False, False),
        (9, "turn", "c", 1, "not_validated", False, False, False),
    ]


def test_a_try_says_how_long_it_and_its_agent_took_and_why_it_failed(run: Run) -> None:
    rows = run.rows(
        "SELECT duration_s, agent_s, reason, validator FROM features WHERE harness = 'features' AND is_try "
        "AND step_number < 5 ORDER BY seq"
    )

    assert rows == [
        (2.0, 1.0, "a is 1", "judge"),
        (2.0, 1.0, "a is 2", "judge"),
        (1.0, 1.0, "feature b: the agent failed (try 1): ConnectionError: gone", None),
    ]


def test_where_a_feature_stands_comes_of_all_its_tries(run: Run) -> None:
    rows = run.rows(
        "SELECT feature, status, tries, tries_to_pass, regressions, passed_step, listed_step FROM feature_standing "
        "WHERE harness = 'features' ORDER BY feature"
    )

    assert rows == [("a", "passed", 3, 2, 1, 3, 1), ("b", "passed", 2, 2, 0, 5, 1), ("c", "blocked", 3, None, 0, None, 1)]


def test_an_attempt_at_a_task_of_a_pipeline_is_a_try(run: Run) -> None:
    rows = run.rows("SELECT kind, feature, turn, status, passed, agent_s FROM features WHERE harness = 'pipe' ORDER BY seq")

    assert rows == [
        ("judge", "a", 1, "not_validated", False, 1.0),
        ("judge", "a", 2, "passed", True, 1.0),
        ("judge", "b", 1, "passed", True, 1.0),
    ]


@pytest.mark.parametrize("source", SOURCES)
def test_tries_in_worktrees_are_tries_too(tmp_path: Path, source: str) -> None:
    record(tmp_path, lambda orchestrator: orchestrator.start(coding(tmp_path), name="runner"), is_virtual=False)

    with analysis.open(tmp_path / source) as run:
        rows = run.rows('SELECT feature, turn, passed, reason, length("commit") FROM features ORDER BY seq')

    assert rows == [("one", 1, False, "grep ended with 1", 40), ("one", 2, True, rows[1][3], 40)]
    assert rows[1][3].startswith("grep ended with 0")


@pytest.mark.parametrize("source", SOURCES)
def test_what_a_person_orders_moves_where_a_feature_stands(tmp_path: Path, source: str) -> None:
    def start(orchestrator) -> None:
        orchestrator.start(working(c=4), name="f").send({"block": "b", "reason": "not now"})

    record(tmp_path, start)

    with analysis.open(tmp_path / source) as run:
        orders = run.rows("SELECT kind, feature, status, is_try FROM features WHERE kind = 'orders'")
        standing = dict(run.rows("SELECT feature, status FROM feature_standing"))

    assert orders == [("orders", "b", "blocked", False)]
    assert standing == {"a": "passed", "b": "blocked", "c": "blocked"}


def test_fills_are_those_of_the_report_to_the_last_digit(run: Run, recorded: Path) -> None:
    told = account_of(steps(SqliteReader(recorded / "run.db"), "trading")).trades

    rows = run.rows(
        "SELECT symbol, side, quantity, price, fee, realised, order_id, fill_id FROM trades "
        "ORDER BY step_number, fill_id::INTEGER"
    )

    fills = [row.fill for row in told]
    assert [row[:5] for row in rows] == [(one.symbol, one.side.value, one.units, one.price, one.fee) for one in fills]
    assert [row[5] for row in rows] == [row.gain + row.fill.fee for row in told]
    assert [row[6:] for row in rows] == [(one.client_id, one.fill_id) for one in fills]


def test_money_is_exact(run: Run) -> None:
    frames = [run.frame(name) for name in ("trades", "equity")]

    types = {name: str(type) for frame in frames for name, type in zip(frame.columns, frame.types, strict=True)}
    money = ("quantity", "price", "fee", "realised", "equity", "cash")
    assert {types[name] for name in money} == {"DECIMAL(38,18)"}


def test_the_equity_is_that_of_each_step(run: Run, recorded: Path) -> None:
    told = [step.output for step in steps(SqliteReader(recorded / "run.db"), "trading")]

    rows = run.rows("SELECT equity, cash, drawdown_share FROM equity ORDER BY step_number")

    assert rows == [(Decimal(one["equity"]), Decimal(one["cash"]), float(one["drawdown"])) for one in told]


def test_of_two_sales_in_one_step_it_is_not_known_what_each_has_brought(tmp_path: Path) -> None:
    def fill(number: int, side: str) -> dict[str, object]:
        of = {"symbol": "A", "side": side, "units": "1", "price": "2", "fee": "0", "time": "2000-01-01T00:00:00Z"}
        return {"fill": {"fill_id": str(number), "client_id": "x", **of}, "wanted_by": "strategy"}

    diary = Diary(tmp_path / "log")
    for step, realised, fills in ((1, "0", []), (2, "3", [fill(1, "sell")]), (3, "9", [fill(2, "sell"), fill(3, "sell")])):
        said = {"time": "2000-01-01T00:00:00Z", "equity": "1", "cash": "1", "drawdown": "0", "risk": "active", "fills": fills}
        diary.say("step", "t", step, step=step, output=said, delta={"in": {"book": {"set": {"realised": realised}}}})

    with diary.open() as run:
        assert run.rows("SELECT realised FROM trades ORDER BY fill_id") == [(3,), (None,), (None,)]


HOSTILE = {
    "kind": "turn",
    "feature_id": "\x1b[31m'; DROP TABLE x; --",
    "turn": 10**30,
    "task": ["a"],
    "attempt": "NaN",
    "streamed": {"a": 1},
}


@pytest.mark.parametrize("given", [HOSTILE, None, 3, "text", [HOSTILE], {"kind": "judge", "task": 5}])
@pytest.mark.parametrize("said", [{"status": [1], "events": 3}, {"status": "passed", "equity": "NaN", "risk": 1}, None, "x"])
def test_what_is_of_another_form_is_read_as_far_as_it_goes(tmp_path: Path, given: object, said: object) -> None:
    diary = Diary(tmp_path / "log")
    diary.say("step", "h", 1, step=1, input=given, output=said, delta={"set": 5})

    with diary.open() as run:
        counts = [len(run.rows(f"SELECT * FROM {frame}")) for frame in FRAMES]

    assert max(counts) <= 1


def test_an_empty_run_has_empty_frames(tmp_path: Path) -> None:
    record(tmp_path, lambda orchestrator: None)

    with analysis.open(tmp_path / "run.db") as run:
        assert [run.rows(f"SELECT * FROM {frame}") for frame in FRAMES] == [[], [], [], []]
