"""Locations of stores: a path stays what it is, and an address becomes the path of the server's local copy.

Everything that reads takes the path. What writes to the path of such a copy goes to the server instead: see `commit_at`.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.kill_switch import KillSwitch
from orchestrator.store.file.server_copy import Server, copy_path, server_of
from orchestrator.store.postgres.postgres_address import address_in, has_password, server_named, shown_url
from orchestrator.store.run_orders import Answer, GivenOrder
from orchestrator.store.store_protocol import Operation
from orchestrator.text.terminal_text import say

if TYPE_CHECKING:
    from orchestrator.store.postgres.postgres_store import PostgresStore
    from orchestrator.store.sqlite.sqlite_store import SqliteStore

_PERIOD_S = 0.5
_ORDER_S = 10.0
"""Seconds that the server may take for each statement about an order."""


def server_at(address: str) -> Server:
    """Return the store that an address names.

    Raises:
        UsageError: there is a password in it.
    """
    if has_password(address):
        raise UsageError(
            f"{shown_url(address)}: expected an address without a password, since others may read command lines; put it "
            "into ~/.pgpass, or the environment variable PGPASSWORD or PGPASSFILE"
        )
    return server_named(address)


def place_of(location: str | Path) -> Path:
    """Return where the files beside a store are: its path, or for an address that of its local copy, made or not.

    Raises:
        UsageError: there is a password in it.
        StoreUnusable: the folder of the copy cannot be made.
    """
    address = address_in(location)
    return Path(location) if address is None else copy_path(server_at(address))


def local_path(location: str | Path) -> Path:
    """Return the path of a store to read; that of a server's is its local copy, which is brought up to date.

    Raises:
        UsageError: there is a password in the address, or the extra `postgres` is not installed.
        StoreUnusable: the server does not answer, or has no store there.
    """
    path = place_of(location)
    refresh(path)
    return path


def refresh(path: Path) -> None:
    """Bring the copy at a path up to date; does nothing for a store in a file."""
    if (server := server_of(path)) is not None:
        _refresher(path, server).refresh()


def open_store(location: str | Path) -> SqliteStore | PostgresStore:
    """Open a store to run harnesses on: a file, or one on a server by its address, or by the path of its local copy.

    Raises:
        StoreError: it cannot be used.
    """
    server = server_of(location)
    address = address_in(location)
    if server is None and address is None:
        from orchestrator.store.sqlite.sqlite_store import SqliteStore

        return SqliteStore(location)
    from orchestrator.store.postgres.postgres_store import PostgresStore

    return PostgresStore(server.address if server is not None else str(address))


def keep_fresh(path: Path, period_s: float = _PERIOD_S) -> None:
    """Keep the copy at a path up to date from now on, in a thread that ends with the process, or the copy."""
    if server_of(path) is not None:
        _start_keeping(path, period_s)


@cache
def _start_keeping(path: Path, period_s: float) -> None:
    threading.Thread(target=_keep, args=(path, period_s), name="orchestrator-copy", daemon=True).start()


def _keep(path: Path, period_s: float) -> None:
    said = ""
    while server_of(path) is not None:
        time.sleep(period_s)
        try:
            refresh(path)
            said = ""
        except Exception as error:  # whatever it is: a thread that ended would leave an old copy on show, and say nothing
            if str(error) != said:
                said = str(error)
                with suppress(OSError, ValueError):  # stderr is closed
                    say(f"orchestrator: what is shown is no longer up to date: {said}")


@cache
def _refresher(path: Path, server: Server) -> Any:
    from orchestrator.store.places.copy_refresh import CopyRefresh

    return CopyRefresh(path, server)


def commit_at(server: Server, path: Path, operation: Operation, *, wait_s: float) -> Any:
    """Commit one operation on the server, and return its result; the copy at `path` has it then.

    A copy that cannot be brought up to date is only said: whoever saw an error would give the order again.

    Raises:
        OrchestratorError: the store has refused it, or the server does not answer.
    """
    from orchestrator.store.postgres.postgres_address import Address
    from orchestrator.store.postgres.postgres_orders import commit_order

    result = commit_order(Address(server.url, server.schema, wait_s), operation, wait_s=wait_s)
    try:
        refresh(path)
    except (OrchestratorError, sqlite3.Error, OSError) as error:
        say(f"orchestrator: recorded; what is shown is not up to date: {error}")
    return result


def order_at(server: Server, order: GivenOrder, *, answer_s: float) -> Answer | None:
    """Give an order to the program that runs a harness, on whatever machine; None if none could take it.

    Args:
        answer_s: seconds that it may take for its answer.

    Raises:
        OrderNotTaken: nobody has taken it in time, so that it is withdrawn; or it was taken, and is not answered.
        StoreUnusable: the server does not answer.
    """
    from orchestrator.store.postgres.postgres_address import Address
    from orchestrator.store.postgres.postgres_order_table import give_order

    return give_order(Address(server.url, server.schema, _ORDER_S), order, wait_s=_ORDER_S, answer_s=answer_s)


def why_unplaced_at(server: Server, name: str) -> str | None:
    """Return why no node runs a harness that is in the file of its fleet; None if none says so.

    Raises:
        StoreError: the server does not answer.
    """
    from orchestrator.store.postgres.postgres_address import Address
    from orchestrator.store.postgres.postgres_connection import limited
    from orchestrator.store.postgres.postgres_order_table import why_unplaced

    with limited(Address(server.url, server.schema, _ORDER_S), _ORDER_S) as db:
        return why_unplaced(db, name)


def switch_at(path: str | Path) -> KillSwitch:
    """Return the kill switch of the store at a path, on its server if it is a copy."""
    server = server_of(path)
    if server is None:
        return KillSwitch(path)
    from orchestrator.store.postgres.postgres_address import Address
    from orchestrator.store.postgres.postgres_switch import PostgresKillSwitch

    return PostgresKillSwitch(Address(server.url, server.schema, 10.0))
