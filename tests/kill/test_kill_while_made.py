"""G10: a program that is killed while it makes a store leaves none, or one that is whole; the next one goes on."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.cli.read.verify_verb import verified
from orchestrator.errors import StoreUnusable
from orchestrator.store import SqliteStore
from orchestrator.store.conformance import claim, numbers, step_row
from orchestrator.store.file.open_files import Writing
from orchestrator.store.sqlite import sqlite_file
from tests.tampering.proof import judge
from tests.tampering.sequences import in_child


def make_and_die(path: Path, at: int) -> None:
    """Make a store in a process that is killed at its n-th statement."""
    to, left = Writing.to, at

    def count(_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    class Watched:
        @staticmethod
        def to(path: Path, busy_s: float) -> Any:
            db = to(path, busy_s)
            db.set_trace_callback(count)
            return db

    sqlite_file.Writing = Watched  # type: ignore[assignment,misc] # pyright: ignore[reportAttributeAccessIssue]
    SqliteStore(path).close()


def test_a_program_that_is_killed_while_it_makes_a_store_leaves_nothing_or_all_of_it(tmp_path: Path) -> None:
    unmade = 0
    for at in range(1, 130, 7):
        path = tmp_path / f"{at}.db"
        in_child(partial(make_and_die, path, at), 0)

        try:
            assert list(verified(str(path), None, deep=True).findings) == []
        except StoreUnusable:
            unmade += 1
        assert judge(path)[1] == []
        with closing(SqliteStore(path)) as store:
            store.commit([step_row(claim(store, "one"), 1)])
            assert numbers(store, "one") == [1]
        assert list(verified(str(path), None, deep=True).findings) == judge(path)[1] == []
    assert 3 < unmade < 19


def test_an_empty_file_in_the_place_of_a_store_is_told_by_its_head(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with closing(SqliteStore(path)) as store:
        store.commit([step_row(claim(store, "one"), 1)])
    path.write_bytes(b"")

    assert [one.what for one in verified(str(path), None, deep=False).findings] == ["cut off"]
    assert [what for _, what, _ in judge(path)[1]] == ["cut off"]

    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    assert [one.what for one in verified(str(path), None, deep=False).findings] == ["cut off"]
