"""A store that an earlier version has broken by pruning twice is repaired, says so for ever, and is as good as any.

`pruned-twice.db.gz` was written by that version, which pruned it with 40 records to a commit, and when 60 more steps were made
with 15: a residue over records 81 to 119, with messages, approvals and reservations that are open, has lost its note.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import pytest

from orchestrator.errors import OwnedElsewhere, StoreCorrupt
from orchestrator.store import SqliteReader, SqliteStore
from orchestrator.store.conformance import TIME_US, claim, step_row
from orchestrator.store.conformance.conformance_tools import do
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import Move, move_beyond, prove
from orchestrator.store.integrity.residue import Base, Residue, read_marks
from orchestrator.store.integrity.seals import row_hash
from orchestrator.store.pruning import prune_survey as pruning_survey
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune
from orchestrator.store.sqlite.sqlite_file import open_writer
from orchestrator.store.sqlite.store_repair import repair
from orchestrator.store.store_protocol import Post
from tests.orchestrator.store.pruning_runs import copy_store
from tests.tampering import stores
from tests.tampering.proof import judge
from tests.tampering.sequences import in_child

Deed: TypeAlias = Callable[[sqlite3.Connection], object]

BROKEN = Path(__file__).with_name("pruned-twice.db.gz")
LOST, FIRST, LAST = 67, 81, 119
"""The residue without a note, and its records."""
TEXT = """
SELECT json_array(harness, epoch, attempt, step, time_us, kind, length(CAST(body AS BLOB)), length(CAST(state AS BLOB)))
|| body || coalesce(state, '') FROM records WHERE seq BETWEEN ? AND ? ORDER BY seq
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the store as the earlier version has left it, in today's layout."""
    path = tmp_path / "run.db"
    path.write_bytes(gzip.decompress(BROKEN.read_bytes()))
    shutil.copy(BROKEN.with_name("pruned-twice-head.json"), head_path(path))
    with closing(open_writer(path, 1.0)):
        pass  # brings its schema up to date, as whatever runs on it does
    return path


def verdicts(path: Path) -> tuple[list[str], list[Any]]:
    proof, alone = judge(path)
    return [finding.text for finding in proof.findings], alone


def contents(path: Path) -> object:
    return stores.dump(path, stores.Base("broken", path, 10**6))


def tell(path: Path, deed: Deed) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        deed(db)


def go_on(path: Path, steps: int) -> None:
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one", take_over=True)
        for step in range(claimed.step + 1, claimed.step + steps + 1):
            do(store, Post("one", "x", TIME_US, "1"))
            store.commit([step_row(claimed, step, state=f'{{"total":{step}}}')])


def test_a_store_that_was_broken_by_pruning_twice_is_repaired(path: Path) -> None:
    assert [len(said) for said in verdicts(path)] == [1, 1]
    with closing(SqliteReader(path)) as reader:
        before = reader.steps("one"), reader.mailbox("one"), reader.approvals(), reader.accounts()

    repair(path, by="ann")

    assert verdicts(path) == ([], [])
    with closing(SqliteReader(path)) as reader:
        assert (reader.steps("one"), reader.mailbox("one"), reader.approvals(), reader.accounts()) == before


def test_pruning_refuses_a_broken_store_and_names_who_says_the_way_out(path: Path) -> None:
    go_on(path, 60)

    with pytest.raises(StoreCorrupt, match=r"orchestrator verify` for details and the remedy"):
        prune(path, Rule(keep=5, context=0), by="ann")

    assert prove(path, head_path(path).read_text()).lost_note is not None


def test_the_record_of_a_repair_says_what_was_found_by_whom_it_was_mended_and_what_it_cannot_prove(path: Path) -> None:
    repair(path, by="ann")

    with closing(SqliteReader(path)) as reader:
        (record,) = [record for record in reader.records(limit=10**6) if record.kind == "repaired"]
    body = json.loads(record.body)
    assert (body["by"], body["residue"], body["first_seq"], body["last_seq"], body["records"]) == (
        "ann",
        LOST,
        FIRST,
        LAST,
        24,
    )
    assert "known defect of an earlier version" in body["found"]
    assert "cannot be told" in body["unproven"]
    (notice,) = [notice for notice in judge(path)[0].notices if "repaired" in notice]
    assert f"record {record.seq}" in notice
    assert body["unproven"] in notice


def test_a_store_that_was_repaired_is_run_on_and_pruned_as_often_as_any_and_the_record_stays(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repair(path, by="ann")

    for portion in (15, 40, 15):
        monkeypatch.setattr(pruning_survey, "PORTION", portion)
        go_on(path, 60)
        pruned = prune(path, Rule(keep=5, context=0), by="ann")
        assert sum(pruned.records.values()) > 0
        assert verdicts(path) == ([], [])

    proof = prove(path, head_path(path).read_text(), deep=True)
    assert proof.findings == []
    assert sum("repaired at" in notice for notice in proof.notices) == 1


def test_a_store_that_was_run_on_since_it_broke_is_repaired(path: Path) -> None:
    go_on(path, 30)

    assert repair(path, by="ann") is not None

    assert verdicts(path) == ([], [])


def test_what_is_untouched_is_not_repaired(path: Path) -> None:
    assert repair(path, by="ann") is not None
    before = path.read_bytes(), head_path(path).read_bytes()

    assert repair(path, by="bob") is None

    assert (path.read_bytes(), head_path(path).read_bytes()) == before


def test_a_store_that_a_program_runs_on_is_not_repaired(path: Path) -> None:
    with closing(SqliteStore(path)), pytest.raises(OwnedElsewhere, match="stop it"):
        repair(path, by="ann")


@pytest.mark.parametrize("at", [1, 31, 60, 112, 113, 114, 115, 116, 117, 150, 185, 186, 187])
def test_killed_at_any_statement_it_leaves_the_store_as_it_was_or_repaired(path: Path, at: int) -> None:
    before = contents(path)

    in_child(lambda: repair(path, by="ann"), at)

    if contents(path) == before:
        assert repair(path, by="bob") is not None
    assert verdicts(path) == ([], [])


def broken_by(path: Path, monkeypatch: pytest.MonkeyPatch, *, messages: bool) -> None:
    """Break a store as the earlier version did: a prune that moves the base on drops the note of the residue there."""
    noted_in = pruning_survey.Latest.noted_in

    def forgetful(latest: pruning_survey.Latest, positions: Any) -> Any:
        found = noted_in(latest, positions)
        lost = max((place for _, place in found if place[0] == "seals"), default=None)
        return [one for one in found if one[1] != lost]

    with monkeypatch.context() as patch:
        for lap, portion in enumerate((40, 15)):
            patch.setattr(pruning_survey, "PORTION", portion)
            with closing(SqliteStore(path)) as store:
                claimed = claim(store, "one", take_over=True)
                for step in range(60 * lap + 1, 60 * lap + 61):
                    if lap == 0 or messages:
                        do(store, Post("one", "x", TIME_US, "1"))
                    store.commit([step_row(claimed, step, state=f'{{"total":{step}}}')])
            if lap:
                patch.setattr(pruning_survey.Latest, "noted_in", forgetful)
            prune(path, Rule(keep=5, context=0), by="ann")


@pytest.mark.parametrize("messages", [True, False])
def test_it_is_known_whatever_was_left_of_what_the_base_moved_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: bool
) -> None:
    path = tmp_path / "made.db"
    broken_by(path, monkeypatch, messages=messages)
    assert [len(said) for said in verdicts(path)] == [1, 1]

    assert repair(path, by="ann") is not None

    assert verdicts(path) == ([], [])


ROW = (72, 120, 134, "", "hash", b"marks")
HERE, BEYOND = Base(67, "h", 119), Base(72, "h", 134)


@pytest.mark.parametrize(
    ("moves", "sealed_by"),
    [
        ([(HERE, {23: "x"}), (BEYOND, {72: row_hash(ROW)})], 2),
        ([(BEYOND, {72: row_hash(ROW)})], 1),
        ([(BEYOND, {72: row_hash(ROW), 23: None})], 0),  # a healthy one: what was there before was taken
        ([(BEYOND, {72: "another"})], 0),
        ([(BEYOND, {})], 0),
        ([(Base(23, "h", 40), {}), (BEYOND, {72: row_hash(ROW)})], 0),  # the base was never at the residue
        ([(Base(67, "h", 118), {}), (BEYOND, {72: row_hash(ROW)})], 0),
        ([(HERE, {})], 0),
        ([], 0),
    ],
)
def test_what_moved_the_base_is_known_by_what_only_the_defect_leaves(
    moves: list[tuple[Base, dict[int, str | None]]], sealed_by: int
) -> None:
    residue = Residue(67, 81, 119, "hash", {81: 1})

    found = move_beyond(residue, [Move(place, *said) for place, said in enumerate(moves, 1)], {72: ROW})

    assert (found.seal if found else 0) == sealed_by


# --- whatever else is wrong is refused


def sealed_again(db: sqlite3.Connection, first: int = FIRST, last: int = LAST, notes: str = "") -> None:
    """Write the residue anew over the records that are there, as somebody would who knows how."""
    reach = max(first, FIRST), last
    seqs = [seq for (seq,) in db.execute("SELECT seq FROM records WHERE seq BETWEEN ? AND ? ORDER BY seq", reach)]
    texts = [text.encode() for (text,) in db.execute(TEXT, reach)]
    hash = sha256(b"".join(text + b"\x1e" for text in texts) + f"\n{LOST} {first} {last}\n{notes}".encode()).hexdigest()
    row = Residue(LOST, first, last, hash, dict(zip(seqs, map(crc32, texts), strict=True))).row()
    db.execute("REPLACE INTO seals VALUES (?, ?, ?, ?, ?, ?)", (LOST, first, last, notes, *row[4:]))


def edited(body: str, *, kind: str, sealed: bool) -> Deed:
    def deed(db: sqlite3.Connection) -> None:
        which = "SELECT min(seq) FROM records WHERE kind = ? AND seq BETWEEN ? AND ?"
        done = db.execute(f"UPDATE records SET body = {body} WHERE seq = ({which})", (kind, FIRST, LAST))
        assert done.rowcount == 1
        if sealed:
            sealed_again(db)

    return deed


def dropped(kind: str, *, sealed: bool) -> Deed:
    def deed(db: sqlite3.Connection) -> None:
        which = "SELECT min(seq) FROM records WHERE kind = ? AND seq BETWEEN ? AND ?"
        assert db.execute(f"DELETE FROM records WHERE seq = ({which})", (kind, FIRST, LAST)).rowcount == 1
        if sealed:
            sealed_again(db)

    return deed


def inserted(*, sealed: bool) -> Deed:
    def deed(db: sqlite3.Connection) -> None:
        columns = "harness, epoch, attempt, step, time_us, body, kind, state"
        db.execute(f"INSERT INTO records (seq, {columns}) SELECT 83, {columns} FROM records WHERE seq = 82")
        if sealed:
            sealed_again(db)

    return deed


def mark_changed(db: sqlite3.Connection) -> None:
    ((position, first, last, _, hash, packed),) = db.execute("SELECT * FROM seals WHERE position = ?", (LOST,))
    marks = read_marks(packed)
    row = Residue(position, first, last, hash, {seq: mark ^ (seq == FIRST + 1) for seq, mark in marks.items()}).row()
    db.execute("UPDATE seals SET marks = ? WHERE position = ?", (row[5], LOST))


def statement(text: str) -> Deed:
    return lambda db: db.execute(text)


def reaching(first: int, last: int) -> Deed:
    return lambda db: sealed_again(db, first, last)


TAMPERED: dict[str, Deed] = {
    "a record edited": edited("replace(body, '1', '2')", kind="message", sealed=False),
    "a message edited, and the residue written anew": edited("replace(body, '1', '2')", kind="message", sealed=True),
    "an approval for something else": edited("replace(body, 'ask-45', 'ask-46')", kind="approval_requested", sealed=True),
    "a reservation of more": edited("replace(body, '10', '99')", kind="budget", sealed=True),
    "a record dropped": dropped("message", sealed=False),
    "a message dropped, and the residue written anew": dropped("message", sealed=True),
    "an answer dropped, and the residue written anew": dropped("approval_answered", sealed=True),
    "a reservation dropped, and the residue written anew": dropped("budget", sealed=True),
    "a record inserted": inserted(sealed=False),
    "a message inserted, and the residue written anew": inserted(sealed=True),
    "a mark changed": mark_changed,
    "the hash changed": statement(f"UPDATE seals SET hash = lower(hex(zeroblob(32))) WHERE position = {LOST}"),
    "notes in the residue": statement(f"UPDATE seals SET notes = '[]' WHERE position = {LOST}"),
    "notes in the residue, which is written anew": lambda db: sealed_again(db, notes="[]"),
    "a residue that ends before": reaching(FIRST, LAST - 1),
    "a residue that ends after": reaching(FIRST, LAST + 1),
    "a residue that begins before": reaching(FIRST - 2, LAST),
    "the residue in another place": statement(f"UPDATE seals SET position = 999 WHERE position = {LOST}"),
    "the residue dropped": statement(f"DELETE FROM seals WHERE position = {LOST}"),
    "another residue dropped": statement("DELETE FROM seals WHERE position = (SELECT min(position) FROM seals)"),
    "another residue inserted": statement(
        "INSERT INTO seals SELECT 66, 81, 80, notes, hash, x'' FROM seals WHERE position = 67"
    ),
    "a seal dropped": statement("DELETE FROM seals WHERE position = (SELECT max(position) - 3 FROM seals)"),
    "the last seal dropped": statement("DELETE FROM seals WHERE position = (SELECT max(position) FROM seals)"),
    "a seal edited": statement("UPDATE seals SET notes = replace(notes, 'ann', 'bob') WHERE notes LIKE '%pruned%'"),
    "a message taken out of its mailbox": statement("DELETE FROM mailbox WHERE seq = 82"),
    "a step edited": statement("UPDATE records SET body = replace(body, '120', '121') WHERE step = 120"),
    "a harness completed": statement("UPDATE harnesses SET status = 'completed'"),
    "a record appended": statement(
        "INSERT INTO records (harness, epoch, attempt, step, time_us, body, kind) VALUES (0, 0, 0, 0, 1, '{}', 'latch')"
    ),
    "a view dropped": statement("DROP VIEW events"),
}


@pytest.mark.parametrize("deed", TAMPERED.values(), ids=TAMPERED.keys())
def test_a_store_that_was_tampered_with_is_refused_and_left_as_it_is(path: Path, deed: Deed) -> None:
    tell(path, deed)
    before = path.read_bytes(), head_path(path).read_bytes()

    with pytest.raises(StoreCorrupt):
        repair(path, by="ann")

    assert (path.read_bytes(), head_path(path).read_bytes()) == before
    assert judge(path)[0].lost_note is None


def test_a_store_without_its_head_is_refused(path: Path) -> None:
    head_path(path).unlink()

    with pytest.raises(StoreCorrupt, match="head"):
        repair(path, by="ann")


@pytest.mark.parametrize("at", [LOST, LOST - 1, 24, 1])
def test_a_residue_put_into_an_untouched_store_is_not_the_defect(path: Path, at: int) -> None:
    repair(path, by="ann")
    tell(path, statement(f"DELETE FROM seals WHERE position = {at}"))
    tell(
        path, statement(f"INSERT INTO seals SELECT {at}, first_seq, last_seq, '', hash, marks FROM seals WHERE position = 43")
    )

    assert judge(path)[0].findings
    with pytest.raises(StoreCorrupt):
        repair(path, by="ann")


def test_a_residue_that_pruning_took_away_and_somebody_put_back_is_not_the_defect(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repair(path, by="ann")
    with closing(sqlite3.connect(path)) as db:
        residues = db.execute("SELECT * FROM seals WHERE length(notes) = 0").fetchall()
    monkeypatch.setattr(pruning_survey, "PORTION", 1000)
    go_on(path, 60)
    prune(path, Rule(keep=5, context=0), by="ann")
    assert verdicts(path) == ([], [])

    for number, row in enumerate(residues):
        copied = copy_store(path, path.with_name(f"{number}.db"))
        with closing(sqlite3.connect(copied, isolation_level=None)) as db:
            db.execute("INSERT INTO seals VALUES (?, ?, ?, ?, ?, ?)", row)
        assert judge(copied)[0].findings
        assert judge(copied)[0].lost_note is None
