"""G11: the verb `verify`, as a user runs it: what was changed is named, what cannot be verified is told, and no traceback."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses import BaseHarness
from orchestrator import Orchestrator, SqliteStore, verify_alone
from orchestrator.store.file.schema import APPLICATION_ID, MIGRATIONS
from tests.orchestrator.commanding import Command, Ended


class Counting(BaseHarness[dict[str, int], int, int]):
    """Makes five steps."""

    async def execute(self) -> Any:
        for number in range(1, 6):
            self.update_state(lambda state, number=number: {"total": state["total"] + number})
            yield number, number


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended: records 1 started, 2 to 6 steps, 7 finished."""
    path = tmp_path_factory.mktemp("verify") / "run.db"

    async def record() -> None:
        async with Orchestrator(path) as orchestrator:
            orchestrator.start(Counting({"total": 0}), name="counting")

    trio.run(record)
    return path


@pytest.fixture
def command(untouched: Path, tmp_path: Path) -> Iterator[Command]:
    """The command in a folder that has a copy of the store and its head."""
    for suffix in ("", "-head"):
        shutil.copy(f"{untouched}{suffix}", tmp_path / f"run.db{suffix}")
    with Command(tmp_path) as command:
        yield command


def tell(command: Command, *orders: str) -> None:
    with closing(sqlite3.connect(command.folder / "run.db", isolation_level=None)) as db:
        for order in orders:
            db.execute(order)


def verify(command: Command, *options: str) -> Ended:
    (done,) = command.each(["verify", *options])
    return done


def head_of(command: Command) -> str:
    return str(json.loads((command.folder / "run.db-head").read_text())["hash"])


def test_an_untouched_run_is_said_to_be_so_with_the_head_to_keep(command: Command) -> None:
    done = verify(command)

    assert (done.code, done.err) == (0, "")
    assert "run.db untouched: 7 records under" in done.out
    assert f"keep its head elsewhere, and give it to --head next time: {head_of(command)}" in done.out


def test_the_first_record_that_was_changed_is_named(command: Command) -> None:
    tell(command, "UPDATE records SET body = replace(body, '3', '4') WHERE seq = 4", "DELETE FROM records WHERE seq = 5")

    done = verify(command)

    first, second, *_ = done.out.splitlines()
    assert done.code == 5
    assert first == "edited: record 4 was edited; restore the store from a copy (step of 'counting', step 3)"
    assert second.startswith("dropped: record 5 was dropped; restore the store from a copy (step of 'counting', step 4)")
    assert "run.db changed: " in done.out


def test_in_json_each_finding_is_an_object_and_the_last_sums_up(command: Command) -> None:
    tell(command, "UPDATE records SET time_us = time_us + 1 WHERE seq = 3")

    done = verify(command, "--json")

    first, *_, last = done.objects
    assert [first[field] for field in ("finding", "where", "seq", "harness", "step", "kind")] == [
        "edited", "record", 3, "counting", 2, "step",
    ]  # fmt: skip
    assert (last["untouched"], last["findings"], last["sealed_records"]) == (False, 1, 7)


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ("UPDATE harnesses SET initial_state = '{}'", "edited: harnesses 1 was edited"),
        ("UPDATE harnesses SET status = 'completed'", "edited: harnesses 1 was edited"),
        ("DELETE FROM step_index WHERE step = 2", "edited: step_index was edited: for record 3 it lacks an entry"),
        ("UPDATE meta SET indexed_seq = 3", "meta 1 was edited"),
        ("UPDATE seals SET marks = x'00000000' WHERE length(marks) = 4", "seal 3 over records 1 to 1 was edited"),
        ("DROP VIEW steps", "view 'steps' was dropped"),
        ("CREATE TRIGGER t AFTER INSERT ON records BEGIN SELECT 1; END", "trigger 't' was inserted; if it is yours"),
    ],
)
def test_what_is_no_record_is_named_as_well(command: Command, order: str, words: str) -> None:
    tell(command, order)

    done = verify(command)

    assert done.code == 5
    assert words in done.out


def test_what_a_user_has_added_to_the_schema_is_named_with_how_to_remove_it(command: Command) -> None:
    tell(command, "CREATE VIEW mine AS SELECT * FROM steps", "CREATE TABLE notes (text TEXT)")

    done = verify(command)

    assert done.code == 5
    assert "inserted: view 'mine' was inserted; if it is yours, keep it in a file of its own and remove it with" in done.out


def test_an_older_copy_is_told_by_the_head_and_by_a_head_that_was_noted(command: Command, tmp_path: Path) -> None:
    older = (tmp_path / "run.db").read_bytes()
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        store.commit([], [])
    with closing(SqliteStore(tmp_path / "run.db", seal_every_s=0)) as store:
        from orchestrator.store.conformance import claim

        claim(store, "more")
    noted = head_of(command)
    (tmp_path / "run.db").write_bytes(older)

    beside, elsewhere = command.each(["verify"], ["verify", "--head", noted])

    for done in (beside, elsewhere):
        assert done.code == 5
        assert "cut off: the chain ends before its head" in done.out


def test_who_writes_the_chain_and_the_head_anew_is_found_out_by_a_head_that_was_noted_only(
    command: Command, tmp_path: Path
) -> None:
    noted = head_of(command)
    (tmp_path / "run.db").unlink()
    (tmp_path / "run.db-head").unlink()
    with closing(SqliteStore(tmp_path / "run.db")):
        pass

    beside, elsewhere = command.each(["verify"], ["verify", "--head", noted])

    assert (beside.code, elsewhere.code) == (0, 5)


def test_a_missing_head_is_a_finding_unless_another_is_given(command: Command, tmp_path: Path) -> None:
    noted = head_of(command)
    (tmp_path / "run.db-head").rename(tmp_path / "kept")

    without, by_hash, by_file = command.each(["verify"], ["verify", "--head", noted], ["verify", "--head", "kept"])

    assert (without.code, by_hash.code, by_file.code) == (5, 0, 0)
    assert "it cannot be determined whether its end was cut off; give one that was kept elsewhere with --head" in without.out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "none.db is not there: expected a store"),
        (b"Dear diary", "none.db is not a store of ours"),
        (b"", "none.db is empty: it is just being made"),
    ],
)
def test_what_is_no_store_is_told_in_one_line(command: Command, tmp_path: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / "none.db").write_bytes(content)

    done = verify(command, "--store", "none.db")

    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_a_store_from_before_there_were_seals_says_so(command: Command, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db")) as db:
        for script in MIGRATIONS[:4]:
            db.executescript(script)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("PRAGMA user_version = 4")
        db.commit()

    before = verify(command, "--store", "old.db")
    SqliteStore(tmp_path / "old.db").close()
    after = verify(command, "--store", "old.db")

    assert (before.code, after.code) == (2, 0)
    assert "schema version 4, from before there were seals: `orchestrator doctor --repair" in before.err


@pytest.mark.parametrize("size", [0, 50, 4096, 20_000])
def test_a_truncated_store_is_told_and_never_stumbled_over(command: Command, tmp_path: Path, size: int) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(path.read_bytes()[:size])

    done = verify(command)

    assert done.code == 5
    assert "Traceback" not in done.out + done.err
    assert ("damaged" if size else "cut off: run.db is empty") in done.out


def test_a_head_that_is_none_is_refused(command: Command) -> None:
    done = verify(command, "--head", "nowhere")

    assert done.code == 2
    assert "--head 'nowhere' cannot be read: No such file or directory: expected a file, or 64 digits" in done.err


def test_deep_finds_what_was_sealed_wrong(command: Command, tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        db = store._db  # pyright: ignore[reportPrivateUsage]
        db.execute("UPDATE harnesses SET attempt = 7")
        store._seals.seal()  # pyright: ignore[reportPrivateUsage]
        store._seals.publish()  # pyright: ignore[reportPrivateUsage]

    plain, deep = command.each(["verify"], ["verify", "--deep"])

    assert (plain.code, deep.code) == (0, 5)
    assert "harness 'counting' does not match its last lifecycle event, record 7" in deep.out


def test_the_one_that_stands_alone_runs_without_anything_of_ours(command: Command, tmp_path: Path) -> None:
    alone = shutil.copy(verify_alone.__file__, tmp_path / "alone.py")

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", alone, "run.db"], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    before = run()
    tell(command, "UPDATE records SET step = 9 WHERE seq = 4")
    after = run()

    assert (before.returncode, after.returncode) == (0, 5)
    assert "7 records under" in before.stdout
    assert after.stdout.startswith("edited: record 4")
