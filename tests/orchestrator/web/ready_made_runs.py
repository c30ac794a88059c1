"""Runs of ready-made harnesses for the tests of their views: an account that is halted, and a repository that is worked on.

What agents say in them is hostile: it is shown, and must stay text. `python -m tests.orchestrator.web.ready_made_runs FOLDER`
records them, to be looked at with `orchestrator serve --store FOLDER/run.db`; with a period in seconds, only the account.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import trio
from attrs import evolve

from harnesses import Agent
from harnesses.agent import AgentRun
from harnesses.coding import CodingHarness
from harnesses.coding.workplace.coding_harness import DEFAULT_POLICY
from harnesses.features import NoHealthCheck
from harnesses.features.feature import TurnResult
from harnesses.features.feature_record import Assignment, FeatureState
from harnesses.trading import Fees, Limits, Order, PaperBroker, ReplayFeed, Side, Strategy, TradingHarness
from orchestrator import Orchestrator
from tests import ROOT
from tests.harnesses.coding.coding_parts import ShellCheck, features
from tests.harnesses.coding.git_repositories import make_repository
from tests.orchestrator.web.fleet_program import HOSTILE

DATA = ROOT / "examples" / "data"
SYMBOLS = ("AAPL", "MSFT")
DAYS = 260


def trading(period_s: float = 0.001) -> TradingHarness:
    """Trade two symbols, one of which is split on the way; orders that are too large are refused, and a loss halts it."""

    async def run(run: AgentRun[Any, Any]) -> list[Order]:
        day, wanted = run.input.time.toordinal(), list[Order]()
        for place, symbol in enumerate(sorted(run.input.quotes)):
            quote = run.input.quotes[symbol]
            if day % 9 == place:
                wanted.append(Order(symbol, Side.BUY, Decimal(30 if day % 4 == 0 else 5), reason=f"cheap {HOSTILE}"))
            elif day % 14 == place and quote.units > 4:
                wanted.append(Order(symbol, Side.SELL, Decimal(4), reason="dear"))
        return wanted

    feed = ReplayFeed.read({name: DATA / f"{name.lower()}.csv" for name in SYMBOLS}, splits=DATA / "splits.csv", limit=DAYS)
    broker = PaperBroker(Decimal(20_000), fees=Fees(rate=Decimal("0.001"), minimum=Decimal(1)), slippage_bps=Decimal(5))
    limits = Limits(max_drawdown=Decimal("0.25"), max_position=Decimal("0.35"))
    return TradingHarness(feed, broker, Strategy(Agent(run)), limits=limits, period_s=period_s)


def coding(folder: Path) -> CodingHarness:
    """Have three files written in a repository: the first wrong at first, the last always wrong."""

    async def run(asked: AgentRun[FeatureState, Assignment]) -> TurnResult:
        given = asked.input
        assert given.directory is not None
        is_right = given.feature.id != "three" and (given.feature.id != "one" or given.turn > 1)
        text = "right\n" if is_right else f"wrong {HOSTILE}\n"
        (Path(given.directory) / f"{given.feature.id}.txt").write_text(text)
        return TurnResult(message=f"Done: {HOSTILE}", tokens=1000 * given.turn)

    user = make_repository(folder / "user.git", bare=True)
    return CodingHarness(
        user,
        Agent(run, name="coder"),
        features("one", "two", "three"),
        ShellCheck(),
        workspace=folder / "space",
        health_check=NoHealthCheck(),
        confirmations=1,
        # Rechecks are of a random sample.
        policy=evolve(DEFAULT_POLICY, recheck_sample=0, recheck_all_at_end=False),
    )


@cache
def record_both(place: Path) -> Path:
    """Record both below `place`, once for all tests that ask for it; return the store."""
    folder = place / "ready-made"
    folder.mkdir()

    async def run() -> None:
        try:
            async with Orchestrator(folder / "run.db", handle_signals=False) as orchestrator:
                orchestrator.start(trading(), name="paper")
                orchestrator.start(coding(folder), name="fixer")
        except* Exception:
            pass

    trio.run(run)
    return folder / "run.db"


async def trade(store: Path, period_s: float) -> None:
    """Trade so slowly that it can be watched."""
    async with Orchestrator(store, control=True) as orchestrator:
        orchestrator.start(trading(period_s), name="paper")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        trio.run(trade, Path(sys.argv[1]) / "run.db", float(sys.argv[2]))
    else:
        print(record_both(Path(sys.argv[1])))
