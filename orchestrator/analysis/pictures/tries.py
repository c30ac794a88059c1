"""What became of each try at a feature, read from a run once for all pictures that tell of it."""

from __future__ import annotations

from weakref import WeakSet

from orchestrator.analysis.run import Run

_READ: WeakSet[Run] = WeakSet()


def read_tries(run: Run) -> None:
    """Make the temporary tables `drawn_tries` and `drawn_features`, unless they are there."""
    if run in _READ:
        return
    run.db.execute("""
        CREATE OR REPLACE TEMP TABLE drawn_tries AS
        SELECT seq, harness, feature, step_number, "timestamp", is_try, passed, regressed, tokens, money::DOUBLE AS money
        FROM features
    """)
    if run.rows("SELECT 1 FROM drawn_tries LIMIT 1"):
        listed = "SELECT harness, count(*) AS listed, count(passed_step) AS passed FROM feature_standing GROUP BY harness"
    else:
        listed = "SELECT '' AS harness, 0 AS listed, 0 AS passed LIMIT 0"
    run.db.execute(f"CREATE OR REPLACE TEMP TABLE drawn_features AS {listed}")
    _READ.add(run)
