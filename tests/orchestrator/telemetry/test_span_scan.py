"""Spans of a store as text, made quickly and by several processes, are those that are made one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from harnesses.processes.helper_process import helper_command
from orchestrator import SqliteStore
from orchestrator.records import Record
from orchestrator.store.sqlite.sqlite_reader import ScannedRow, SqliteReader
from orchestrator.telemetry import span_processes
from orchestrator.telemetry.otlp_export import otlp_lines, span_text
from orchestrator.telemetry.span_processes import stored_requests
from orchestrator.telemetry.span_scan import SpanScan
from orchestrator.telemetry.spans import spans
from orchestrator.telemetry.stored_spans import stored_spans
from tests.orchestrator.telemetry.recorded import SECOND, run_busy

NAMES = {1: "a%s", 2: "bé\x1b"}
RUNS = {(number, epoch): f"run{epoch}" for number in NAMES for epoch in (1, 2)}
KINDS = ("started", "step", "step", "step", "intent", "outcome", "budget", "transcript", "approval_requested", "failed", "odd")
SECRET = "sk-ant-api03-" + "A" * 80
BODIES = (
    {},
    {"key": "k", "id": "x", "outcome": "confirmed"},
    {"key": f"agent#1/round/1 {SECRET}", "outcome": "failed", "reason": SECRET},
    {"key": "agent#1/round/1/tool/1", "arguments": ["edit"], "outcome": "confirmed", "result": {"call": {}}},
    {"took_us": {"work": 250_000, "agent": 90_000, "comm%it": 7}},
    {"took_us": {"work": 50_000_000_000}, "summary": f"100 % é\x1b[31m {SECRET}"},
    {"took_us": {"work": -1, "agent": 5}},
    {"took_us": [1], "summary": 3},
    {"spent": {"tokens": 100}, "agent": "coder", "usage": {"input_tokens": 5}},
    {"agent": "coder", "started_us": SECOND, "ended_us": 2 * SECOND, "tools": []},
)
TEXTS = st.sampled_from([*map(json.dumps, BODIES), "[]", "nonsense"])
ROWS = st.lists(
    st.tuples(
        st.sampled_from((1, 1, 1, 2, 0)),  # harness
        st.sampled_from((1, 1, 1, 1, 2, 0)),  # epoch
        st.sampled_from((1, 1, 1, 2)),  # attempt
        st.sampled_from((0, 0, 9)),  # seconds ahead
        st.sampled_from(KINDS),
        TEXTS,
    ),
    max_size=40,
)
BEGUN = [(number, 1, 1, 0, "started", "{}") for number in NAMES]


@frozen
class Rows:
    """A reader of rows in memory."""

    rows: list[ScannedRow]

    def claims(self) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
        return NAMES, RUNS

    def scan(self, first: int, last: int, *, name: str | None = None) -> Iterator[ScannedRow]:
        return iter(self.rows[first - 1 : last])


def record_of(row: ScannedRow) -> Record:
    seq, harness, epoch, attempt, step, time_us, kind, body = row
    return Record(seq, NAMES.get(harness, ""), attempt, step, time_us, kind, body, RUNS.get((harness, epoch), ""))


def read(rows: list[ScannedRow], size: int, readers: int) -> list[str]:
    """Return the spans of rows that several readers go through, each of which makes text of some ranges."""
    scans = [SpanScan(cast("Any", Rows(rows))) for _ in range(readers)]
    made: list[str] = []
    for place, first in enumerate(range(1, len(rows) + 1, size)):
        for number, scan in enumerate(scans):
            if number == place % readers:
                made += scan.texts(first, first + size - 1)
            else:
                scan.skip(first, first + size - 1)
    return made


@given(ROWS, st.integers(1, 7), st.integers(1, 3))
def test_text_made_of_any_ranges_is_that_of_the_spans(drawn: list[tuple[Any, ...]], size: int, readers: int) -> None:
    rows: list[ScannedRow] = [
        (seq, harness, epoch, attempt, seq, (seq + ahead) * SECOND, kind, body)
        for seq, (harness, epoch, attempt, ahead, kind, body) in enumerate([*BEGUN, *drawn], 1)
    ]

    assert read(rows, size, readers) == list(map(span_text, spans(map(record_of, rows))))


async def test_several_processes_give_the_same_requests_even_if_they_fail(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.db"
    with closing(SqliteStore(path)) as store:
        await run_busy(store, "abc")
    with closing(SqliteReader(path)) as reader:
        told = [json.loads(line) for line in otlp_lines(stored_spans(reader))]
        by_one, by_two = (list(stored_requests(reader, processes=number, size=8)) for number in (1, 2))
        monkeypatch.setattr(span_processes, "helper_command", lambda _: helper_command("builtins:bool"))
        failed = list(stored_requests(reader, processes=2, size=8))
        later = b"".join(stored_requests(reader, "b", after=20, processes=1, size=8))
        shorter = list(otlp_lines(stored_spans(reader, "b", after=20)))

    assert len(by_one) > 2
    assert by_one == by_two == failed
    assert [span for some in by_one for span in in_requests(some)] == [span for one in told for span in in_request(one)]
    assert in_requests(later) == [span for line in shorter for span in in_request(json.loads(line))]


def in_requests(text: bytes) -> list[Any]:
    return [span for line in text.splitlines() for span in in_request(json.loads(line))]


def in_request(request: Any) -> list[Any]:
    return list(request["resourceSpans"][0]["scopeSpans"][0]["spans"])
