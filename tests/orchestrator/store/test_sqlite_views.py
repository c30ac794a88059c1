"""The SQL views are a public interface: they say what the readers say, at any moment of a run, to any program."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harnesses.effects.effect import EffectOutcome
from orchestrator.events import Failed, Restarting, Started
from orchestrator.lifecycle import Status
from orchestrator.store import SqliteStore
from orchestrator.store.conformance import TIME_US, claim, do, event_row, intent_row, outcome_row, step_row
from orchestrator.store.store_protocol import ConsumedRow, Post, Remark, Settle

STAMP = "%Y-%m-%dT%H:%M:%S.%fZ"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """Give the store of a run under way: one half of it is indexed, the other is not."""
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        one, other = claim(store, "one"), claim(store, "other")
        store.commit(
            [step_row(one, 1, input={"café": [1, None]}), step_row(other, 1, {})], [Post("one", "other", TIME_US, "1")]
        )
        store.commit([], [event_row(one, Started(0), Status.RUNNING)])
        store.commit(
            [], effects=[intent_row(one, 2, "buy", {"café": [1, None]}), intent_row(other, 2, "sell", idempotent=True)]
        )
        store.commit([], effects=[outcome_row(one, 2, "buy", EffectOutcome.UNKNOWN, reason="cut")])
        claim(store, "third")
        store.commit([], [Remark("", "latched", "{}", TIME_US)], effects=[outcome_row(one, 2, "buy", EffectOutcome.NOT_DONE)])
        store.commit([], effects=[intent_row(one, 2, "buy", {"café": [1, None]}), intent_row(one, 2, "123", 7)])
        store.commit([], effects=[outcome_row(one, 2, "buy", EffectOutcome.CONFIRMED, result={"price": "1.10"})])
        store.commit([step_row(one, 2)], [event_row(one, Failed("ValueError", "too hot"), Status.FAILED, step=2)])
        seq = do(store, Post("one", "", TIME_US + 1, '{"n":2}'))
        store.commit(
            [step_row(one, 3, {"set": {"total": 3}, "drop": {"x": None}})], consumed=[ConsumedRow(seq, one.harness, 3)]
        )
        store.commit([], [event_row(one, Restarting("too hot", 0.5, 1e9), Status.BACKING_OFF, step=3)])
        yield store


def ask(store: SqliteStore, question: str) -> list[sqlite3.Row]:
    """Ask the file itself, as any program can."""
    with closing(sqlite3.connect(store.path)) as db:
        db.row_factory = sqlite3.Row
        return db.execute(question).fetchall()


def test_the_view_of_steps_says_what_the_reader_says(store: SqliteStore) -> None:
    rows = ask(store, "SELECT * FROM steps ORDER BY seq")

    records = sorted((record for name in ("one", "other") for record in store.steps(name)), key=lambda record: record.seq)
    assert [(row["seq"], row["harness"], row["attempt"], row["step_number"], row["timestamp"]) for row in rows] == [
        (record.seq, record.harness, record.attempt, record.step_number, record.timestamp.strftime(STAMP))
        for record in records
    ]
    assert [(json.loads(row["input"]), json.loads(row["output"])) for row in rows] == [
        (record.input, record.output) for record in records
    ]
    assert [sorted(json.loads(row["delta"])) for row in rows] == [["set"], [], ["set"], ["drop", "set"]]


def test_steps_are_in_the_view_once_on_both_sides_of_the_index(store: SqliteStore) -> None:
    (indexed,) = ask(store, "SELECT indexed_seq FROM meta")[0]

    seqs = [row["seq"] for row in ask(store, "SELECT seq FROM steps")]

    assert sorted(seqs) == sorted(set(seqs))
    assert min(seqs) <= indexed < max(seqs)


def test_the_view_of_events_says_what_the_reader_says(store: SqliteStore) -> None:
    rows = ask(store, "SELECT * FROM events ORDER BY seq")

    records = [record for record in store.records() if record.kind not in ("step", "intent", "outcome")]
    assert [record.kind for record in records] == ["message", "started", "latched", "failed", "message", "restarting"]
    assert [record.harness for record in records] == ["one", "one", "", "one", "one", "one"]
    assert [tuple(row) for row in rows] == [
        (
            record.seq,
            record.harness,
            record.attempt,
            record.step,
            record.timestamp.strftime(STAMP),
            record.kind,
            record.run or None,
            record.body,
        )
        for record in records
    ]


def test_the_view_of_effects_says_what_the_reader_says(store: SqliteStore) -> None:
    rows = ask(store, "SELECT * FROM effects ORDER BY seq")

    known = store.effects()
    assert [tuple(row)[:4] for row in rows] == [(e.seq, e.harness, e.attempt, e.step_number) for e in known]
    assert [(row["key"], row["outcome"], row["reason"], row["settled_by"]) for row in rows] == [
        (e.key, e.outcome, e.reason, e.settled_by) for e in known
    ]
    assert [(json.loads(row["arguments"]), row["idempotent"]) for row in rows] == [(e.arguments, e.idempotent) for e in known]
    assert [row["result"] and json.loads(row["result"]) for row in rows] == [e.result for e in known]
    assert [datetime.strptime(row["timestamp"], STAMP).replace(tzinfo=UTC).timestamp() for row in rows] == [
        pytest.approx(e.time_us / 1e6) for e in known
    ]


def test_an_effect_is_in_the_view_once_with_its_newest_outcome_on_both_sides_of_the_index(store: SqliteStore) -> None:
    (indexed,) = ask(store, "SELECT indexed_seq FROM meta")[0]

    rows = ask(store, "SELECT seq, harness, key, outcome FROM effects ORDER BY seq")

    assert [tuple(row)[1:] for row in rows] == [
        ("other", "sell", "begun"),
        ("one", "buy", "confirmed"),
        ("one", "123", "begun"),
    ]
    assert rows[0]["seq"] <= indexed < rows[1]["seq"]


def test_what_a_person_has_settled_is_in_the_view(store: SqliteStore) -> None:
    with closing(SqliteStore(store.path)) as beside:
        claimed = claim(beside, "mine")
        beside.commit([], effects=[intent_row(claimed, 1, "buy")])
    do(store, Settle("mine", "buy", True, "70", "I looked", TIME_US))

    (row,) = ask(store, "SELECT outcome, result, reason, settled_by FROM effects WHERE harness = 'mine'")

    assert tuple(row) == ("confirmed", "70", "I looked", "operator")


def test_the_view_of_harnesses_says_what_the_reader_says(store: SqliteStore) -> None:
    rows = ask(store, "SELECT * FROM harness_status")

    assert [tuple(row)[:5] for row in rows] == [
        (known.name, known.status, known.attempt, known.current_step, known.harness_class) for known in store.harnesses()
    ]
    assert [json.loads(row["last_event"]) for row in rows] == [known.event for known in store.harnesses()]
    assert [row["current_step"] for row in rows] == [3, 1, 0]


def test_the_view_of_messages_says_which_step_used_them(store: SqliteStore) -> None:
    rows = ask(store, "SELECT harness, sender, body, consumed_step FROM messages ORDER BY seq")

    assert [tuple(row) for row in rows] == [("one", "other", "1", None), ("one", "", '{"n":2}', 3)]


def test_the_views_are_the_same_after_the_run(store: SqliteStore) -> None:
    questions = [f"SELECT * FROM {view} ORDER BY 1" for view in ("steps", "events", "harness_status", "messages", "effects")]
    during = [list(map(tuple, ask(store, question))) for question in questions]

    store.close()

    assert [list(map(tuple, ask(store, question))) for question in questions] == during


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="the sqlite3 command is not installed")
def test_the_sqlite3_command_can_ask_during_a_run(store: SqliteStore) -> None:
    question = (
        "SELECT harness, count(*), max(step_number), max(json_extract(delta, '$.set.total')) FROM steps GROUP BY harness"
    )

    done = subprocess.run(["sqlite3", store.path, question], capture_output=True, text=True, check=False)
    store.commit([step_row(claim(store, "fourth"), 1)])

    assert (done.stdout, done.stderr) == ("one|3|3|3\nother|1|1|\n", "")
