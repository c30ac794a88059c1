"""G10: an older file is brought up to date; one that cannot be used is told in plain words, and left as it is."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from orchestrator.errors import OwnedElsewhere, StoreError, StoreUnusable
from orchestrator.store import SqliteReader, SqliteStore
from orchestrator.store.conformance import TIME_US, claim, numbers, step_row
from orchestrator.store.file.open_files import read_no_more, reading_beside
from orchestrator.store.file.schema import APPLICATION_ID, MIGRATIONS, VERSION
from orchestrator.store.store_protocol import Claim

NOBODY = 65534


def make(path: Path) -> None:
    """Make a store with one harness of three steps."""
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, number) for number in (1, 2, 3)])


def read(path: Path) -> object:
    """Open a store to read only."""
    return SqliteReader(path).harnesses()


def make_version_1(path: Path) -> None:
    """Make a store as the first schema had it, with one harness of two steps and a message."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(MIGRATIONS[0])
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("PRAGMA user_version = 1")
        db.execute(
            "INSERT INTO harnesses (id, name, class, initial_state, owner, epoch, status, attempt, time_us) "
            "VALUES (1, 'one', 'example:Harness', '{\"total\":0}', 'run', 4, 'running', 2, ?)",
            (TIME_US,),
        )
        body = '{{"input":{0},"output":null,"delta":{{"set":{{"total":{0}}}}}}}'
        rows = [(1, 4, 2, number, TIME_US, body.format(number), "step") for number in (1, 2)]
        rows.append((1, 0, 0, 0, TIME_US, '{"from":"","message":7}', "message"))
        db.executemany(
            "INSERT INTO records (harness, epoch, attempt, step, time_us, body, kind) VALUES (?, ?, ?, ?, ?, ?, ?)", rows
        )
        db.execute("INSERT INTO mailbox (seq, harness, sender, body) VALUES (3, 1, '', '7')")
        db.commit()


@contextmanager
def open_folder() -> Generator[Path]:
    """Give a folder that every user can reach, as those of pytest are not."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@contextmanager
def as_nobody() -> Generator[None]:
    """Give up root's right to pass over permissions, for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_file_of_text_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary")

    with pytest.raises(StoreUnusable, match="is not a database: expected a store made by this program"):
        SqliteStore(path)

    assert path.read_text() == "Dear diary"
    assert os.listdir(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize("opens", [SqliteStore, read])
def test_the_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path, opens: Callable[[Path], object]) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE harnesses (name TEXT)")
    before = path.read_bytes()

    with pytest.raises(StoreUnusable, match="is a database of another program"):
        opens(path)

    assert path.read_bytes() == before


@pytest.mark.parametrize("opens", [SqliteStore, read])
def test_a_newer_schema_is_refused_with_what_to_do(tmp_path: Path, opens: Callable[[Path], object]) -> None:
    path = tmp_path / "run.db"
    make(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")

    with pytest.raises(StoreUnusable, match=f"version {VERSION + 1}: expected at most {VERSION}; .* newer release"):
        opens(path)


def test_an_older_schema_is_brought_up_to_date_with_all_that_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    make_version_1(path)

    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, 3)])
        assert (claimed.epoch, claimed.step, claimed.state) == (5, 2, '{"total":2}')
        assert [message.body for message in store.mailbox("one")] == ["7"]
        assert numbers(store, "one") == [1, 2, 3]

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert db.execute("SELECT step_number FROM steps").fetchall() == [(1,), (2,), (3,)]


def test_a_reader_does_not_change_an_older_schema(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    make_version_1(path)
    before = path.read_bytes()

    with pytest.raises(StoreUnusable, match=f"schema version 1: expected {VERSION}; `orchestrator doctor --repair"):
        SqliteReader(path).harnesses()

    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.touch()

    make(path)

    assert SqliteReader(path).harnesses()[0].current_step == 3


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="is a folder: expected a file"):
        SqliteStore(tmp_path)


def test_a_missing_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match=r"its folder .*/missing does not exist; create it first"):
        SqliteStore(tmp_path / "missing" / "run.db")

    assert os.listdir(tmp_path) == []


def test_a_reader_does_not_make_a_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="is not there: expected a store"):
        SqliteReader(tmp_path / "run.db").harnesses()

    assert os.listdir(tmp_path) == []


def test_a_folder_that_can_not_be_written_is_refused() -> None:
    with open_folder() as folder, as_nobody(), pytest.raises(StoreUnusable, match=r"cannot be opened|cannot be written"):
        SqliteStore(folder / "run.db")


def test_a_file_that_can_not_be_read_is_refused() -> None:
    with open_folder() as folder:
        make(folder / "run.db")
        os.chmod(folder / "run.db", 0o000)

        with as_nobody(), pytest.raises(StoreUnusable, match="cannot be read: Permission denied; check its permissions"):
            SqliteStore(folder / "run.db")


@pytest.mark.parametrize(
    ("file", "folder_mode"),
    [
        (0o444, 0o777),
        (0o666, 0o555),
        (0o444, 0o555),
    ],
)
def test_a_file_that_can_not_be_written_is_refused_when_it_is_opened(file: int, folder_mode: int) -> None:
    with open_folder() as folder:
        make(folder / "run.db")
        os.chmod(folder / "run.db", file)
        os.chmod(folder, folder_mode)

        with as_nobody(), pytest.raises(StoreUnusable, match="cannot be written"):
            SqliteStore(folder / "run.db").close()

        os.chmod(folder, 0o755)


def test_a_file_that_can_not_be_written_is_refused_so_also_if_an_analysis_has_read_it() -> None:
    def let_go() -> None:
        pass

    with open_folder() as folder:
        path = folder / "run.db"
        make(path)
        reading_beside(path, let_go)
        read_no_more(path, let_go)
        os.chmod(path, 0o666)
        os.chmod(folder, 0o555)

        with as_nobody(), pytest.raises(StoreUnusable, match="cannot be written"):
            SqliteStore(path).close()


def test_many_may_make_one_file_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    together = threading.Barrier(8)
    failures: list[StoreError] = []

    def open_and_claim(number: int) -> None:
        together.wait()
        try:
            with closing(SqliteStore(path)) as store:
                claim(store, f"harness-{number}")
        except StoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=open_and_claim, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert len(SqliteReader(path).harnesses()) == 8


def test_what_a_killed_run_left_behind_is_swept_up_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "run.db.run-0123456789ab").write_text("123\n")

    make(tmp_path / "run.db")

    assert sorted(os.listdir(tmp_path)) == ["run.db", "run.db-head"]


def test_only_its_head_is_left_beside_a_closed_store(tmp_path: Path) -> None:
    make(tmp_path / "run.db")

    assert sorted(os.listdir(tmp_path)) == ["run.db", "run.db-head"]


def test_a_store_may_be_closed_twice_and_still_be_read(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "run.db")
    store.commit([step_row(claim(store, "one"), 1)])
    store.close()
    store.close()

    assert numbers(store, "one") == [1]


def test_a_store_reached_by_a_link_has_the_same_owner(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    with closing(SqliteStore(tmp_path / "real.db")) as store:
        claim(store, "one")
        link.symlink_to(tmp_path / "real.db")

        with closing(SqliteStore(link)) as other:
            (result,) = other.commit([], [Claim("one", "{}")]).results

    assert isinstance(result, OwnedElsewhere)
