"""Faults of the server: it is killed under load, and a replica takes its place."""

from __future__ import annotations

import time
from typing import Any

import psycopg

from tests.faults_of_nodes.trial import Fault, Mutant, Trial

_LAG_S = 0.3
"""For how long a replica gets nothing before its server is killed."""


def _setting(value: str) -> str:
    """Return what sets `synchronous_commit` for a database."""
    return f"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = {value}', current_database()); END $$"


def server_kill(trial: Trial) -> None:
    """`kill -9` of the server and all of its processes under load; nodes wait for it, or join again."""
    trial.start_pair()
    trial.server.kill()
    trial.server.start()
    _go_on(trial)
    trial.assert_whole()


def _go_on(trial: Trial) -> None:
    """Wait until all harnesses make steps on both nodes again."""
    trial.nodes.store.close_readers()
    trial.nodes.wait_for({"a": 2, "b": 2})
    trial.nodes.wait_for_steps()


def _fail_over(trial: Trial) -> None:
    """Have the replica lag, kill its server, and promote it."""
    assert trial.pair is not None
    trial.start_pair()
    trial.pair.network.freeze("answers")
    time.sleep(_LAG_S)
    begin = time.monotonic()
    trial.pair.primary.kill()
    trial.pair.network.end()
    trial.pair.replica.promote()
    trial.measured["promoted, s"] = time.monotonic() - begin
    _go_on(trial)
    acks = [line.at_s for lines in trial.lines("ack").values() for line in lines]
    trial.measured["steps again, s"] = min(at_s for at_s in acks if at_s > begin + 0.05) - begin


def fail_over(trial: Trial) -> None:
    """A synchronous replica takes the place of its server, which is killed while the replica lags."""
    _fail_over(trial)
    trial.assert_whole()


def former_primary(trial: Trial) -> None:
    """The killed server comes back beside the new one, first in the address; nobody writes to it."""
    assert trial.pair is not None
    _fail_over(trial)
    trial.pair.primary.start()
    database = trial.nodes.url.rpartition("/")[2].partition("?")[0]
    old = trial.pair.primary.url.replace("/postgres", f"/{database}")
    with psycopg.connect(old, autocommit=True, options="-csearch_path=orchestrator") as db:
        asked = b"SELECT (SELECT max(seq) FROM records), (SELECT max(until) FROM leases)"
        before = db.execute(asked).fetchone()
        with psycopg.connect(trial.pair.replica.url, autocommit=True) as new:
            new.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
                (database,),
            )
        with psycopg.connect(trial.pair.replica.url.replace("/postgres", f"/{database}")) as new:
            seen = _last(new)
            trial.wait_until(lambda: _last(new) > seen + 20, "records are written to the new server")
        assert db.execute(asked).fetchone() == before, "the former primary was written to"
    _go_on(trial)
    trial.assert_whole()


def _last(db: psycopg.Connection) -> int:
    db.rollback()
    row: Any = db.execute(b"SELECT max(seq) FROM orchestrator.records").fetchone()
    return int(row[0])


SERVER_FAULTS = (
    Fault(
        "server-kill",
        server_kill,
        (Mutant("`synchronous_commit = off` is not overruled", ("without_overruling",), _setting("off")),),
    ),
    Fault(
        "fail-over",
        fail_over,
        (
            Mutant("the replica is not synchronous", is_asynchronous=True),
            Mutant("`synchronous_commit = local` is not overruled", ("without_overruling",), _setting("local")),
        ),
        has_replica=True,
    ),
    Fault(
        "former-primary",
        former_primary,
        (Mutant("timelines are not compared", ("without_timelines",)),),
        has_replica=True,
    ),
)
