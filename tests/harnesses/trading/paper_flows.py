"""Random flows of orders, bars, cancels and splits for a simulated venue, and what must be true of it after each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from attrs import frozen
from hypothesis import strategies as st

from harnesses.trading.account import with_splits
from harnesses.trading.market.bars import Bar, MarketSlice
from harnesses.trading.market.broker import VenueAccount
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.market.orders import Fill, Order, OrderKind, PlacedOrder, Side, Source
from harnesses.trading.paper.paper_books import Fees, Rules
from harnesses.trading.position_book import Book

SYMBOLS = ("A", "B")
CASH = Decimal(10_000)
START = datetime(2024, 1, 1, tzinfo=UTC)


@frozen
class Submit:
    """Place an order; one in a few goes under an id that was used before."""

    number: int
    symbol: str
    side: Side
    kind: OrderKind
    units: int
    ticks: int
    """How far from 100.00 its price is."""


@frozen
class Cancel:
    """Cancel an order, if there is such a one."""

    number: int


Action: TypeAlias = Submit | Cancel | dict[str, Bar]


def _bar(prices: Sequence[int], volume: int, split: Decimal) -> Bar:
    open_, close = Decimal(prices[0]) / 10, Decimal(prices[1]) / 1000
    high, low = max(open_, close) + Decimal(prices[2]) / 10, min(open_, close) - Decimal(prices[3]) / 10
    return Bar(open_, high, low, close, Decimal(volume), split)


SPLITS = [Decimal(1)] * 8 + [Decimal(text) for text in ("2", "1.5", "0.5", "0.1", "7")]
bars = st.builds(
    _bar,
    st.tuples(st.integers(600, 1400), st.integers(60_000, 140_000), st.integers(0, 200), st.integers(0, 200)),
    st.integers(0, 2000),
    st.sampled_from(SPLITS),
)
submits = st.builds(
    Submit,
    st.integers(0, 8),
    st.sampled_from(SYMBOLS),
    st.sampled_from(Side),
    st.sampled_from(OrderKind),
    st.integers(1, 60),
    st.integers(-2000, 2000),
)
slices = st.dictionaries(st.sampled_from(SYMBOLS), bars, min_size=1)
actions: st.SearchStrategy[Action] = st.one_of(slices, slices, submits, submits, submits, st.builds(Cancel, st.integers(0, 8)))
OPENING: list[Action] = [
    {symbol: Bar(Decimal(100), Decimal(100), Decimal(100), Decimal(100), Decimal(2000)) for symbol in SYMBOLS},
    Submit(101, "A", Side.BUY, OrderKind.MARKET, 40, 0),
    Submit(102, "B", Side.BUY, OrderKind.MARKET, 30, 0),
]
"""What every flow begins with, so that there is something to sell."""
flows = st.lists(actions, min_size=5, max_size=40).map(lambda flow: [*OPENING, *flow])

fees = st.builds(
    Fees,
    rate=st.sampled_from([Decimal(0), Decimal("0.001"), Decimal("0.0333333333333333333333")]),
    minimum=st.sampled_from([Decimal(0), Decimal(1), Decimal(300)]),
    per_unit=st.sampled_from([Decimal(0), Decimal("0.005")]),
)
INSTRUMENTS = {
    "A": Instrument("A"),
    "B": Instrument("B", lot=Decimal("0.001"), tick=Decimal("0.05"), min_notional=Decimal(10)),
}
rules = st.builds(
    Rules,
    instruments=st.just(INSTRUMENTS),
    fees=fees,
    slippage_bps=st.sampled_from([Decimal(0), Decimal("7.3")]),
    max_share=st.sampled_from([None, Decimal("0.02")]),
    fill_at=st.sampled_from(["close", "next_open"]),
)


def placed(submit: Submit, now: datetime) -> PlacedOrder:
    """Return the order that a `Submit` stands for."""
    grain = INSTRUMENTS[submit.symbol]
    price = grain.round_price(100 + submit.ticks * Decimal("0.01"))
    prices = {OrderKind.LIMIT: (price, None), OrderKind.STOP: (None, price)}
    limit, stop = prices.get(submit.kind, (None, None))
    above, below = max(price, 200 - price) + 1, min(price, 200 - price) - 1
    if submit.kind is OrderKind.OCO:
        limit, stop = (above, below) if submit.side is Side.SELL else (below, above)
    has_exit = submit.side is Side.BUY and submit.number % 2 == 1
    order = Order(
        symbol=submit.symbol,
        side=submit.side,
        units=Decimal(submit.units) * (1 if submit.symbol == "A" else Decimal("1.1")),
        kind=submit.kind,
        limit_price=limit,
        stop_price=stop,
        take_profit=above if has_exit else None,
        stop_loss=below if has_exit and submit.units % 3 else None,
        trail=Decimal("2.5") if has_exit and submit.units % 3 == 1 else None,
    )
    exit_id = f"exit-{submit.number}" if has_exit else ""
    return PlacedOrder(f"order-{submit.number}", order, Source.STRATEGY, now, exit_id)


def market(number: int, what: Mapping[str, Bar]) -> MarketSlice:
    """Return the slice of a day."""
    return MarketSlice(START + timedelta(days=number), what)


def after_slice(book: Book, market: MarketSlice, fills: Sequence[Fill]) -> Book:
    """Return a book after a slice: its splits, with the fills on either side of them."""
    for fill in fills:
        book = book.after(fill) if fill.time < market.time else book
    book = with_splits(book, market)
    for fill in fills:
        book = book.after(fill) if fill.time >= market.time else book
    return book


def assert_money_is_conserved(account: VenueAccount, fills: Sequence[Fill], cash: Decimal = CASH) -> None:
    """Add up all fills anew, in fractions, and hold the cash against it."""
    sign = {Side.BUY: -1, Side.SELL: 1}
    moved = sum((sign[fill.side] * Fraction(fill.units) * Fraction(fill.price) for fill in fills), Fraction(0))

    assert Fraction(account.cash) == Fraction(cash) + moved - sum((Fraction(fill.fee) for fill in fills), Fraction(0))
    assert account.cash >= 0
    assert all(units >= 0 for units in account.positions.values())
    assert [int(fill.fill_id) for fill in fills] == list(range(1, len(fills) + 1))
