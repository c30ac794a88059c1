"""The index over the steps is filled in bulk: what is read is the same right before it runs, at it, and after it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.codec import decode
from orchestrator.events import Started
from orchestrator.lifecycle import Status
from orchestrator.store import SqliteStore
from orchestrator.store.conformance import claim, event_row, intent_row, numbers, step_row
from orchestrator.store.file.schema import INDEX_EVERY
from orchestrator.store.sqlite.sqlite_reader import HARNESSES, HEADS, of_harnesses, records_of
from orchestrator.store.store_protocol import Claimed


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        yield store


def indexed_seq(store: SqliteStore) -> int:
    """Return up to which record the index goes."""
    with closing(sqlite3.connect(store.path)) as db:
        return int(db.execute("SELECT indexed_seq FROM meta").fetchone()[0])


def commit_up_to(store: SqliteStore, claimed: Claimed, first: int, last: int) -> None:
    """Commit steps, a few hundred at a time, with a snapshot now and then."""
    rows = [step_row(claimed, n, state=f'{{"total":{n}}}' if n % 100 == 0 else None) for n in range(first, last + 1)]
    for start in range(0, len(rows), 500):
        store.commit(rows[start : start + 500])


def test_what_is_read_is_the_same_before_at_and_after_a_run_of_the_index(store: SqliteStore) -> None:
    claimed = claim(store, "one")
    commit_up_to(store, claimed, 1, INDEX_EVERY - 20)
    before = indexed_seq(store)

    for head in range(INDEX_EVERY - 19, INDEX_EVERY + 20):
        store.commit([step_row(claimed, head, state=f'{{"total":{head}}}' if head % 10 == 0 else None)])
        last = [record.step_number for record in store.steps("one", after=head - 30)]
        assert last == list(range(head - 29, head + 1))
        assert [decode(store.state_at("one", step))["total"] for step in (0, 5, head - 25, head)] == [0, 5, head - 25, head]
        assert store.harnesses()[0].current_step == head

    assert before < INDEX_EVERY - 20
    assert indexed_seq(store) > before
    assert numbers(store, "one") == list(range(1, INDEX_EVERY + 20))


def test_more_rows_than_one_statement_takes_are_one_plain_transaction(store: SqliteStore, tmp_path: Path) -> None:
    claimed, seals = claim(store, "one"), "SELECT count(*) FROM seals"
    with closing(sqlite3.connect(store.path)) as db:
        before = db.execute(seals).fetchone()
        noted = store.commit([], effects=[intent_row(claimed, 1, str(n)) for n in range(600)])
        done = store.commit([step_row(claimed, n) for n in range(1, 1301)])
        assert [*noted.effects, *done.seqs] == list(range(noted.effects[0], noted.effects[0] + 1900))
        assert db.execute(seals).fetchone() == before
    assert numbers(store, "one") == list(range(1, 1301))

    with closing(SqliteStore(tmp_path / "run.db")) as other:
        claim(other, "one", take_over=True)
    lost = store.commit([step_row(claimed, n) for n in range(1301, 2000)])
    assert not any(lost.seqs)
    assert lost.lost == {claimed.harness}
    assert numbers(store, "one") == list(range(1, 1301))


def test_pages_reach_over_the_end_of_the_index(store: SqliteStore) -> None:
    claimed = claim(store, "one")
    commit_up_to(store, claimed, 1, 100)
    claim(store, "two")
    commit_up_to(store, claimed, 101, 200)

    pages = [store.steps("one", after=after, limit=30) for after in range(0, 210, 30)]

    assert indexed_seq(store) == 100
    assert [record.step_number for page in pages for record in page] == list(range(1, 201))


def test_a_claim_reads_what_is_not_indexed_yet(store: SqliteStore) -> None:
    commit_up_to(store, claim(store, "one"), 1, 123)

    again = claim(store, "one", take_over=True)

    assert (again.step, again.unsaved_steps) == (123, 23)
    assert decode(again.state) == {"total": 123}


def test_only_steps_are_indexed(store: SqliteStore) -> None:
    claimed = claim(store, "one")
    for step in range(1, 4):
        store.commit([step_row(claimed, step)], [event_row(claimed, Started(step), Status.RUNNING, step=step)])
    store.close()

    with closing(sqlite3.connect(store.path)) as db:
        assert db.execute("SELECT step, seq FROM step_index ORDER BY step").fetchall() == [(1, 1), (2, 3), (3, 5)]
    assert numbers(store, "one") == [1, 2, 3]


def test_what_a_killed_run_left_unindexed_is_indexed_by_the_next(tmp_path: Path, store: SqliteStore) -> None:
    commit_up_to(store, claim(store, "one"), 1, 50)
    for suffix in ("", "-wal"):
        (tmp_path / f"killed.db{suffix}").write_bytes((tmp_path / f"run.db{suffix}").read_bytes())

    with closing(SqliteStore(tmp_path / "killed.db")) as next_run:
        commit_up_to(next_run, claim(next_run, "one"), 51, 60)
        assert indexed_seq(next_run) == 50
        assert numbers(next_run, "one") == list(range(1, 61))


@pytest.mark.parametrize(
    ("kinds", "index"), [(("started", "failed"), "event_records (harness=? AND kind=?)"), (("output",), None)]
)
def test_lifecycle_events_of_a_harness_are_found_without_reading_its_steps(
    store: SqliteStore, kinds: tuple[str, ...], index: str | None
) -> None:
    with closing(sqlite3.connect(store.path)) as db:
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {records_of(kinds)}", ("one", 1, *kinds, 9))]

    assert plan[0] == (f"SEARCH r USING INDEX {index}" if index else "SCAN r")


@pytest.mark.parametrize("query", [HARNESSES, HEADS])
def test_some_harnesses_are_found_without_reading_the_others(store: SqliteStore, query: str) -> None:
    statement, values = of_harnesses(query, ["one"])
    with closing(sqlite3.connect(store.path)) as db:
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]

    assert plan[0].startswith("SEARCH harnesses USING")
