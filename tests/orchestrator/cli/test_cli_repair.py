"""`doctor --repair`, as a user runs it: the defect is named with the way out and mended; what else is wrong is refused."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.store import SqliteStore
from orchestrator.store.file.schema import VERSION
from tests import ROOT
from tests.orchestrator.commanding import Command

BROKEN = ROOT / "tests/orchestrator/store" / "pruned-twice.db.gz"


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    (tmp_path / "run.db").write_bytes(gzip.decompress(BROKEN.read_bytes()))
    shutil.copy(BROKEN.with_name("pruned-twice-head.json"), tmp_path / "run.db-head")
    with Command(tmp_path) as command:
        yield command


def test_the_defect_is_named_with_the_way_out_and_mended_once(command: Command) -> None:
    verify, done, again, after, seals, prune = command.each(
        ["verify"],
        ["doctor", "--repair"],
        ["doctor", "--repair", "--json"],
        ["verify", "--json", "--deep"],
        ["doctor", "--json"],
        ["prune", "--keep", "1", "--context", "0", "--dry-run"],
    )

    assert verify.code == 5
    assert "known defect of an earlier version" in verify.out
    assert "run `orchestrator doctor --repair`" in verify.out
    assert (done.code, done.err) == (0, "")
    upgraded, repaired = done.out.splitlines()[:2]
    assert upgraded == f"run.db upgraded from schema version 6 to {VERSION}"
    assert repaired.startswith("run.db repaired, and untouched now: known defect")
    assert "cannot be told" in done.out
    assert (again.code, again.objects) == (0, [{"store": "run.db", "schema_before": None, "repaired": False}])
    (proof,) = after.objects
    assert (after.code, proof["untouched"]) == (0, True)
    assert any("repaired at" in notice and "cannot be told" in notice for notice in proof["notices"])
    assert [check["level"] for check in seals.objects if check["check"] == "seals"] == ["PASS"]
    assert prune.code == 0


def test_doctor_finds_the_defect_in_a_store_that_was_brought_up_to_date(command: Command) -> None:
    SqliteStore(command.folder / "run.db").close()

    look = command("doctor", "--json")

    (found,) = [check for check in look.objects if check["check"] == "seals"]
    assert (found["level"], found["fix"]) == ("FAIL", "orchestrator doctor --repair --store run.db")


def test_anything_else_that_is_wrong_is_named_and_left_as_it_is(command: Command) -> None:
    store = command.folder / "run.db"
    with closing(sqlite3.connect(store, isolation_level=None)) as db:
        db.execute("UPDATE records SET body = replace(body, '1', '2') WHERE seq = 82")
    before = hashlib.sha256(store.read_bytes()).digest()

    look, done, missing = command.each(
        ["doctor", "--json"], ["doctor", "--repair"], ["doctor", "--repair", "--store", "none.db"]
    )

    assert all("--repair" not in check["fix"] for check in look.objects if check["check"] == "seals")
    assert (done.code, done.out) == (5, "")
    assert "was not repaired, and its records are unchanged" in done.err
    assert "record 82 was edited" in done.err
    assert hashlib.sha256(store.read_bytes()).digest() == before
    assert missing.code == 2


def test_an_upgrade_is_told_also_where_the_head_of_the_store_is_missing(command: Command) -> None:
    golden = ROOT / "tests/orchestrator/store" / "golden" / f"version-{VERSION - 1}.db.gz"
    for name in ("text.db", "json.db"):
        (command.folder / name).write_bytes(gzip.decompress(golden.read_bytes()))

    text, lines = command.each(
        ["doctor", "--repair", "--store", "text.db"], ["doctor", "--repair", "--json", "--store", "json.db"]
    )

    assert (text.code, text.out) == (5, f"text.db upgraded from schema version {VERSION - 1} to {VERSION}\n")
    assert "was not repaired, and its records are unchanged" in text.err
    assert lines.code == 5
    assert lines.objects == [{"store": "json.db", "schema_before": VERSION - 1, "repaired": False}]
