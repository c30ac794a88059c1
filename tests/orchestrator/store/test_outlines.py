"""Outlines of records: the same records, less what is large."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from attrs import evolve
from trio.testing import MockClock

from orchestrator import SqliteStore
from orchestrator.codec import decode
from orchestrator.store.conformance import claim
from orchestrator.store.conformance.conformance_tools import output_row
from orchestrator.store.sqlite.sqlite_file import open_reader
from orchestrator.telemetry.record_counts import Counts
from tests.orchestrator.telemetry.recorded import run_busy


async def test_outlines_are_the_records_with_nothing_but_what_is_counted(tmp_path: Path, autojump_clock: MockClock) -> None:
    store = SqliteStore(tmp_path / "run.db")
    await run_busy(store, "ab")

    outlines, records = store.outlines(), store.records()

    assert len(outlines) == len(records)
    for outline, record in zip(outlines, records, strict=True):
        field = {"step": "took_us", "outcome": "outcome", "approval_answered": "verdict"}.get(record.kind)
        assert evolve(outline, body="") == evolve(record, body="")
        assert decode(outline.body) == {name: value for name, value in decode(record.body).items() if name == field}
    assert store.outlines(after=records[2].seq, limit=2) == outlines[3:5]
    assert store.outlines(after=records[-1].seq) == []
    store.close()


async def test_a_body_that_somebody_has_spoilt_keeps_no_other_from_being_counted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    store = SqliteStore(tmp_path / "run.db")
    await run_busy(store)
    store.close()
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE records SET body = 'spoilt' WHERE kind = 'step' AND step = 2")
        db.execute("UPDATE records SET body = '{\"took_us\": \"long\"}' WHERE kind = 'step' AND step = 1")
    db.close()

    counts = Counts()
    counts.take(store.outlines())

    assert counts.harnesses["a"].steps == 3


def test_bodies_that_are_too_large_to_be_joined_are_outlined_all_the_same(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "run.db")
    claimed = claim(store, "a")
    store.commit([], effects=[output_row(claimed, 1, "x" * 50_000) for _ in range(50)])
    store._idle.append(open_reader(store.path))
    store._idle[0].setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000)

    outlines = store.outlines()

    assert [outline.body for outline in outlines] == ["{}"] * 50
    store.close()
