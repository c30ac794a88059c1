"""G15 among others: both stores keep every law of the protocol."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.store import MemoryStore, SqliteStore
from orchestrator.store.conformance import LAWS, LAWS_BETWEEN_RUNS, Law


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_memory(law: Law) -> None:
    law(MemoryStore)


@pytest.mark.parametrize("law", LAWS + LAWS_BETWEEN_RUNS, ids=lambda law: law.__name__)
def test_sqlite(law: Law, tmp_path: Path) -> None:
    law(lambda: SqliteStore(tmp_path / "run.db"))


@pytest.mark.parametrize("law", LAWS + LAWS_BETWEEN_RUNS, ids=lambda law: law.__name__)
def test_encrypted_sqlite(law: Law, tmp_path: Path) -> None:
    key = os.urandom(32)
    law(lambda: SqliteStore(tmp_path / "run.db", key=key))
