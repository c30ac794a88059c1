"""One PostgreSQL server for the session; each test has a schema of its own in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store.postgres import postgres_store
from orchestrator.store.postgres.postgres_store import PostgresStore
from tests import ROOT
from tests.postgres_server import PostgresServer

OpenStore = Callable[..., PostgresStore]


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the local copies; with it ends what keeps them up to date."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)


@pytest.fixture(autouse=True)
def _seals_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have stores of this process seal when they are told to, and at their end, however long a test takes."""
    monkeypatch.setattr(postgres_store, "SEAL_EVERY_S", 3600.0)


@pytest.fixture
def database(server: PostgresServer) -> str:
    """The address of a database whose store no other test uses."""
    return server.new_database()


@contextmanager
def child(command: Sequence[str | Path], **streams: Any) -> Generator[subprocess.Popen[str]]:
    """Start a program that does not outlive the block."""
    process = subprocess.Popen(command, cwd=ROOT, text=True, **streams)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
        for stream in filter(None, (process.stdout, process.stderr)):
            stream.close()


@pytest.fixture
def open_store(server: PostgresServer) -> Iterator[OpenStore]:
    """Opens the test's store, each time as another run."""
    schema, opened = server.new_schema(), list[PostgresStore]()
    key = os.urandom(32)

    def open(*, lease_s: float = 10.0, encryption_key: bytes | None = None) -> PostgresStore:
        opened.append(PostgresStore(server.url, lease_s=lease_s, schema=schema, key=key, encryption_key=encryption_key))
        return opened[-1]

    yield open
    for store in opened:
        store.close()
