"""A room, asked as hostile people would ask it: what is not of the run is neither read nor written."""

from __future__ import annotations

import gzip
import hashlib
import os
import resource
import shutil
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT

pytest.importorskip("duckdb")
pytest.importorskip("duckdb_ext")

from orchestrator.analysis.sql.sql_room import End, Head, Page, QueryFailed, QueryStopped, Room
from orchestrator.errors import UsageError
from tests.orchestrator.analysis.hostile_sql import ALL

LOG = ROOT / "docs" / "reference" / "run.jsonl"
MARK = "marked-and-not-to-be-seen"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, and beside it what is nobody's business."""
    folder = tmp_path_factory.mktemp("room")
    shutil.copy(LOG, folder / "run.jsonl")
    (folder / "secret.csv").write_text(f"a,b\n{MARK},2\n")
    (folder / "secret.json").write_text(f'{{"a": "{MARK}"}}\n')
    with closing(sqlite3.connect(folder / "secret.db")) as db:
        db.execute("CREATE TABLE secrets (a TEXT)")
        db.execute("INSERT INTO secrets VALUES (?)", (MARK,))
        db.commit()
    return folder


@pytest.fixture(scope="module")
def room(folder: Path) -> Iterator[Room]:
    with Room(str(folder / "run.jsonl")) as opened:
        yield opened


def rows(room: Room, query: str, **options: Any) -> list[Any]:
    return [row for said in room.ask(query, **options) if isinstance(said, Page) for row in said.rows]


def seen(folder: Path) -> dict[str, str]:
    """Return what is in a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir()) if path.is_file()}


@pytest.mark.parametrize("query", ALL)
def test_a_hostile_query_reads_and_writes_nothing(room: Room, folder: Path, query: str) -> None:
    before = seen(folder)

    with pytest.raises(QueryFailed) as refused:
        rows(room, query.format(folder=folder))

    assert MARK not in str(refused.value)
    assert seen(folder) == before


def test_a_room_that_has_refused_goes_on(room: Room) -> None:
    with pytest.raises(QueryFailed):
        rows(room, "DROP VIEW steps")

    assert rows(room, "SELECT count(*) FROM steps") == [[115]]


def test_the_head_says_columns_and_types(room: Room) -> None:
    head, *_ = room.ask("SELECT 1 AS a, 'x' AS b, [1.5] AS c, {'k': true} AS d")

    assert head == Head(("a", "b", "c", "d"), ("INTEGER", "VARCHAR", "DECIMAL(2,1)[]", "STRUCT(k BOOLEAN)"))


def test_a_limit_keeps_rows_back_and_says_so(room: Room) -> None:
    *_, end = room.ask("FROM range(10)", limit=3)

    assert end == End(3, more=True)


def test_a_limit_that_is_not_reached_keeps_nothing_back(room: Room) -> None:
    *_, end = room.ask("FROM range(3)", limit=3)

    assert end == End(3, more=False)


def test_rows_come_in_order_over_many_pages(room: Room) -> None:
    assert [row[0] for row in rows(room, "FROM range(20000) t(x) ORDER BY x")] == list(range(20000))


def test_an_endless_answer_comes_page_by_page_and_can_be_left(room: Room) -> None:
    asked = room.ask("FROM range(1000000000000)")

    first = [next(asked), next(asked)]
    asked.close()

    assert isinstance(first[1], Page)
    assert rows(room, "SELECT 1") == [[1]]


MISTAKES = {
    "SELEC 1": 'syntax error at or near "SELEC" (line 1, column 1)',
    "SELECT seq,\n  nope FROM steps": 'Referenced column "nope" not found in FROM clause!',
    "SELECT 1,\n  foo(2)": "foo() is not allowed in a query: expected a function of values alone",
    "FROM stepz": "no view 'stepz': expected one of approvals, attachments",
    "SELECT 'ä', FROM": "syntax error at end of input (line 1, column 16)",
    "SELECT CAST('x' AS INTEGER)": "Could not convert string 'x' to INT32 (line 1, column 8)",
    "SELECT 1; SELECT 2": "2 queries at once: expected one",
    "CREATE TABLE x (a INTEGER)": "only a query can be carried out: expected one statement that begins with SELECT",
    f"SELECT '{'x' * 100_000}'": "the query has 100,009 characters: expected at most 100,000",
}


@pytest.mark.parametrize("query", MISTAKES)
def test_a_mistake_is_told_on_one_line_with_its_place(room: Room, query: str) -> None:
    with pytest.raises(QueryFailed) as failed:
        rows(room, query)

    assert str(failed.value).startswith(f"sql: {MISTAKES[query]}")
    assert "\n" not in str(failed.value)


GREEDY = (
    "SELECT length(repeat('x', 4000000000))",
    "SELECT len(range(1000000000))",
    "WITH RECURSIVE r AS (SELECT 'x' AS x UNION ALL SELECT x || x FROM r) SELECT max(length(x)) FROM r",
    "SELECT list(range) FROM range(1000000000)",
)


@pytest.mark.parametrize("query", GREEDY)
def test_a_greedy_query_is_ended_and_the_room_goes_on(room: Room, query: str) -> None:
    with pytest.raises((QueryStopped, QueryFailed)):
        rows(room, query, timeout_s=60)

    assert rows(room, "SELECT count(*) FROM steps") == [[115]]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps to the limit")
def test_the_process_of_a_room_has_a_limit_of_its_own(room: Room) -> None:
    rows(room, "SELECT 1")

    (process,) = [one for one in children() if b"analysis.sql.query_process" in Path(f"/proc/{one}/cmdline").read_bytes()]

    assert resource.prlimit(process, resource.RLIMIT_DATA)[1] == 1 << 30


def children() -> Iterator[int]:
    """Yield the processes that this one has started."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        # One that ends meanwhile is none of those that are looked for.
        with suppress(OSError):
            if int(status.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                yield int(status.parent.name)


def test_a_query_that_never_ends_is_ended_in_time(room: Room) -> None:
    with pytest.raises(QueryStopped, match=r"longer than 0\.3 s"):
        rows(room, "SELECT count(*) FROM range(1000000) a, range(1000000) b", timeout_s=0.3)

    assert rows(room, "SELECT 1") == [[1]]


def test_a_query_can_be_stopped_from_another_thread(room: Room) -> None:
    asked = room.ask("FROM range(1000000000000)")
    next(asked)
    threading.Timer(0.05, room.stop).start()

    with pytest.raises(QueryStopped, match="was stopped"):
        for _ in asked:
            pass


def test_nothing_is_left_behind(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Room(str(folder / "run.jsonl")) as opened:
        rows(opened, "SELECT count(*) FROM (SELECT * FROM range(3000000) ORDER BY hash(range))")
        assert list(tmp_path.iterdir())

    assert not list(tmp_path.iterdir())


def test_a_room_whose_owner_is_gone_ends_by_itself(folder: Path) -> None:
    opened = Room(str(folder / "run.jsonl"))
    rows(opened, "SELECT 1")
    process: Any = opened._process
    opened._tell(process, {"query": "SELECT count(*) FROM range(1000000) a, range(1000000) b", "limit": None})

    process.stdin.close()

    assert process.wait(10) == 0
    opened.close()


def test_secrets_are_taken_out_by_their_look_and_by_the_name_beside_them(room: Room) -> None:
    token = "ghp_" + "a1B2" * 9

    found = rows(room, f"SELECT 'see {token}' AS x, 'swordfish7' AS password, {{'api_key': 'swordfish7'}} AS y")

    assert found == [["see [REDACTED]", "[REDACTED]", {"api_key": "[REDACTED]"}]]


def test_a_row_that_is_too_large_is_said_to_be(room: Room) -> None:
    with pytest.raises(QueryFailed, match="a row is larger than 32 MB"):
        rows(room, "SELECT repeat('x', 40000000)")


VALUES = {
    "170141183460469231731687303715884105727::HUGEINT": 170141183460469231731687303715884105727,
    "'NaN'::DOUBLE": "NaN",
    "'-inf'::DOUBLE": "-Infinity",
    "1.50::DECIMAL(4,2)": "1.50",
    "TIMESTAMP '2026-01-05 09:00:00.25'": "2026-01-05 09:00:00.250000",
    "TIMESTAMPTZ '2026-01-05 09:00:00+00'": "2026-01-05 09:00:00+00",
    "INTERVAL 14 MONTH": "1 year 2 months",
    "DATE '290000-01-01'": "290000-01-01",
    "'\\xAB'::BLOB": "ab",
    "MAP {1: 'a'}": {"1": "a"},
    "[NULL, 1]": [None, 1],
    "chr(27) || chr(8238)": "\x1b\u202e",
}


@pytest.mark.parametrize("value", VALUES)
def test_every_kind_of_value_comes_through(room: Room, value: str) -> None:
    assert rows(room, f"SELECT {value}") == [[VALUES[value]]]


def test_logs_are_found_by_a_pattern_plain_and_compressed(tmp_path: Path) -> None:
    lines = LOG.read_bytes().splitlines(keepends=True)
    (tmp_path / "1.jsonl").write_bytes(b"".join(lines[:100]))
    (tmp_path / "2.jsonl").write_bytes(b"".join(lines[100:]))
    (tmp_path / "one.jsonl.gz").write_bytes(gzip.compress(LOG.read_bytes()))

    for name in ("?.jsonl", "one.jsonl.gz"):
        with Room(str(tmp_path / name)) as opened:
            assert rows(opened, "SELECT count(*) FROM steps") == [[115]]


def test_a_run_that_is_not_there_is_said_not_to_be(tmp_path: Path) -> None:
    with Room(str(tmp_path / "none.db")) as opened, pytest.raises(UsageError, match="is not there"):
        rows(opened, "SELECT 1")


def test_a_log_whose_name_is_hostile_is_read(tmp_path: Path) -> None:
    path = tmp_path / "it's; DROP [a-z]*\" -- .jsonl"
    shutil.copy(LOG, path)

    with Room(str(path)) as opened:
        assert rows(opened, "SELECT count(*) FROM steps") == [[115]]
