"""Small real runs whose figures are known, in a store and a log: of features, a repository, a pipeline, trading and money."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import trio
from attrs import evolve
from trio.testing import MockClock

from harnesses.agent import Agent
from harnesses.budgets.budget import Budget
from harnesses.coding import CodingHarness
from harnesses.effects.approval import Action
from harnesses.features import FeatureHarness, NoHealthCheck
from harnesses.trading import Cancel, Fees, Limits, PaperBroker, ReplayFeed, TradingHarness, portfolio_strategy
from orchestrator import Orchestrator
from tests import ROOT
from tests.harnesses.coding.coding_parts import ShellCheck, agent, wrong_first
from tests.harnesses.coding.coding_parts import features as files
from tests.harnesses.coding.git_repositories import make_repository
from tests.harnesses.features.worked import Judge, Worker, features, harness
from tests.harnesses.pipeline.scripted import Builders, honest, pipeline
from tests.orchestrator.scripted import Scripted, Steps

DATA = ROOT / "examples" / "data"
SOURCES = ("run.db", "steps.jsonl")


def record(
    folder: Path,
    start: Callable[[Orchestrator], object],
    then: Callable[[Orchestrator], Any] | None = None,
    *,
    is_virtual: bool = True,
) -> Path:
    """Run what `start` starts to its end; return the folder of `SOURCES`.

    Args:
        is_virtual: whether the clock is, which jumps where nothing is to be done; what waits for processes needs a real one.
    """

    async def run() -> None:
        async with Orchestrator(folder / "run.db", log=folder / "steps.jsonl", handle_signals=False) as orchestrator:
            start(orchestrator)
            if then is not None:
                await then(orchestrator)

    folder.mkdir(exist_ok=True)
    trio.run(run, clock=MockClock(autojump_threshold=0) if is_virtual else None)
    return folder


def working(**accepted_at: int) -> FeatureHarness:
    """Work a, b, c: a passes at its second try and is set back once, the agent fails at b first, c depends on the caller."""
    return harness(Worker({"b1": ConnectionError("gone")}), Judge(rotten={"a": 1}, **{"a": 2, **accepted_at}))


def coding(folder: Path) -> CodingHarness:
    """Have one file written in a repository: wrong at first."""
    user = make_repository(folder / "user.git", bare=True)
    return CodingHarness(
        user, agent(wrong_first), files("one"), ShellCheck(), workspace=folder / "space", health_check=NoHealthCheck()
    )


def staged(folder: Path) -> Any:
    """Work two stages, one after the other; the first is handed in empty at first."""
    return pipeline(folder / "work", "a", "b", chain=True, agents=Builders({"a": [lambda work: {}, honest]}))


def trading(days: int = 110, cash: int = 10_000) -> TradingHarness:
    """Trade a portfolio of two symbols, one of which is split on the way, on paper; once, cancel what is not there."""
    paths = {symbol: DATA / f"{symbol.lower()}.csv" for symbol in ("AAPL", "MSFT")}
    feed = ReplayFeed.read(paths, splits=DATA / "splits.csv", limit=days)
    broker = PaperBroker(Decimal(cash), fees=Fees(rate=Decimal("0.001"), minimum=Decimal(1)), slippage_bps=Decimal(5))
    strategy = portfolio_strategy(("AAPL", "MSFT"), band=Decimal("0.002"), every_days=7)
    balance = strategy.agent

    async def decide(run: Any) -> Sequence[Any]:
        wishes = await balance.answer(run)
        return wishes if run.input.previous else [*wishes, Cancel("nobody")]

    strategy = evolve(strategy, agent=Agent(decide, name=balance.name))
    limits = Limits(max_drawdown=Decimal("0.9"), max_daily_loss=Decimal("0.5"), max_position=Decimal("0.7"))
    return TradingHarness(feed, broker, strategy, limits=limits, period_s=1)


async def spending(scripted: Scripted) -> Steps:
    """Spend 0.1 of money and 30 tokens in each of three steps, and ask a person in the last one."""
    while scripted.current_step < 3:
        async with scripted.spending(tokens=100, money=Decimal("0.50")) as spend:
            await scripted.sleep(1)
            spend.settle(tokens=30, money=Decimal("0.10"))
        if scripted.current_step == 2:
            await scripted.once("push", _push, approval=Action("publish", "push", {}, expires_s=1000))
        yield scripted.current_step + 1, None


async def _push() -> str:
    return "pushed"


@cache
def record_all(place: Path) -> Path:
    """Record one of each below `place`, once for all tests that ask for it."""
    folder = place / "one-of-each"
    folder.mkdir()

    def start(orchestrator: Orchestrator) -> None:
        orchestrator.start(working(c=99), name="features")
        orchestrator.start(staged(folder), name="pipe")
        orchestrator.start(trading(), name="trading")
        orchestrator.start(Scripted(spending, until=3), name="spender", budget=Budget(money=Decimal(5)))

    async def then(orchestrator: Orchestrator) -> None:
        while not orchestrator.store.approvals():  # noqa: ASYNC110 - a store rings for nobody
            await trio.sleep(0.01)
        await orchestrator.approve(orchestrator.store.approvals()[-1].id, by="ann")

    return record(folder, start, then)


__all__ = ["SOURCES", "coding", "features", "record", "record_all", "spending", "staged", "trading", "working"]
