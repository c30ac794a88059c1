"""A state in a SQLite store is what a replay of all steps comes to, wherever snapshots and the end of the index lie."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.data.delta import Baseline
from orchestrator.codec import encode
from orchestrator.history.forking import fork
from orchestrator.store import SqliteReader, SqliteStore
from orchestrator.store.conformance import TIME_US, claim
from orchestrator.store.encryption import Plain
from orchestrator.store.sqlite import sqlite_states
from orchestrator.store.sqlite.sqlite_file import open_reader
from orchestrator.store.sqlite.sqlite_states import find_state
from orchestrator.store.store_protocol import StepRow
from tests.orchestrator.replayed import replay

ITEMS: Any = st.lists(st.integers(0, 3), max_size=4)
STATES: Any = st.fixed_dictionaries(
    {}, optional={"a": st.integers(0, 3), "b": ITEMS, "c": st.dictionaries(st.sampled_from("xy"), ITEMS)}
)
MOVES: Any = st.lists(
    st.tuples(STATES, st.booleans(), st.sampled_from(["", "", "", "index", "reopen"])), min_size=1, max_size=25
)


@settings(max_examples=12, deadline=None)
@given(MOVES, st.data())
def test_it_is_what_a_replay_comes_to(moves: list[Any], data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.db"
        bodies = record(path, moves)
        step = data.draw(st.integers(0, len(bodies)))
        fork(path, "one", step, to="fork")

        with closing(SqliteReader(path)) as reader:
            for name, last in (("one", len(bodies)), ("fork", step)):
                found = [reader.state_at(name, number) for number in range(last + 1)]
                assert found == [replay("{}", bodies[:number]) for number in range(last + 1)]


def record(path: Path, moves: list[Any]) -> list[str]:
    """Record a step for each state, some beside a snapshot, with the index brought up to date now and then."""
    baseline = Baseline({})
    bodies: list[str] = []
    store = SqliteStore(path)
    claimed = claim(store, "one", state="{}")
    for number, (state, saves, then) in enumerate(moves, 1):
        bodies.append(encode({"input": None, "output": None, "delta": baseline.advance(state)}))
        saved = replay("{}", bodies) if saves else None
        store.commit([StepRow(claimed.harness, claimed.epoch, 1, number, TIME_US, bodies[-1], saved)])
        if then == "index":
            claim(store, f"other-{number}")
        if then == "reopen":
            store.close()
            store = SqliteStore(path)
            claimed = claim(store, "one")
            assert claimed.state == replay("{}", bodies)
    # Left open: its end is in no index yet.
    store._db.close()
    return bodies


@pytest.mark.parametrize("indexed", [True, False])
def test_bodies_that_are_too_large_to_be_joined_are_read_a_few_at_a_time(tmp_path: Path, indexed: bool) -> None:
    store = SqliteStore(tmp_path / "run.db")
    claimed = claim(store, "one", state="0")
    sizes = [100, *[40_000] * 20, *[100] * 200, 90_000, *[30_000] * 5]
    bodies = [encode({"input": None, "output": "x" * size, "delta": {"value": n}}) for n, size in enumerate(sizes, 1)]
    rows = [StepRow(claimed.harness, claimed.epoch, 1, n, TIME_US, body) for n, body in enumerate(bodies, 1)]
    store.commit(rows)
    if indexed:
        store.close()

    with closing(open_reader(store.path)) as db:
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000)
        found = [find_state(db, claimed.harness, step, Plain("the store")) for step in range(len(sizes) + 1)]

        assert [(each.state, each.steps) for each in found] == [(str(step), step) for step in range(len(sizes) + 1)]
        assert db.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) == 100_000
    store.close()


def test_memory_for_a_state_is_bounded_however_much_its_steps_have_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_states, "_PAGE_BYTES", 100_000)
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        claimed = claim(store, "one", state="0")
        body = encode({"input": None, "output": "x" * 40_000, "delta": {"value": 7}})
        store.commit([StepRow(claimed.harness, claimed.epoch, 1, n, TIME_US, body) for n in range(1, 101)])

        with closing(open_reader(store.path)) as db:
            pages = list(sqlite_states._pages(db, claimed.harness, 0, 100))

    assert sum(count for count, _, _ in pages) == pages[-1][1] == 100
    assert max(len(text) for _, _, text in pages) <= 100_000
