"""G11: whatever is changed in a store is found, its first record named, and by both verifiers alike."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from orchestrator.store.integrity.chain_head import head_path
from tests import ROOT

from .deeds import prune_with_a_forged_note
from .proof import judge, tamper_often
from .stores import Base, copy, make_bases


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> list[Base]:
    """Give stores that nobody has tampered with."""
    return list(make_bases(tmp_path_factory.mktemp("bases")))


def test_a_store_that_nobody_has_touched_is_found_so_by_both(bases: list[Base]) -> None:
    for base in bases:
        proof, alone = judge(base.path)
        assert (list(proof.findings), alone) == ([], []), base.name


def test_every_tampering_at_random_is_found_by_both_alike(bases: list[Base], tmp_path: Path) -> None:
    """At length: `python -m tests.tampering --count 10000`."""
    tally = tamper_often(bases, tmp_path, count=150, seed=11)

    assert tally.missed == []
    assert tally.apart == []
    assert tally.found == 150
    assert tally.named > 75


def test_who_takes_away_the_beginning_and_writes_the_chain_anew_is_found_out_by_the_head(
    bases: list[Base], tmp_path: Path
) -> None:
    """As with any chain that was written anew: nothing else can know."""
    for base in (bases[0], bases[3]):
        path = copy(base, tmp_path / base.name)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            prune_with_a_forged_note(db, base, Random(1))

        proof, alone = judge(path)

        assert {one.where for one in proof.findings} == {where for _, _, where in alone} == {"head"}


def test_a_row_in_a_table_that_never_had_one_is_found_by_both(bases: list[Base], tmp_path: Path) -> None:
    path = copy(next(base for base in bases if not rows_in(base.path, "open_reservations")), tmp_path / "inserted")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("INSERT INTO open_reservations VALUES (1, 1, 1, 1, 1, '[]', '{}')")

    proof, alone = judge(path)

    assert [(one.what, one.where) for one in proof.findings] == [("inserted", "open_reservations")]
    assert [(what, where.split()[0]) for _, what, where in alone] == [("inserted", "open_reservations")]


def rows_in(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


HEADS: tuple[dict[str, Any], ...] = (
    *[dict[str, Any](position=each) for each in (7.0, 1.0, 1e9, True, "1", None, 10**6)],
    *[dict[str, Any](last_seq=each) for each in (7.0, True, None)],
    *[dict[str, Any](hash=each) for each in (7, None, ["a"])],
    {"position": 1e9, "hash": "0" * 64},
    {"position": True, "hash": "0" * 64},
)


@pytest.mark.parametrize("changed", HEADS)
def test_a_head_that_was_changed_is_told_alike_by_both(bases: list[Base], tmp_path: Path, changed: dict[str, Any]) -> None:
    for base in bases[:2]:
        path = copy(base, tmp_path / base.name)
        head = json.loads(head_path(path).read_text())
        same_value = [{key: float(head[key])} for key in ("position", "last_seq")]
        for each in (changed, *same_value):
            head_path(path).write_text(json.dumps(head | each))

            proof, alone = judge(path)

            assert [(one.what, one.where) for one in proof.findings] == [(what, where) for _, what, where in alone]
            assert alone


def test_the_one_that_stands_alone_is_short_and_needs_nothing_of_ours() -> None:
    text = (ROOT / "orchestrator" / "verify_alone.py").read_text("utf-8")

    imported = {line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert len(text.splitlines()) < 285
    assert imported == {"json", "os", "sqlite3", "sys", "hashlib", "pathlib", "zlib"}
