"""What several pictures tell of, read from a run once: attempts, tries at features, and steps by time."""

from __future__ import annotations

from weakref import WeakKeyDictionary, WeakSet

from harnesses.charts.time_axis import Span
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.pictures.roll_picture import Roll
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


FINEST = 240
"""Stretches that are counted: there is no use for narrower ones, which would be three pixels wide."""
_MOST = 6_000
"""Stretches in all rows of a picture together, each of which may become a mark."""
_COUNTED: WeakKeyDictionary[Run, dict[Span, dict[str, dict[int, int]]]] = WeakKeyDictionary()


def stretches(cast: Roll, most: int = FINEST) -> int:
    """Return how many stretches a picture of these harnesses has."""
    wanted = max(40, min(most, _MOST // max(len(cast.names), 1)))
    return max(count for count in (240, 120, 60, 40) if count <= wanted)


def pace(run: Run, cast: Roll, count: int) -> dict[str, dict[int, int]]:
    """Return how many steps each harness made in each of `count` equal stretches, those without any left out."""
    spans = _COUNTED.setdefault(run, {})
    if cast.span not in spans:
        spans[cast.span] = _counted(run, cast.span)
    found: dict[str, dict[int, int]] = {}
    for name in cast.names:
        for stretch, steps in spans[cast.span].get(name, {}).items():
            row = found.setdefault(name, {})
            row[stretch * count // FINEST] = row.get(stretch * count // FINEST, 0) + steps
    return found


def _counted(run: Run, span: Span) -> dict[str, dict[int, int]]:
    query = f"""
        SELECT harness, greatest(least(floor((epoch_us("timestamp") - ?) / ?), ?), 0)::INTEGER AS stretch, count(*)
        FROM ({run.source.own(("step",), {})}) GROUP BY ALL ORDER BY ALL
    """
    found: dict[str, dict[int, int]] = {}
    for name, stretch, steps in run.rows(query, [span.begin_us, (span.end_us - span.begin_us) / FINEST, FINEST - 1]):
        found.setdefault(name, {})[stretch] = steps
    return found
