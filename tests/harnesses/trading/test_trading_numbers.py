"""Money, units and parts are exact: an int is taken as it is, a float is refused, with what to write."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from harnesses import HarnessMisuse
from harnesses.trading import (
    Fees,
    Instrument,
    Limits,
    Order,
    OrderKind,
    PaperBroker,
    Side,
    cross_strategy,
    portfolio_strategy,
    rsi_strategy,
)


@pytest.mark.parametrize(
    ("make", "subject"),
    [
        (lambda one: Limits(max_drawdown=one), "Limits: max_drawdown"),
        (lambda one: Limits(cash_margin=one), "Limits: cash_margin"),
        (lambda one: Fees(rate=one), "Fees: rate"),
        (lambda one: PaperBroker(one), "PaperBroker: cash"),
        (lambda one: PaperBroker(slippage_bps=one), "Rules: slippage_bps"),
        (lambda one: PaperBroker(max_share=one), "Rules: max_share"),
        (lambda one: Instrument("A", lot=one), "Instrument: lot"),
        (lambda one: rsi_strategy(one), "rsi_strategy: stake"),
        (lambda one: cross_strategy(stake=one), "cross_strategy: stake"),
        (lambda one: portfolio_strategy({"A": one}), "portfolio_strategy: weight of A"),
        (lambda one: Order("A", Side.BUY, one), "Order: units"),
        (lambda one: Order("A", Side.BUY, Decimal(1), limit_price=one), "Order: limit_price"),
    ],
)
def test_a_float_is_refused_with_what_to_write_and_an_int_is_taken(make: Callable[[object], object], subject: str) -> None:
    make(1)

    for wrong, told in ((0.1, r"was the float 0\.1; write Decimal\('0\.1'\): floats are not exact"), ("x", "was 'x'; write")):
        with pytest.raises(HarnessMisuse, match=f"{subject}: expected a Decimal, {told}"):
            make(wrong)


def test_what_was_an_int_is_a_decimal_afterwards() -> None:
    order = Order("A", Side.BUY, 2, OrderKind.LIMIT, limit_price=3)

    assert [type(one) for one in (order.units, order.limit_price, Limits(max_drawdown=1).max_drawdown)] == [Decimal] * 3


def test_the_words_for_side_and_kind_become_members() -> None:
    order = Order("A", "sell", Decimal(1), "stop", stop_price=Decimal(9))

    assert order.side is Side.SELL
    assert order.kind is OrderKind.STOP


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("purchase", Decimal(1)), "side: expected 'buy' or 'sell', was 'purchase'"),
        ((None, Decimal(1)), "side: expected 'buy' or 'sell', was None"),
        (("buy", Decimal(1), "auction"), "kind: expected 'market' or 'limit' or 'stop' or 'oco', was 'auction'"),
    ],
)
def test_other_words_are_refused(words: tuple[object, ...], said: str) -> None:
    with pytest.raises(HarnessMisuse, match=f"Order: {said}"):
        Order("A", *words)


def test_fees_that_are_a_number_are_refused() -> None:
    with pytest.raises(HarnessMisuse, match=r"fees: expected Fees, was 0\.001; write Fees"):
        PaperBroker(fees=0.001)
