"""Lines: JSON that loses nothing and moves no terminal, and columns for people."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from harnesses.step import StateDelta
from orchestrator.records import StepRecord
from orchestrator.text.step_lines import step_line
from orchestrator.text.value_lines import brief, columns, json_line, json_pretty, stamp, stamp_us, step_fields
from tests.orchestrator.commanded import HOSTILE

CODES = (*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
LIVE = [chr(code) for code in CODES]
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def record(text: str) -> StepRecord:
    return StepRecord("h", 1, 9, 4, NOON, text, {"said": text}, StateDelta((text,), text))


@given(st.text())
def test_json_loses_nothing(text: str) -> None:
    assert json.loads(json_line({"said": [text]})) == {"said": [text]}
    assert json.loads(json_pretty({"said": [text]})) == {"said": [text]}


def test_json_has_no_character_that_a_terminal_acts_upon() -> None:
    line = json_line("".join(LIVE))

    assert line.isascii()
    assert line.isprintable()


def test_a_line_of_json_is_one_line_for_every_reader() -> None:
    assert len(json_line(HOSTILE).splitlines()) == 1


def test_a_line_for_people_has_no_character_that_a_terminal_acts_upon() -> None:
    line = step_line(record(HOSTILE + "".join(LIVE)))

    assert not set(line) & set(LIVE)


def test_a_value_is_cut_to_the_width() -> None:
    assert brief("x" * 10_000_000, 10) == "xxxxxxxxx…"
    assert brief({"a": 1}, 10) == '{"a":1}'


def test_a_step_has_the_fields_of_a_step_and_where_it_stands() -> None:
    fields = step_fields(record("x"))

    assert list(fields) == ["step_number", "timestamp", "input", "output", "state_delta", "harness", "attempt", "seq"]
    assert fields["state_delta"] == {"modified": ("x",), "summary": "x"}


def test_a_time_is_utc_with_microseconds_always() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=2)))

    assert stamp(there) == "2026-01-02T12:00:00.000000Z"
    assert stamp_us(1) == "1970-01-01T00:00:00.000001Z"
    assert stamp_us(0) is None


def test_columns_are_as_wide_as_they_need_to_be() -> None:
    assert list(columns(("A", "B"), [("long", "1"), ("x", "")])) == ["A     B", "long  1", "x"]
