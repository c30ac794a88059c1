"""Nothing about money is decided silently: lots come from the data, what cannot be bought is refused, all-in pays its fees."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from harnesses.agent import Agent
from harnesses.errors import HarnessMisuse
from harnesses.trading import Fees, Limits, PaperBroker, ReplayFeed, TradingHarness
from harnesses.trading.market.bars import Bar
from harnesses.trading.market.instruments import Charges, Instrument, lot_of
from harnesses.trading.market.orders import Order, OrderKind, Side
from harnesses.trading.strategies import Strategy

DAY = datetime(2024, 1, 1, tzinfo=UTC)


def feed(*closes: str, volume: str = "1000") -> ReplayFeed:
    bars = {DAY + timedelta(day): Bar(*[Decimal(close)] * 4, Decimal(volume)) for day, close in enumerate(closes)}
    return ReplayFeed({"A": bars})


def wanting(units: str | None = None, **more: object) -> Strategy:
    """Return a strategy that buys so many units in each slice, or for all of its cash."""

    async def run(run) -> list[Order]:
        await trio.lowlevel.checkpoint()
        quote = run.input.quotes["A"]
        bought = quote.bought_for(run.input.free_cash) if units is None else Decimal(units)
        return [Order("A", Side.BUY, bought, **more)] if bought else []

    return Strategy(Agent(run))


async def traded(harness: TradingHarness) -> tuple[list[tuple[Decimal, Decimal]], list[str]]:
    """Run it; return units and price of its fills, and why what was refused."""
    await harness.run()
    outputs = [step.output for step in harness.step_history]
    return (
        [(one.fill.units, one.fill.price) for output in outputs for one in output.fills],
        [one.reason for output in outputs for one in output.refused],
    )


@pytest.mark.parametrize(
    ("volume", "close", "units", "fill"),
    [
        ("12.345", "60000", "0.05", ("0.05", "60000.00")),
        ("987654321", "0.002", "1000", ("1000", "0.002")),
        ("0", "1.10345", "5000.7", ("5000", "1.10345")),
        ("0.5", "3000", "0.123", ("0.1", "3000.00")),
    ],
)
async def test_without_instruments_lots_come_from_the_data_and_prices_are_not_rounded(
    volume: str, close: str, units: str, fill: tuple[str, str], autojump_clock: object
) -> None:
    fills, _ = await traded(TradingHarness(feed(close, volume=volume), PaperBroker(), wanting(units)))

    assert fills == [tuple(map(Decimal, fill))]


def test_a_lot_is_the_smallest_decimal_of_the_volumes() -> None:
    volumes = [Decimal(text) for text in ("5", "1.50", "0.0030", "7.000")]

    assert (lot_of(volumes), lot_of(volumes[:1]), lot_of([])) == (Decimal("0.0001"), 1, 1)


async def test_a_symbol_of_which_the_account_cannot_buy_a_lot_is_refused_at_once(autojump_clock: object) -> None:
    harness = TradingHarness(feed("60000"), PaperBroker(), wanting("1"))

    with pytest.raises(HarnessMisuse, match=r"A: .*was 10000\.00 for 1 at 60000; give"):
        await harness.run()


@pytest.mark.parametrize("fees", [Fees(Decimal("0.001")), Fees(minimum=Decimal(25)), Fees(per_unit=Decimal("0.3"))])
@pytest.mark.parametrize("more", [{}, {"kind": OrderKind.LIMIT, "limit_price": Decimal(100)}])
async def test_all_in_pays_its_fees_and_is_refused_by_nobody_but_once(
    fees: Fees, more: dict[str, object], autojump_clock: object
) -> None:
    broker = PaperBroker(fees=fees, slippage_bps=Decimal(7))

    fills, refused = await traded(TradingHarness(feed(*["100"] * 50), broker, wanting(**more)))

    assert (len(fills), len(refused)) == (1, 1)
    assert refused[0].startswith("cash for only ")


async def test_a_margin_of_cash_beside_fees_still_buys(autojump_clock: object) -> None:
    broker, limits = PaperBroker(fees=Fees(Decimal("0.002"))), Limits(cash_margin=Decimal("0.001"))

    fills, _ = await traded(TradingHarness(feed(*["9.99"] * 9), broker, wanting(), limits=limits))

    assert fills == [(Decimal(999), Decimal("9.99"))]


@given(
    st.decimals("0", "5000", places=2),
    st.decimals("0.01", "900", places=3),
    st.builds(Charges, *[st.decimals("0", "0.2", places=4)] * 2, st.decimals("0", "3", places=2)),
    st.sampled_from([Decimal(1), Decimal("0.01")]),
)
def test_the_affordable_units_are_the_most_that_the_cash_pays_for(
    cash: Decimal, price: Decimal, charges: Charges, lot: Decimal
) -> None:
    instrument = Instrument("A", lot=lot, charges=charges)

    units = instrument.affordable(cash, price)

    assert instrument.cost(units, price) <= cash < instrument.cost(units + lot, price)
