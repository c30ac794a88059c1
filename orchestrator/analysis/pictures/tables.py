"""What several pictures tell of, read from a run once: temporary tables, made when they are first asked for."""

from __future__ import annotations

from weakref import WeakSet

from orchestrator.analysis.run import Run
from orchestrator.events import EVENTS, Started

_HOLDING = ", ".join(f"'{event.kind}'" for event in EVENTS if event is not Started)
"""Kinds of events that begin or end a pause; a start does neither."""
_TRIES_READ: WeakSet[Run] = WeakSet()
_ATTEMPTS_READ: WeakSet[Run] = WeakSet()


def read_attempts(run: Run) -> None:
    """Make `drawn_attempts`, each attempt and how it ended, and `drawn_pauses`, what tells when one was held."""
    if run in _ATTEMPTS_READ:
        return
    run.rows("""
        CREATE OR REPLACE TEMP TABLE drawn_attempts AS
        SELECT harness, attempt, started, ended, cause, error, restart_delay_s, ended_by
        FROM attempts
    """)
    run.rows(f"""
        CREATE OR REPLACE TEMP TABLE drawn_pauses AS
        SELECT seq, harness, kind, "timestamp" FROM ({run.source.own(tuple(event.kind for event in EVENTS), {})})
        WHERE kind IN ({_HOLDING})
    """)
    _ATTEMPTS_READ.add(run)


def read_tries(run: Run) -> None:
    """Make `drawn_tries`, what became of each try at a feature, and `drawn_features`, how many there are."""
    if run in _TRIES_READ:
        return
    run.rows("""
        CREATE OR REPLACE TEMP TABLE drawn_tries AS
        SELECT seq, harness, feature, step_number, "timestamp", is_try, passed, regressed, tokens, money::DOUBLE AS money
        FROM features
    """)
    if run.rows("SELECT 1 FROM drawn_tries LIMIT 1"):
        listed = "SELECT harness, count(*) AS listed, count(passed_step) AS passed FROM feature_standing GROUP BY harness"
    else:
        listed = "SELECT '' AS harness, 0 AS listed, 0 AS passed LIMIT 0"
    run.rows(f"CREATE OR REPLACE TEMP TABLE drawn_features AS {listed}")
    _TRIES_READ.add(run)
