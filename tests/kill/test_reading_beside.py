"""G1: reading a store in the run's own process takes nothing from what guards it against other programs."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator import SqliteStore, analysis
from orchestrator.errors import StoreUnusable
from orchestrator.store.file import open_files as open_here
from tests.zygote import Program, run_python

WRITER = """
import sys
from orchestrator.store import SqliteStore
from orchestrator.store.store_protocol import Claim, StepRow
store = SqliteStore(sys.argv[1])
claimed = store.commit([], [Claim("a", "0")]).results[0]
for last in (10, 20):
    for step in range(last - 9, last + 1):
        store.commit([StepRow(claimed.harness, claimed.epoch, 1, step, 1, '{"input":1,"output":2,"delta":{}}')])
    assert len(store.steps("a")) == last
    print(last, flush=True)
    sys.stdin.readline()
"""

ANOTHER = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT max(step) FROM records').fetchone()[0])"


def look(path: Path) -> int:
    """Have another program open the file as it likes, look, and close it."""
    done = run_python("-c", ANOTHER, path, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_another_program_that_looks_and_leaves_takes_no_step_along(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    writer = Program(["-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        first = (writer.stdout.readline(), look(path))
        writer.stdin.write("go on\n")
        writer.stdin.flush()
        second = writer.stdout.readline()
        writer.kill()

    assert (first, second) == (("10\n", 10), "20\n")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT max(step) FROM records").fetchone() == (20,)


HALF_FETCHED = """
import subprocess, sys
from orchestrator import analysis
from orchestrator.errors import StoreUnusable
from orchestrator.store import SqliteStore
from orchestrator.store.store_protocol import Claim, StepRow
path, another = sys.argv[1:]
def write(store, name):
    claimed = store.commit([], [Claim(name, "0")]).results[0]
    for step in range(1, 21):
        store.commit([StepRow(claimed.harness, claimed.epoch, 1, step, 1, '{"input":1,"output":2,"delta":{}}')])
        if step == 10:
            subprocess.run([sys.executable, "-c", another, path], check=True, capture_output=True)
store = SqliteStore(path)
claimed = store.commit([], [Claim("first", "0")]).results[0]
rows = [StepRow(claimed.harness, claimed.epoch, 1, n, 1, '{"input":1,"output":2,"delta":{}}') for n in range(1, 5001)]
store.commit(rows)
store.close()
run = analysis.open(path)
steps = run.steps
steps.fetchone()
try:
    store = SqliteStore(path)
except StoreUnusable as error:
    print("refused" if "still being read" in str(error) else error)
else:
    print("not refused")
print(1 + len(steps.fetchall()))
store = SqliteStore(path)
run.close()
write(store, "late")
print("written", flush=True)
sys.stdin.readline()
"""


def test_what_an_analysis_has_half_fetched_is_not_written_before_it_is_fetched(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with Program(["-c", HALF_FETCHED, str(path), ANOTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(3)]
        writer.kill()

    assert said == ["refused\n", "5000\n", "written\n"]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT max(step) FROM records WHERE harness = 2").fetchone() == (20,)


READ_ONLY = """
import sys
from contextlib import closing
from orchestrator import analysis
from orchestrator.store import SqliteReader, SqliteStore
path = sys.argv[1]
SqliteStore(path).close()
with analysis.open(path) as run, closing(SqliteReader(path)) as reader:
    run.rows("FROM steps")
    reader.last_seq()
    with closing(SqliteReader(path)) as other:
        other.last_seq()
    SqliteStore(path).close()
    print("written")
"""


def test_who_reads_by_the_same_library_hinders_nobody_who_writes(tmp_path: Path) -> None:
    done = run_python("-c", READ_ONLY, tmp_path / "run.db", capture_output=True, text=True, check=True)

    assert done.stdout == "written\n"


def test_where_descriptors_can_not_be_looked_at_an_open_analysis_is_enough_to_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.db"
    SqliteStore(path).close()
    monkeypatch.setattr(open_here, "_DESCRIPTORS", tmp_path / "nowhere")

    with analysis.open(path), pytest.raises(StoreUnusable, match="still being read by an analysis"):
        SqliteStore(path)

    SqliteStore(path).close()
