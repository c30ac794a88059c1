"""G11: whatever is changed in a store is found, its first record named, and by both verifiers alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from .proof import judge, tamper_often
from .stores import Base, make_bases


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> list[Base]:
    """Give stores that nobody has tampered with."""
    return list(make_bases(tmp_path_factory.mktemp("bases")))


def test_a_store_that_nobody_has_touched_is_found_so_by_both(bases: list[Base]) -> None:
    for base in bases:
        proof, alone = judge(base.path)
        assert (list(proof.findings), alone) == ([], []), base.name


def test_every_tampering_at_random_is_found_by_both_alike(bases: list[Base], tmp_path: Path) -> None:
    tally = tamper_often(bases, tmp_path, count=300, seed=11)

    assert tally.missed == []
    assert tally.apart == []
    assert tally.found == 300
    assert tally.named > 150


def test_the_one_that_stands_alone_is_short_and_needs_nothing_of_ours() -> None:
    text = (Path(__file__).parents[2] / "orchestrator" / "verify_alone.py").read_text("utf-8")

    imported = {line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert len(text.splitlines()) < 150
    assert imported == {"json", "sqlite3", "sys", "hashlib", "pathlib", "zlib"}
