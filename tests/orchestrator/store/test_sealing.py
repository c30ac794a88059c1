"""G11: what is recorded is under a seal when the commit says so, and what a seal covers cannot change unseen."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator import verify_alone as _alone
from orchestrator.errors import StoreCorrupt
from orchestrator.events import Stopped
from orchestrator.lifecycle import Status
from orchestrator.store import SqliteStore
from orchestrator.store.conformance import TIME_US, claim, event_row, intent_row, step_row
from orchestrator.store.conformance.conformance_tools import attached_row, output_row
from orchestrator.store.file.schema import INDEX_EVERY
from orchestrator.store.integrity import record_bytes
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import Proof, prove
from orchestrator.store.store_protocol import ConsumedRow, Post, Remark

alone: Any = _alone


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """Give a store that seals nothing because of the time."""
    with closing(SqliteStore(path, seal_every_s=1e9)) as store:
        store.commit([], [Remark("", "latch", "{}", TIME_US)])
        yield store


def ask(path: Path, question: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(question).fetchall()


def tell(path: Path, *orders: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for order in orders:
            db.execute(order)


def proof_of(path: Path) -> Proof:
    return prove(path, head_path(path).read_text() if head_path(path).exists() else None)


def wrong(path: Path) -> list[tuple[str, str, int | None]]:
    return [(finding.what, finding.where, finding.seq) for finding in proof_of(path).findings]


def unsealed(store: SqliteStore) -> int:
    proof = proof_of(store.path)
    assert proof.findings == []
    return proof.unsealed


def test_steps_effects_and_output_wait_for_the_next_seal(store: SqliteStore) -> None:
    claimed = claim(store, "one")
    store.commit([step_row(claimed, 1)])
    store.commit([], effects=[intent_row(claimed, 2, "buy"), output_row(claimed, 2, "hello")])

    assert unsealed(store) == 3
    store.commit([], [event_row(claimed, Stopped(), Status.STOPPED, step=1)])
    assert unsealed(store) == 0


@pytest.mark.parametrize("kind", ["evidence", "task", "guardrail"])
def test_what_is_attached_is_under_a_seal_with_its_step(store: SqliteStore, kind: str) -> None:
    claimed = claim(store, "one")

    store.commit([step_row(claimed, 1)], effects=[attached_row(claimed, 1, kind)])

    assert unsealed(store) == 0


def test_messages_and_their_use_are_under_a_seal(store: SqliteStore) -> None:
    claimed = claim(store, "one")
    (seq,) = store.commit([], [Post("one", "", TIME_US, "7")]).results
    store.commit([step_row(claimed, 1)], consumed=[ConsumedRow(seq, claimed.harness, 1)])

    assert unsealed(store) == 0
    store.close()
    tell(store.path, "UPDATE mailbox SET consumed_step = NULL")
    assert wrong(store.path) == [("edited", "mailbox", None)]


def test_much_output_is_sealed_when_it_is_indexed(store: SqliteStore) -> None:
    claimed = claim(store, "one")
    lines = [output_row(claimed, 1, f"line {number}") for number in range(512)]
    for _ in range(INDEX_EVERY // len(lines)):
        store.commit([], effects=lines)

    store.commit([], effects=lines[:3])

    assert unsealed(store) < len(lines)


def test_after_a_while_the_next_commit_is_sealed_whatever_is_in_it(path: Path) -> None:
    with closing(SqliteStore(path, seal_every_s=0)) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, 1)])

        assert unsealed(store) == 0


def test_a_commit_that_fails_leaves_no_seal_and_no_note(store: SqliteStore) -> None:
    (before,) = ask(store.path, "SELECT count(*) FROM seals")[0]

    def fail() -> None:
        with store._transaction(wait=True):  # pyright: ignore[reportPrivateUsage]
            store._db.execute("UPDATE meta SET ownership = ownership + 1")  # pyright: ignore[reportPrivateUsage]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    store.commit([], [Remark("", "latch", "{}", TIME_US)])

    assert ask(store.path, "SELECT count(*) FROM seals") == [(before + 1,)]
    assert ask(store.path, "SELECT notes FROM seals ORDER BY position DESC LIMIT 1") == [("[]",)]


def test_two_that_write_at_once_make_one_chain(path: Path) -> None:
    with closing(SqliteStore(path)) as one, closing(SqliteStore(path)) as two:
        for number in range(1, 6):
            for name, store in (("one", one), ("two", two)):
                claimed = claim(store, f"{name}-{number}")
                store.commit([step_row(claimed, 1)])

        assert unsealed(one) <= 2
    proof = proof_of(path)
    assert (proof.findings, proof.unsealed, proof.records) == ([], 0, 10)
    assert json.loads(head_path(path).read_text())["hash"] == proof.head


def test_the_unsealed_end_of_a_killed_run_is_sealed_by_the_next(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    claimed = claim(store, "one")
    store.commit([step_row(claimed, 1)])
    killed = tmp_path / "killed.db"
    for suffix in ("", "-wal", "-head"):
        Path(f"{killed}{suffix}").write_bytes(Path(f"{path}{suffix}").read_bytes())

    assert proof_of(killed).unsealed == 1
    with closing(SqliteStore(killed)) as again:
        assert unsealed(again) == 0


def test_a_store_that_was_opened_and_not_used_gets_no_seal(path: Path) -> None:
    SqliteStore(path).close()
    before = ask(path, "SELECT count(*) FROM seals")

    SqliteStore(path).close()

    assert ask(path, "SELECT count(*) FROM seals") == before


def ended(path: Path) -> Path:
    """Make a store of which all is sealed."""
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        for number in range(1, 11):
            store.commit([step_row(claimed, number)])
        store.commit([], [event_row(claimed, Stopped(), Status.STOPPED, step=10, release=True)])
    return path


@pytest.mark.parametrize(
    ("orders", "words"),
    [
        (
            ["DELETE FROM records WHERE seq > 8"],
            "was cut off: expected records up to 11, the last is 8; run `orchestrator verify`",
        ),
        (["DELETE FROM records WHERE seq > 8", "DELETE FROM seals WHERE last_seq > 8"], "is older than its head"),
        (["UPDATE seals SET hash = '0' WHERE position = (SELECT max(position) FROM seals)"], "is older than its head"),
        (
            ["INSERT INTO records (harness, epoch, attempt, step, time_us, body) VALUES (1, 1, 1, 11, 1, '{}')"],
            r"record 12 \(step\) was not written by a program",
        ),
    ],
)
def test_a_store_that_was_cut_off_or_added_to_is_not_written_to(path: Path, orders: list[str], words: str) -> None:
    ended(path)
    tell(path, *orders)
    before = ask(path, "SELECT count(*), max(seq) FROM records")

    with pytest.raises(StoreCorrupt, match=words):
        SqliteStore(path)

    assert ask(path, "SELECT count(*), max(seq) FROM records") == before


def test_who_puts_an_older_copy_in_place_says_so_by_removing_the_head(path: Path, tmp_path: Path) -> None:
    older = ended(path).read_bytes()
    with closing(SqliteStore(path)) as store:
        claim(store, "two")
    path.write_bytes(older)
    with pytest.raises(StoreCorrupt, match="remove the head if you put an older store here yourself"):
        SqliteStore(path)

    head_path(path).unlink()
    SqliteStore(path).close()

    proof = proof_of(path)
    assert proof.findings == []
    assert any("its head was missing when seal" in notice for notice in proof.notices)


@pytest.mark.parametrize("left", ["nothing", "an empty file"])
def test_a_store_that_was_lost_is_not_begun_anew_beside_its_head(path: Path, left: str) -> None:
    ended(path)
    path.unlink() if left == "nothing" else path.write_bytes(b"")

    with pytest.raises(StoreCorrupt, match=r"is empty, and its head, .*-head, knows \d+ records: .* or remove run.db-head"):
        SqliteStore(path)

    head_path(path).unlink()
    ended(path)
    assert wrong(path) == []


def test_a_store_whose_program_was_killed_before_it_was_made_is_made(path: Path) -> None:
    SqliteStore(path).close()
    path.unlink()

    ended(path)

    assert wrong(path) == []


def test_a_gap_in_the_numbers_is_told_also_if_it_was_there_before_the_seal(store: SqliteStore, path: Path) -> None:
    claimed = claim(store, "one")
    for number in range(1, 7):
        store.commit([step_row(claimed, number)])
    tell(path, "DELETE FROM records WHERE seq = 4", "DELETE FROM records WHERE seq = 6")

    store.commit([], [event_row(claimed, Stopped(), Status.STOPPED, step=6)])

    assert [seq for what, _, seq in wrong(path) if what == "dropped"] == [4, 6]


def test_text_that_no_encoder_of_ours_writes_is_sealed_as_well(store: SqliteStore, path: Path) -> None:
    claimed = claim(store, "one")
    bodies = ['"\x1e\x1e"', "\x1e", "ü\x00\x1e\U0001f600", '{"a":"\\u001e"}']
    store.commit([step_row(claimed, number)._replace(body=body) for number, body in enumerate(bodies, 1)])
    store.commit([], [Remark("", "latch", "{}", TIME_US)])
    store.close()

    assert [finding for finding in proof_of(path).findings if finding.where != "step_index"] == []


def test_a_large_record_is_sealed_without_taking_all_into_memory(store: SqliteStore, path: Path) -> None:
    claimed = claim(store, "one")
    for number in range(1, 4):
        store.commit([step_row(claimed, number, input="x" * 3_000_000)])
    store.close()

    assert wrong(path) == []


def test_a_seal_covers_more_than_one_text_of_sqlite_can_hold(store: SqliteStore, path: Path) -> None:
    claimed = claim(store, "one")
    # Large records beside small ones, together far over the limit of one text.
    store._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000)  # pyright: ignore[reportPrivateUsage]
    for number in range(1, 301):
        store.commit([step_row(claimed, number, input="x" * (40_000 if number % 7 == 0 else 10))])
    store.commit([], [Remark("", "latch", "{}", TIME_US)])
    store.close()

    assert wrong(path) == []


def test_a_record_is_sealed_whose_body_and_state_are_too_large_for_one_text(store: SqliteStore, path: Path) -> None:
    claimed = claim(store, "one")
    row = step_row(claimed, 1, input="x" * 49_000)
    store.commit([row._replace(state=f'"{"y" * 50_500}"')])
    # Its row is just within the limit; its header, body and state in one text are beyond it.
    (size,) = ask(path, "SELECT length(body) + length(state) FROM records WHERE kind = 'step'")[0]
    store._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, size + 20)  # pyright: ignore[reportPrivateUsage]
    store.commit([], [Remark("", "latch", "{}", TIME_US)])
    store.close()

    assert wrong(path) == []


@pytest.mark.parametrize("large", [1, 300, 5_000])
def test_what_is_read_in_pieces_has_the_hash_of_the_whole(path: Path, monkeypatch: pytest.MonkeyPatch, large: int) -> None:
    monkeypatch.setattr(record_bytes, "LARGE", large)
    monkeypatch.setattr(record_bytes, "_PIECE", 7)
    with closing(SqliteStore(path, seal_every_s=1e9)) as store:
        claimed = claim(store, "one")
        for number, text in enumerate(["ü", "x" * 299, "\U0001f600" * 200, "\x1e" * 4, "x" * 6_000, ""], 1):
            row = step_row(claimed, number, input=text)
            store.commit([row._replace(state=None if number % 2 else f'"{text}"')])

    in_pieces = wrong(path)
    monkeypatch.undo()
    assert in_pieces == wrong(path) == alone.verify(path, head_path(path).read_text())[0] == []


@pytest.mark.parametrize("edit", ["replace(body, 'xy', 'xz')", "CAST(body AS BLOB)"])
def test_a_large_record_that_was_edited_is_named(store: SqliteStore, path: Path, edit: str) -> None:
    claimed = claim(store, "one")
    store.commit([step_row(claimed, 1, input="x" * 9_000_000 + "y")])
    (seq,) = ask(path, "SELECT seq FROM records WHERE kind = 'step'")[0]
    store.close()
    tell(path, f"UPDATE records SET body = {edit} WHERE seq = {seq}")

    findings, _ = alone.verify(path, head_path(path).read_text())
    assert ("edited", "record", seq) in wrong(path)
    assert (seq, "edited", "record") in findings
