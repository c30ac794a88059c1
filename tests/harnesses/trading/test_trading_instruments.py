"""Rounding never invents units or prices, and what is written stays readable."""

from __future__ import annotations

from decimal import ROUND_DOWN
from decimal import Decimal as Dec
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from harnesses.trading.market.instruments import GRAIN, Instrument, split_units, to_grain

numbers = st.decimals(min_value=0, max_value=10**12, places=12)
grains = st.sampled_from([Dec(1), Dec("0.01"), Dec("0.05"), Dec("0.25"), Dec(100), Dec("1E-8"), Dec("3")])


@given(numbers, grains)
def test_rounding_gives_the_nearest_multiple_on_its_side(number: Dec, grain: Dec) -> None:
    one = Instrument("A", lot=grain, tick=grain)

    down, near, up = one.price_down(number), one.round_price(number), one.price_up(number)

    assert one.round_units(number) == down <= number <= up
    assert all((Fraction(price) / Fraction(grain)).denominator == 1 for price in (down, near, up))
    assert Fraction(number) - Fraction(down) < Fraction(grain) > Fraction(up) - Fraction(number)
    assert near in (down, up)
    assert abs(Fraction(near) - Fraction(number)) <= Fraction(grain) / 2


def test_more_digits_than_a_decimal_usually_keeps_are_not_rounded_up() -> None:
    almost = Dec("0." + "9" * 40)

    assert Instrument("A").round_units(almost) == 0


def test_what_is_rounded_is_written_without_an_exponent() -> None:
    one = Instrument("A", lot=Dec(1), tick=Dec("0.01"))

    assert [str(one.round_units(Dec(1000))), str(one.round_price(Dec(100))), str(one.price_up(Dec("99.999")))] == [
        "1000",
        "100.00",
        "100.00",
    ]


def test_a_split_keeps_fractions_down_to_the_grain() -> None:
    assert str(split_units(Dec(15), Dec("1.5"))) == "22.5"
    assert split_units(Dec(1), Dec("0.3333333333333333333333")) == Dec("0.333333333333333333")
    assert to_grain(GRAIN / 3, ROUND_DOWN) == 0
