"""Several harnesses on one paper account: each has a venue of its own, so that nobody is filled at another's prices."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from harnesses import HarnessMisuse
from harnesses.runtime import LocalRuntime
from harnesses.trading import (
    Fees,
    Order,
    OrderKind,
    PaperBroker,
    PlacedOrder,
    SharedAccount,
    Side,
    Source,
    Strategy,
    TradingHarness,
    VenueAccount,
)
from harnesses.trading.paper.paper_broker import PaperBrokerLater

from .test_trading_harness import CLOSES, FIRST, always, feed, fills, order, outputs, plan, strategy
from .test_trading_shared import run_all, units

CASH = {"alpha": Decimal(6000), "beta": Decimal(3000)}
SPLITS = {20: 2, 40: 3}


def trading() -> Strategy:
    """Buy with a limit, a stop-loss or at the market, and sell again, by the day."""

    def decide(market) -> list[Order]:
        if not market.quotes:
            return []
        day, close = (market.time - FIRST).days, market.quotes["A"].close
        if day % 7 == 5 and market.quotes["A"].units:
            return [order(Side.SELL, market.quotes["A"].units // 2 or 1)]
        if day % 5 == 1:
            return [order(Side.BUY, 2, kind=OrderKind.LIMIT, limit_price=close - 3)]
        return [order(Side.BUY, 1, stop_loss=close - 8)] if day % 3 == 0 else []

    return strategy(decide)


def harness_on(broker: object, period_s: float = 1.0) -> TradingHarness:
    return TradingHarness(feed(splits=SPLITS), broker, trading(), period_s=period_s)


def files(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir() if not one.name.endswith(("-wal", "-shm", ".lock"))}


def told(harness: TradingHarness) -> list[tuple]:
    """Return each fill, and the account after each slice."""
    return [fills(harness), [(one.time, one.equity, one.cash) for one in outputs(harness)], harness.state.book]


async def shared(periods_s: dict[str, float], **more: object) -> tuple[SharedAccount, dict[str, TradingHarness]]:
    account = SharedAccount("main", PaperBroker(Decimal(10_000), fees=Fees(rate=Decimal("0.001")), **more))
    harnesses = {name: harness_on(account.share(name, CASH[name]), period_s) for name, period_s in periods_s.items()}
    await run_all(**harnesses)
    return account, harnesses


@pytest.mark.parametrize("fill_at", ["close", "next_open"])
async def test_harnesses_over_one_recording_trade_as_each_alone_whoever_is_ahead(autojump_clock, fill_at):
    paper = {"fees": Fees(rate=Decimal("0.001")), "fill_at": fill_at}
    alone = {name: harness_on(PaperBroker(cash, **paper)) for name, cash in CASH.items()}
    for harness in alone.values():
        await harness.run()

    for periods_s in ({"alpha": 1.0, "beta": 0.3}, {"alpha": 0.005, "beta": 2.0}, {"alpha": 0, "beta": 0.005}):
        account, harnesses = await shared(periods_s, fill_at=fill_at)
        assert [told(one)[0] for one in harnesses.values()] == [told(one)[0] for one in alone.values()]
        assert [told(one)[2] for one in harnesses.values()] == [told(one)[2] for one in alone.values()]
        if 0 not in periods_s.values():
            assert [told(one) for one in harnesses.values()] == [told(one) for one in alone.values()]
        assert account.books().members == {name: one.state.book for name, one in harnesses.items()}
        assert account.books().spare.cash == 1000
    assert all(len(fills(one)) > 10 for one in alone.values())


async def test_an_order_at_the_market_is_filled_at_the_close_it_was_decided_on(autojump_clock):
    account = SharedAccount("main", PaperBroker(Decimal(10_000)))
    slow = TradingHarness(feed(), account.share("slow", Decimal(5000)), always(Side.BUY, 1), period_s=1.0)
    ahead = TradingHarness(feed(), account.share("ahead", Decimal(5000)), period_s=0.1)

    await run_all(slow=slow, ahead=ahead)

    assert [price for _, _, _, price, _ in fills(slow)][:20] == CLOSES[:20]


async def test_members_in_other_processes_have_files_of_their_own_and_go_on_with_them(autojump_clock, tmp_path: Path):
    def member(name: str, cash: Decimal = Decimal(400)) -> tuple[SharedAccount, TradingHarness]:
        """Return what a process has that runs one of the two."""
        account = SharedAccount("main", PaperBrokerLater(tmp_path / "venue", Decimal(1000)), path=tmp_path / "account")
        buys = plan(d0=[order(Side.BUY, 2)], d1=[order(Side.SELL, 1)])
        return account, TradingHarness(feed([100, 110]), account.share(name, cash), buys)

    (here, alpha), (there, beta) = member("alpha"), member("b/eta")
    await run_all(**{"alpha": alpha, "b/eta": beta})

    assert files(tmp_path) == {"account", "venue-alpha", "venue-b%2Feta"}
    assert units(here) == units(there) == {"alpha": {"A": 1}, "b/eta": {"A": 1}}
    assert here.books().spare.cash == 200
    (_, again), (_, third) = member("alpha", Decimal(1)), member("gamma", Decimal(201))
    await run_all(alpha=again)
    assert again.step_history[0].output.adopted == VenueAccount(Decimal(310), {"A": Decimal(1)}, "main")
    with pytest.raises(HarnessMisuse, match="at most 200 in cash for 'gamma', got 201"):
        await third.run()
    assert files(tmp_path) == {"account", "venue-alpha", "venue-b%2Feta"}


async def test_in_memory_a_member_goes_on_at_its_venue_with_its_cash(autojump_clock, tmp_path: Path):
    account = SharedAccount("main", PaperBroker(Decimal(1000)), path=tmp_path / "account")
    await run_all(alpha=TradingHarness(feed([100]), account.share("alpha", Decimal(700)), always(Side.BUY, 2)))

    again = account.share("alpha", Decimal(1))
    await again.connect(["A"])

    assert again.lacks == ("account main: alpha keeps the sub-book that it began with 700, not 1",)
    assert await again.account(["A"]) == VenueAccount(Decimal(500), {"A": Decimal(2)}, "main")
    assert not files(tmp_path), "books of an account whose venues end with the program end with it too"


@pytest.mark.parametrize("adopts", [False, True])
async def test_the_sub_book_is_what_the_member_has_also_after_a_trade_by_hand(autojump_clock, adopts):
    account = SharedAccount("main", PaperBroker(Decimal(1000)))
    share, runtime = account.share("alpha", Decimal(700)), LocalRuntime("alpha")
    first = TradingHarness(feed([100, 100]), share, always(Side.BUY, 1))
    await first.run()
    await share.submit(PlacedOrder("by-hand", order(Side.SELL, 1), Source.OPERATOR, FIRST))

    if adopts:
        await runtime.send("alpha", {"do": "adopt"})
    again = TradingHarness(feed([100] * 3), share, initial_state=first.state)
    await again.run(runtime)

    sub_book = account.books().members["alpha"]
    book = again.state.book
    assert (sub_book.cash, sub_book.units("A")) == (book.cash, book.units("A"))
    assert units(account) == {"alpha": {"A": 1}}
