"""The harness's book is made of its fills alone: each counts once, and money goes nowhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal as Dec
from fractions import Fraction

import msgspec
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from harnesses.trading.market.broker import VenueAccount
from harnesses.trading.market.orders import Fill, Side
from harnesses.trading.position_book import Book, Position, differences

NOW = datetime(2024, 1, 1, tzinfo=UTC)
BUY, SELL = Side.BUY, Side.SELL


def fill(id: str, side: Side, units: str, price: str, *, fee: str = "0", fee_units: str = "0", day: int = 0) -> Fill:
    time = NOW + timedelta(days=day)
    return Fill(id, "order", "A", side, Dec(units), Dec(price), Dec(fee), time, Dec(fee_units))


def test_a_purchase_and_a_sale_move_cash_units_and_gain() -> None:
    bought = Book(Dec(1000)).after(fill("1", BUY, "10", "20", fee="1.5"))
    sold = bought.after(fill("2", SELL, "4", "25", fee="0.5"))

    assert (bought.cash, bought.positions["A"]) == (Dec("798.5"), Position(Dec(10), Dec(200)))
    assert (sold.cash, sold.positions["A"]) == (Dec(898), Position(Dec(6), Dec(120)))
    assert (sold.realised, sold.fees, sold.turnover) == (Dec(20), Dec(2), Dec(300))
    assert sold.last_fill == {"A": "2"}


@pytest.mark.parametrize(("first", "again"), [("9", "9"), ("10", "9"), ("trade-b", "trade-b")])
def test_a_fill_that_was_had_is_not_counted_again(first: str, again: str) -> None:
    book = Book(Dec(1000)).after(fill(first, BUY, "10", "20"))

    assert book.after(fill(again, BUY, "10", "20")) is book


@pytest.mark.parametrize(("first", "next_id"), [("9", "10"), ("trade-b", "trade-a"), ("7", "x7")])
def test_a_fill_that_is_newer_counts(first: str, next_id: str) -> None:
    book = Book(Dec(1000)).after(fill(first, BUY, "10", "20")).after(fill(next_id, BUY, "1", "20"))

    assert book.units("A") == Dec(11)


def test_a_fee_in_units_is_taken_from_what_is_held() -> None:
    book = Book(Dec(1000)).after(fill("1", BUY, "10", "20", fee_units="0.01"))

    assert book.positions["A"] == Position(Dec("9.99"), Dec(200))
    assert book.fees == 0


def test_a_split_changes_units_and_not_what_they_cost() -> None:
    book = Book(Dec(1000)).after(fill("1", BUY, "15", "20"))

    assert book.after_split("A", Dec("1.5")).positions["A"] == Position(Dec("22.5"), Dec(300))
    assert book.after_split("B", Dec(2)) is book


def test_every_difference_to_the_venue_is_named() -> None:
    book = Book(Dec(1000), {"A": Position(Dec(10)), "B": Position(Dec(0)), "C": Position(Dec(1))})

    assert differences(book, VenueAccount(Dec("1000.00"), {"A": Dec("10.0"), "C": Dec(1)})) == ()
    assert differences(book, VenueAccount(Dec("1000.01"), {"A": Dec(10), "D": Dec("0.5")})) == (
        "cash: expected 1000, was 1000.01",
        "C: expected 1 units, was 0",
        "D: expected 0 units, was 0.5",
    )


fills = st.lists(
    st.tuples(st.sampled_from(Side), *(st.decimals(0, 1000, places=p) for p in (3, 2, 5)), st.sampled_from(["1", "3", "0.3"])),
    max_size=30,
)


@given(fills)
def test_cash_is_what_there_was_with_what_was_gained_without_fees_and_cost(
    flow: list[tuple[Side, Dec, Dec, Dec, str]],
) -> None:
    book = Book(Dec("1000.1"))
    for number, (side, units, price, fee, split) in enumerate(flow):
        one = Fill(str(number), "order", "A", side, min(units, book.units("A")) if side is SELL else units, price, fee, NOW)
        book = book.after(one).after_split("A", Dec(split))

        cost = sum((Fraction(position.cost) for position in book.positions.values()), Fraction(0))
        assert Fraction(book.cash) == Fraction("1000.1") + Fraction(book.realised) - Fraction(book.fees) - cost
        assert book.positions["A"].units > 0 or not book.positions["A"].cost


@given(fills)
def test_a_book_is_read_back_as_it_was(flow: list[tuple[Side, Dec, Dec, Dec, str]]) -> None:
    book = Book(Dec(1000))
    for number, (side, units, price, fee, _) in enumerate(flow):
        book = book.after(Fill(str(number), "order", "A", side, units, price, fee, NOW))

    again = msgspec.json.decode(msgspec.json.encode(book), type=Book)

    assert again == book
    assert again.after(fill("99", BUY, "1", "1")) == book.after(fill("99", BUY, "1", "1"))


def test_what_was_sold_without_being_held_is_a_debt_that_a_purchase_settles() -> None:
    owed = Book(Dec(1000)).after(fill("1", SELL, "2", "10"))
    settled = owed.after(fill("2", BUY, "2", "11"))

    assert owed.units("A") == Dec(-2)
    assert settled == evolve(settled, cash=Dec(998), realised=Dec(-2), positions={"A": Position()})
