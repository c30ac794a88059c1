"""What a paper venue has acknowledged is there once, whatever happens to the program; in memory and in a file alike."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal as Dec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio
from hypothesis import given, settings

from harnesses.errors import HarnessMisuse
from harnesses.trading.market.bars import Bar, MarketSlice
from harnesses.trading.market.broker import Broker, BrokerUnavailable, OrderRefused, VenueAccount
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import Fill, Order, OrderKind, OrderReport, OrderStatus, PlacedOrder, Side, Source
from harnesses.trading.paper.paper_books import Fees, Rules
from harnesses.trading.paper.paper_broker import PaperBroker
from harnesses.trading.position_book import Book, differences
from tests import ROOT
from tests.harnesses.trading import paper_child, paper_flows
from tests.harnesses.trading.paper_flows import Action, Cancel, assert_money_is_conserved
from tests.zygote import Program

START = datetime(2024, 1, 1, tzinfo=UTC)


def slice_(day: int, price: str = "100", *, symbols: str = "A") -> MarketSlice:
    bar = Bar(Dec(price), Dec(price), Dec(price), Dec(price), Dec(1000))
    return MarketSlice(START + timedelta(days=day), dict.fromkeys(symbols, bar))


def order(id: str, side: Side, units: str, *, limit: str | None = None, symbol: str = "A") -> PlacedOrder:
    kind = OrderKind.LIMIT if limit else OrderKind.MARKET
    return PlacedOrder(id, Order(symbol, side, Dec(units), kind, Dec(limit) if limit else None), Source.STRATEGY, START)


@pytest.fixture(params=["memory", "file"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PaperBroker]:
    path = tmp_path / "either.db" if request.param == "file" else None
    with closing(PaperBroker(path=path)) as broker:
        yield broker


async def test_it_is_a_broker(broker: Broker) -> None:
    assert await broker.connect(["A"]) == {"A": Instrument("A", lot=Dec(1), tick=None)}
    assert await broker.account(["A"]) == VenueAccount(Dec(10_000), {})


async def test_an_order_is_placed_once_for_each_id(broker: PaperBroker) -> None:
    await broker.observe(slice_(1))
    first = await broker.submit(order("a", Side.BUY, "10"))
    open_ = await broker.submit(order("b", Side.BUY, "10", limit="50"))

    assert await broker.submit(order("a", Side.BUY, "10")) == first
    assert await broker.submit(order("b", Side.BUY, "10", limit="50")) == open_
    assert len(await broker.fills(["A"], {})) == 1
    assert await broker.account(["A"]) == VenueAccount(Dec(9000), {"A": Dec(10)})


async def test_what_became_of_an_order_can_be_asked_by_its_id(broker: PaperBroker) -> None:
    await broker.observe(slice_(1))
    report = await broker.submit(order("a", Side.BUY, "10", limit="90"))

    assert await broker.find(order("a", Side.BUY, "10", limit="90")) == report
    assert await broker.find(order("b", Side.BUY, "10")) is None
    await broker.observe(slice_(2, "89"))
    found = await broker.find(order("a", Side.BUY, "10", limit="90"))
    assert found is not None
    assert (found.status, found.filled) == (OrderStatus.FILLED, Dec(10))


async def test_a_refused_order_was_never_placed(broker: PaperBroker) -> None:
    await broker.observe(slice_(1))

    with pytest.raises(OrderRefused, match="order a was refused: cash"):
        await broker.submit(order("a", Side.BUY, "1000"))

    assert await broker.find(order("a", Side.BUY, "1000")) is None
    assert await broker.open_orders(["A"]) == []


async def test_cancelling_is_the_same_twice_and_nothing_for_an_unknown_order(broker: PaperBroker) -> None:
    await broker.submit(order("a", Side.BUY, "10", limit="90"))

    first = await broker.cancel("a", "A")

    assert first is not None
    assert first.status is OrderStatus.CANCELLED
    assert await broker.cancel("a", "A") == first
    assert await broker.cancel("b", "A") is None


async def test_fills_are_told_by_symbol_in_the_venue_s_order_after_the_last_known(broker: PaperBroker) -> None:
    await broker.observe(slice_(1, symbols="ABC"))
    for number, symbol in enumerate("ABABC"):
        await broker.submit(order(f"{number}", Side.BUY, "1", symbol=symbol))

    async def ids(symbols: str, **after: str) -> list[str]:
        return [fill.fill_id for fill in await broker.fills(list(symbols), after)]

    assert await ids("ABC") == ["1", "2", "3", "4", "5"]
    assert await ids("AB", A="1") == ["2", "3", "4"]
    assert await ids("BA", A="3", B="2") == ["4"]
    assert await ids("C", A="3") == ["5"]


async def test_fills_that_this_venue_never_made_show_that_the_books_are_others() -> None:
    with pytest.raises(HarnessMisuse, match=r"fills of A after '7': expected a fill from 1 to 0; these are not the books"):
        await PaperBroker().fills(["A"], {"A": "7"})


async def test_open_orders_and_positions_are_those_of_the_symbols_asked_for(broker: PaperBroker) -> None:
    await broker.observe(slice_(1, symbols="AB"))
    await broker.submit(order("a", Side.BUY, "10", limit="90"))
    await broker.submit(order("b", Side.BUY, "1", symbol="B"))

    assert [report.client_id for report in await broker.open_orders(["A", "B"])] == ["a"]
    assert await broker.open_orders(["B"]) == []
    assert (await broker.account(["A"])).positions == {}
    assert (await broker.account(["A", "B"])).positions == {"B": Dec(1)}


async def test_a_venue_has_the_instruments_it_was_given_and_no_others() -> None:
    broker = PaperBroker(instruments={"A": Instrument("A", lot=Dec("0.1"))})

    assert (await broker.connect(["A"]))["A"].lot == Dec("0.1")
    with pytest.raises(HarnessMisuse, match="paper venue paper: it has no symbol 'B': expected one of A"):
        await broker.connect(["A", "B"])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: PaperBroker(Dec(-1)), "PaperBroker: cash: expected a number from 0 up, was -1"),
        (lambda: PaperBroker(Dec("NaN")), "PaperBroker: cash"),
        (lambda: PaperBroker(slippage_bps=Dec(10_000)), "Rules: slippage_bps: expected at least 0 and below 10000"),
        (lambda: PaperBroker(max_share=Dec(0)), "Rules: max_share: expected a part above 0 and at most 1, was 0"),
        (lambda: PaperBroker(fill_at="open"), "Rules: fill_at: expected 'close' or 'next_open', was 'open'"),  # type: ignore[arg-type]
        (lambda: PaperBroker(fees=Fees(rate=Dec("-0.1"))), r"Fees: rate: expected a number from 0 up, was -0\.1"),
    ],
)
def test_no_venue_has_such_terms(make: Callable[[], PaperBroker], why: str) -> None:
    with pytest.raises(HarnessMisuse, match=why):
        make()


async def test_a_file_opens_where_it_was(tmp_path: Path) -> None:
    with closing(PaperBroker(path=tmp_path / "venue.db")) as broker:
        await broker.observe(slice_(1))
        await broker.submit(order("a", Side.BUY, "10"))
        await broker.submit(order("b", Side.BUY, "5", limit="90"))
        before = await everything(broker)

    with closing(PaperBroker(Dec(77), path=tmp_path / "venue.db")) as again:
        assert await everything(again) == before
        await again.observe(slice_(1, "50"))
        assert await everything(again) == before


async def test_a_new_file_has_its_first_cash_at_once(tmp_path: Path) -> None:
    PaperBroker(Dec(500), path=tmp_path / "venue.db").close()

    with closing(PaperBroker(Dec(900), path=tmp_path / "venue.db")) as again:
        assert (await again.account(["A"])).cash == Dec(500)


async def everything(broker: PaperBroker) -> tuple[VenueAccount, list[Fill], list[OrderReport]]:
    """Return all that a harness can see of a venue."""
    symbols = paper_flows.SYMBOLS
    return await broker.account(symbols), list(await broker.fills(symbols, {})), list(await broker.open_orders(symbols))


@settings(max_examples=12)
@given(paper_flows.flows, paper_flows.rules)
def test_over_any_flow_a_file_opened_anew_for_each_call_says_what_memory_says(flow: list[Action], rules: Rules) -> None:
    async def both() -> None:
        with TemporaryDirectory() as folder:
            in_memory, book, known = made(rules, None), Book(paper_flows.CASH), dict[str, str]()
            for number, action in enumerate(flow):
                said = await play(in_memory, number, action)
                with closing(made(rules, Path(folder) / "venue.db")) as in_file:
                    assert await play(in_file, number, action) == said
                    assert await everything(in_file) == await everything(in_memory)
                fills = await in_memory.fills(paper_flows.SYMBOLS, known)
                book = paper_flows.after_slice(
                    book, paper_flows.market(number, action if isinstance(action, dict) else {}), fills
                )
                known = dict(book.last_fill)
                account, all_fills, _ = await everything(in_memory)
                assert_money_is_conserved(account, all_fills)
                assert differences(book, account) == ()

    trio.run(both)


def made(rules: Rules, path: Path | None) -> PaperBroker:
    return PaperBroker(
        paper_flows.CASH,
        instruments=rules.instruments,
        fees=rules.fees,
        slippage_bps=rules.slippage_bps,
        max_share=rules.max_share,
        fill_at=rules.fill_at,
        path=path,
    )


async def play(broker: PaperBroker, number: int, action: Action) -> object:
    """Do an action; return what the venue says to it. An order whose id it has had already must change nothing."""
    if isinstance(action, Cancel):
        return await broker.cancel(f"order-{action.number}", "A")
    if isinstance(action, dict):
        await broker.observe(paper_flows.market(number, action))
        return None
    return await submit_twice(broker, paper_flows.placed(action, START))


async def submit_twice(broker: PaperBroker, placed: PlacedOrder) -> object:
    had, before = await broker.find(placed), await everything(broker)
    try:
        report = await broker.submit(placed)
    except OrderRefused as refused:
        assert had is None
        return str(refused)
    assert had is None or (report == had and await everything(broker) == before)
    after = await everything(broker)
    assert await broker.submit(placed) == report
    assert await everything(broker) == after
    return report


async def test_what_changes_nothing_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "venue.db"
    with closing(PaperBroker(path=path)) as broker, closing(sqlite3.connect(path)) as other:
        await broker.observe(slice_(2))
        await broker.submit(order("a", Side.BUY, "10"))
        version = other.execute("PRAGMA data_version").fetchone()

        await broker.observe(slice_(2))
        await broker.observe(slice_(1))
        await broker.submit(order("a", Side.BUY, "10"))
        await broker.cancel("a", "A")

        assert other.execute("PRAGMA data_version").fetchone() == version
        await broker.observe(slice_(3))
        assert other.execute("PRAGMA data_version").fetchone() != version


async def test_a_second_broker_on_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "venue.db"
    with closing(PaperBroker(path=path)), pytest.raises(BrokerUnavailable, match=r"venue\.db is in use by process \d+"):
        PaperBroker(path=path)

    PaperBroker(path=path).close()


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "venue.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE mine (x)")
    text = tmp_path / "notes.txt"
    text.write_text("buy low, sell high; " * 100)

    with pytest.raises(BrokerUnavailable, match="is a database of another kind: expected a paper venue's"):
        PaperBroker(path=path)
    with pytest.raises(BrokerUnavailable, match=r"notes\.txt cannot be opened: file is not a database"):
        PaperBroker(path=text)
    with pytest.raises(BrokerUnavailable, match="cannot be created"):
        PaperBroker(path=tmp_path / "nowhere" / "venue.db")


async def test_after_a_write_that_failed_nothing_is_answered_until_the_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "venue.db"
    with closing(PaperBroker(path=path)) as broker, closing(sqlite3.connect(path)) as other:
        await broker.observe(slice_(1))
        other.execute("CREATE TRIGGER full BEFORE INSERT ON fills BEGIN SELECT RAISE(FAIL, 'disk full'); END")
        with pytest.raises(BrokerUnavailable, match="cannot be written: disk full"):
            await broker.submit(order("a", Side.BUY, "10"))
        other.execute("DROP TRIGGER full")
        asked: list[Callable[[], Awaitable[object]]] = [
            lambda: broker.find(order("a", Side.BUY, "10")),
            lambda: broker.account(["A"]),
            lambda: broker.open_orders(["A"]),
            lambda: broker.submit(order("a", Side.BUY, "10")),
        ]
        for ask in asked:
            with pytest.raises(BrokerUnavailable, match="had a write interrupted; open it again"):
                await ask()

    with closing(PaperBroker(path=path)) as again:
        assert await again.find(order("a", Side.BUY, "10")) is None
        assert (await again.submit(order("a", Side.BUY, "10"))).status is OrderStatus.FILLED


async def test_every_order_acknowledged_before_a_kill_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "venue.db"
    acknowledged: list[str] = []
    for life, orders in enumerate((1, 60)):
        acknowledged += live_and_be_killed(path, life, orders)

        with closing(PaperBroker(path=path)) as broker:
            account, fills, _ = await everything(broker)
            by_order = {fill.client_id: fill for fill in fills}
            assert len(by_order) == len(fills)
            assert set(acknowledged) <= set(by_order)
            assert_money_is_conserved(account, fills)
            for id in acknowledged:
                report = await broker.submit(paper_child.placed(id))
                assert report.filled == by_order[id].units
            assert (await everything(broker))[1] == fills


def live_and_be_killed(path: Path, life: int, orders: int) -> list[str]:
    """Run the program until it has acknowledged so many orders, kill it, and return all that it has acknowledged."""
    command = ["-m", "tests.harnesses.trading.paper_child", str(path), str(life)]
    with Program(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(orders)]
        with pytest.raises(BrokerUnavailable, match=f"in use by process {process.pid}"):
            PaperBroker(path=path)
        process.kill()
        lines += process.stdout.readlines()
    assert all(line.endswith("\n") for line in lines)
    return [line.strip() for line in lines]
