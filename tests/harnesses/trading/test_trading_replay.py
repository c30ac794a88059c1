"""A replay plays what is in its files, in order, at the pace it was given, and says where a file is wrong."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from time import process_time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import trio
from trio.testing import MockClock

from harnesses import HarnessMisuse
from harnesses.errors import NotReady
from harnesses.trading.feeds.bar_files import read_bars
from harnesses.trading.feeds.replay_feed import ReplayFeed
from harnesses.trading.market.bars import BadMarketData, Bar, MarketSlice
from harnesses.trading.market.feed import Feed
from tests import ROOT

DATA = ROOT / "examples" / "data"
FILES = {symbol: DATA / f"{symbol.lower()}.csv" for symbol in ("AAPL", "MSFT")}
HEADER = "date,open,high,low,close,volume\n"
LINE = "2000-03-01,10,12,9,11.50,100\n"
BAR = Bar(Decimal(10), Decimal(12), Decimal(9), Decimal("11.50"), Decimal(100))
DAY_S = 86400.0


def day(number: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2000, 3, number, hour, minute, tzinfo=UTC)


@pytest.fixture
def file(tmp_path):
    def write(text: str, name: str = "a.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode("latin-1"))
        return path

    return write


async def all_slices(feed: Feed, after: datetime | None = None) -> list[MarketSlice]:
    slices = []
    while (slice_ := await feed.next_slice(after)) is not None:
        slices.append(slice_)
        after = slice_.time
    return slices


async def arrivals(feed: Feed, after: datetime | None = None, period_s: float = 1.0) -> list[tuple[float, datetime]]:
    """Return when, in seconds from now on Trio's clock, each slice was there for a poller."""
    start, seen = trio.current_time(), []
    while not feed.is_at_end(after):
        slice_ = await feed.next_slice(after)
        if slice_ is None:
            await trio.sleep(period_s)
        else:
            after = slice_.time
            seen.append((trio.current_time() - start, after))
    return seen


async def test_the_slices_of_several_files_come_in_order_each_once(file):
    one = file(HEADER + LINE + LINE.replace("03-01", "03-03"), "a.csv")
    other = file(HEADER + LINE.replace("03-01", "03-02") + LINE.replace("03-01", "03-03"), "b.csv")

    slices = await all_slices(ReplayFeed.read({"A": one, "B": other}))

    assert [(slice_.time, list(slice_.bars)) for slice_ in slices] == [(day(1), ["A"]), (day(2), ["B"]), (day(3), ["A", "B"])]
    assert slices[0].bars["A"] == BAR


async def test_a_feed_is_at_its_end_after_its_last_slice(file):
    feed = ReplayFeed.read({"A": file(HEADER + LINE)})

    assert not feed.is_at_end(None)
    assert feed.is_at_end(day(1))
    assert await feed.next_slice(day(1)) is None


async def test_an_endless_feed_is_never_at_its_end(file):
    feed = ReplayFeed.read({"A": file(HEADER + LINE)}, endless=True)

    assert not feed.is_at_end(day(1))
    assert await feed.next_slice(day(1)) is None


async def test_a_feed_asked_the_same_again_answers_the_same():
    feed = ReplayFeed({"A": {day(1): BAR, day(2): BAR}})

    assert await feed.next_slice(day(1)) == await feed.next_slice(day(1))
    assert await feed.next_slice(None) == MarketSlice(day(1), {"A": BAR})


async def test_a_feed_asked_after_a_moment_between_two_slices_gives_the_later_one():
    feed = ReplayFeed({"A": {day(1): BAR, day(2): BAR}})

    assert await feed.next_slice(day(1, 12)) == MarketSlice(day(2), {"A": BAR})


async def test_a_limit_takes_the_first_bars(file):
    feed = ReplayFeed.read({"A": file(HEADER + LINE + LINE.replace("03-01", "03-02"))}, limit=1)

    assert [slice_.time for slice_ in await all_slices(feed)] == [day(1)]


async def test_the_recorded_data_is_whole_and_its_splits_are_known():
    slices = await all_slices(ReplayFeed.read(FILES, splits=DATA / "splits.csv"))

    assert (len(slices), slices[0].time, slices[-1].time) == (3270, day(1), datetime(2013, 3, 1, tzinfo=UTC))
    assert all(list(slice_.bars) == ["AAPL", "MSFT"] for slice_ in slices)
    assert [(slice_.time.date(), symbol) for slice_ in slices for symbol, bar in slice_.bars.items() if bar.split == 2] == [
        (date(2000, 6, 21), "AAPL"),
        (date(2003, 2, 18), "MSFT"),
        (date(2005, 2, 28), "AAPL"),
    ]


def test_thirteen_years_of_three_symbols_are_read_in_a_moment():
    files = {**FILES, "THIRD": FILES["MSFT"]}

    took_s = min(_seconds(lambda: ReplayFeed.read(files, splits=DATA / "splits.csv")) for _ in range(3))

    assert took_s < 0.3


def _seconds(function) -> float:
    start = process_time()
    function()
    return process_time() - start


async def test_bars_shorter_than_a_day_are_played_by_their_time_in_any_zone(file):
    text = HEADER + "2000-03-01T09:30:00Z,10,12,9,11.50,100\n2000-03-01 11:31:00+02:00,10,12,9,11.50,0.25\n"

    slices = await all_slices(ReplayFeed.read({"A": file(text)}))

    assert [slice_.time for slice_ in slices] == [day(1, 9, 30), day(1, 9, 31)]
    assert slices[1].time.tzinfo is UTC
    assert slices[1].bars["A"].volume == Decimal("0.25")


async def test_a_split_is_noted_in_the_first_bar_of_its_day(file):
    times = ("2000-03-01T20:00Z", "2000-03-02T14:30Z", "2000-03-02T14:31Z")
    bars = file(HEADER + "".join(LINE.replace("2000-03-01", time) for time in times))
    splits = file("symbol,date,units\nA,2000-03-02,2\n", "splits.csv")

    slices = await all_slices(ReplayFeed.read({"A": bars}, splits=splits))

    assert [slice_.bars["A"].split for slice_ in slices] == [1, 2, 1]


async def test_without_a_speed_the_clock_of_the_feed_is_at_the_slice_it_gave_last():
    feed = ReplayFeed({"A": {day(1): BAR, day(2): BAR}})

    before = feed.now()
    await feed.next_slice(day(1))

    assert (before, feed.now()) == (day(1), day(2))


async def test_at_a_speed_a_slice_is_there_when_its_time_has_come(autojump_clock):
    feed = ReplayFeed({"A": {day(1): BAR, day(2): BAR, day(5, 12): BAR}}, speed=DAY_S)

    assert await arrivals(feed, period_s=0.5) == [(0.0, day(1)), (1.0, day(2)), (4.5, day(5, 12))]


@pytest.mark.parametrize("speed", [1.0, 60.0, 7.3, DAY_S])
async def test_minutes_keep_their_pace_at_any_speed(autojump_clock, speed):
    minutes = [day(1, 9, 30) + timedelta(minutes=number) for number in range(200)]
    feed = ReplayFeed({"A": dict.fromkeys(minutes, BAR)}, speed=speed)

    seen = await arrivals(feed, period_s=60 / speed)

    assert [time for _, time in seen] == minutes
    assert all(abs(at - number * 60 / speed) <= 60 / speed for number, (at, _) in enumerate(seen))


async def test_a_feed_resumed_at_a_speed_goes_on_from_where_it_was(autojump_clock):
    feed = ReplayFeed({"A": {day(1): BAR, day(2): BAR, day(4): BAR}}, speed=DAY_S)

    seen = await arrivals(feed, after=day(2), period_s=0.25)

    assert seen == [(2.0, day(4))]
    assert feed.now() == day(4)


async def test_what_has_come_while_nobody_asked_is_given_one_by_one(autojump_clock):
    feed = ReplayFeed({"A": {day(number): BAR for number in range(1, 9)}}, speed=DAY_S)
    await feed.next_slice(None)

    await trio.sleep(3.5)

    assert [slice_.time for slice_ in await all_slices(feed, day(1))] == [day(2), day(3), day(4)]
    assert feed.now() == day(4, 12)


async def test_the_clock_of_a_feed_goes_on_after_its_last_slice(autojump_clock):
    feed = ReplayFeed({"A": {day(1): BAR}}, speed=DAY_S, endless=True)
    await feed.next_slice(None)

    await trio.sleep(10)

    assert feed.now() == day(11)


def test_thirteen_years_run_at_their_pace_on_the_virtual_clock():
    feed = ReplayFeed.read(FILES, splits=DATA / "splits.csv", speed=DAY_S)

    seen = trio.run(arrivals, feed, clock=MockClock(autojump_threshold=0))

    assert len(seen) == 3270
    assert all(at == (time - day(1)).days for at, time in seen)


def test_in_another_run_of_trio_a_feed_goes_on_from_where_it_was():
    feed = ReplayFeed({"A": {day(1): BAR, day(2): BAR, day(4): BAR}}, speed=DAY_S)

    runs = [trio.run(arrivals, feed, after, clock=MockClock(autojump_threshold=0)) for after in (None, day(2))]

    assert runs == [[(0.0, day(1)), (1.0, day(2)), (3.0, day(4))], [(2.0, day(4))]]


async def test_another_feed_over_the_same_bars_has_a_clock_of_its_own(autojump_clock):
    feed = ReplayFeed({"A": {day(1): BAR, day(2): BAR}}, speed=DAY_S)
    await feed.next_slice(None)
    await trio.sleep(1)

    other = feed.another()

    assert await other.next_slice(None) == await feed.next_slice(None)
    assert (feed.now(), other.now()) == (day(2), day(1))
    assert await other.next_slice(day(1)) is None


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), float("inf")])
def test_a_speed_that_is_none_is_refused(speed):
    with pytest.raises(HarnessMisuse, match="speed: expected a number of seconds above 0"):
        ReplayFeed({}, speed=speed)


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(BadMarketData, match="expected one with a zone, was 2000-03-01 00:00:00"):
        ReplayFeed({"A": {datetime(2000, 3, 1): BAR}})


async def test_a_feed_of_nothing_is_at_its_end():
    feed = ReplayFeed({})

    assert await feed.next_slice(None) is None
    assert feed.is_at_end(None)


@pytest.mark.parametrize(
    ("text", "number", "what"),
    [
        ("", 1, "header: expected date,open,high,low,close,volume, was ''"),
        ("day,price\n", 1, "header: expected date,open,high,low,close,volume, was 'day,price'"),
        (HEADER + "2000-03-01,10,12\n", 2, "expected 6 fields"),
        (HEADER + LINE + "01.03.2000,10,12,9,11,1\n", 3, "date: expected YYYY-MM-DD, or"),
        (HEADER + "2000-03-01T10:00:00,10,12,9,11,1\n", 2, "date: expected YYYY-MM-DD, or"),
        (HEADER + "2000-03-01,ten,12,9,11,1\n", 2, "open: expected a number above 0, was 'ten'"),
        (HEADER + "2000-03-01,10,NaN,9,11,1\n", 2, "high: expected a number above 0, was 'NaN'"),
        (HEADER + "2000-03-01,10,12,-9,11,1\n", 2, "low: expected a number above 0, was '-9'"),
        (
            HEADER + "2000-03-01,10,12,9,13,1\n",
            2,
            "expected low <= open, close <= high, was open 10, high 12, low 9, close 13",
        ),
        (HEADER + "2000-03-01,10,12,9,11,-1\n", 2, "volume: expected a number from 0 up, was '-1'"),
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


COLUMNS = HEADER.strip().split(",")
PRICES = [[Decimal("10.1")], [Decimal("12.2")], [Decimal("9.3")], [Decimal("11.4")], [Decimal("100.0")]]


def parquet(path: Path, *columns: pa.Array | list, names: list[str] = COLUMNS) -> Path:
    pq.write_table(pa.table(list(columns), names=names), path)
    return path


@pytest.mark.parametrize(
    ("dates", "time"),
    [
        (pa.array([date(2000, 3, 1)]), day(1)),
        (["2000-03-01"], day(1)),
        (pa.array([datetime(2000, 3, 1)]), day(1)),
        (pa.array([day(1, 9, 30)], pa.timestamp("us", tz="UTC")), day(1, 9, 30)),
        (pa.array([day(1, 9, 30)], pa.timestamp("ms", tz="+02:00")), day(1, 9, 30)),
    ],
)
@pytest.mark.parametrize("number", [Decimal, float, str])
def test_a_parquet_file_says_what_a_csv_file_would(tmp_path, dates, time, number):
    columns = [[number(value) for value in column] for column in PRICES]
    path = parquet(tmp_path / "a.parquet", dates, *columns)

    bars = read_bars(path)

    assert bars == {time: Bar(*(column[0] for column in PRICES))}


def test_a_parquet_file_of_the_recorded_data_gives_the_same_feed_as_the_csv_file(tmp_path):
    bars = read_bars(FILES["AAPL"])
    rows = [(time.date(), bar.open, bar.high, bar.low, bar.close, int(bar.volume)) for time, bar in bars.items()]
    path = parquet(tmp_path / "a.parquet", *zip(*rows, strict=True))

    assert read_bars(path) == bars
    assert read_bars(path, limit=10) == dict(list(bars.items())[:10])


@pytest.mark.parametrize(
    ("dates", "row", "what"),
    [
        (["2000-03-01", "2000-03-01"], 2, "date: expected one after 2000-03-01, was 2000-03-01"),
        (["2000-03-01", None], 2, "date: expected YYYY-MM-DD, or"),
        ([datetime(2000, 3, 1, 1), datetime(2000, 3, 1, 2)], 1, "date: expected YYYY-MM-DD, or"),
    ],
)
def test_a_wrong_row_of_a_parquet_file_is_named(tmp_path, dates, row, what):
    path = parquet(tmp_path / "a.parquet", dates, *(column * 2 for column in PRICES))

    with pytest.raises(BadMarketData) as caught:
        read_bars(path)

    assert str(caught.value).startswith(f"market data {path}, row {row}: {what}")


def test_a_parquet_file_without_a_column_is_named(tmp_path):
    path = parquet(tmp_path / "a.parquet", ["2000-03-01"], names=["date"])

    with pytest.raises(BadMarketData, match=r"columns: expected date,open,high,low,close,volume, was 'date'"):
        read_bars(path)


def test_a_file_that_is_no_parquet_is_named(file):
    with pytest.raises(BadMarketData, match=r"a.parquet.*expected a Parquet file"):
        read_bars(file(HEADER + LINE, "a.parquet"))


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(NotReady, match=r"Parquet needs pyarrow, .*run `python -m pip install .*\[parquet\]'`"):
        read_bars(tmp_path / "a.parquet")


def test_a_file_with_a_byte_order_mark_is_read_by_a_path_that_is_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("date,open,high,low,close,volume\n2020-01-01,1,1,1,1,1\n", encoding="utf-8-sig")

    feed = ReplayFeed.read({"A": str(path)})

    assert feed.symbols == ("A",)


@pytest.mark.parametrize(
    ("files", "more", "said"),
    [
        ({"A": "nofile.csv"}, {}, r"market data nofile\.csv: expected a file, was none in /.*; correct the path"),
        ({}, {}, "expected a file for each symbol, was none"),
        ({"A": "nofile.csv"}, {"limit": -1}, "limit: expected 1 or more, was -1"),
    ],
)
def test_what_can_not_be_read_is_said_before_anything_is(files, more, said):
    with pytest.raises(HarnessMisuse, match=said):
        ReplayFeed.read(files, **more)


def test_a_file_without_a_bar_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("date,open,high,low,close,volume\n", encoding="utf-8")

    with pytest.raises(BadMarketData, match=r"a\.csv, line 1: expected bars below it, was none"):
        ReplayFeed.read({"A": path})
