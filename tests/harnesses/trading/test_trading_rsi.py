"""The index agrees with a published worked example, and needs nothing but where it stood to go on."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from harnesses.trading.indicators import NEW, Rsi, Standing

# The worked example of StockCharts' ChartSchool, "Relative Strength Index": QQQQ closes and the index of each from the 15th.
CLOSES = [
    44.3389, 44.0902, 44.1497, 43.6124, 44.3278, 44.8264, 45.0955, 45.4245, 45.8433, 46.0826, 45.8931, 46.0328, 45.6140,
    46.2820, 46.2820, 46.0028, 46.0328, 46.4116, 46.2222, 45.6439, 46.2122, 46.2521, 45.7137, 46.4515, 45.7835, 45.3548,
    44.0288, 44.1783, 44.2181, 44.5672, 43.4205, 42.6628, 43.1314,
]  # fmt: skip
INDEX = [
    70.53, 66.32, 66.55, 69.41, 66.36, 57.97, 62.93, 63.26, 56.06, 62.38, 54.71, 50.42, 39.99, 41.46, 41.87, 45.46, 37.30,
    33.08, 37.77,
]  # fmt: skip
PAIRS = list(pairwise(CLOSES))


def standing(rsi: Rsi, pairs: list[tuple[float, float]], start: Standing = NEW) -> Standing:
    for before, price in pairs:
        start = rsi.after(start, price, before)
    return start


def indexes(pairs: list[tuple[float, float]], start: Standing = NEW) -> list[float | None]:
    return [Rsi().value(standing(Rsi(), pairs[: seen + 1], start)) for seen in range(len(pairs))]


def test_the_index_agrees_with_a_published_example():
    values = indexes(PAIRS)

    assert values[:13] == [None] * 13
    assert values[13:] == [pytest.approx(value, abs=0.0051) for value in INDEX]


def test_a_first_price_is_no_change():
    assert Rsi().after(NEW, CLOSES[0], None) == NEW


@pytest.mark.parametrize("seen", [0, 5, 13, 14, 25])
def test_an_index_read_back_from_disk_goes_on_exactly(seen):
    stood = standing(Rsi(), PAIRS[:seen])

    again = msgspec.json.decode(msgspec.json.encode(stood), type=Standing)

    assert again == stood
    assert indexes(PAIRS[seen:], again) == indexes(PAIRS)[seen:]


@pytest.mark.parametrize(("change", "value"), [(1.0, 100.0), (-1.0, 0.0), (0.0, 50.0)])
def test_a_price_that_goes_one_way_has_an_index_at_the_end_of_the_scale(change, value):
    assert indexes([(50.0, 50.0 + change)] * 20)[-1] == value


@pytest.mark.parametrize(("gain", "loss", "value"), [(3.0, 7.0, 30.0), (7.0, 3.0, 70.0)])
def test_averages_of_three_to_seven_give_the_bounds_exactly(gain, loss, value):
    assert Rsi().value(Standing(14, (gain, loss))) == value


def test_a_split_leaves_the_index_as_it_is():
    stood = standing(Rsi(), PAIRS)

    after = Rsi().after_split(stood, 2.0)

    assert Rsi().value(after) == Rsi().value(stood)
    assert after.values[0] == stood.values[0] / 2


def test_a_shorter_period_needs_fewer_prices():
    assert Rsi(2).value(standing(Rsi(2), PAIRS[:2])) is not None
    assert Rsi(3).value(standing(Rsi(3), PAIRS[:2])) is None


def test_a_period_of_none_is_refused():
    with pytest.raises(ValueError, match="period"):
        Rsi(0)
