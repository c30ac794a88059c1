"""A line of a file becomes a bar, or an error that says what was expected."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal as Dec

import pytest

from harnesses.trading.market.bars import Bar, parse_bar, parse_split, parse_time

MIDNIGHT = datetime(2024, 2, 29, tzinfo=UTC)


def test_a_line_becomes_a_bar_at_the_midnight_that_begins_its_day() -> None:
    time, bar = parse_bar(["2024-02-29", "10", "12.5", "9", "11", "9616100"])

    assert time == MIDNIGHT
    assert time.tzinfo is UTC
    assert bar == Bar(Dec(10), Dec("12.5"), Dec(9), Dec(11), Dec(9616100))
    assert str(bar.volume) == "9616100"


def test_the_volume_may_be_any_part_of_a_unit() -> None:
    assert parse_bar(["2024-02-29", "10", "12", "9", "11", "0.00031"])[1].volume == Dec("0.00031")


@pytest.mark.parametrize(("text", "plain"), [("1e-05", "0.00001"), ("1.5E+06", "1500000"), (" 2.50", "2.50"), (".5", "0.5")])
def test_numbers_are_read_as_programs_write_them(text: str, plain: str) -> None:
    _, bar = parse_bar(["2024-02-29", text, "2e6", "1e-6", text, text])

    assert (f"{bar.volume:f}", f"{bar.open:f}") == (plain, plain)


@pytest.mark.parametrize(
    "text", ["2024-02-29T13:30:00Z", "2024-02-29 14:30:00+01:00", "2024-02-29T08:30-05:00", "2024-02-29T13:30:00.000+00:00"]
)
def test_a_time_with_its_offset_becomes_utc(text: str) -> None:
    assert parse_time(text) == datetime(2024, 2, 29, 13, 30, tzinfo=UTC)
    assert parse_time(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024-02-30",
        "20240229",
        "2024-W09-4",
        "2024-02-29T",
        "29.02.2024",
        "2024-02-29T13:30:00",
        "2024-W09-4T13Z",
        "0001-01-01T00:00+14:00",
        "now",
    ],
)
def test_what_is_no_certain_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^date: expected YYYY-MM-DD, or YYYY-MM-DDTHH:MM:SS with an offset"):
        parse_time(text)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("2024-02-29,10,12,9,11", "expected 6 fields"),
        ("2024-02-29,10,12,9,-11,5", "close: expected a number above 0, was '-11'"),
        ("2024-02-29,10,12,9,nan,5", "close: expected a number above 0, was 'nan'"),
        ("2024-02-29,10,12,11,11,5", "expected low <= open, close <= high"),
        ("2024-02-29,10,12,9,11,-5", "volume: expected a number from 0 up, was '-5'"),
        ("2024-02-29,10,12,9,11,1e99", "volume: expected a number from 0 up, was '1e99'"),
        ("2024-02-29,1_0,12,9,11,5", "open: expected a number above 0, was '1_0'"),
        ("2024-02-29,1e-25,12,9,11,5", "open: expected a number from 1E-18 to 1E[+]20 with at most 40 decimals, was '1e-25'"),
        ("2024-02-29,10,1e9999,9,11,5", "high: expected a number from 1E-18 to 1E[+]20 with at most 40 decimals"),
        ("2024-02-29,10,12,9,11,", "volume: expected a number from 0 up, was ''"),
    ],
)
def test_what_is_no_bar_is_refused_with_the_reason(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{why}"):
        parse_bar(line.split(","))


def test_a_split_has_a_symbol_a_time_and_units() -> None:
    assert parse_split(["A", "2024-02-29", "1.5"]) == ("A", MIDNIGHT, Dec("1.5"))
    with pytest.raises(ValueError, match="units: expected a number above 0, was '0'"):
        parse_split(["A", "2024-02-29", "0"])
