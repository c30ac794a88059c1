"""What the API tells of accounts and lists is what the report and the analysis tell, and a look reads only what is new."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from harnesses.trading.report.report_figures import account_of
from harnesses.trading.report.trading_report import steps
from orchestrator.control.control_server import Request
from orchestrator.presets.trading_course import TradingCourse
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.web.access import POLICY
from tests.orchestrator.web.asking import TOKEN, asking
from tests.orchestrator.web.fleet_program import HOSTILE
from tests.orchestrator.web.ready_made_runs import record_both

FILES = ("lightweight_charts.js", "lightweight_charts_license.txt", "lightweight_charts_notice.txt")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_both(tmp_path_factory.getbasetemp())


async def test_an_account_is_told_with_the_figures_of_the_report_and_why_it_is_halted(store: Path) -> None:
    told = account_of(steps(SqliteReader(store), "paper"))
    async with asking(store) as api:
        found = await api.get("harnesses/paper/trading")
        listed = await api.get("trading")

    figures = found["figures"]
    for name in ("first_equity", "last_equity", "gain", "turnover", "fees"):
        assert Decimal(figures[name]) == getattr(told.figures, name)
    for name in ("max_drawdown", "drawdown", "yearly_gain", "turns", "trades", "refused", "steps"):
        assert figures[name] == getattr(told.figures, name)
    assert (found["risk"], found["read"], found["steps"]) == ("halted", told.figures.steps, told.figures.steps)
    assert "drawdown" in found["why"]
    assert found["refused"][0]["why"]
    assert [one["client_id"] for one in found["fills"]] == [row.fill.client_id for row in reversed(told.trades)]
    assert [(one["harness"], one["risk"], one["equity"]) for one in listed] == [("paper", "halted", found["equity"])]


async def test_a_curve_is_told_once_and_then_only_its_end(store: Path) -> None:
    async with asking(store) as api:
        await api.get("harnesses/paper/trading")
        whole = await api.get("harnesses/paper/trading/curve")
        revision, count = str(whole["revision"]), len(whole["rows"])
        rest = await api.get("harnesses/paper/trading/curve", revision=revision, since=str(count - 1))
        other = await api.get("harnesses/paper/trading/curve", revision="999", since="5", symbol="MSFT")

    assert (whole["symbol"], whole["first"]) == ("AAPL", 0)
    assert (rest["first"], rest["rows"]) == (count - 1, whole["rows"][-1:])
    assert (other["first"], len(other["rows"])) == (0, count)


async def test_a_look_reads_no_step_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    reading = TradingCourse._read

    def counted(course: TradingCourse, step: int, body: str) -> None:
        read.append(step)
        reading(course, step, body)

    monkeypatch.setattr(TradingCourse, "_read", counted)
    async with asking(store) as api:
        for _ in range(3):
            await api.get("harnesses/paper/trading")

    assert read == [*range(1, len(read) + 1)]


async def test_a_list_is_told_with_tries_diffs_and_evidence(store: Path) -> None:
    async with asking(store) as api:
        listed = await api.get("lists")
        found = await api.get("harnesses/fixer/list")
        one = await api.get("harnesses/fixer/list/one")

    assert [(row["harness"], row["what"]) for row in listed] == [("fixer", "features")]
    assert (found["passed"], found["listed"], found["blocked"]) == (2, 3, 1)
    assert [row["tries"] for row in found["items"]] == [["not_validated", "passed"], ["passed"], ["not_validated"] * 3]
    assert found["per_passed"]["tokens"] == 5000
    assert [(made["number"], made["tokens"]) for made in one["tries"]] == [(2, 2000), (1, 1000)]
    assert "+right\n" in one["tries"][0]["diff"]
    assert f"+wrong {HOSTILE}\n" in one["tries"][1]["diff"]
    assert one["evidence"][0]["text"] == "grep ended with 0"


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("harnesses/fixer/trading", 400, "expected one that trades"),
        ("harnesses/paper/list", 400, "expected one that works on features or tasks"),
        ("harnesses/fixer/list/four", 400, "has no feature 'four'"),
        ("harnesses/nobody/trading", 404, "no harness 'nobody'"),
        ("harnesses/paper/trading/curve?symbol=MSFTT", 400, "unknown symbol 'MSFTT': expected one of "),
    ],
)
async def test_what_is_not_there_is_answered_with_why(store: Path, path: str, status: int, said: str) -> None:
    async with asking(store) as api:
        path, _, symbol = path.partition("?symbol=")
        response = await api.response("GET", path, {"symbol": symbol} if symbol else {})

    assert response.status == status
    assert said in json.loads(response.body)["error"]


async def test_the_policy_stays_strict_and_the_library_is_served_with_its_licence(store: Path) -> None:
    async with asking(store) as api:
        headers = {"host": "here", "authorization": f"Bearer {TOKEN}"}
        texts = [await api.server.answer(Request("GET", (name,), headers=headers)) for name in FILES]

    assert "unsafe" not in POLICY
    assert [text.status for text in texts] == [200] * 3
    assert b"Copyright (c) 2026 TradingView" in texts[0].body[:300]
    assert b"Apache License" in texts[1].body
    assert b"https://www.tradingview.com/" in texts[2].body
