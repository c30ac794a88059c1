"""Whatever is recorded can be exported: each row once, in order, without secrets, and as the store has it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
import trio
from pyarrow import parquet

from harnesses.agents.model.messages import Message, Role
from harnesses.agents.model.transcript import Transcript, as_record
from orchestrator import Orchestrator
from orchestrator.cli.export.export_formats import export_sheet
from orchestrator.cli.export.export_sheets import SHEETS
from orchestrator.codec import encode
from orchestrator.errors import UnknownHarness, UsageError
from orchestrator.store import SqliteReader, SqliteStore
from orchestrator.store.conformance import TIME_US, claim, intent_row, step_row
from orchestrator.store.conformance.conformance_tools import do, output_row
from orchestrator.store.file.value_files import files_folder
from orchestrator.store.store_protocol import EffectRow, Post
from tests.orchestrator.commanded import Hostile, Three
from tests.orchestrator.store.pruning_runs import make_run

LONG = "long " * 20_000
KEY = "sk-ant-api03-" + "a1B2" * 20 + "-AA"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store in which there is something of everything."""
    path = tmp_path_factory.mktemp("export") / "run.db"
    make_run(path, Random(3), 300)
    with closing(SqliteStore(path)) as store:
        do(store, Post("one", "x", TIME_US, '{"n":1}'))
        claimed = claim(store, "one", take_over=True, reopen=True)
        for step, text in enumerate(("short", LONG), claimed.step + 1):
            said = as_record(Transcript(agent="a", model="local:small", messages=[Message(role=Role.USER, text=text)]))
            row = EffectRow(claimed.harness, claimed.epoch, claimed.attempt + 1, step, TIME_US, encode(said), "transcript")
            store.commit([step_row(claimed, step)], effects=[row])
    return path


@pytest.fixture
def reader(store: Path) -> Iterator[SqliteReader]:
    with closing(SqliteReader(store)) as reader:
        yield reader


def exported(reader: SqliteReader, what: str, name: str | None = None, *, after_seq: int = 0) -> list[Any]:
    out = io.StringIO()
    count = export_sheet(reader, what, name, "jsonl", None, out, after_seq=after_seq)
    rows = [json.loads(text) for text in out.getvalue().splitlines()]
    assert count == len(rows)
    return rows


def test_records_as_lines_are_those_of_the_log(tmp_path: Path) -> None:
    async def record() -> None:
        async with Orchestrator(tmp_path / "run.db", log=tmp_path / "steps.jsonl") as orchestrator:
            orchestrator.start(Three(0), name="three")
            hostile = orchestrator.start(Hostile(0), name="hostile")
            async for _ in hostile.steps():
                hostile.stop()

    trio.run(record)
    out = io.StringIO()
    with closing(SqliteReader(tmp_path / "run.db")) as reader:
        export_sheet(reader, "records", None, "jsonl", None, out)

    assert out.getvalue() == (tmp_path / "steps.jsonl").read_text("utf-8")


def test_records_as_parquet_are_those_of_the_store_with_types(reader: SqliteReader, tmp_path: Path) -> None:
    export_sheet(reader, "records", None, "parquet", tmp_path / "x.parquet", io.StringIO())

    table = parquet.read_table(tmp_path / "x.parquet")
    records = reader.records(limit=10**6)
    assert [(field.name, str(field.type)) for field in table.schema] == [
        ("seq", "int64"),
        ("timestamp", "timestamp[us, tz=UTC]"),
        *((name, "string") for name in ("run", "harness")),
        ("attempt", "int32"),
        ("step", "int64"),
        *((name, "string") for name in ("kind", "body")),
    ]
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert rows == [(r.seq, r.timestamp, r.run, r.harness, r.attempt, r.step, r.kind, r.body) for r in records]


def test_duckdb_reads_the_parquet(reader: SqliteReader, tmp_path: Path) -> None:
    export_sheet(reader, "records", None, "parquet", tmp_path / "x.parquet", io.StringIO())

    question = "SELECT count(*), max(seq), count(DISTINCT harness) FROM read_parquet(?)"
    assert duckdb.execute(question, [str(tmp_path / "x.parquet")]).fetchone() == (reader.last_seq(), reader.last_seq(), 4)


def test_steps_of_all_harnesses_come_in_the_order_of_the_store(reader: SqliteReader) -> None:
    rows = exported(reader, "steps")

    assert [row["seq"] for row in rows] == [record.seq for record in reader.records(limit=10**6) if record.kind == "step"]
    assert {row["harness"] for row in rows} == {"one", "two", "three"}
    assert exported(reader, "steps", "two") == [row for row in rows if row["harness"] == "two"]


def test_what_was_recorded_up_to_a_number_is_left_out(reader: SqliteReader) -> None:
    assert [row["seq"] for row in exported(reader, "records", after_seq=10)] == list(range(11, reader.last_seq() + 1))


def test_events_are_all_but_steps_and_effects(reader: SqliteReader) -> None:
    kinds = {row["event"].partition(".")[2] for row in exported(reader, "events")}

    assert {"started", "message", "output", "latch", "approval_requested", "budget"} <= kinds
    assert not kinds & {"step", "intent", "outcome"}


def test_effects_are_what_is_known_of_each(reader: SqliteReader) -> None:
    rows = exported(reader, "effects")

    known = reader.effects()
    assert [(row["seq"], row["harness"], row["key"], row["outcome"], row["result"]) for row in rows] == [
        (one.seq, one.harness, one.key, one.outcome.value, one.result) for one in known
    ]
    assert rows[0]["arguments"] == [1]
    assert rows[0]["timestamp"].endswith("Z")


def test_messages_say_which_step_has_used_them_up(reader: SqliteReader) -> None:
    rows = exported(reader, "messages")

    assert len(rows) == sum(record.kind == "message" for record in reader.records(limit=10_000))
    assert {row["consumed_step"] is None for row in rows} == {True, False}
    assert rows[0]["body"] == {"n": 1}


def test_approvals_say_what_has_become_of_them(reader: SqliteReader) -> None:
    rows = exported(reader, "approvals")

    assert [row["id"] for row in rows] == [one.id for one in reader.approvals()]
    assert {row["verdict"] for row in rows} == {None, "approved", "denied"}


def test_transcripts_have_all_that_was_said_also_what_is_in_files(reader: SqliteReader) -> None:
    rows = exported(reader, "transcripts")

    assert [(row["agent"], row["model"], row["messages"]) for row in rows] == [
        ("a", "local:small", [{"role": "user", "text": text}]) for text in ("short", LONG)
    ]
    assert files_folder(reader.path).is_dir()


@pytest.mark.parametrize("what", [*SHEETS])
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_every_form_has_every_row(reader: SqliteReader, tmp_path: Path, what: str, format: str) -> None:
    output = tmp_path / f"x.{format}"

    count = export_sheet(reader, what, None, format, output, io.StringIO())

    assert count == len(exported(reader, what)) > 0
    if format == "csv":
        assert len([*csv.reader(io.StringIO(output.read_text("utf-8")))]) == count + 1
    else:
        assert parquet.read_metadata(output).num_rows == count


@pytest.mark.parametrize("what", [*SHEETS])
def test_a_harness_that_is_not_there_is_an_error(reader: SqliteReader, what: str) -> None:
    with pytest.raises(UnknownHarness):
        exported(reader, what, "nobody")


def test_nothing_that_is_exported_holds_a_secret_and_no_cell_is_a_formula(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as written:
        claimed = claim(written, "one")
        written.commit([], effects=[intent_row(claimed, 1, "=cmd()", KEY), output_row(claimed, 1, KEY)])
    with closing(SqliteReader(tmp_path / "run.db")) as reader:
        for what in ("records", "effects", "events"):
            for format in ("jsonl", "csv"):
                export_sheet(reader, what, None, format, tmp_path / f"{what}.{format}", io.StringIO())
                assert KEY not in (tmp_path / f"{what}.{format}").read_text("utf-8")
            export_sheet(reader, what, None, "parquet", tmp_path / "x.parquet", io.StringIO())
            assert KEY not in str(parquet.read_table(tmp_path / "x.parquet").to_pylist())

    (row,) = csv.DictReader(io.StringIO((tmp_path / "effects.csv").read_text("utf-8")))
    assert row["key"] == "'=cmd()"


def test_what_is_recorded_meanwhile_is_left_out(store: Path, tmp_path: Path) -> None:
    live = tmp_path / "run.db"
    make_run(live, Random(1), 50)
    with closing(SqliteReader(live)) as reader, closing(SqliteStore(live)) as writer:
        last = reader.last_seq()
        pages = SHEETS["records"].pages(reader, None, 0, last)
        _, first = next(pages)
        claim(writer, "late")
        writer.commit([], effects=[output_row(claim(writer, "later"), 1, "hello")])
        rest = [record.seq for _, page in pages for record in page]

    assert [record.seq for record in first] + rest == list(range(1, last + 1))


def test_parquet_of_records_needs_a_file(reader: SqliteReader) -> None:
    with pytest.raises(UsageError, match="expected --output FILE"):
        export_sheet(reader, "records", None, "parquet", None, io.StringIO())
