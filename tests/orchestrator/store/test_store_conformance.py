"""Both stores keep every law of the protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.store import MemoryStore, SqliteStore, conformance
from orchestrator.store.conformance import LAWS, LAWS_BETWEEN_RUNS, Law


def expected(law: Law) -> Any:
    """Mark what the store in memory is known to break."""
    known: dict[Law, str] = {
        conformance.a_commit_is_all_or_nothing: "a commit that fails half-way leaves its first half",
        conformance.a_reader_sees_whole_commits_only: "a reader in another thread sees half a commit",
        conformance.a_message_is_on_record: "the record of a message is signed with the run",
    }
    return pytest.param(law, marks=pytest.mark.xfail(strict=True, reason=known[law]) if law in known else ())


@pytest.mark.parametrize("law", [*map(expected, LAWS)], ids=[law.__name__ for law in LAWS])
def test_memory(law: Law) -> None:
    law(MemoryStore)


@pytest.mark.parametrize("law", LAWS + LAWS_BETWEEN_RUNS, ids=lambda law: law.__name__)
def test_sqlite(law: Law, tmp_path: Path) -> None:
    law(lambda: SqliteStore(tmp_path / "run.db"))
