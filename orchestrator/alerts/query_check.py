"""Checks the queries of alert rules on an empty store, before a rule that cannot be asked hides what it should tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator.alerts.alert_facts import query_rows
from orchestrator.alerts.alert_rules import Alerts, Query
from orchestrator.errors import OrchestratorError
from orchestrator.text.terminal_text import one_line


def query_problems(alerts: Alerts) -> Iterator[str]:
    """Yield what is wrong with each query that cannot be asked: an unknown view or column, a syntax error, a missing extra."""
    conditions = (condition for rule in alerts.rules for condition in rule.conditions.values())
    queries = dict.fromkeys(condition.sql for condition in conditions if isinstance(condition, Query))
    if not queries:
        return
    from orchestrator.store.sqlite.sqlite_store import SqliteStore

    with TemporaryDirectory(prefix="orchestrator-alerts-") as folder:
        empty = Path(folder) / "empty.db"
        SqliteStore(empty).close()
        for sql in queries:
            try:
                query_rows(str(empty), sql)
            except OrchestratorError as error:
                yield f"[[alert]] when = {one_line(repr(sql), 120)}: {one_line(str(error))}"
