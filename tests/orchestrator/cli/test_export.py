"""Exports: what comes out is what the store holds, whole or not at all, and in bounded memory."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio
from pyarrow import parquet

from harnesses.diagnostics.extras import install_command
from orchestrator import Orchestrator, UnknownHarness, UsageError
from orchestrator.cli.export.export_formats import COLUMNS, export, harmless
from orchestrator.history.past_reader import pages
from orchestrator.store import SqliteReader
from tests.orchestrator.commanded import HOSTILE, Hostile, Three
from tests.orchestrator.commanding import Command, ended, surroundings
from tests.zygote import run_python


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "run.db"

    async def record() -> None:
        async with Orchestrator(path) as orchestrator:
            orchestrator.start(Three(0), name="three")
            hostile = orchestrator.start(Hostile(0), name="hostile")
            async for _ in hostile.steps():
                hostile.stop()

    trio.run(record)
    return path


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


@pytest.fixture
def reader(store: Path) -> Iterator[SqliteReader]:
    with closing(SqliteReader(store)) as reader:
        yield reader


def test_jsonl_is_what_steps_prints(reader: SqliteReader, store: Path, tmp_path: Path, command: Command) -> None:
    out = io.StringIO()

    count = export(reader, "three", "jsonl", None, out)

    assert count == 3
    assert out.getvalue() == command("steps", "three", "--json", "--store", store).out


def test_jsonl_is_exact(reader: SqliteReader) -> None:
    out = io.StringIO()

    export(reader, "hostile", "jsonl", None, out)

    step = json.loads(out.getvalue())
    assert (step["input"], step["output"]) == (HOSTILE, HOSTILE)


def test_csv_has_a_flat_row_for_each_step(reader: SqliteReader) -> None:
    out = io.StringIO()

    export(reader, "three", "csv", None, out, after=1)

    head, *rows = csv.reader(io.StringIO(out.getvalue()))
    assert tuple(head) == COLUMNS
    assert [(row[0], row[2], row[5], row[6], row[7], row[8]) for row in rows] == [
        ("2", "three", "2", '"one of three"', '["state"]', "step 2 made"),
        ("3", "three", "3", '"one of three"', '["state"]', "step 3 made"),
    ]


def test_csv_is_harmless_for_terminals_and_spreadsheets(reader: SqliteReader) -> None:
    out = io.StringIO()

    export(reader, "hostile", "csv", None, out)

    (row,) = csv.DictReader(io.StringIO(out.getvalue()))
    assert out.getvalue().replace("\n", "").isprintable()
    assert row["summary"].startswith("'=HYPERLINK")
    assert json.loads(row["output"]) == HOSTILE


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", " =1", "\t=1", "\r=1"])
def test_no_cell_is_a_formula(text: str) -> None:
    assert harmless(text)[0] == "'"


def test_parquet_has_the_same_columns_with_types(reader: SqliteReader, tmp_path: Path) -> None:
    export(reader, "three", "parquet", tmp_path / "x.parquet", sys.stdout)

    table = parquet.read_table(tmp_path / "x.parquet")
    assert tuple(table.column_names) == COLUMNS
    assert str(table.schema.field("timestamp").type) == "timestamp[us, tz=UTC]"
    assert table.column("timestamp").to_pylist() == [step.timestamp for step in reader.steps("three")]
    assert table.column("modified").to_pylist() == [["state"]] * 3
    assert table.column("seq").to_pylist() == [step.seq for step in reader.steps("three")]


def test_an_export_that_fails_leaves_the_old_file_and_nothing_else(reader: SqliteReader, tmp_path: Path) -> None:
    output = tmp_path / "x.jsonl"
    output.write_text("old")

    with pytest.raises(UnknownHarness):
        export(reader, "nobody", "jsonl", output, sys.stdout)

    assert output.read_text() == "old"
    assert os.listdir(tmp_path) == ["x.jsonl"]


def test_a_link_stays_a_link_and_its_target_is_replaced(reader: SqliteReader, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")

    export(reader, "three", "jsonl", tmp_path / "link", sys.stdout)

    assert (tmp_path / "link").is_symlink()
    assert len((tmp_path / "target").read_text().splitlines()) == 3


def test_a_pipe_is_written_to_and_not_replaced(store: Path, tmp_path: Path, command: Command) -> None:
    os.mkfifo(tmp_path / "pipe")
    process = command.start("export", "three", "--output", "pipe", "--store", store)

    text = (tmp_path / "pipe").read_text()

    assert ended(process).code == 0
    assert len(text.splitlines()) == 3
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("output", ["missing/x.jsonl", "."])
def test_a_file_that_can_not_be_written_is_told(reader: SqliteReader, tmp_path: Path, output: str) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        export(reader, "three", "jsonl", tmp_path / output, sys.stdout)


def test_parquet_needs_a_file(reader: SqliteReader) -> None:
    with pytest.raises(UsageError, match="expected --output FILE"):
        export(reader, "three", "parquet", None, sys.stdout)


def test_without_pyarrow_parquet_is_refused_in_plain_words(store: Path, tmp_path: Path, command: Command) -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from orchestrator.cli import main; sys.exit(main(sys.argv[1:]))"

    done = ended(command.python("-c", code, "export", "three", "--output", "x.parquet", "--store", store))

    assert done.code == 2
    assert "parquet needs pyarrow, which is not installed" in done.err
    assert install_command("parquet") in done.err
    assert os.listdir(tmp_path) == []


def test_the_end_of_the_files_name_says_the_format(store: Path, tmp_path: Path, command: Command) -> None:

    done = command("export", "three", "--output", "x.csv", "--store", store)

    assert done == type(done)(0, "", "3 steps written to x.csv\n")
    assert (tmp_path / "x.csv").read_text().startswith("step_number,")


def test_json_contradicts_another_format(store: Path, tmp_path: Path, command: Command) -> None:
    done = command("export", "three", "--json", "--format", "csv", "--store", store)

    assert (done.code, done.err.count("\n")) == (2, 1)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_told(store: Path, tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        command = ["-m", "orchestrator", "export", "three", "--store", store]
        done = run_python(*command, stdout=full, stderr=subprocess.PIPE, env=surroundings(), text=True)

    assert done.returncode == 1
    assert done.stderr == (
        "orchestrator: the output cannot be written: No space left on device; nothing that is recorded is lost\n"
    )


def grown(store: Path, copy: Path, output: str, steps: int) -> Path:
    """Return a copy of the store in which `three` has more steps, as large as `output` makes them."""
    with closing(sqlite3.connect(store)) as old, closing(sqlite3.connect(copy)) as db, db:
        old.backup(db)
        body = json.dumps({"input": 1, "output": output, "delta": {}})
        db.executemany(
            "INSERT INTO records (harness, epoch, attempt, step, time_us, body) "
            "SELECT id, epoch, 1, ?, 1, ? FROM harnesses WHERE name = 'three'",
            [(number, body) for number in range(4, steps + 1)],
        )
    return copy


def test_a_page_is_small_where_steps_are_large(store: Path, tmp_path: Path) -> None:
    with closing(SqliteReader(grown(store, tmp_path / "x.db", "x" * 1_000_000, steps=40))) as reader:
        sizes = [len(page) for page in pages(reader, "three")]

    assert sum(sizes) == 40
    assert max(sizes[1:]) <= 4


def test_a_page_is_large_where_steps_are_small(store: Path, tmp_path: Path) -> None:
    with closing(SqliteReader(grown(store, tmp_path / "x.db", "x", steps=20_000))) as reader:
        sizes = [len(page) for page in pages(reader, "three", after=10, limit=15_000)]

    assert sum(sizes) == 15_000
    assert len(sizes) < 10


def test_a_harness_that_goes_on_does_not_keep_the_reader(store: Path, tmp_path: Path) -> None:
    path = grown(store, tmp_path / "x.db", "x", steps=100)
    grown_again = "INSERT INTO records (harness, epoch, attempt, step, time_us, body) SELECT harness, epoch, 1, 101, 1, body"

    with closing(SqliteReader(path)) as reader:
        reading = pages(reader, "three")
        first = next(reading)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(f"{grown_again} FROM records WHERE step = 100")
        rest = [record.step_number for page in reading for record in page]

    assert [record.step_number for record in first] + rest == list(range(1, 101))


def test_an_export_does_not_replace_the_store(store: Path, command: Command) -> None:
    before = store.read_bytes()

    done = command("export", "three", "--store", store, "--output", store)

    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "is the store: expected another file" in done.err
    assert store.read_bytes() == before
