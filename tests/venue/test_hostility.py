"""Each way in which the venue goes wrong, by itself: what the broker says of an order is what the venue has done."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest
import trio
from attrs import evolve

from harnesses.trading.exchange.ccxt_broker import CcxtBroker
from harnesses.trading.exchange.ccxt_client import CcxtClient, CcxtOptions
from harnesses.trading.exchange.ccxt_translation import CallFailed, Verdict
from harnesses.trading.market.broker import BrokerUnavailable, OrderRefused
from harnesses.trading.market.orders import OrderStatus, PlacedOrder

from .hostility import CALM, HOSTILE, Fate, draw
from .ordering import BTC, placed
from .running import RunningVenue, closed


async def test_a_fate_depends_on_the_seed_and_the_id_alone() -> None:
    ids = [f"order-{number}" for number in range(2000)]

    fates = [draw(HOSTILE, 7, id, 0) for id in ids]
    again = [draw(HOSTILE, 7, id, 0) for id in reversed(ids)]

    assert fates == again[::-1]
    assert fates != [draw(HOSTILE, 8, id, 0) for id in ids]
    assert 0.27 < Counter(lot.fate for lot in fates)[Fate.LOST] / 2000 < 0.33


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.DROPPED, Fate.BROKEN_TAKEN])
async def test_an_order_that_was_taken_without_an_answer_is_found(venue: RunningVenue, broker: CcxtBroker, fate: Fate) -> None:
    order = placed("a")
    venue.fates(fate)

    with pytest.raises(BrokerUnavailable, match="order a: it is unknown whether ccxt:binance accepted it"):
        await broker.submit(order)
    found = await broker.find(order)

    assert found is not None
    assert found.status is OrderStatus.FILLED
    assert (venue.books()["arrivals"], venue.books()["orders"]) == (1, 1)


@pytest.mark.parametrize("fate", [Fate.IGNORED, Fate.BROKEN])
async def test_an_order_that_was_not_taken_is_not_found(venue: RunningVenue, broker: CcxtBroker, fate: Fate) -> None:
    order = placed("a")
    venue.fates(fate)

    with pytest.raises(BrokerUnavailable):
        await broker.submit(order)
    found = await broker.find(order)

    assert found is None
    assert (venue.books()["arrivals"], venue.books()["orders"]) == (1, 0)


@pytest.mark.parametrize(("delay_s", "taken"), [(0.7, True), (1.3, False)])
async def test_an_order_that_comes_late_is_not_given_up_while_it_may_be_taken(
    venue: RunningVenue, options: CcxtOptions, delay_s: float, taken: bool
) -> None:
    broker = CcxtBroker("binance", evolve(options, recv_window_s=1.0))
    order = placed("late")
    venue.fates(f"late:{delay_s}")

    with pytest.raises(BrokerUnavailable):
        await broker.submit(order)
    not_yet = venue.books()["orders"]
    found = await broker.find(order)

    await trio.sleep(0.3)
    assert not_yet == 0
    assert (found is not None) is taken
    assert venue.books()["orders"] == taken


async def test_an_order_of_a_process_that_was_killed_is_not_given_up_while_it_may_be_taken(
    venue: RunningVenue, options: CcxtOptions
) -> None:
    before, after = (CcxtBroker("binance", evolve(options, recv_window_s=1.0)) for _ in range(2))
    order = placed("late")
    venue.fates("late:0.4")
    await submit_and_die(before, order)

    found = await after.find(order)

    assert found is not None
    assert found.status is OrderStatus.FILLED


async def submit_and_die(broker: CcxtBroker, order: PlacedOrder) -> None:
    """Send an order and remember nothing of it."""
    await broker.connect([BTC])
    with trio.move_on_after(0.03) as scope:
        await broker.submit(order)
    assert scope.cancelled_caught


async def test_an_order_that_is_redirected_is_not_sent_again(venue: RunningVenue, broker: CcxtBroker) -> None:
    venue.fates(Fate.MOVED)

    with pytest.raises(BrokerUnavailable):
        await broker.submit(placed("a"))

    assert (venue.books()["arrivals"], venue.books()["orders"]) == (1, 0)


async def test_an_answer_for_another_order_is_no_answer(venue: RunningVenue, options: CcxtOptions) -> None:
    broker = CcxtBroker("binance", evolve(options, connections=1, keep_connections=True, timeout_s=3.0, recv_window_s=2.0))
    await broker.connect([BTC])
    venue.fates("twice:2.0", "late:1.0")

    await broker.submit(placed("a"))

    with pytest.raises(BrokerUnavailable, match="order b: ccxt:binance answered for another order: expected its id, was 'a'"):
        await broker.submit(placed("b"))


async def test_what_was_not_even_sent_is_refused(options: CcxtOptions) -> None:
    client = CcxtClient("binance", options)
    await client.get_ready()

    with pytest.raises(CallFailed) as failed:
        await client.call("no_such_method")

    assert failed.value.verdict is Verdict.REFUSED


async def test_an_answer_that_comes_twice_is_not_taken_for_the_next_one(venue: RunningVenue, options: CcxtOptions) -> None:
    broker = CcxtBroker("binance", evolve(options, connections=1))
    await broker.connect([BTC])
    venue.fates("twice:0.2", "calm")

    first = await broker.submit(placed("a"))
    second = await broker.submit(placed("b"))

    assert [first.client_id, second.client_id] == ["a", "b"]
    assert venue.books()["orders"] == 2


@pytest.mark.parametrize(("keep", "told"), [(False, "closed"), (True, "not found")])
async def test_a_connection_that_is_kept_may_tell_of_another_order(
    venue: RunningVenue, options: CcxtOptions, keep: bool, told: str
) -> None:
    client = CcxtClient("binance", evolve(options, connections=1, keep_connections=keep, timeout_s=3.0, recv_window_s=2.0))
    await CcxtBroker("binance", options).submit(placed("there"))
    await client.get_ready()
    venue.query_fates("twice:2.0", "late:1.0")

    answers = [await status(client, "not there"), await status(client, "there")]

    assert answers == ["not found", told]


async def status(client: CcxtClient, client_id: str) -> str:
    """Ask once what the venue says of an order."""
    try:
        order = await client.call(
            "fetch_order", None, BTC, params={"origClientOrderId": client_id}, signed=lambda stamp_ms: None
        )
    except CallFailed as error:
        return str(error.verdict)
    return str(order["status"])


async def test_an_order_is_filled_in_parts_over_time(venue: RunningVenue, broker: CcxtBroker) -> None:
    venue.hostile(evolve(CALM, parts=1.0))
    order = placed("parts", units="0.004")

    report = await broker.submit(order)
    await closed(venue)
    fills = await broker.fills([BTC], {})
    assert report.status is OrderStatus.OPEN
    assert Decimal(0) < report.filled < report.units
    assert len(fills) >= 2
    assert sum(fill.units for fill in fills) == Decimal("0.004")
    assert {fill.client_id for fill in fills} == {"parts"}


async def test_an_order_that_is_refused_for_its_rate_is_sent_again_when_the_venue_says(
    venue: RunningVenue, broker: CcxtBroker
) -> None:
    venue.fates(Fate.LIMITED)
    began = trio.current_time()

    report = await broker.submit(placed("a"))

    assert report.status is OrderStatus.FILLED
    assert trio.current_time() - began >= 1.0
    assert (venue.books()["arrivals"], venue.books()["orders"]) == (2, 1)


async def test_an_order_does_not_wait_for_its_rate_for_ever(venue: RunningVenue, options: CcxtOptions) -> None:
    broker = CcxtBroker("binance", options, max_wait_s=0.5)
    venue.fates(Fate.LIMITED)

    with pytest.raises(OrderRefused, match="order a: ccxt:binance refused it: DDoSProtection"):
        await broker.submit(placed("a"))

    assert (venue.books()["arrivals"], venue.books()["orders"]) == (1, 0)


async def test_a_restart_in_the_middle_of_an_order_leaves_no_doubt(venue: RunningVenue, broker: CcxtBroker) -> None:
    order = placed("a")
    venue.fates(Fate.RESTART)

    with pytest.raises(BrokerUnavailable):
        await broker.submit(order)
    found = await broker.find(order)

    assert found is None
    assert venue.books()["orders"] == 0


@pytest.mark.parametrize("jump_s", [-30.0, -0.9, 0.5, 30.0])
async def test_the_venue_keeps_its_own_time(venue: RunningVenue, broker: CcxtBroker, jump_s: float) -> None:
    await broker.connect([BTC])
    venue.control("clock", jump_s=jump_s)

    report = await broker.submit(placed("a"))
    account = await broker.account([BTC])

    assert report.status is OrderStatus.FILLED
    assert account.positions[BTC] == Decimal(venue.books()["balances"]["BTC"])


@pytest.mark.parametrize("fate", [Fate.IGNORED, Fate.DROPPED, Fate.LIMITED, Fate.BROKEN])
async def test_what_is_asked_is_asked_again(venue: RunningVenue, broker: CcxtBroker, fate: Fate) -> None:
    await broker.submit(placed("a"))
    venue.query_fates(fate)

    account = await broker.account([BTC])

    assert account.cash == Decimal(venue.books()["balances"]["USDT"])
