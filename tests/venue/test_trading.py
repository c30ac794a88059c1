"""The trading harness at a venue that goes wrong: the code is that of paper trading, the books come out as the venue's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial, reduce
from pathlib import Path

import msgspec
import pytest
import trio
from attrs import evolve

from harnesses.trading import Book, SharedAccount, TradingHarness
from harnesses.trading.exchange.ccxt_broker import CcxtBroker
from harnesses.trading.exchange.ccxt_client import CcxtOptions
from orchestrator import Orchestrator
from tests import zygote

from .hostility import HOSTILE
from .ordering import BTC, ETH
from .running import ROOT, RunningVenue, closed
from .spoken import SPOKEN, in_dialect
from .trading import SHARE, Known, known, make

SLICES = 6


async def live(store: Path, harness: TradingHarness, seconds: float) -> None:
    """Run it for a while, or to its end."""
    with trio.move_on_after(seconds):
        async with Orchestrator(store, intensity=1000, handle_signals=False) as orchestrator:
            await orchestrator.start(harness, name="live").wait()


async def assert_the_same_books(venue: RunningVenue, options: CcxtOptions, says: Known, exchange: str = "binance") -> None:
    """Hold what a harness knows, and what has been filled since, against the books of the venue: exactly."""
    venue.control("calm")
    await closed(venue)
    books, book = venue.books(), says.book
    at_the_venue = sorted(order[0] for order in venue.control("orders"))
    assert at_the_venue == sorted(set(at_the_venue)) == list(says.taken)
    for fill in await CcxtBroker(exchange, in_dialect(options, exchange, venue.url)).fills([BTC, ETH], book.last_fill):
        book = book.after(fill)
    assert book.cash == Decimal(books["balances"]["USDT"])
    assert [book.units(BTC), book.units(ETH)] == [Decimal(books["balances"][asset]) for asset in ("BTC", "ETH")]


async def test_a_harness_that_is_stopped_again_and_again_has_the_books_of_the_venue(
    venue: RunningVenue, options: CcxtOptions, tmp_path: Path
) -> None:
    venue.hostile(evolve(HOSTILE, limited=0.0, restart=0.0, late_s=0.5))
    start = datetime.now(UTC) - timedelta(minutes=SLICES + 1)
    lives = 0
    while (harness := make(options, start, SLICES)) and lives < 30:
        lives += 1
        await live(tmp_path / "run.db", harness, 0.5 + lives / 4)
        if harness.is_complete():
            break

    assert lives > 1
    assert len(known(harness).taken) > SLICES
    await assert_the_same_books(venue, options, known(harness))


@pytest.mark.parametrize("exchange", SPOKEN)
async def test_a_harness_that_is_killed_at_random_moments_has_the_books_of_the_venue_and_no_order_twice(
    venue: RunningVenue, options: CcxtOptions, tmp_path: Path, exchange: str
) -> None:
    # Where a request lapses after 3.5 s, fewer of them are not taken: each costs that long.
    lapsing = {"ignored": 0.01, "late": 0.02, "broken": 0.0, "moved": 0.0} if exchange in ("kraken", "coinbase") else {}
    venue.hostile(evolve(HOSTILE, limited=0.0, restart=0.0, late_s=0.5, **lapsing))
    start = datetime.now(UTC) - timedelta(minutes=2 * SLICES + 1)
    program = ["-m", "tests.venue.trading", tmp_path / "run.db", f"--venue={venue.url}"]
    arguments = [
        f"--start={start.isoformat()}",
        f"--slices={2 * SLICES}",
        f"--kills={8 if exchange == 'binance' else 5}",
        "--seed=1",
    ]
    arguments.append(f"--exchange={exchange}")

    zygote.preload("ccxt")
    start_program = partial(zygote.run_python, *program, *arguments, capture_output=True, cwd=ROOT, timeout=150)
    done = await trio.to_thread.run_sync(start_program)

    says = msgspec.json.decode(done.stdout, type=Known)
    assert says.kills > 3
    assert len(says.taken) > 2 * SLICES
    await assert_the_same_books(venue, options, says, exchange)


async def test_harnesses_on_one_account_that_are_killed_have_each_its_own_fills_and_together_the_account(
    venue: RunningVenue, options: CcxtOptions, tmp_path: Path
) -> None:
    venue.hostile(evolve(HOSTILE, limited=0.0, restart=0.0, late_s=0.5))
    before = venue.books()["balances"]
    start = datetime.now(UTC) - timedelta(minutes=SLICES + 1)
    program = ["-m", "tests.venue.trading", tmp_path / "run.db", f"--venue={venue.url}", "--members=2", "--longest=1"]
    arguments = [f"--start={start.isoformat()}", f"--slices={SLICES}", "--kills=4", "--seed=2"]

    zygote.preload("ccxt")
    start_program = partial(zygote.run_python, *program, *arguments, capture_output=True, cwd=ROOT, timeout=100)
    done = await trio.to_thread.run_sync(start_program)

    says = msgspec.json.decode(done.stdout, type=Known)
    venue.control("calm")
    await closed(venue)
    account = SharedAccount("main", CcxtBroker("binance", options), path=tmp_path / "run.account")
    await account.advance([BTC, ETH])
    members, after = account.books().members, venue.books()["balances"]
    assert says.kills > 2
    at_the_venue = sorted(order[0] for order in venue.control("orders"))
    assert at_the_venue == sorted(set(at_the_venue)) == list(says.taken)
    for name, known_book in says.shares.items():
        since = account.ledger.fills(name, {symbol: known_book.last_fill.get(symbol) for symbol in (BTC, ETH)})
        assert reduce(Book.after, since, known_book) == members[name]
    assert [book.turnover > 0 for book in members.values()] == [True, True]
    assert sum(SHARE - book.cash for book in members.values()) == Decimal(before["USDT"]) - Decimal(after["USDT"])
    for asset, symbol in (("BTC", BTC), ("ETH", ETH)):
        held = sum((book.units(symbol) for book in members.values()), Decimal(0))
        assert held == Decimal(after[asset]) - Decimal(before[asset])
