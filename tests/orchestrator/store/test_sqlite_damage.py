"""Torn tails, damaged pages and full disks: what was acknowledged is there, or the error says that the file is damaged."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from orchestrator.codec import decode
from orchestrator.errors import StoreBusy, StoreCorrupt, StoreError
from orchestrator.events import Stopped
from orchestrator.lifecycle import Status
from orchestrator.store import SqliteReader, SqliteStore
from orchestrator.store.conformance import claim, event_row, numbers, step_row
from orchestrator.store.store_protocol import Claimed

STEPS = 60


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Give the files of a run that was killed after 60 steps, one commit each: the file, and its write-ahead log."""
    path = tmp_path / "killed" / "run.db"
    path.parent.mkdir()
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        claimed = claim(store, "one")
        for number in range(1, STEPS + 1):
            store.commit([step_row(claimed, number, state=f'{{"total":{number}}}' if number % 16 == 0 else None)])
        for suffix in ("", "-wal"):
            shutil.copy(tmp_path / f"run.db{suffix}", path.parent / f"run.db{suffix}")
    return path


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """Give the file of a run that ended in order, with what takes up many pages."""
    path = tmp_path / "run.db"
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        rows = [step_row(claimed, number, input="x" * 400) for number in range(1, STEPS + 1)]
        store.commit(rows, [event_row(claimed, Stopped(), Status.STOPPED, step=STEPS, release=True)])
    return path


def read_all(path: Path) -> list[int]:
    """Read everything there is, and return the numbers of the steps."""
    with closing(SqliteReader(path)) as reader:
        reader.records()
        reader.harnesses()
        found = numbers(reader, "one")  # type: ignore[arg-type]
        assert decode(reader.state_at("one", len(found)))["total"] == len(found)
        return found


def tear(killed: Path, size: int) -> Path:
    """Return a copy of the file whose log has lost its end."""
    folder = killed.with_name(str(size))
    folder.mkdir()
    shutil.copy(killed, folder / "run.db")
    (folder / "run.db-wal").write_bytes(killed.with_name("run.db-wal").read_bytes()[:size])
    return folder / "run.db"


@pytest.mark.parametrize("opens", [SqliteReader, SqliteStore])
def test_a_torn_log_keeps_every_step_before_the_tear(killed: Path, opens: type[SqliteReader]) -> None:
    size = killed.with_name("run.db-wal").stat().st_size
    kept: list[int] = []
    for cut in range(0, size // 3, 1111):
        torn = tear(killed, size - cut)
        with closing(opens(torn)):
            steps = read_all(torn)
        assert steps == list(range(1, len(steps) + 1))
        kept.append(len(steps))

    assert kept[0] == STEPS
    assert kept == sorted(kept, reverse=True)
    assert 20 < kept[-1] < STEPS


def test_bytes_that_were_written_wrong_at_the_end_of_the_log_are_not_believed(killed: Path) -> None:
    log = bytearray(killed.with_name("run.db-wal").read_bytes())
    log[-3000:] = Random(1).randbytes(3000)
    killed.with_name("run.db-wal").write_bytes(log)

    steps = read_all(killed)

    assert steps == list(range(1, len(steps) + 1))
    assert STEPS - 2 <= len(steps) < STEPS


def test_a_run_goes_on_after_a_tear(killed: Path) -> None:
    log = killed.with_name("run.db-wal")
    log.write_bytes(log.read_bytes()[:-5000])

    with closing(SqliteStore(killed)) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, claimed.step + 1)])

    assert read_all(killed) == list(range(1, claimed.step + 2))


@pytest.mark.parametrize("byte", [0x00, 0xFF, 0x41])
def test_a_damaged_page_is_told_or_does_not_matter(closed: Path, byte: int) -> None:
    whole = closed.read_bytes()
    told: list[str] = []
    for start in range(4096, len(whole), 4096):
        closed.write_bytes(whole[:start] + bytes([byte]) * 4096 + whole[start + 4096 :])
        try:
            assert read_all(closed) == list(range(1, STEPS + 1))
        except StoreCorrupt as error:
            told.append(str(error))

    assert len(told) > 5
    assert all("is damaged" in message and "restore it from a copy" in message for message in told)


def test_a_damaged_page_keeps_a_harness_from_going_on(closed: Path) -> None:
    whole = closed.read_bytes()
    refused = 0
    for start in range(4096, len(whole), 4096):
        closed.write_bytes(whole[:start] + bytes(4096) + whole[start + 4096 :])
        try:
            with closing(SqliteStore(closed)) as store:
                assert claim(store, "one").step == STEPS
        except (StoreCorrupt, AssertionError):
            refused += 1

    assert refused > 5


@pytest.mark.parametrize("body", ['{"input":1,', "\x00", "[]"])
def test_a_body_that_was_changed_from_outside_is_told(closed: Path, body: str) -> None:
    with closing(sqlite3.connect(closed)) as db:
        db.execute("UPDATE records SET body = ? WHERE step = 7", (body,))
        db.commit()

    with closing(SqliteReader(closed)) as reader:
        with pytest.raises(StoreCorrupt, match="cannot be read back"):
            reader.steps("one")
        with pytest.raises(StoreCorrupt, match="cannot be read back"):
            reader.state_at("one", 9)


def test_a_step_that_was_taken_out_from_outside_is_told(closed: Path) -> None:
    with closing(sqlite3.connect(closed)) as db:
        db.execute("DELETE FROM records WHERE step = 7 AND kind = 'step'")
        db.commit()

    with closing(SqliteStore(closed)) as store, pytest.raises(AssertionError, match=r"StoreCorrupt.*found 59 of them"):
        claim(store, "one")


@pytest.fixture
def full(tmp_path: Path) -> Iterator[tuple[SqliteStore, sqlite3.Connection]]:
    """Give a store that cannot grow beyond 60 pages, and its connection."""
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        connection = store._db  # pyright: ignore[reportPrivateUsage]
        connection.execute("PRAGMA max_page_count = 60")
        yield store, connection


def fill(store: SqliteStore, claimed: Claimed) -> tuple[int, StoreError]:
    """Commit steps until the store refuses one; return how many it took, and the error."""
    for number in range(1, 1000):
        try:
            store.commit([step_row(claimed, number, input="x" * 1000)])
        except StoreError as error:
            return number - 1, error
    raise AssertionError("the disk is not full")


def test_a_full_disk_is_told_and_loses_nothing(full: tuple[SqliteStore, sqlite3.Connection], tmp_path: Path) -> None:
    store, _ = full
    claimed = claim(store, "one")

    acknowledged, error = fill(store, claimed)

    assert re.search(
        r"run\.db cannot grow: .*; free some space, then `orchestrator run FILE`; nothing recorded is lost", str(error)
    )
    assert acknowledged > 20
    assert numbers(store, "one") == list(range(1, acknowledged + 1))
    assert read_all(tmp_path / "run.db") == list(range(1, acknowledged + 1))


def test_what_a_full_disk_has_refused_can_be_written_when_there_is_room(
    full: tuple[SqliteStore, sqlite3.Connection],
) -> None:
    store, connection = full
    claimed = claim(store, "one")
    large = [step_row(claimed, number, input="x" * 1000) for number in range(1, 201)]
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot grow"):
            store.commit(large)

    connection.execute("PRAGMA max_page_count = 4000")
    store.commit(large)

    assert numbers(store, "one") == list(range(1, 201))


def test_a_store_whose_last_commit_failed_when_it_closed_opens_again(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "run.db")
    claim(store, "one")
    connection = store._db  # pyright: ignore[reportPrivateUsage]
    forbidden = (sqlite3.SQLITE_TRANSACTION, "COMMIT")
    connection.set_authorizer(lambda *what: sqlite3.SQLITE_DENY if what[:2] == forbidden else sqlite3.SQLITE_OK)

    store.close()

    with closing(SqliteStore(tmp_path / "run.db")) as again:
        assert [harness.name for harness in again.harnesses()] == ["one"]


def test_a_writer_that_is_told_not_to_wait_does_not(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as store, closing(sqlite3.connect(tmp_path / "run.db")) as other:
        claimed = claim(store, "one")
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreBusy, match="is locked"):
            store.commit([step_row(claimed, 1)], wait=False)
        other.rollback()
        store.commit([step_row(claimed, 1)], wait=False)

        assert numbers(store, "one") == [1]


def test_a_writer_that_waits_too_long_says_so(tmp_path: Path) -> None:
    with (
        closing(SqliteStore(tmp_path / "run.db", busy_s=0.05)) as store,
        closing(sqlite3.connect(tmp_path / "run.db")) as other,
    ):
        claimed = claim(store, "one")
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreBusy, match="another process has been writing for too long"):
            store.commit([step_row(claimed, 1)])
        other.rollback()
        store.commit([step_row(claimed, 1)])

        assert numbers(store, "one") == [1]
