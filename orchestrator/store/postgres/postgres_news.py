"""News of a store on PostgreSQL: others have written a message, an answer or an order, and notified those who listen.

    commit of a message, an answer, an order ──NOTIFY, in its transaction──► every program that listens ──► it looks

Invariant: a notification only ends a wait; what was written is looked for in the tables. So one that is lost, late or of
somebody else's costs a wait or a look, and nothing else.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import Database
from orchestrator.store.postgres.postgres_schema import HEAR_NEWS

_CONNECT_S = 2.0
_DEAF_S = 0.2
"""Seconds between two looks while nothing can be heard."""
_LEAST_S = 0.01
"""Seconds between two looks, however much is written."""


class PostgresNews:
    """Waits for news in one thread, on a connection of its own. psycopg's async side does not run under Trio."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._db: Database | None = None
        self._woken = threading.Event()
        self._looked = 0.0

    def wait(self, seconds: float, writer: int | None) -> None:
        """Wait until others may have written something, at most `seconds`; at once when a lost connection is back.

        Args:
            writer: process of the server whose notifications are our own.
        """
        until = time.monotonic() + seconds
        try:
            self._hear(until, writer)
        except Exception:  # whatever it is: who cannot listen has to look
            self.close()
            self._woken.wait(min(seconds, _DEAF_S))
        self._woken.wait(self._looked + _LEAST_S - time.monotonic())
        self._woken.clear()
        self._looked = time.monotonic()

    def _hear(self, until: float, writer: int | None) -> None:
        if self._db is None:
            self._db = Database(self._address, _CONNECT_S)
            self._db.execute(HEAR_NEWS)
            return
        while not self._woken.is_set() and (left_s := until - time.monotonic()) > 0:
            heard = self._db.hear(left_s)
            if heard is not None and heard[0] == self._address.schema and heard[1] != writer:
                return

    def wake(self) -> None:
        """End a wait that is going on, from another thread."""
        self._woken.set()
        if (db := self._db) is not None:
            db.cut()

    def close(self) -> None:
        """Close the connection, while nobody waits."""
        if self._db is not None:
            with suppress(Exception):
                self._db.close()
        self._db = None
