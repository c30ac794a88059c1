"""A state in a SQLite store is what a replay of all steps comes to, wherever snapshots and the end of the index lie."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.delta import Baseline
from orchestrator.codec import encode, replay
from orchestrator.fork import fork
from orchestrator.store import SqliteReader, SqliteStore
from orchestrator.store.conformance import TIME_US, claim
from orchestrator.store.protocol import StepRow

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
