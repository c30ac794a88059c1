"""Each proven dialect at a venue that speaks it: no order twice, found by the right id, every fill told."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from string import ascii_letters, digits

import pytest
import trio
from attrs import evolve
from trio.testing import wait_all_tasks_blocked

from harnesses.errors import HarnessMisuse
from harnesses.trading.exchange import ccxt_broker
from harnesses.trading.exchange.ccxt_broker import CcxtBroker
from harnesses.trading.exchange.ccxt_client import CcxtClient, CcxtOptions
from harnesses.trading.exchange.exchange_dialects import dialect_of, lacks, missing
from harnesses.trading.market.bars import Bar, MarketSlice
from harnesses.trading.market.broker import BrokerUnavailable, OrderRefused
from harnesses.trading.market.orders import (
    AT_ONCE,
    OrderKind,
    OrderReport,
    OrderStatus,
    PlacedOrder,
    Side,
    TimeInForce,
    exit_of,
)

from .hostility import Hostility
from .ordering import BTC, ETH, MOMENT, placed
from .running import RunningVenue, closed
from .spoken import SPOKEN, in_dialect

OTHERS = SPOKEN[1:]
HOLDING = ("okx", "bybit", "coinbase")


@pytest.fixture(params=SPOKEN)
def exchange(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def spoken(exchange: str, options: CcxtOptions, venue: RunningVenue) -> CcxtBroker:
    return CcxtBroker(exchange, in_dialect(options, exchange, venue.url))


def named(broker: CcxtBroker, order: PlacedOrder) -> PlacedOrder:
    """Return an order of now under a client id of the exchange's form."""
    return evolve(order, client_id=broker.shape_id(order.client_id), decided=datetime.now(UTC))


async def settled(broker: CcxtBroker, order: PlacedOrder) -> str:
    """Place an order as the harness does: ask what became of it if nobody says. Return what is known then."""
    try:
        await broker.submit(order)
    except BrokerUnavailable:
        return "found" if await broker.find(order) else "not taken"
    except OrderRefused:
        return "refused"
    return "placed"


async def test_what_is_bought_is_in_the_account_and_every_fill_is_told_with_its_order(
    spoken: CcxtBroker, venue: RunningVenue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ccxt_broker, "_PAGE", 3)
    rules = await spoken.connect([BTC, ETH])
    orders = [named(spoken, placed(f"n-{number}", units="0.01")) for number in range(7)]

    reports = [await spoken.submit(order) for order in orders]
    found = [await spoken.find(order) for order in orders]
    again = CcxtBroker(spoken.name.removeprefix("ccxt:"), spoken._client.options)  # pyright: ignore[reportPrivateUsage]
    fills = await again.fills([BTC], {})
    rest = await spoken.fills([BTC], {BTC: fills[3].fill_id})
    account, balances = await spoken.account([BTC, ETH]), venue.books()["balances"]

    assert rules[BTC].lot == Decimal("0.00001")
    assert [report.client_id for report in reports] == [order.client_id for order in orders]
    assert [(one and one.client_id, one and one.status) for one in found] == [
        (order.client_id, OrderStatus.FILLED) for order in orders
    ]
    assert sorted(fill.client_id for fill in fills) == sorted(order.client_id for order in orders)
    assert [fill.fill_id for fill in rest] == [fill.fill_id for fill in fills[4:]]
    assert account.positions[BTC] == Decimal(balances["BTC"]) == 10_000 + sum(fill.units - fill.fee_units for fill in fills)
    assert account.cash == Decimal(balances["USDT"]) == 10**9 - sum(fill.units * fill.price + fill.fee for fill in fills)


async def test_an_order_that_waits_is_found_listed_and_cancelled_by_its_id(spoken: CcxtBroker, venue: RunningVenue) -> None:
    order, other = (named(spoken, placed(id, kind=OrderKind.LIMIT, limit="1000.00", units="0.01")) for id in ("a-1", "a-2"))
    await spoken.submit(order)
    await spoken.submit(other)

    found, listed = await spoken.find(order), await spoken.open_orders([BTC, ETH])
    cancels = [await spoken.cancel(order.client_id, BTC), await spoken.cancel(order.client_id, BTC)]
    never = await spoken.cancel(spoken.shape_id("never-placed"), BTC)

    assert found is not None
    assert (found.status, found.kind, found.units) == (OrderStatus.OPEN, OrderKind.LIMIT, Decimal("0.01"))
    assert {one.client_id for one in listed} == {order.client_id, other.client_id}
    assert [one and (one.client_id, one.status) for one in cancels] == [(order.client_id, OrderStatus.CANCELLED)] * 2
    assert never is None
    assert [one.client_id for one in await spoken.open_orders([BTC])] == [other.client_id]


@pytest.mark.parametrize(
    "fate", ["calm", "lost", "ignored", "late:0.1", "late:9", "twice", "dropped", "broken", "broken-taken", "moved", "limited"]
)
async def test_whatever_becomes_of_a_request_its_order_is_known_and_there_once_or_never(
    spoken: CcxtBroker, exchange: str, venue: RunningVenue, fate: str
) -> None:
    if exchange in ("kraken", "coinbase") and fate in ("late:9", "broken", "moved"):
        pytest.skip("a request lapses after 3.5 s there at the earliest, and one case of it is enough")
    venue.fates(fate)
    order = named(spoken, placed("once"))

    became = await settled(spoken, order)

    await closed(venue)
    at_the_venue = [one[0] for one in venue.control("orders")]
    assert at_the_venue == ([order.client_id] if became in ("placed", "found") else [])


@pytest.mark.parametrize("id", ["harness-12-0123456789abcdef", "x-1"])
def test_the_id_of_an_effect_has_the_form_that_the_exchange_takes_and_is_always_the_same(spoken: CcxtBroker, id: str) -> None:
    dialect = spoken._dialect  # pyright: ignore[reportPrivateUsage]

    assert dialect.takes_id(spoken.shape_id(id))
    assert spoken.shape_id(id) == spoken.shape_id(id) != spoken.shape_id(f"{id}0")


@pytest.mark.parametrize("exchange", ["kraken", "okx", "coinbase"], indirect=True)
async def test_an_id_of_another_form_is_refused_before_it_is_sent(spoken: CcxtBroker, venue: RunningVenue) -> None:
    with pytest.raises(OrderRefused, match=r"as its client id at ccxt:.*; it was not sent"):
        await spoken.submit(placed("harness-12-0123456789abcdef"))

    assert venue.books()["arrivals"] == 0


@pytest.mark.parametrize("exchange", ["binance", "kraken"], indirect=True)
async def test_a_stop_waits_for_its_price_where_the_exchange_has_stops(spoken: CcxtBroker, venue: RunningVenue) -> None:
    venue.control("price", symbol="BTCUSDT", price="50000")
    stop = named(spoken, placed("stop", Side.SELL, kind=OrderKind.STOP, stop="45000.00", units="0.01"))

    await spoken.submit(stop)
    await trio.sleep(0.05)
    waiting, [listed] = await spoken.find(stop), await spoken.open_orders([BTC])
    untouched = venue.books()["trades"]
    venue.control("price", symbol="BTCUSDT", price="44999.99")
    await closed(venue)
    [fill] = await spoken.fills([BTC], {})

    assert (waiting and waiting.status, listed.kind, untouched) == (OrderStatus.OPEN, OrderKind.STOP, 0)
    assert (fill.client_id, fill.side) == (stop.client_id, Side.SELL)
    assert fill.price < 45_000


@pytest.mark.parametrize("fate", ["calm", "lost"])
async def test_an_order_that_is_to_be_filled_at_once_leaves_no_rest(
    options: CcxtOptions, venue: RunningVenue, fate: str
) -> None:
    venue.control("price", symbol="BTCUSDT", price="50000")
    broker = CcxtBroker("binance", options)

    async def at_once(id: str, limit: str, time: TimeInForce) -> tuple[OrderStatus, Decimal]:
        order = placed(id, kind=OrderKind.LIMIT, limit=limit, units="0.01")
        venue.fates(fate)
        with suppress(BrokerUnavailable):
            await broker.submit(evolve(order, order=evolve(order.order, time_in_force=time)))
        found = await broker.find(order)
        assert found is not None
        return found.status, found.filled

    for time in AT_ONCE:
        assert await at_once(f"below-{time}", "40000.00", time) == (OrderStatus.EXPIRED, 0)
        assert await at_once(f"above-{time}", "60000.00", time) == (OrderStatus.FILLED, Decimal("0.01"))
    assert await broker.open_orders([BTC]) == []


@pytest.mark.parametrize("time", [*AT_ONCE, TimeInForce.DAY])
async def test_a_time_in_force_is_refused_before_it_is_sent_where_it_is_not_tested(
    spoken: CcxtBroker, exchange: str, venue: RunningVenue, time: TimeInForce
) -> None:
    kind = OrderKind.LIMIT if time is TimeInForce.DAY else OrderKind.MARKET
    order = named(spoken, placed("a-1", kind=kind, limit="1000.00" if kind is OrderKind.LIMIT else None))

    with pytest.raises(OrderRefused, match=f"time_in_force: expected gtc.*, was {time} of a {kind} order; it was not sent"):
        await spoken.submit(evolve(order, order=evolve(order.order, time_in_force=time)))

    assert venue.books()["arrivals"] == 0


async def test_a_trailing_stop_is_held_or_refused_also_where_the_exchange_has_stops(
    options: CcxtOptions, venue: RunningVenue
) -> None:
    stop = placed("stop", Side.SELL, kind=OrderKind.STOP, stop="45000.00", units="0.01")
    stop = evolve(stop, order=evolve(stop.order, trail=Decimal(5000)))

    held = await CcxtBroker("binance", options, stops="hold").submit(stop)
    with pytest.raises(OrderRefused, match="it has no trailing stop that is tested; it was not sent"):
        await CcxtBroker("binance", options).submit(stop)

    assert (held.status, held.stop_price, venue.books()["arrivals"]) == (OrderStatus.OPEN, 45_000, 0)


@pytest.mark.parametrize("exchange", HOLDING, indirect=True)
async def test_a_stop_is_refused_before_it_is_sent_where_there_is_none(spoken: CcxtBroker, venue: RunningVenue) -> None:
    await spoken.connect([BTC])
    stop = named(spoken, placed("stop", Side.SELL, kind=OrderKind.STOP, stop="45000.00", units="0.01"))

    with pytest.raises(OrderRefused, match=r"has no stop orders in BTC/USDT: .*; it was not sent"):
        await spoken.submit(stop)

    assert venue.books()["arrivals"] == 0
    assert any("stop orders: refused before they are sent" in line for line in spoken.lacks)


def bars(minute: int, low: str) -> MarketSlice:
    """Return a slice that goes down to a price."""
    price = Decimal(50_000)
    return MarketSlice(MOMENT + timedelta(minutes=minute), {BTC: Bar(price, price, Decimal(low), price, Decimal(1))})


@pytest.mark.parametrize(
    ("exchange", "fate"), [("okx", "calm"), ("okx", "lost"), ("bybit", "dropped"), ("coinbase", "calm")], indirect=["exchange"]
)
async def test_a_held_stop_is_sent_once_when_a_bar_reaches_it_even_over_a_restart(
    exchange: str, options: CcxtOptions, venue: RunningVenue, fate: str
) -> None:
    """As a harness does after a crash: it looks at the slice again, then asks about its open orders."""
    there = in_dialect(options, exchange, venue.url)
    first = CcxtBroker(exchange, there, stops="hold")
    stop = evolve(placed("stop", Side.SELL, kind=OrderKind.STOP, stop="45000.00"), client_id=first.shape_id("stop"))
    kept, dropped = stop, evolve(stop, client_id=first.shape_id("dropped"))
    held = [await first.submit(kept), await first.submit(dropped)]
    cancelled = await first.cancel(dropped.client_id, BTC)
    await first.observe(bars(0, "44000"))
    await first.observe(bars(1, "45000.01"))

    second = CcxtBroker(exchange, there, stops="hold")
    await second.observe(bars(2, "44999"))
    venue.fates(fate)
    became: object = None
    for _ in range(3):
        try:
            became = await second.find(kept)
            break
        except BrokerUnavailable:
            await second.observe(bars(2, "44999"))
    await closed(venue)

    assert [one.status for one in held] == [OrderStatus.OPEN] * 2
    assert cancelled is not None
    assert cancelled.status is OrderStatus.CANCELLED
    assert became is not None
    assert [one[0] for one in venue.control("orders")] == [kept.client_id]


async def test_a_held_stop_that_nobody_answers_for_is_not_sent_twice_when_its_bar_is_seen_again(
    options: CcxtOptions, venue: RunningVenue
) -> None:
    broker = CcxtBroker("okx", in_dialect(options, "okx", venue.url), stops="hold")
    stop = evolve(placed("stop", Side.SELL, kind=OrderKind.STOP, stop="45000.00"), client_id=broker.shape_id("stop"))
    await broker.submit(stop)
    venue.fates("late:0.35")

    with pytest.raises(BrokerUnavailable, match="it is unknown whether"):
        await broker.observe(bars(1, "44999"))
    for minute in (1, 2):
        await broker.observe(bars(minute, "44999"))

    await closed(venue)
    found = await broker.find(stop)
    assert [one[0] for one in venue.control("orders")] == [stop.client_id]
    assert (found and found.status, await broker.open_orders([BTC])) == (OrderStatus.FILLED, [])


@pytest.mark.parametrize(
    ("exchange", "fate"),
    [("binance", "calm"), ("kraken", "lost"), ("okx", "dropped"), ("bybit", "lost"), ("coinbase", "calm")],
)
async def test_an_exit_is_held_for_what_its_entry_has_filled_and_sold_once_even_over_a_restart(
    exchange: str, options: CcxtOptions, venue: RunningVenue, fate: str
) -> None:
    """As a harness does: it asks about an exit with its entry, and after a restart looks at the slice again."""
    there = in_dialect(options, exchange, venue.url)
    first = CcxtBroker(exchange, there, stops="hold")
    prices = {"take_profit": Decimal("55000.00"), "stop_loss": Decimal("45000.00")}
    limited = placed("entry", kind=OrderKind.LIMIT, limit="1000.00", units="0.01")
    bought, waiting = (
        PlacedOrder(first.shape_id(id), evolve(one.order, **prices), one.source, MOMENT, first.shape_id(f"{id}-exit"))
        for id, one in (("bought", placed("bought", units="0.01")), ("waiting", limited))
    )
    exits = [exit for one in (bought, waiting) if (exit := exit_of(one)) is not None]
    for order in (bought, waiting):
        await first.submit(order)
    sized = [await first.find(exit) for exit in exits]
    await first.observe(bars(1, "45000.01"))
    venue.fates(fate)
    with suppress(BrokerUnavailable):
        await first.observe(bars(2, "44999"))

    second = CcxtBroker(exchange, there, stops="hold")
    known = [evolve(exits[0], entry_ended=True, order=evolve(exits[0].order, units=Decimal("0.01"))), exits[1]]
    await second.observe(bars(2, "44999"))
    became = [await second.find(exit) for exit in known]
    await second.cancel(waiting.client_id, BTC)
    ended = await second.find(exits[1])
    await closed(venue)

    assert [one and one.units for one in sized] == [Decimal("0.01"), 0]
    assert [one and one.status for one in became] == [OrderStatus.FILLED, OrderStatus.OPEN]
    assert (ended and ended.status, await second.open_orders([BTC])) == (OrderStatus.CANCELLED, [])
    placed_there = [one[0] for one in venue.control("orders")]
    assert placed_there == [bought.client_id, waiting.client_id, exits[0].client_id]


async def test_the_exit_of_an_entry_that_was_cancelled_while_it_was_held_is_not_left_open(
    options: CcxtOptions, venue: RunningVenue
) -> None:
    broker = CcxtBroker("okx", in_dialect(options, "okx", venue.url), stops="hold")
    stop = placed("entry", kind=OrderKind.STOP, stop="55000.00", units="0.01")
    order = evolve(stop.order, stop_loss=Decimal("45000.00"))
    entry = PlacedOrder(broker.shape_id("entry"), order, stop.source, MOMENT, broker.shape_id("entry-exit"))
    exit = exit_of(entry)
    assert exit is not None
    await broker.submit(entry)
    before = await broker.find(exit)
    await broker.cancel(entry.client_id, BTC)
    after = await broker.find(exit)

    assert (before and before.status, after and after.status) == (OrderStatus.OPEN, OrderStatus.CANCELLED)
    assert await broker.open_orders([BTC]) == []


async def test_a_held_stop_is_sent_once_and_not_cancelled_meanwhile_where_harnesses_share_the_account(
    options: CcxtOptions, venue: RunningVenue
) -> None:
    broker = CcxtBroker("okx", in_dialect(options, "okx", venue.url), stops="hold")
    stop = evolve(placed("stop", Side.SELL, kind=OrderKind.STOP, stop="45000.00"), client_id=broker.shape_id("stop"))
    await broker.submit(stop)
    cancelled: list[OrderReport | None] = []

    async def cancel() -> None:
        cancelled.append(await broker.cancel(stop.client_id, BTC))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(broker.observe, bars(1, "44999"))
        nursery.start_soon(broker.find, stop)
        await wait_all_tasks_blocked()
        nursery.start_soon(cancel)
    await closed(venue)

    assert [one[0] for one in venue.control("orders")] == [stop.client_id]
    assert [one and one.status for one in cancelled] == [OrderStatus.FILLED]


@pytest.mark.parametrize("reason", ["rate", "clock"])
async def test_a_held_stop_that_is_not_taken_for_its_rate_is_still_held_and_sent_with_the_same_slice_again(
    options: CcxtOptions, venue: RunningVenue, reason: str
) -> None:
    there = evolve(in_dialect(options, "okx", venue.url), patience_s=0.6)
    broker = CcxtBroker("okx", there, stops="hold", max_wait_s=0.5)
    stop = evolve(placed("stop", Side.SELL, kind=OrderKind.STOP, stop="45000.00"), client_id=broker.shape_id("stop"))
    await broker.submit(stop)
    if reason == "clock":
        venue.hostile(Hostility(retry_after_s=0))
        venue.query_fates("calm", *["broken"] * 50)
    venue.fates("limited")

    with pytest.raises(BrokerUnavailable, match="the stop is held until"):
        await broker.observe(bars(1, "44999"))
    venue.control("calm")
    held = await broker.open_orders([BTC])
    await broker.observe(bars(1, "44999"))

    await closed(venue)
    assert [one.client_id for one in held] == [stop.client_id]
    assert [one[0] for one in venue.control("orders")] == [stop.client_id]
    assert await broker.open_orders([BTC]) == []


@pytest.mark.parametrize(("exchange", "days"), [("bybit", 730), ("okx", 90)], indirect=["exchange"])
async def test_fills_and_orders_are_found_as_far_back_as_the_exchange_lists_them(
    spoken: CcxtBroker, exchange: str, days: int, options: CcxtOptions, venue: RunningVenue
) -> None:
    orders = [named(spoken, placed(f"o-{number}", units="0.01")) for number in range(2)]
    await spoken.submit(orders[0])
    [first] = await spoken.fills([BTC], {})

    def later(days: int) -> CcxtBroker:
        venue.control("clock", jump_s=days * 86_400)
        return CcxtBroker(exchange, in_dialect(options, exchange, venue.url))

    await later(30).submit(orders[1])
    broker = later(8)
    found = await broker.find(orders[0])
    [second] = await broker.fills([BTC], {BTC: first.fill_id})
    asked = sum(venue.books()["fates"].values())
    none = await broker.fills([BTC], {BTC: second.fill_id})

    assert (found and found.status, second.client_id, none) == (OrderStatus.FILLED, orders[1].client_id, [])
    assert sum(venue.books()["fates"].values()) <= asked + 2
    assert [fill.fill_id for fill in await broker.fills([BTC], {})] == [first.fill_id, second.fill_id]
    with pytest.raises(BrokerUnavailable, match=f"all that it lists of the past {days} days; .* and adopt its account"):
        await later(days).fills([BTC], {BTC: second.fill_id})


def test_what_is_said_of_a_client_id_is_what_is_taken() -> None:
    dialect = dialect_of("bybit")

    taken = {one for one in map(chr, range(128)) if dialect.takes_id(one)}

    assert taken == {*ascii_letters, *digits, "-", "_"}
    assert str(dialect.id_form) == "1 to 36 letters, digits, `-` and `_`"
    assert [dialect.takes_id(id) for id in ("", "x" * 36, "x" * 37)] == [False, True, False]


def test_what_cannot_be_had_at_an_exchange_is_a_line_each() -> None:
    client = CcxtClient("bitstamp", CcxtOptions())
    market = {"type": "spot", "spot": True}

    lines = lacks(client.dialect, client.has, client.features, market, holds=False)

    assert [line.partition(":")[0] for line in lines] == [
        "stop orders",
        "oco orders and exits",
        "purchases at the market price",
        "time in force ioc, fok, day, gtd",
        "requests do not lapse",
        "it does not tell its time",
        "only its latest executions can be listed",
    ]
    assert missing({**client.has, "fetchMyTrades": False}) == ["it cannot list executions (has['fetchMyTrades'])"]


async def test_an_exchange_without_a_time_has_that_of_this_machine() -> None:
    client = CcxtClient("bitstamp", CcxtOptions())

    assert not client.has.get("fetchTime")
    assert abs(await client.read_clock() - datetime.now(UTC).timestamp() * 1000) < 5000


def test_stops_are_not_held_where_a_lost_answer_stays_unknown() -> None:
    with pytest.raises(HarnessMisuse, match=r"stops: expected 'refuse', .* was 'hold'"):
        CcxtBroker("bitstamp", CcxtOptions(), unproven=True, stops="hold")
    with pytest.raises(HarnessMisuse, match=r"stops: expected 'refuse' or 'hold', was 'keep'"):
        CcxtBroker("okx", CcxtOptions(), stops="keep")  # type: ignore[arg-type]


async def test_what_a_second_broker_at_once_asks_disturbs_nobody(spoken: CcxtBroker, venue: RunningVenue) -> None:
    orders = [named(spoken, placed(f"m-{number}")) for number in range(12)]

    async def place(order: PlacedOrder) -> None:
        for _ in range(5):
            if await settled(spoken, order) in ("placed", "found"):
                return

    async with trio.open_nursery() as nursery:
        for order in orders:
            nursery.start_soon(place, order)

    await closed(venue)
    assert sorted(one[0] for one in venue.control("orders")) == sorted(order.client_id for order in orders)
