"""G11: a store whose schema is not the one that the program makes is refused before any of it runs, and named."""

from __future__ import annotations

import shlex
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from orchestrator import verify_alone
from orchestrator.errors import StoreCorrupt, StoreError
from orchestrator.store import SqliteStore
from orchestrator.store.conformance import claim, numbers, step_row
from orchestrator.store.file.schema import MIGRATIONS, VERSION, statements
from orchestrator.store.file.schema_shape import compare, shape
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune
from tests.tampering.deeds import QUIET, SCHEMA_EDITS, apply_schema_edit, hide_before_views
from tests.tampering.proof import judge

from .test_sqlite_file import make, make_version_1, read

EDITS = [edit for edits in SCHEMA_EDITS.values() for edit in edits]


def tell(path: Path, *orders: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for order in orders:
            db.execute(order)


def write(path: Path) -> None:
    SqliteStore(path).close()


@pytest.mark.parametrize("edit", EDITS)
def test_a_schema_that_was_changed_is_refused_by_all_and_named_by_both_verifiers(tmp_path: Path, edit: str) -> None:
    path = tmp_path / "run.db"
    make(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        apply_schema_edit(db, edit)

    proof, alone = judge(path)
    assert proof.findings, "the verifier has found nothing"
    assert [(one.seq, one.what) for one in proof.findings][:1] == [tuple(one[:2]) for one in alone][:1]
    for opens in (write, read):
        with pytest.raises(StoreError):
            opens(path)


@pytest.mark.parametrize("opens", [write, read])
def test_a_trigger_that_hides_behind_the_name_of_a_view_does_not_run(tmp_path: Path, opens: Callable[[Path], object]) -> None:
    path = tmp_path / "run.db"
    make(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        apply_schema_edit(db, f"CREATE TRIGGER harness_status {QUIET}")
        hide_before_views(db)

    with pytest.raises(StoreCorrupt, match=r"trigger 'harness_status' was inserted: expected only what .*DROP TRIGGER"):
        opens(path)

    proof, alone = judge(path)
    assert [(one.what, one.where) for one in proof.findings] == [("inserted", "sqlite_master")]
    assert alone == [(None, "inserted", "schema: trigger 'harness_status'")]


def test_a_trigger_that_is_put_into_a_store_while_a_program_runs_stops_it_at_the_next_seal(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with closing(SqliteStore(path, seal_every_s=0)) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, 1)])
        tell(path, f"CREATE TRIGGER mine {QUIET}")

        with pytest.raises(StoreCorrupt, match="trigger 'mine' was inserted"):
            store.commit([step_row(claimed, 2)])
        with pytest.raises(StoreCorrupt, match="trigger 'mine' was inserted"):
            store.harnesses()


def test_a_trigger_that_is_put_into_a_store_while_a_program_runs_never_runs(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, 1)])
        tell(path, "CREATE TRIGGER mine AFTER INSERT ON records BEGIN UPDATE records SET body = '{}' WHERE seq = NEW.seq; END")

        with pytest.raises(StoreCorrupt, match="trigger 'mine' was inserted"):
            store.commit([step_row(claimed, 2)])
        tell(path, "DROP TRIGGER mine")

        store.commit([step_row(claimed, 2)])
        assert [len(row.output) for row in store.steps("one")] == [len(row.output) for row in store.steps("one")][:1] * 2


@pytest.mark.parametrize("order", ["CREATE VIEW mine AS SELECT 1", 'CREATE INDEX "my ""own" ON records (time_us)', "ANALYZE"])
def test_what_a_user_has_added_is_named_with_the_command_that_removes_it(tmp_path: Path, order: str) -> None:
    path = tmp_path / "run.db"
    make(path)
    tell(path, order)

    with pytest.raises(StoreCorrupt, match="keep it in a file of its own and remove it with: sqlite3 ") as caught:
        write(path)
    _, file, remedy = shlex.split(str(caught.value).partition("remove it with: ")[2])
    tell(Path(file), remedy)

    with closing(SqliteStore(path)) as store:
        assert numbers(store, "one") == [1, 2, 3]
    assert list(judge(path)[0].findings) == judge(path)[1] == []


def test_no_prune_is_begun_on_a_changed_schema(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    make(path)
    tell(path, "CREATE TRIGGER mine BEFORE DELETE ON records BEGIN SELECT raise(IGNORE); END")

    with pytest.raises(StoreCorrupt, match="trigger 'mine'"):
        prune(path, Rule(keep=1, context=0), by="ann")


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.parametrize("order", ["PRAGMA user_version", "VACUUM"])
def test_a_store_of_any_version_opens_and_has_the_shape_of_a_new_one(tmp_path: Path, version: int, order: str) -> None:
    """Also if its pages were put in order, before or after it was brought up to date."""
    path = tmp_path / "run.db"
    make_version_1(path)
    for script in MIGRATIONS[1:version]:
        tell(path, *statements(script))
    tell(path, f"PRAGMA user_version = {version}", order)

    write(path)
    tell(path, order)
    write(path)

    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid").fetchall()
    assert compare(rows, shape(VERSION)) == []
    assert list(judge(path)[0].findings) == judge(path)[1] == []


def test_an_older_store_with_something_of_a_users_own_is_not_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    make_version_1(path)
    tell(path, f"CREATE TRIGGER mine {QUIET}")

    with pytest.raises(StoreCorrupt, match="trigger 'mine' was inserted"):
        write(path)


def test_what_the_schema_calls_is_not_trusted_where_it_is_written_to(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        connection = store._db  # pyright: ignore[reportPrivateUsage]
        assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)


def test_the_verifier_that_stands_alone_knows_the_same_schema() -> None:
    """After a migration: put what is expected here into `SHAPE`, and how much of it each version has into `SHAPES`."""
    for version, known in verify_alone.SHAPES.items():
        assert known == [f"{row[0]}/{row[1]}/{sha256(ascii(row).encode()).hexdigest()[:16]}" for row in shape(version)]
    assert VERSION in verify_alone.SHAPES


def test_the_command_says_how_to_remove_it(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    make(path)
    tell(path, "CREATE VIEW mine AS SELECT 1")

    ran = subprocess.run(["orchestrator", "doctor", "--store", str(path)], capture_output=True, text=True, check=False)

    assert "view 'mine' was inserted" in ran.stdout
    assert "DROP VIEW" in ran.stdout
