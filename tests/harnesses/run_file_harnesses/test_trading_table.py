"""A table describes a trading harness as a call would make it, or all of its mistakes are told at once."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses.features.errors import InvalidRequest
from harnesses.run_file_harnesses.trading_table import read_harness
from harnesses.trading import PaperBroker, ReplayFeed, TradingHarness
from tests import ROOT

DATA = ROOT / "examples" / "data"
FEED = {"files": {"AAPL": "aapl.csv"}, "splits": "splits.csv", "limit": 30}


def make(tmp_path: Path, **keys: object) -> TradingHarness:
    return read_harness(beside=DATA, store=tmp_path / "run.db", name="desk", **{"feed": FEED, "period_s": 0.01, **keys})


def mistakes(tmp_path: Path, **keys: object) -> str:
    with pytest.raises(InvalidRequest) as caught:
        make(tmp_path, **keys)
    return str(caught.value)


async def test_a_feed_is_enough_and_the_books_lie_beside_the_store(tmp_path: Path, autojump_clock: object) -> None:
    harness = make(tmp_path)
    assert not (tmp_path / "run.db-desk-venue").exists()

    await harness.run()

    assert harness.is_complete()
    assert harness.current_step == 31
    assert (tmp_path / "run.db-desk-venue").is_file()


async def test_it_is_what_the_calls_would_make(tmp_path: Path, autojump_clock: object) -> None:
    from harnesses.trading import Fees, Limits, cross_strategy

    by_table = make(
        tmp_path,
        strategy={"name": "cross", "fast": 3, "slow": 8, "stake": "0.3"},
        broker={"paper": True, "cash": 5000, "fees": {"rate": 0.001}, "slippage_bps": "5"},
        limits={"max_drawdown": 0.2, "cash_margin": "0.01"},
    )
    feed = ReplayFeed.read({"AAPL": DATA / "aapl.csv"}, splits=DATA / "splits.csv", limit=30)
    broker = PaperBroker(Decimal(5000), fees=Fees(rate=Decimal("0.001")), slippage_bps=Decimal(5))
    limits = Limits(max_drawdown=Decimal("0.2"), cash_margin=Decimal("0.01"))
    by_calls = TradingHarness(feed, broker, cross_strategy(3, 8, Decimal("0.3")), limits=limits, period_s=0.01)

    await by_table.run()
    await by_calls.run()

    assert (by_table.state.equity, by_table.state.risk) == (by_calls.state.equity, by_calls.state.risk)
    assert by_table.state.equity != 5000


async def test_cash_alone_is_that_of_the_paper_broker(tmp_path: Path, autojump_clock: object) -> None:
    harness = make(tmp_path, cash="777.5")

    await harness.run()

    assert harness.state.equity == Decimal("777.5")


async def test_a_function_says_what_only_code_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    (tmp_path / "own_strategy.py").write_text(
        "from harnesses.trading import rsi_strategy\ndef make(stake): return rsi_strategy(stake)\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)

    await make(tmp_path, strategy={"function": "own_strategy:missing"} | {"function": "harnesses.trading:rsi_strategy"}).run()

    assert "own_strategy has no 'missing'" in mistakes(tmp_path, strategy={"function": "own_strategy:missing"})
    assert "own_strategy:make failed: HarnessMisuse" in mistakes(
        tmp_path, strategy={"function": "own_strategy:make", "arguments": {"stake": 0.1}}
    )


def test_secrets_are_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = {"request": "https://x/{symbol}", "symbols": ["A"], "headers": {"Authorization": "Bearer ${A_TOKEN}"}}

    said = mistakes(tmp_path, feed=feed)
    monkeypatch.setenv("A_TOKEN", "t")

    assert "feed: headers: Authorization: expected A_TOKEN in the environment, got nothing; set it" in said
    assert make(tmp_path, feed=feed).symbols == ("A",)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"feed": None}, "feed: expected a table with one of files, request, exchange, function, got None"),
        ({"feed": {"files": {"X": "none.csv"}}}, "none.csv"),
        ({"feed": {**FEED, "limits": 3}}, "feed: unknown key 'limits': expected one of files, splits, limit, endless, speed"),
        ({"feed": {**FEED, "limit": "3"}}, "feed: limit: expected a whole number, was '3'"),
        ({"strategy": "sma-cross"}, "strategy: expected the name of one (rsi, cross, portfolio)"),
        ({"strategy": "sma-cross"}, "did you mean 'cross'?"),
        ({"strategy": "portfolio"}, "strategy: has no weights: expected one; add it"),
        (
            {"strategy": {"name": "rsi", "stake": True}},
            'strategy: stake: expected a number, or a text such as "0.1", was True',
        ),
        ({"strategy": {"name": "rsi", "stake": "2"}}, "rsi_strategy: stake: expected a part of the equity"),
        ({"limits": {"max_drawdwn": 1}}, "limits: unknown key 'max_drawdwn'"),
        ({"limits": {"max_drawdwn": 1}}, "did you mean 'max_drawdown'?"),
        ({"limits": {"max_drawdown": 2}}, "limits: limit 'max_drawdown': expected a part above 0"),
        ({"risk": {}}, "unknown key 'risk': expected one of account, feed, broker, strategy, cash, limits"),
        ({"broker": "papers"}, "broker: expected 'paper', or a table with one of paper, exchange, function, got 'papers'"),
        ({"broker": {"paper": True, "fees": {"rate": -1}}}, "broker: fees: Fees: rate: expected a number from 0 up, was -1"),
        ({"broker": {"paper": True, "cash": "lots"}}, "broker: cash: expected a number, was 'lots'; correct it"),
        ({"broker": "paper", "cash": 3}, "cash: expected none, because the broker knows the initial cash"),
        ({"period_s": "fast"}, "period_s: expected a number, was 'fast'"),
        ({"initial_state": {}}, "unknown key 'initial_state'"),
    ],
)
def test_a_mistake_is_told_with_its_key(tmp_path: Path, keys: dict[str, Any], told: str) -> None:
    assert told in mistakes(tmp_path, **keys)
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_held_by_another_is_told_when_it_connects(tmp_path: Path) -> None:
    held = PaperBroker(path=tmp_path / "run.db-desk-venue")
    harness = make(tmp_path)

    with pytest.raises(Exception, match="in use"):
        trio.run(harness.run, clock=trio.testing.MockClock(autojump_threshold=0))
    held.close()


def of_account(tmp_path: Path, name: str, cash: object, **keys: object) -> TradingHarness:
    table = {"feed": FEED, "period_s": 0.01, "broker": {"paper": True, "cash": 1000}, **keys}
    return read_harness(
        beside=DATA, store=tmp_path / "run.db", name=name, **{"account": {"name": "main", "cash": cash}, **table}
    )


def test_harnesses_that_name_one_account_share_its_cash_and_have_each_a_paper_venue(tmp_path: Path) -> None:
    harnesses = {name: of_account(tmp_path, name, cash) for name, cash in (("alpha", "600"), ("beta", 400))}
    assert not list(tmp_path.iterdir())

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            for harness in harnesses.values():
                nursery.start_soon(harness.run)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))

    assert [one.step_history[0].output.cash for one in harnesses.values()] == [600, 400]
    files = {one.name for one in tmp_path.iterdir() if not one.name.endswith(("-wal", "-shm", ".lock"))}
    assert files == {"run.db-main-venue-alpha", "run.db-main-venue-beta", "run.db-main-account"}
    with pytest.raises(InvalidRequest, match="broker: expected that of the other harnesses of account 'main'"):
        of_account(tmp_path, "gamma", 1, broker="paper")
    with pytest.raises(InvalidRequest, match="account: has no cash: expected one; add it"):
        of_account(tmp_path, "gamma", 1, account={"name": "main"})
    with pytest.raises(InvalidRequest, match="account: SharedAccount: expected a name, and cash from 0 up"):
        of_account(tmp_path, "gamma", -1)
