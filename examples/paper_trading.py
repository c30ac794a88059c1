"""A portfolio of two symbols, traded on paper, stopped half-way from a second terminal, with a report at the end.

    harness    holds AAPL and MSFT in equal parts, rebalanced weekly, within limits; with the fees and slippage of a real venue
    venue      keeps its books in its own file: the harness compares its book with them before it trades
    half-way   a second process runs `orchestrator kill-switch on`: no order is sent until another runs `kill-switch off`

Kill the program at any moment, even with `kill -9`, and start it again: it continues where it was, and no order is placed
twice. When everything is done, another start writes the report again. You can use the kill switch by hand, from any terminal:

    orchestrator kill-switch on --store paper.db --reason "lunch"        orchestrator kill-switch off --store paper.db
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import trio

from harnesses.trading import Fees, Limits, PaperBroker, ReplayFeed, TradingHarness, portfolio_strategy
from harnesses.trading.feeds.bar_files import add_splits, read_bars
from harnesses.trading.report.trading_report import report, steps
from orchestrator import Handle, Orchestrator
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

DATA = Path(__file__).parent / "data"
SYMBOLS = ("AAPL", "MSFT")
NAME = "paper"
FIRST_YEAR = 2004


def make_feed(days: int) -> ReplayFeed:
    """Return a feed over the first `days` recorded days of the two symbols."""
    bars = {
        symbol: {time: bar for time, bar in read_bars(DATA / f"{symbol.lower()}.csv").items() if time.year >= FIRST_YEAR}
        for symbol in SYMBOLS
    }
    add_splits(DATA / "splits.csv", bars, whole=False)
    return ReplayFeed({symbol: dict(list(series.items())[:days]) for symbol, series in bars.items()})


def make_harness(days: int, period_s: float, venue: Path) -> TradingHarness:
    """Return the harness; its simulated venue stores its books in a file."""
    broker = PaperBroker(
        Decimal(100_000), fees=Fees(rate=Decimal("0.001"), minimum=Decimal(1)), slippage_bps=Decimal(5), path=venue
    )
    strategy = portfolio_strategy(SYMBOLS, band=Decimal("0.002"), every_days=7)
    limits = Limits(
        max_drawdown=Decimal("0.3"), max_daily_loss=Decimal("0.1"), max_position=Decimal("0.7"), cash_margin=Decimal("0.005")
    )
    return TradingHarness(make_feed(days), broker, strategy, limits=limits, period_s=period_s)


async def watch(handle: Handle, store: str, days: int) -> None:
    """Turn the kill switch on half-way, and off again after it has held back an order.

    Decisions depend on recorded steps only, so that a restarted program continues correctly.
    """
    half, a_while, felt = days // 2, max(days // 8, 5), 0
    is_lifted = False
    await handle.resume()  # a pause survives a killed program
    async for step in handle.steps():
        if step.step_number == half and handle.current_step < half + 2 * a_while:
            # Paused meanwhile, so that days are left to trade however long the command takes to start.
            await handle.pause()
            await turn_kill_switch("on", store, "--reason", "half-way: somebody wants to have a look")
            await handle.resume()
        if step.output.latched and not felt:
            felt = step.step_number
            say(f"{step.output.time:%Y-%m-%d}: an order was held back: {step.output.latched}")
        if felt and step.step_number == felt + a_while:
            await turn_kill_switch("off", store)
            is_lifted = True
        if step.step_number % 100 == 0:
            say(f"{step.output.time:%Y-%m-%d}: equity {step.output.equity:,.2f}")
    if felt and not is_lifted:
        # The command started too late: all days were traded before it took effect.
        await turn_kill_switch("off", store)


async def turn_kill_switch(switch: str, store: str, *more: str) -> None:
    """Run the command in a second process, as a person would in another terminal."""
    command = ["orchestrator", "kill-switch", switch, "--store", store, *more]
    say(f"from a second terminal: {' '.join(command)}")
    await trio.run_process([sys.executable, "-m", *command], capture_stdout=True)


async def run(options: argparse.Namespace) -> int:
    """Trade to the end, write and print the report, and return the exit code."""
    harness = make_harness(options.days, options.period, Path(f"{options.store}-venue"))
    async with Orchestrator(options.store) as orchestrator:
        handle = orchestrator.start(harness, name=NAME)
        await watch(handle, options.store, options.days)
    if orchestrator.signalled:
        return 128 + orchestrator.signalled
    written = report(
        steps(SqliteReader(options.store), NAME), options.report, title=f"Paper trading of {' and '.join(SYMBOLS)}"
    )
    print(written.text.read_text(encoding="utf-8"), end="")
    say(f"written: {', '.join(map(str, (written.text, written.trades, *written.pictures)))}")
    return 0


def say(text: str) -> None:
    """Print progress to standard error; standard output is for the report."""
    print(text, file=sys.stderr, flush=True)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", default="paper.db", metavar="PATH", help="where everything is recorded")
    parser.add_argument("--report", default="paper-report", metavar="DIR", help="where the report goes")
    parser.add_argument("--days", type=int, default=500, metavar="N", help="how many days to trade, at most 2,300")
    parser.add_argument("--period", type=float, default=0.01, metavar="S", help="seconds from one day to the next")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(trio.run(run, parse()))
