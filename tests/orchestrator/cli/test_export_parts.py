"""A folder of parts has each row once, however often it is gone on with, and wherever that was cut short."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import duckdb
import pytest

from orchestrator.cli.export.export_parts import NOBODY, STATE, State, export_parts
from orchestrator.errors import UsageError
from orchestrator.store import SqliteReader, SqliteStore
from orchestrator.store.conformance import claim, step_row
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune
from tests import ROOT
from tests.orchestrator.commanding import Command, surroundings
from tests.orchestrator.store.pruning_runs import copy_store, make_run
from tests.zygote import run_python

RECORDS = State("records", "jsonl", ("harness",), None)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "run.db"
    make_run(path, Random(3), 200)
    return path


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return copy_store(made, tmp_path / "run.db")


@pytest.fixture
def command(store: Path, tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def export(store: Path, wanted: State = RECORDS, *, incremental: bool = True) -> tuple[State, State]:
    with closing(SqliteReader(store)) as reader:
        return export_parts(reader, wanted, store.parent / "parts", incremental=incremental)


def seqs(folder: Path) -> list[int]:
    return sorted(json.loads(text)["seq"] for path in folder.rglob("part-*.jsonl") for text in path.read_text().splitlines())


def go_on(store: Path, steps: int = 10) -> None:
    with closing(SqliteStore(store)) as writer:
        claimed = claim(writer, "one", take_over=True)
        numbers = range(claimed.step + 1, claimed.step + steps + 1)
        writer.commit([step_row(claimed, number, state=f'{{"total":{number}}}') for number in numbers])


def last_seq(store: Path) -> int:
    with closing(SqliteReader(store)) as reader:
        return reader.last_seq()


def test_each_harness_has_a_folder_and_a_part_is_named_by_its_numbers(store: Path, tmp_path: Path) -> None:
    export(store)

    names = {path.name for path in (tmp_path / "parts").iterdir()}
    assert names == {STATE, f"harness={NOBODY}", "harness=one", "harness=two", "harness=three"}
    for path in (tmp_path / "parts").rglob("part-*.jsonl"):
        lines = [json.loads(text) for text in path.read_text().splitlines()]
        assert path.name == f"part-{lines[0]['seq']}-{lines[-1]['seq']}.jsonl"
        assert {line["harness"] or NOBODY for line in lines} == {path.parent.name.removeprefix("harness=")}
    assert seqs(tmp_path / "parts") == list(range(1, last_seq(store) + 1))


def test_going_on_adds_what_is_new_and_nothing_if_nothing_is(store: Path, tmp_path: Path) -> None:
    export(store)
    before, again = export(store)
    go_on(store)
    _, now = export(store)

    assert before == again
    assert now.rows - again.rows == 10
    assert seqs(tmp_path / "parts") == list(range(1, last_seq(store) + 1))


def test_days_are_folders_within_those_of_harnesses_and_duckdb_reads_them(store: Path, tmp_path: Path) -> None:
    export(store, State("records", "parquet", ("harness", "day"), None))

    for path in (tmp_path / "parts").rglob("*.parquet"):
        assert re.fullmatch(r"harness=[^/]+/day=2023-11-14/part-\d+-\d+\.parquet", str(path.relative_to(tmp_path / "parts")))
    for hive in ("true", "false"):
        parts = f"read_parquet('{tmp_path}/parts/**/*.parquet', hive_partitioning = {hive})"
        assert duckdb.execute(f"SELECT count(*), count(DISTINCT seq) FROM {parts}").fetchone() == (
            last_seq(store),
            last_seq(store),
        )


def test_without_a_partition_parts_lie_in_the_folder(store: Path, tmp_path: Path) -> None:
    export(store, State("steps", "jsonl", (), "one"))

    (part,) = (tmp_path / "parts").glob("part-*.jsonl")
    assert {json.loads(text)["harness"] for text in part.read_text().splitlines()} == {"one"}


def test_an_export_that_is_killed_at_any_renaming_is_gone_on_with(store: Path, tmp_path: Path) -> None:
    chance, codes = Random(2), list[int]()
    while not codes or codes[-1] != 0:
        program = ["-m", "tests.orchestrator.exporting", store, tmp_path / "parts", chance.randrange(5, 25)]
        done = run_python(*program, cwd=ROOT, env=surroundings())
        codes.append(done.returncode)

    assert codes.count(-9) > 2
    assert seqs(tmp_path / "parts") == list(range(1, last_seq(store) + 1))
    assert list((tmp_path / "parts").rglob(".*")) == []


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (State("steps", "jsonl", ("harness",), None), "what"),
        (State("records", "csv", ("harness",), None), "format"),
        (State("records", "jsonl", (), None), "partition_by"),
        (State("records", "jsonl", ("harness",), "one"), "harness"),
    ],
)
def test_a_folder_is_gone_on_with_as_it_was_begun(store: Path, other: State, word: str) -> None:
    export(store)

    with pytest.raises(UsageError, match=f"was exported with {word} "):
        export(store, other)


def test_a_folder_that_has_an_export_is_gone_on_with_only_if_that_is_asked_for(store: Path) -> None:
    export(store, incremental=False)

    with pytest.raises(UsageError, match="expected a new folder, or --incremental"):
        export(store, incremental=False)


def test_the_export_of_another_store_is_not_gone_on_with(store: Path, tmp_path: Path) -> None:
    export(store)
    make_run(tmp_path / "other.db", Random(9), 250)

    with pytest.raises(UsageError, match="is of another store"):
        export(tmp_path / "other.db")


def test_parts_of_which_nothing_is_known_are_left_alone(store: Path, tmp_path: Path) -> None:
    export(store)
    os.unlink(tmp_path / "parts" / STATE)

    with pytest.raises(UsageError, match=f"has parts and no {STATE}"):
        export(store)


def test_what_can_still_change_is_not_gone_on_with(store: Path) -> None:
    with pytest.raises(UsageError, match="expected records, steps, events or transcripts, was effects"):
        export(store, State("effects", "jsonl", (), None))


def test_the_command_goes_on_and_says_what_was_pruned_before_it_was_exported(store: Path, command: Command) -> None:
    words = ["export", "--what", "records", "--output", "parts", "--partition-by", "harness", "--incremental"]
    first, again = command.each(words, words)
    before = last_seq(store)
    go_on(store, steps=40)
    prune(store, Rule(keep=5, context=0), ["one"], by="ann")
    (later,) = command.each(words)

    assert (first.code, "records written to parts in 4 parts" in first.err) == (0, True)
    assert "0 records written to parts in 0 parts" in again.err
    assert f"records after {before} were pruned before they were exported: parts lacks them" in later.err
    assert later.code == 0
