"""Outlines of records: the same records, less what is large."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from attrs import evolve
from trio.testing import MockClock

from orchestrator import SqliteStore
from orchestrator.codec import decode
from orchestrator.telemetry.counts import Counts
from tests.orchestrator.telemetry.recorded import run_busy


async def test_outlines_are_the_records_with_nothing_but_the_times_of_steps(tmp_path: Path, autojump_clock: MockClock) -> None:
    store = SqliteStore(tmp_path / "run.db")
    await run_busy(store, "ab")

    outlines, records = store.outlines(), store.records()

    assert len(outlines) == len(records)
    for outline, record in zip(outlines, records, strict=True):
        took = decode(record.body).get("took_us", {}) if record.kind == "step" else None
        assert evolve(outline, body="") == evolve(record, body="")
        assert decode(outline.body) == (decode(record.body) if took is None else {"took_us": took})
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
