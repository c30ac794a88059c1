"""The index agrees with a published worked example, and needs nothing but its own last value to go on."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from harnesses.trading import Rsi

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
CHANGES = [after - before for before, after in pairwise(CLOSES)]


def indexes(rsi: Rsi, changes: list[float]) -> list[float | None]:
    values = []
    for change in changes:
        rsi = rsi.after(change)
        values.append(rsi.value)
    return values


def test_the_index_agrees_with_a_published_example():
    values = indexes(Rsi(), CHANGES)

    assert values[:13] == [None] * 13
    assert values[13:] == [pytest.approx(value, abs=0.0051) for value in INDEX]


@pytest.mark.parametrize("seen", [0, 5, 13, 14, 25])
def test_an_index_read_back_from_disk_goes_on_exactly(seen):
    rsi = Rsi()
    for change in CHANGES[:seen]:
        rsi = rsi.after(change)

    again = msgspec.json.decode(msgspec.json.encode(rsi), type=Rsi)

    assert again == rsi
    assert indexes(again, CHANGES[seen:]) == indexes(Rsi(), CHANGES)[seen:]


@pytest.mark.parametrize(("change", "value"), [(1.0, 100.0), (-1.0, 0.0), (0.0, 50.0)])
def test_a_price_that_goes_one_way_has_an_index_at_the_end_of_the_scale(change, value):
    assert indexes(Rsi(), [change] * 20)[-1] == value


def test_a_split_leaves_the_index_as_it_is():
    rsi = Rsi()
    for change in CHANGES:
        rsi = rsi.after(change)

    after = rsi.after_split(2.0)

    assert after.value == rsi.value
    assert after.average_gain == rsi.average_gain / 2
