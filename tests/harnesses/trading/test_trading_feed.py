"""A feed plays what is in its files, in order, and says where a file is wrong."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from harnesses.trading import BadMarketData, Bar, MarketDay, ReplayFeed
from harnesses.trading.feed import read_bars

DATA = Path(__file__).parents[3] / "examples" / "data"
HEADER = "date,open,high,low,close,volume\n"
LINE = "2000-03-01,10,12,9,11.50,100\n"
BAR = Bar(Decimal(10), Decimal(12), Decimal(9), Decimal("11.50"), 100)


@pytest.fixture
def file(tmp_path):
    def write(text: str, name: str = "a.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode("latin-1"))
        return path

    return write


async def all_days(feed: ReplayFeed) -> list[MarketDay]:
    days, last = [], None
    while (day := await feed.next_day(last)) is not None:
        days.append(day)
        last = day.day
    return days


async def test_the_days_of_several_files_come_in_order_each_once(file):
    one = file(HEADER + LINE + LINE.replace("03-01", "03-03"), "a.csv")
    other = file(HEADER + LINE.replace("03-01", "03-02") + LINE.replace("03-01", "03-03"), "b.csv")

    days = await all_days(ReplayFeed.read({"A": one, "B": other}))

    assert [(day.day.day, list(day.bars)) for day in days] == [(1, ["A"]), (2, ["B"]), (3, ["A", "B"])]
    assert days[0].bars["A"] == BAR


async def test_a_feed_is_at_its_end_after_its_last_day(file):
    feed = ReplayFeed.read({"A": file(HEADER + LINE)})

    assert not feed.is_at_end(None)
    assert feed.is_at_end(date(2000, 3, 1))
    assert await feed.next_day(date(2000, 3, 1)) is None


async def test_an_endless_feed_is_never_at_its_end():
    feed = ReplayFeed({"A": {date(2000, 3, 1): BAR}}, endless=True)

    assert not feed.is_at_end(date(2000, 3, 1))
    assert await feed.next_day(date(2000, 3, 1)) is None


async def test_a_limit_takes_the_first_bars(file):
    feed = ReplayFeed.read({"A": file(HEADER + LINE + LINE.replace("03-01", "03-02"))}, limit=1)

    assert [day.day.day for day in await all_days(feed)] == [1]


async def test_the_recorded_data_is_whole_and_its_splits_are_known():
    files = {symbol: DATA / f"{symbol.lower()}.csv" for symbol in ("AAPL", "MSFT")}

    days = await all_days(ReplayFeed.read(files, splits=DATA / "splits.csv"))

    assert (len(days), days[0].day, days[-1].day) == (3270, date(2000, 3, 1), date(2013, 3, 1))
    assert all(list(day.bars) == ["AAPL", "MSFT"] for day in days)
    assert [(day.day, symbol) for day in days for symbol, bar in day.bars.items() if bar.split == 2] == [
        (date(2000, 6, 21), "AAPL"),
        (date(2003, 2, 18), "MSFT"),
        (date(2005, 2, 28), "AAPL"),
    ]


@pytest.mark.parametrize(
    ("text", "number", "what"),
    [
        ("", 1, "header: expected date,open,high,low,close,volume, was ''"),
        ("day,price\n", 1, "header: expected date,open,high,low,close,volume, was 'day,price'"),
        (HEADER + "2000-03-01,10,12\n", 2, "expected 6 fields"),
        (HEADER + LINE + "01.03.2000,10,12,9,11,1\n", 3, "date: expected YYYY-MM-DD, was '01.03.2000'"),
        (HEADER + "20000301,10,12,9,11,1\n", 2, "date: expected YYYY-MM-DD, was '20000301'"),
        (HEADER + "2000-03-01,ten,12,9,11,1\n", 2, "open: expected a number above 0, was 'ten'"),
        (HEADER + "2000-03-01,10,NaN,9,11,1\n", 2, "high: expected a number above 0, was 'NaN'"),
        (HEADER + "2000-03-01,10,12,-9,11,1\n", 2, "low: expected a number above 0, was '-9'"),
        (
            HEADER + "2000-03-01,10,12,9,13,1\n",
            2,
            "expected low <= open, close <= high, was open 10, high 12, low 9, close 13",
        ),
        (HEADER + "2000-03-01,10,12,9,11,1.5\n", 2, "volume: expected a whole number from 0 up, was '1.5'"),
        (HEADER + LINE + "\n" + LINE, 4, "date: expected one after 2000-03-01, was 2000-03-01"),
        (HEADER + "2000-03-01,10,12,9,11,\xff\n", 1, "expected comma-separated text in UTF-8"),
    ],
)
def test_a_wrong_line_is_named_with_what_was_expected(file, text, number, what):
    path = file(text)

    with pytest.raises(BadMarketData) as caught:
        read_bars(path)

    assert str(caught.value).startswith(f"market data {path}, line {number}: {what}")


def test_a_wrong_split_is_named_with_its_line(file):
    splits = file("symbol,date,units\nA,2000-03-01,0\n", "splits.csv")

    with pytest.raises(BadMarketData, match=r"splits.csv, line 2: units: expected a number above 0, was '0'"):
        ReplayFeed.read({"A": file(HEADER + LINE)}, splits=splits)


def test_a_split_on_a_day_without_a_bar_is_an_error(file):
    splits = file("symbol,date,units\nB,2000-03-01,2\nA,2000-03-02,2\n", "splits.csv")

    with pytest.raises(BadMarketData, match=r"splits.csv, line 3: split of A on 2000-03-02: expected a day with a bar"):
        ReplayFeed.read({"A": file(HEADER + LINE)}, splits=splits)
