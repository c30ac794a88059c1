"""Several harnesses on one account: each has its sub-book, and together they are the account."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
import trio

from harnesses import HarnessMisuse
from harnesses.runtime import LocalRuntime
from harnesses.trading import (
    Bar,
    BooksDiffer,
    BrokerUnavailable,
    Fees,
    Fill,
    MarketSlice,
    OrderKind,
    OrderReport,
    PaperBroker,
    PlacedOrder,
    SharedAccount,
    Side,
    Source,
    TradingHarness,
    VenueAccount,
)
from harnesses.trading.position_book import Book
from harnesses.trading.sharing.account_ledger import AccountLedger
from harnesses.trading.sharing.shared_books import SharedBooks

from .test_trading_harness import FIRST, always, feed, order, plan

CASH = Decimal(1000)


class Exchange:
    """Shows a paper broker as an exchange: one account for all, not divided on paper."""

    def __init__(self, venue: PaperBroker) -> None:
        self._venue = venue

    def __getattr__(self, name: str) -> object:
        return getattr(self._venue, name)


def fees() -> Fees:
    return Fees(rate=Decimal("0.001"))


async def run_all(**harnesses: TradingHarness) -> None:
    """Run harnesses side by side, to their ends."""
    async with trio.open_nursery() as nursery:
        for name, harness in harnesses.items():
            nursery.start_soon(harness.run, LocalRuntime(name))


def units(account: SharedAccount) -> dict[str, dict[str, Decimal]]:
    """Return the units of each member."""
    return {
        name: {symbol: one.units for symbol, one in book.positions.items() if one.units}
        for name, book in account.books().members.items()
    }


async def held(account: SharedAccount, symbols: tuple[str, ...] = ("A",)) -> VenueAccount:
    return await account.broker.account(symbols)


async def test_two_strategies_trade_one_symbol_and_each_has_what_it_bought(autojump_clock):
    account = SharedAccount("main", Exchange(PaperBroker(CASH, fees=fees())))
    alpha = TradingHarness(feed([100, 101, 102, 103]), account.share("alpha", Decimal(600)), plan(d0=[order(Side.BUY, 3)]))
    beta = TradingHarness(
        feed([100, 101, 102, 103]),
        account.share("beta", Decimal(400)),
        plan(d1=[order(Side.BUY, 2)], d3=[order(Side.SELL, 1)]),
    )

    await run_all(alpha=alpha, beta=beta)

    assert units(account) == {"alpha": {"A": 3}, "beta": {"A": 1}}
    assert (alpha.state.cash, beta.state.cash) == (600 - 300 - Decimal("0.3"), 400 - 202 + 103 - Decimal("0.305"))
    assert account.books().members == {"alpha": alpha.state.book, "beta": beta.state.book}
    assert account.books().differences(await held(account)) == ()
    assert {one.fill.client_id for step in alpha.step_history for one in step.output.fills}.isdisjoint(
        {one.fill.client_id for step in beta.step_history for one in step.output.fills}
    )
    assert [one.step_history[0].output.adopted for one in (alpha, beta)] == [
        VenueAccount(Decimal(600), {}, "main"),
        VenueAccount(Decimal(400), {}, "main"),
    ]


async def test_nobody_spends_another_s_cash(autojump_clock):
    account = SharedAccount("main", Exchange(PaperBroker(CASH)))
    alpha = TradingHarness(feed([100, 100]), account.share("alpha", Decimal(250)), always(Side.BUY, 5))
    beta = TradingHarness(feed([100, 100]), account.share("beta", Decimal(700)))

    await run_all(alpha=alpha, beta=beta)

    first = alpha.step_history[1].output
    assert [str(one.order.units) for one in first.placed] == ["2"]
    assert ["cash for only" in one.reason for one in first.refused] == [True]
    assert (alpha.state.cash, beta.state.cash) == (50, 700)


async def test_more_cash_than_is_left_is_not_allotted(autojump_clock):
    account = SharedAccount("main", Exchange(PaperBroker(CASH)))
    await account.share("alpha", Decimal(700)).connect(["A"])

    with pytest.raises(HarnessMisuse, match=r"at most 300 in cash for 'beta', got 301 \(alpha 700, not allotted 300\)"):
        await account.share("beta", Decimal(301)).connect(["A"])

    again = account.share("alpha", Decimal(1))
    await again.connect(["A"])
    assert again.lacks == ("account main: alpha keeps the sub-book that it began with 700, not 1",)
    with pytest.raises(HarnessMisuse, match="from 0 up"):
        account.share("gamma", Decimal("NaN"))
    with pytest.raises(HarnessMisuse, match="name the account"):
        SharedAccount("", PaperBroker())


async def trade(broker: PaperBroker, side: Side, count: int) -> None:
    """Trade by hand, as a person would at the venue."""
    await broker.observe(MarketSlice(FIRST, {"A": Bar(*[Decimal(100)] * 4, Decimal(1))}))
    await broker.submit(PlacedOrder(f"by-hand-{side}-{count}", order(side, count), Source.OPERATOR, FIRST))


async def test_a_trade_by_hand_ends_in_books_that_differ_with_every_part_until_one_adopts_it(autojump_clock):
    broker = PaperBroker(CASH)
    account = SharedAccount("main", Exchange(broker))
    await run_all(
        alpha=TradingHarness(feed([100]), account.share("alpha", Decimal(500)), always(Side.BUY, 2)),
        beta=TradingHarness(feed([100]), account.share("beta", Decimal(300)), always(Side.BUY, 1)),
    )
    await trade(broker, Side.BUY, 1)

    def again() -> TradingHarness:
        return TradingHarness(feed([100, 100]), account.share("beta", Decimal(300)), plan())

    with pytest.raises(BooksDiffer) as raised:
        await again().run()

    assert str(raised.value).endswith(
        "cash: expected 700.00 (alpha 300.00, beta 200.00, not allotted 200), was 600.00; "
        "A: expected 3 units (alpha 2, beta 1, not allotted 0), was 4"
    )
    harness, runtime = again(), LocalRuntime("beta")
    await runtime.send("beta", {"do": "adopt"})
    await harness.run(runtime)
    assert (harness.state.cash, harness.state.book.units("A")) == (100, 2)
    assert units(account) == {"alpha": {"A": 2}, "beta": {"A": 2}}
    assert account.books().differences(await held(account)) == ()


async def test_a_sale_by_hand_is_adopted_only_by_the_harness_that_had_the_units(autojump_clock):
    broker = PaperBroker(CASH)
    account = SharedAccount("main", Exchange(broker))
    await run_all(alpha=TradingHarness(feed([100]), account.share("alpha", Decimal(500)), always(Side.BUY, 2)))
    beta = account.share("beta", Decimal(100))
    await beta.connect(["A"])
    await trade(broker, Side.SELL, 2)

    with pytest.raises(HarnessMisuse, match="'beta' cannot adopt it: A: expected at least 2 units for the others, was 0"):
        await beta.take_over()
    await account.share("alpha", Decimal(500)).take_over()

    assert (units(account), account.books().members["alpha"].cash) == ({"alpha": {}, "beta": {}}, 500)


async def test_what_was_on_the_account_before_is_nobody_s_until_it_is_adopted(autojump_clock):
    broker = PaperBroker(CASH)
    await trade(broker, Side.BUY, 4)
    account = SharedAccount("main", Exchange(broker))
    alpha = account.share("alpha", Decimal(100))
    await alpha.connect(["A"])

    assert (units(account), await alpha.account(["A"])) == ({"alpha": {}}, VenueAccount(Decimal(100), {}, "main"))
    await alpha.take_over()
    assert (units(account), account.books().members["alpha"].cash) == ({"alpha": {"A": 4}}, 100)


async def test_splits_change_every_sub_book_once(autojump_clock):
    account = SharedAccount("main", Exchange(PaperBroker(CASH)))
    closes, splits = [100, 50, 50], {1: 2}
    alpha = TradingHarness(feed(closes, splits), account.share("alpha", Decimal(500)), plan(d0=[order(Side.BUY, 2)]))
    beta = TradingHarness(feed(closes, splits), account.share("beta", Decimal(500)), plan(d0=[order(Side.BUY, 1)]))

    await run_all(alpha=alpha, beta=beta)

    assert units(account) == {"alpha": {"A": 4}, "beta": {"A": 2}}
    assert account.books().members == {"alpha": alpha.state.book, "beta": beta.state.book}
    assert account.books().differences(await held(account)) == ()


async def test_an_exit_belongs_to_the_harness_of_its_entry(autojump_clock):
    account = SharedAccount("main", Exchange(PaperBroker(CASH)))
    entry = order(Side.BUY, 2, stop_loss=Decimal(95), take_profit=Decimal(110))
    alpha = TradingHarness(feed([100, 101, 120]), account.share("alpha", Decimal(500)), plan(d0=[entry]))
    beta = TradingHarness(feed([100, 101, 120]), account.share("beta", Decimal(500)), plan(d0=[order(Side.BUY, 1)]))

    await run_all(alpha=alpha, beta=beta)

    assert units(account) == {"alpha": {}, "beta": {"A": 1}}
    assert alpha.state.cash > 500
    assert account.books().members == {"alpha": alpha.state.book, "beta": beta.state.book}
    assert account.books().differences(await held(account)) == ()


class Dying(PaperBroker):
    """Takes an order, and once its answer is lost."""

    is_dying = False

    async def submit(self, placed: PlacedOrder) -> OrderReport:
        report = await super().submit(placed)
        if self.is_dying:
            self.is_dying = False
            raise BrokerUnavailable("the answer was lost")
        return report


async def test_a_fill_whose_answer_was_lost_is_attributed_once(autojump_clock):
    broker = Dying(CASH)
    account = SharedAccount("main", Exchange(broker))
    broker.is_dying = True

    await run_all(
        alpha=TradingHarness(feed([100, 100]), account.share("alpha", Decimal(500)), plan(d0=[order(Side.BUY, 2)])),
        beta=TradingHarness(feed([100, 100]), account.share("beta", Decimal(500)), plan(d1=[order(Side.BUY, 1)])),
    )

    assert (broker.is_dying, units(account)) == (False, {"alpha": {"A": 2}, "beta": {"A": 1}})
    assert account.books().differences(await held(account)) == ()


async def test_members_in_other_processes_share_the_file(tmp_path: Path):
    broker, path = PaperBroker(CASH), tmp_path / "account"
    here, there = (SharedAccount("main", Exchange(broker), path=path) for _ in range(2))
    alpha, beta = here.share("alpha", Decimal(600)), there.share("beta", Decimal(400))
    for share in (alpha, beta):
        await share.connect(["A"])
    await alpha.observe(MarketSlice(FIRST, {"A": Bar(*[Decimal(100)] * 4, Decimal(1))}))
    limit = order(Side.BUY, 1, kind=OrderKind.LIMIT, limit_price=Decimal(90))
    for share, id, wanted in ((alpha, "a", order(Side.BUY, 3)), (beta, "b", order(Side.BUY, 2)), (beta, "c", limit)):
        await share.submit(PlacedOrder(id, wanted, Source.STRATEGY, FIRST))

    listed = {name: [fill.client_id for fill in await share.fills(["A"], {})] for name, share in (("a", alpha), ("b", beta))}

    assert listed == {"a": ["a"], "b": ["b"]}
    assert [[one.client_id for one in await share.open_orders(["A"])] for share in (alpha, beta)] == [[], ["c"]]
    assert await alpha.fills(["A"], {"A": "1"}) == []
    assert [await share.differences() for share in (alpha, beta)] == [(), ()]
    assert units(here) == units(there) == {"alpha": {"A": 3}, "beta": {"A": 2}}
    with pytest.raises(HarnessMisuse, match="expected one of 'alpha', was one of 'beta'"):
        await alpha.submit(PlacedOrder("b", limit, Source.STRATEGY, FIRST))


async def test_another_venue_or_another_file_is_refused(tmp_path: Path):
    path = tmp_path / "account"
    await SharedAccount("main", Exchange(PaperBroker(CASH)), path=path).share("alpha", CASH).connect(["A"])

    with pytest.raises(HarnessMisuse, match="'main' is at paper: expected the same broker"):
        await SharedAccount("main", Exchange(PaperBroker(CASH, name="other")), path=path).share("beta", CASH).connect(["A"])
    (tmp_path / "text").write_text("no database at all, but long enough to be looked at" * 20)
    with pytest.raises(BrokerUnavailable, match="cannot be used"):
        AccountLedger(tmp_path / "text").books()
    with pytest.raises(HarnessMisuse, match="expected a harness that has joined"):
        SharedAccount("new", PaperBroker(CASH)).books()


def test_a_fill_is_booked_once_whoever_reads_it(tmp_path: Path):
    ledgers = [AccountLedger(tmp_path / "account") for _ in range(2)]
    empty = VenueAccount(CASH, {})
    opened = SharedBooks("main", "paper", Book(CASH)).with_symbols(["A"], empty, {}).with_member("alpha", CASH)
    ledgers[0].change(lambda _: opened)
    assert [ledger.claim("ours", "alpha") for ledger in ledgers] == ["alpha", "alpha"]
    told = [
        Fill(id, client_id, "A", Side.BUY, Decimal(1), Decimal(10), Decimal(0), FIRST)
        for id, client_id in (("x", "ours"), ("y", "theirs"), ("z", "ours"))
    ]

    for ledger in ledgers:
        ledger.take(told[:2])
        ledger.take(told)

    books = ledgers[0].books()
    assert (books.members["alpha"].units("A"), books.members["alpha"].cash, dict(books.last_fill)) == (2, 980, {"A": "z"})
    assert [one.fill_id for one in ledgers[1].fills("alpha", {"A": "x"})] == ["z"]
