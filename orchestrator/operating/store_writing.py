"""Writing to a store from outside of the program that runs on it: one operation, one commit, no waiting for the program.

Invariant: an existing store is written to, and none is ever created: a missing store means that the path is wrong.
"""

from __future__ import annotations

import getpass
import os
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from orchestrator.store.file.server_copy import server_of
from orchestrator.store.places.store_location import commit_at
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_protocol import Operation


def commit(store: str, operation: Operation, *, busy_s: float = 10.0) -> Any:
    """Return the result of one operation, when it is durable; at the path of a local copy, on its server.

    Raises:
        OrchestratorError: the store has refused it, or cannot be written.
    """
    from orchestrator.store.sqlite.sqlite_store import SqliteStore

    if (server := server_of(store)) is not None:
        return commit_at(server, Path(store), operation, wait_s=busy_s)
    with closing(SqliteReader(store)) as reader:
        reader.last_seq()  # refuses what is not there, and what is no store
    with closing(SqliteStore(store, busy_s=busy_s)) as opened:
        result = opened.commit((), [operation]).results[0]
    if isinstance(result, Exception):
        raise result
    return result


def user_name() -> str:
    """Return who gives the command."""
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return f"user {os.getuid()}"
