"""The views of budgets are a public interface: where every pool stands, and who has what reserved."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from harnesses.budgets.budget import Budget, Spend
from orchestrator.store.conformance import TIME_US, claim, do
from orchestrator.store.conformance.budget_laws import fund, reserve
from orchestrator.store.sqlite.sqlite_store import SqliteStore
from orchestrator.store.store_operations import SettleSpend


def test_a_view_shows_where_every_pool_stands(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        fund(store, "all", Budget(tokens=100))
        one = claim(store, "one")
        do(store, SettleSpend(reserve(store, one, Spend(tokens=9)), TIME_US, Spend(tokens=7)))
        reserve(store, one, Spend(tokens=5))

        with closing(sqlite3.connect(tmp_path / "run.db")) as db:
            rows = db.execute("SELECT pool, limits ->> 'tokens', spent ->> 'tokens', reserved ->> 'tokens' FROM budgets")
            assert rows.fetchall() == [("all", 100, 7, 5)]


def test_a_view_shows_what_is_reserved_and_by_whom(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        id = reserve(store, claim(store, "one"), Spend(tokens=5), "mine", "all")

        with closing(sqlite3.connect(tmp_path / "run.db")) as db:
            (row,) = db.execute("SELECT seq, harness, attempt, step_number, pools, amounts FROM reservations").fetchall()
            assert row[:4] == (id, "one", 1, 1)
            assert [json.loads(text) for text in row[4:]] == [["mine", "all"], {"tokens": 5}]
