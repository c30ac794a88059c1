"""G13: opening what was recorded: what can be read is read, what cannot is named, and a run that goes on is not hurt."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from orchestrator import SqliteStore, UsageError, analysis
from orchestrator.analysis.questions import summary_question as summary
from orchestrator.analysis.sources import source_survey as survey
from orchestrator.cli import main
from orchestrator.errors import StoreError
from orchestrator.store.file.open_files import Writing
from orchestrator.store.store_protocol import Claim, StepRow
from tests.orchestrator.analysis.three_ways import exported, rows
from tests.zygote import Program, run_python

BODY = '{"input":1,"output":2,"delta":{}}'


def line(seq: int, **more: Any) -> str:
    head = {"timestamp": f"2026-11-22T00:00:{seq % 60:02}.000000Z", "level": "info", "event": "harness.step", "run": "r"}
    return json.dumps({**head, "harness": "h", "attempt": 1, "step": seq, "seq": seq, "input": seq, "delta": {}, **more})


def log(path: Path, lines: list[str], end: str = "\n") -> Path:
    path.write_text("\n".join(lines) + end)
    return path


def seqs(*paths: Path) -> list[int]:
    with analysis.open(list(paths)) as run:
        return [seq for (seq,) in run.rows("SELECT seq FROM steps ORDER BY seq")]


def stored(path: Path, steps: int = 3) -> Path:
    with closing(SqliteStore(path)) as store:
        write(store, range(1, steps + 1))
    return path


def write(store: SqliteStore, steps: range) -> None:
    claimed: Any = store.commit([], [Claim("a", "0")]).results[0]
    store.commit([StepRow(claimed.harness, claimed.epoch, 1, step, 1, BODY) for step in steps])


def test_a_log_in_many_files_is_one_run(tmp_path: Path) -> None:
    log(tmp_path / "a.1.jsonl", [line(1), line(2)])
    (tmp_path / "a.2.jsonl.gz").write_bytes(gzip.compress(f"{line(3)}\n".encode()))
    duckdb.sql(f"COPY (SELECT unnest(['{line(4)}']) AS l) TO '{tmp_path / 'a.3.jsonl.zst'}' "
               "(FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '|', COMPRESSION zstd)")  # fmt: skip
    log(tmp_path / "a.4.jsonl", [])

    assert seqs(tmp_path / "a.*.jsonl*") == [1, 2, 3, 4]


def test_parquet_is_known_by_what_is_in_it_whatever_its_name(tmp_path: Path) -> None:
    store, one = stored(tmp_path / "run.db"), tmp_path / "pq"
    assert main(["--store", str(store), "export", "--what", "records", "--format", "parquet", "--output", str(one)]) == 0

    with analysis.open(one) as run:
        assert run.rows("SELECT harness, step_number FROM steps ORDER BY seq") == [("a", 1), ("a", 2), ("a", 3)]


def test_a_torn_last_line_is_left_out_and_is_not_bad(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl", [line(1), line(2)], end='\n{"timestamp":"2026')

    with analysis.open(path) as run:
        assert len(run.rows("FROM records")) == 2
        assert run.bad_lines == ()


@pytest.mark.parametrize("share", [0.5, 0.999])
def test_a_packed_log_that_is_torn_is_read_as_far_as_it_reaches_and_named(tmp_path: Path, share: float) -> None:
    packed = gzip.compress("".join(f"{line(seq, note=hash(str(seq)))}\n" for seq in range(1, 501)).encode())
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(packed[: int(len(packed) * share)])

    with analysis.open(path) as run:
        problems = [one.problem for one in run.bad_lines]
        assert problems == ["is where the compressed file is truncated: everything after it is lost"]
        assert 100 < len(run.rows("FROM steps")) <= 500


def test_bad_lines_are_named(tmp_path: Path) -> None:
    bad = ['{"event":"harn', "[1]", '{"event":"other","seq":3}', line(4).replace('"attempt": 1, ', "")]
    path = log(tmp_path / "a.jsonl", [line(1), *bad[:3], "", line(2), bad[3].replace('"seq": 4', '"seq": "x"')])

    with analysis.open(path) as run:
        assert len(run.rows("FROM steps")) == 2
        assert [one.line for one in run.bad_lines] == [2, 3, 4, 7]
        assert [one.problem.split(":")[0] for one in run.bad_lines][:3] == [
            "is not JSON",
            "is not an object, but [1]",
            "is not ours",
        ]


def test_bad_lines_show_no_secret_and_are_bounded(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl", ['{"event":"password=hunter2 \x1b[31m ' + "x" * 10_000 + '","seq":1}'] * 300)

    with analysis.open(path) as run:
        assert len(run.bad_lines) == 100
        assert not any("hunter2" in one.problem or "\x1b" in one.problem or len(one.problem) > 200 for one in run.bad_lines)


def test_a_record_that_is_told_twice_counts_once(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl", [line(1), line(2), line(1), line(2), line(3, input="else"), line(3)])

    with analysis.open(path) as run:
        assert [seq for (seq,) in run.rows("SELECT seq FROM steps ORDER BY seq")] == [1, 2, 3]
        assert [str(one) for one in run.bad_lines] == [f"{path}:6: describes seq 3 differently than {path}:5"]


def test_the_logs_of_two_stores_are_not_one_run(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl", [line(1), line(2), line(1, run="other")])

    with pytest.raises(UsageError, match=r"two stores: seq 1 was written by run 'other' and by run 'r'"):
        analysis.open(path)


def test_a_line_may_be_long(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl", [line(1), line(2, input="x" * 40_000_000), line(3)])

    with analysis.open(path) as run:
        assert run.rows("SELECT seq, length(input) FROM steps ORDER BY seq") == [(1, 1), (2, 40_000_002), (3, 1)]


def test_what_is_appended_later_is_not_seen(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl", [line(1), line(2)])

    with analysis.open(path) as run, path.open("a") as file:
        file.write(f"{line(3)}\n")
        file.flush()

        assert len(run.rows("FROM steps")) == len(run.rows("FROM records")) == 2


LONG = {
    "as it is written": (lambda lines: lines, 300),
    "told twice": (lambda lines: [*lines[:200], *lines[100:]], 300),
    "told twice and lacking as many": (lambda lines: [*lines[:100], lines[99], *lines[101:]], 299),
    "with bad lines": (lambda lines: [*lines[:10], "{", *lines[10:]], 300),
    "with a long line": (lambda lines: [*lines[:10], line(11, input="x" * 20_000_000), *lines[11:]], 300),
}


@pytest.mark.parametrize("case", LONG)
def test_of_a_long_log_a_glance_is_enough_only_if_it_is_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    change, steps = LONG[case]
    path = log(tmp_path / "a.jsonl", change([line(seq) for seq in range(1, 301)]))
    monkeypatch.setattr(survey, "AT_ONCE", 0)

    with analysis.open(path) as run, path.open("a") as file:
        file.write(f"{line(301)}\n")
        file.flush()
        (told,) = summary.answer(run).tables[0].rows

        assert told[2] == steps == len(run.rows("FROM steps"))
        assert len(run.bad_lines) == (case == "with bad lines")


def test_what_is_asked_loads_no_other_library(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl", [line(seq) for seq in range(1, 4)])
    code = """
import sys
from orchestrator import analysis
from orchestrator.analysis.questions import summary
with analysis.open(sys.argv[1]) as run:
    summary.answer(run)
    assert run.rows("SELECT '?', seq FROM steps WHERE list_contains(?, harness) AND seq = ?", [["h", "'"], 2]) == [("?", 2)]
print(sorted({"numpy", "pandas", "polars", "pyarrow"} & sys.modules.keys()))
"""

    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("[]\n", "")


HOSTILE = ["it's", '"?"', "?", "", "a\0b", "\\", "--", "😀", 2**63, -(2**63), 2**70, 0.1, 1e300, float("inf"), True, None]


@pytest.mark.parametrize("value", [*HOSTILE, ["'", "?"], [], [1, 2**40], [None, "x"]])
def test_a_value_reaches_a_query_as_it_is(tmp_path: Path, value: Any) -> None:
    path = log(tmp_path / "a.jsonl", [line(1)])

    with analysis.open(path) as run:
        assert run.rows("""SELECT ?, '?', 'it''s ?' AS "?" """, [value]) == [(value, "?", "it's ?")]


def test_what_does_not_fit_goes_to_a_folder_that_is_removed(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl", [line(1)])

    with analysis.open(path) as run:
        ((folder,),) = run.rows("SELECT current_setting('temp_directory')")
        run.db.execute("CREATE TEMP TABLE much AS SELECT hash(r) AS a, hash(r + 1) AS b FROM range(25_000_000) t(r)")
        mode = Path(folder).stat().st_mode
        held = list(Path(folder).rglob("*"))

    assert (mode & 0o777, bool(held), Path(folder).exists()) == (0o700, True, False)


@pytest.mark.parametrize("name", ["run.db", "steps.jsonl", "exported"])
def test_what_is_empty_has_empty_frames(tmp_path: Path, name: str) -> None:
    store = stored(tmp_path / "run.db", 0)
    (tmp_path / "steps.jsonl").touch()
    with closing(sqlite3.connect(store)) as db:
        db.execute("DELETE FROM records")
        db.commit()
    exported(store)

    with analysis.open(tmp_path / name) as run:
        assert run.frame("steps", flatten=True).fetchall() == rows(run, "harnesses") == rows(run, "records") == []


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["nowhere.db"], "is not there"),
        (["*.nothing"], "matches no file"),
        (["run.db", "a.jsonl"], "expected files of one kind"),
        (["run.db", "other.db"], "are two stores"),
        (["a.jsonl.bz2"], "unknown compression"),
        (["folder"], "holds no Parquet files"),
        (["foreign.parquet"], "has no column 'seq'"),
        ([], "nothing to open"),
    ],
)
def test_what_can_not_be_read_is_said(tmp_path: Path, paths: list[str], said: str) -> None:
    stored(tmp_path / "run.db")
    stored(tmp_path / "other.db")
    log(tmp_path / "a.jsonl", [line(1)])
    shutil.copy(tmp_path / "a.jsonl", tmp_path / "a.jsonl.bz2")
    (tmp_path / "folder").mkdir()
    duckdb.sql(f"COPY (SELECT 1 AS x) TO '{tmp_path / 'foreign.parquet'}'")

    with pytest.raises(UsageError, match=said):
        analysis.open([tmp_path / path for path in paths])


def test_a_store_that_is_none_of_ours_or_damaged_is_said(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as db:
        db.execute("CREATE TABLE t (x)")
    damaged = stored(tmp_path / "damaged.db")
    damaged.write_bytes(damaged.read_bytes()[:100] + b"\xff" * 5000)

    for name, said in (("foreign.db", "another program"), ("damaged.db", "damaged")):
        with pytest.raises(StoreError, match=said):
            analysis.open(tmp_path / name)


def test_the_engine_reads_a_copy_of_what_this_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with closing(SqliteStore(path)) as store:
        write(store, range(1, 11))
        with analysis.open(path) as run:
            store.commit([StepRow(1, 1, 1, 11, 1, BODY)])
            locations = [file for (file,) in run.rows("SELECT path FROM duckdb_databases() WHERE database_name = 'store'")]

            assert len(run.rows("FROM steps")) == 10
            assert str(path) not in locations
    assert not Path(str(locations[0])).exists()


def test_the_engine_lets_go_of_a_file_that_this_process_begins_to_write(tmp_path: Path) -> None:
    path = stored(tmp_path / "run.db", 10)

    with analysis.open(path) as run:
        assert len(run.rows("FROM steps")) == 10
        with closing(SqliteStore(path)):
            assert len(run.rows("FROM steps")) == 10
            assert run.rows("SELECT path FROM duckdb_databases() WHERE database_name = 'store'") != [(str(path),)]


@pytest.mark.parametrize("end", ["-wal", "-shm", "*"])
def test_what_lies_beside_a_store_is_not_opened(tmp_path: Path, end: str) -> None:
    with closing(SqliteStore(tmp_path / "run.db")), pytest.raises(UsageError, match="belongs to the store"):
        analysis.open(f"{tmp_path / 'run.db'}{end}")


@pytest.mark.parametrize("name", ["log.jsonl", "file.parquet"])
def test_a_link_to_what_lies_beside_a_store_of_this_process_is_not_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to(tmp_path / "run.db-shm")

    with closing(SqliteStore(tmp_path / "run.db")), pytest.raises(UsageError, match="belongs to the store"):
        analysis.open(tmp_path / name)


@pytest.mark.parametrize("name", ["run.db", "log.jsonl", "file.parquet"])
def test_a_store_that_is_just_being_made_is_not_taken_for_a_log(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run.db"
    if name != path.name:
        (tmp_path / name).symlink_to(path)

    with closing(Writing.to(path, 0)), pytest.raises(UsageError, match="just being created"):
        analysis.open(tmp_path / name)


BESIDE = """
import sys
from orchestrator import analysis
from orchestrator.store import SqliteStore
from orchestrator.store.store_protocol import Claim, StepRow
store = SqliteStore(sys.argv[1])
claimed = store.commit([], [Claim("a", "0")]).results[0]
for last in (10, 20):
    steps = range(last - 9, last + 1)
    store.commit([StepRow(claimed.harness, claimed.epoch, 1, n, 1, '{"input":1,"output":2,"delta":{}}') for n in steps])
    with analysis.open(sys.argv[1]) as run:
        assert len(run.rows("FROM steps")) == last
        assert run.rows("SELECT count(*) FROM records") == [(last,)]
    print(last, flush=True)
    sys.stdin.readline()
"""
ANOTHER = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT max(step) FROM records').fetchone()[0])"


def test_asking_a_run_in_its_own_process_takes_no_step_along(tmp_path: Path) -> None:
    """Where the locks of the writer are lost, the other program that looks and leaves takes the write-ahead log along."""
    path = tmp_path / "run.db"
    with Program(["-c", BESIDE, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        first = writer.stdout.readline()
        seen = run_python("-c", ANOTHER, path, capture_output=True, text=True, check=True)
        writer.stdin.write("go on\n")
        writer.stdin.flush()
        second = writer.stdout.readline()
        writer.kill()

    assert (first, seen.stdout, second) == ("10\n", "10\n", "20\n")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT max(step) FROM records").fetchone() == (20,)


@pytest.mark.parametrize("bad", ["1 2026", '"a" b', "true false", "{} {}", "2026-11-22 10:00:00 INFO started"])
def test_a_line_that_only_begins_like_json_is_named_and_ends_no_query(tmp_path: Path, bad: str) -> None:
    path = log(tmp_path / "a.jsonl", [line(1), bad, line(2), line(2)])

    with analysis.open(path) as run:
        numbers = [number for (number,) in run.rows("SELECT seq FROM records ORDER BY seq")]
        named = [one.line for one in run.bad_lines]

    assert numbers == [1, 2]
    assert named == [2]


APPEND = """
import sys
from pathlib import Path
from orchestrator.store.sqlite.sqlite_store import SqliteStore
from tests.orchestrator.analysis.test_open import write
store = SqliteStore(Path(sys.argv[1]))
write(store, range(4, 7))
store.close()
"""


def test_what_another_process_records_after_a_store_was_opened_is_in_no_frame(tmp_path: Path) -> None:
    path = stored(tmp_path / "run.db")

    with analysis.open(path) as run:
        run_python("-c", APPEND, path, check=True)
        seen = [run.rows(f"SELECT count(*) FROM {name}")[0][0] for name in ("steps", "records")]
        swept = len(run.rows(run.source.sweep(("step",), {"input": "JSON"})))
    with analysis.open(path) as run:
        later = run.rows("SELECT count(*) FROM steps")[0][0]

    assert (seen[0], swept, later) == (3, 3, 6)
    assert seen[1] < 6
