"""The lease of a run: while it is renewed, the run's harnesses are its own.

    renewed     every quarter of the lease, on a connection of its own, to the server's clock + `lease_s`
    fenced      at `FENCE` of the lease after the last renewal was sent, by this machine's monotonic clock: the run is over.
            A thread of its own sees to it, which asks nobody, so that a silent network cannot delay it
    lapsed      at the end of the lease, by the server's clock: another run may claim the harnesses. The others have the
            server end the sessions of the lapsed run at once, so that one that was suspended holds no lock

A run is fenced before its lease lapses, since a renewal reaches the server after it was sent; neither clock is compared with
the other. A lapsed lease is never revived.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from harnesses.errors import OrchestratorError
from orchestrator.codec import decode
from orchestrator.errors import StoreUnusable
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import Database, is_connection_error, translated

FENCE = 0.8
"""Part of a lease after which its run no longer writes."""
_RENEW = 0.25
_AGAIN_S = 0.1
"""Seconds between two attempts to renew while the server cannot be reached."""

_AFTER_S = 0.005
"""How long after the lease of another run has lapsed, its sessions are ended."""

_BEGIN = """
WITH gone AS (DELETE FROM leases WHERE until < clock_timestamp() - interval '1 day'),
     begun AS (INSERT INTO runs VALUES (%s, 0, 0))
INSERT INTO leases (run, until) VALUES (%s, clock_timestamp() + %s * interval '1 second')
"""
END_SESSIONS = """
SELECT count(pg_terminate_backend(a.pid))
FROM pg_stat_activity a JOIN lapsed ON a.application_name = 'orchestrator ' || lapsed.run
WHERE a.datname = current_database() AND a.usename = current_user
"""
"""Ends the sessions of runs `lapsed`. The server itself ends one whose transaction waits for its client late or not at all:
not in the midst of statements that are sent together, nor after psycopg has sent them, with a flush at the end.
"""
_EXTEND = f"""
WITH lapsed AS (SELECT run FROM leases WHERE until <= clock_timestamp()), ended AS ({END_SESSIONS})
UPDATE leases SET until = clock_timestamp() + %s * interval '1 second', renewed = clock_timestamp()
WHERE run = %s AND until > clock_timestamp()
RETURNING (SELECT coalesce(json_object_agg(name, said), '{{}}')::text FROM kill_switches),
          (SELECT coalesce(extract(epoch FROM min(until) - clock_timestamp()), 0)::float8 FROM leases
           WHERE until > clock_timestamp()),
          (SELECT count FROM ended)
"""


class Lease:
    """The lease of this run, renewed by a thread of its own.

    Args:
        on_end: called once, in whatever thread has noticed that the run is over: in one of its own, or in `check`.
        kill_switches: those that are on.
    """

    def __init__(self, address: Address, on_end: Callable[[], None], kill_switches: Mapping[str, str]) -> None:
        self._address = address
        self._lease_s = address.lease_s
        self._on_end = on_end
        self._stopped = threading.Event()
        self._ending = threading.Lock()
        self.run = address.run
        """Name of the run."""
        self.kill_switches = kill_switches
        """The recorded texts of the kill switches that were on at the last renewal, by `@all` or name of a harness."""
        self.error: StoreUnusable | None = None
        """Why the run is over; None while it is not."""
        db = Database(address, self._lease_s)
        sent = time.monotonic()
        try:
            with translated(address.location):
                db.execute(_BEGIN, (self.run, self.run, self._lease_s))
        except BaseException:
            db.close()
            raise
        self._db: Database | None = db
        self._fence = sent + FENCE * self._lease_s
        self._next_lapse_s = self._lease_s
        """Seconds until the first lease that is not renewed has lapsed, as of the last renewal."""
        self._thread = threading.Thread(target=self._renew_all, name="orchestrator-lease", daemon=True)
        self._thread.start()
        threading.Thread(target=self._fence_off, name="orchestrator-fence", daemon=True).start()

    @property
    def left_s(self) -> float:
        """Seconds until the run is fenced, if the lease is not renewed; 0 or less when it is over."""
        return 0.0 if self.error is not None else self._fence - time.monotonic()

    def check(self) -> None:
        """Raise if the run is over.

        Raises:
            StoreUnusable: the lease was not renewed in time.
        """
        if self.left_s <= 0:
            raise self._end("the server was not reached in time")

    def stop(self) -> None:
        """Stop renewing."""
        self._stopped.set()
        if (db := self._db) is not None:
            db.cut()
        self._thread.join(self._lease_s)  # it closes its connection itself

    def _fence_off(self) -> None:
        """End the run when its lease was not renewed in time."""
        while not self._stopped.wait(max(0.0, self.left_s)):
            if self.left_s <= 0:
                self._end("the server was not reached in time")
                return

    def _renew_all(self) -> None:
        try:
            self._renew_until_over()
        finally:
            if (db := self._db) is not None:
                with suppress(Exception):
                    db.close()

    def _renew_until_over(self) -> None:
        wait_s = self._lease_s * _RENEW
        while not self._stopped.wait(max(0.0, min(wait_s, self.left_s))):
            if self.left_s <= 0:
                self._end("the server was not reached in time")
            elif self._renew():
                wait_s = min(self._lease_s * _RENEW, self._next_lapse_s + _AFTER_S)
            else:
                wait_s = min(_AGAIN_S, self._lease_s / 20)
            if self.error is not None:
                return

    def _renew(self) -> bool:
        """Return whether the lease was renewed; if not, the connection is made anew for the next try."""
        sent = time.monotonic()
        try:
            if self._db is None:
                self._db = Database(self._address, self.left_s)
            extended = self._db.row(_EXTEND, (self._lease_s, self.run))
        except Exception as error:
            if self._db is not None:
                with suppress(Exception):
                    self._db.close()
            self._db = None
            if not is_connection_error(error) and not isinstance(error, OrchestratorError):
                self._end(f"it could not be renewed: {error}")
            return False
        if extended is None:
            self._end("it had lapsed before it was renewed")
            return False
        self._fence = sent + FENCE * self._lease_s
        self.kill_switches, self._next_lapse_s = decode(extended[0]), float(extended[1])
        return True

    def _end(self, why: str) -> StoreUnusable:
        with self._ending:
            is_first = self.error is None
            if self.error is None:
                self.error = StoreUnusable(
                    f"{self._address.location}: the lease of run {self.run} has ended, since {why}: expected a renewal every "
                    f"{self._lease_s * _RENEW:g} s; its harnesses may belong to another run now, start again"
                )
        if is_first:
            if (db := self._db) is not None:
                db.cut()
            self._on_end()
        return self.error
