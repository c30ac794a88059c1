"""Readers see whole commits and one moment, and no reader, in whatever process, makes a writer wait."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.store import SqliteReader, SqliteStore
from orchestrator.store.conformance import claim, numbers, step_row
from tests import ROOT
from tests.zygote import Program

_OPEN_READER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN")
count = lambda: db.execute("SELECT count(*) FROM steps").fetchone()[0]
print(count(), flush=True)
sys.stdin.readline()
print(count(), flush=True)
db.execute("COMMIT")
print(count(), flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        yield store


def test_a_reader_in_another_process_holds_up_nobody_and_sees_one_moment(store: SqliteStore) -> None:
    claimed = claim(store, "one")
    store.commit([step_row(claimed, 1)])
    command = ["-c", _OPEN_READER, str(store.path)]
    with Program(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        seen = [int(reader.stdout.readline())]

        for number in range(2, 102):
            store.commit([step_row(claimed, number)], wait=False)
        claim(store, "two")
        reader.stdin.write("\n")
        reader.stdin.flush()
        seen += [int(reader.stdout.readline()), int(reader.stdout.readline())]

    assert seen == [1, 1, 101]


def test_a_writer_at_work_holds_up_no_reader(store: SqliteStore) -> None:
    store.commit([step_row(claim(store, "one"), 1)])

    with closing(sqlite3.connect(store.path, isolation_level=None)) as writer, closing(SqliteReader(store.path)) as reader:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM records")
        found = [record.seq for record in reader.records()]
        writer.execute("ROLLBACK")

    assert found == [1]


def test_a_reader_goes_on_after_the_writer_has_closed(store: SqliteStore) -> None:
    claimed = claim(store, "one")
    with closing(SqliteReader(store.path)) as reader:
        store.commit([step_row(claimed, 1)])
        assert len(reader.steps("one")) == 1

        store.close()

        assert len(reader.steps("one")) == 1
        with closing(SqliteStore(store.path)) as later:
            later.commit([step_row(claim(later, "one"), 2)])
            assert len(reader.steps("one")) == 2


def test_a_reader_says_who_is_alive(store: SqliteStore) -> None:
    claim(store, "one")
    with closing(SqliteReader(store.path)) as reader:
        assert reader.harnesses()[0].owned

        store.close()

        assert not reader.harnesses()[0].owned


def test_two_processes_may_write_different_harnesses_at_once(store: SqliteStore) -> None:
    program = (
        "import sys; from contextlib import closing; from orchestrator.store import SqliteStore\n"
        "from orchestrator.store.conformance import claim, step_row\n"
        "with closing(SqliteStore(sys.argv[1])) as store:\n"
        "    claimed = claim(store, 'theirs'); print(flush=True)\n"
        "    for number in range(1, 101): store.commit([step_row(claimed, number)])\n"
    )
    claimed = claim(store, "ours")
    root = ROOT
    with subprocess.Popen([sys.executable, "-c", program, str(store.path)], stdout=subprocess.PIPE, cwd=root) as other:
        assert other.stdout is not None
        other.stdout.readline()
        for number in range(1, 101):
            store.commit([step_row(claimed, number)])

    assert other.returncode == 0
    assert numbers(store, "ours") == numbers(store, "theirs") == list(range(1, 101))
    assert [record.seq for record in store.records()] == list(range(1, 201))
