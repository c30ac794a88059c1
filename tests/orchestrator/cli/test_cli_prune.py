"""The verb `prune`, as a user runs it: it says what goes and what stays, and `verify` says how far it went."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.cli.export.prune_verb import age
from orchestrator.store import SqliteStore
from orchestrator.store.conformance import claim, step_row
from orchestrator.store.conformance.conformance_tools import TIME_US, do
from orchestrator.store.store_protocol import Post
from tests.benchmarks.keeping import measured
from tests.orchestrator.commanding import Command


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store with two harnesses of 2,000 steps each, and a message that waits."""
    path = tmp_path_factory.mktemp("prune") / "run.db"
    with closing(SqliteStore(path)) as store:
        for name in ("one", "two"):
            claimed = claim(store, name)
            do(store, Post(name, "x", TIME_US, "1"))
            rows = [step_row(claimed, n, state=f'{{"total":{n}}}' if n % 50 == 0 else None) for n in range(1, 2001)]
            store.commit(rows)
    return path


@pytest.fixture
def command(made: Path, tmp_path: Path) -> Iterator[Command]:
    for suffix in ("", "-head"):
        shutil.copy(f"{made}{suffix}", tmp_path / f"run.db{suffix}")
    with Command(tmp_path) as command:
        yield command


def test_a_dry_run_says_what_would_go_and_why_the_rest_stays(command: Command) -> None:
    before = (command.folder / "run.db").read_bytes()

    (done,) = command.each(["prune", "--keep", "120", "--dry-run"])

    head, one, two, sums = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert head.split()[:4] == ["HARNESS", "STEPS", "WOULD", "GO"]
    assert one.split()[:2] == ["one", "1849"]
    assert "1850 of 2000" in one
    assert one.endswith("the newest snapshot from which the kept steps can be derived; of older records stay 1 message")
    assert two.split()[0] == "two"
    assert sums.startswith("run.db: 3698 steps in 3698 records would be taken away")
    assert (command.folder / "run.db").read_bytes() == before


def test_what_went_is_told_as_json_and_verify_says_how_far(command: Command) -> None:
    pruned, again, proof = command.each(
        ["prune", "one", "--keep", "100", "--json"],
        ["prune", "one", "--keep", "100", "--json"],
        ["verify", "--json", "--deep"],
    )

    one, sums = pruned.objects
    assert one == {
        "harness": "one",
        "steps": 1899,
        "records": 1899,
        "bytes": one["bytes"],
        "first_step_kept": 1900,
        "last_step": 2000,
        "kept_because": "the newest snapshot from which the kept steps can be derived",
        "older_kept": {"message": 1},
    }
    assert (sums["steps"], sums["dry_run"], again.objects[1]["steps"]) == (1899, False, 0)
    (last,) = proof.objects
    assert (last["untouched"], last["pruned"]["up_to_seq"]) == (True, sums["base_seq"])
    assert last["pruned"]["by"]


def test_what_is_old_enough_goes_by_its_age(command: Command) -> None:
    done, young = command.each(["prune", "--older-than", "1d", "--json"], ["prune", "--older-than", "5000d", "--json"])

    assert [one["first_step_kept"] for one in done.objects[:2]] == [1900, 1900]
    assert young.objects[-1]["steps"] == 0


MISTAKES = (
    ["prune"],
    ["prune", "--keep", "5", "--older-than", "1d"],
    ["prune", "--keep", "0"],
    ["prune", "--keep", "-1"],
    ["prune", "--older-than", "30"],
    ["prune", "nobody", "--keep", "5"],
    ["prune", "--keep", "5", "--store", "missing.db"],
)


def test_a_mistake_is_one_line_and_takes_nothing_away(command: Command) -> None:
    before = (command.folder / "run.db").read_bytes()

    for done in command.each(*MISTAKES):
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)

    assert (command.folder / "run.db").read_bytes() == before


def test_the_space_is_given_back_if_that_is_asked_for(command: Command) -> None:
    size = (command.folder / "run.db").stat().st_size

    kept, given, proof = command.each(
        ["prune", "--keep", "1000"], ["prune", "--keep", "1", "--context", "0", "--vacuum"], ["verify"]
    )

    assert "are free within run.db, and are used again; --vacuum gives them back" in kept.err
    assert " fewer" in given.err
    assert (command.folder / "run.db").stat().st_size < size / 3
    assert proof.code == 0


def test_the_space_is_not_given_back_while_a_program_runs(command: Command) -> None:
    with closing(SqliteStore(command.folder / "run.db")) as store:
        (done,) = command.each(["prune", "--keep", "100", "--vacuum"])
        store.commit([step_row(claim(store, "one"), 2001)])

    assert (done.code, "run.db is not made smaller: process " in done.err) == (0, True)


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2592000), ("1.5h", 5400), ("90s", 90), ("2w", 1209600), ("5m", 300)])
def test_an_age_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert age(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "30", "-1d", "1y", "1 d", "1e3d", "999999999w"])
def test_anything_else_is_no_age(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        age(text)


def test_the_measure_of_a_million_steps_works_with_fewer(tmp_path: Path) -> None:
    store, parquet, pruned = measured(tmp_path, 2000, [("records.parquet",)])

    assert store.startswith("2,000 steps of 100 harnesses")
    assert parquet.startswith("2000 records written to records.parquet: ")
    assert "untouched" in pruned
