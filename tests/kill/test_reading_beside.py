"""G1: reading a store in the run's own process takes nothing from what guards it against other programs."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

WRITER = """
import sys
from orchestrator.store import SqliteStore
from orchestrator.store.protocol import Claim, StepRow
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
    done = subprocess.run([sys.executable, "-c", ANOTHER, str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_another_program_that_looks_and_leaves_takes_no_step_along(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
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
