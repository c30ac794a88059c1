"""`docs/reference/metrics.md`: every metric with its type, unit, labels and meaning."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from orchestrator.recording.histogram import Histogram
from orchestrator.telemetry.metric_figures import Family, ProgramFigures, Snapshot, families
from orchestrator.telemetry.record_counts import Counts
from tests.docs.tables import rows

_HEAD = """\
# Metrics

`orchestrator metrics`, `--metrics HOST:PORT` and OpenTelemetry's exporter give the same numbers: see
[monitoring](../how-to/monitoring.md). Names follow Prometheus. Of a running program, counters begin at 0 with it; of a store
alone, they count all that it holds. Families marked *program* are known to a running program only.

"""
LABELS = {
    "store": "path of the store",
    "run": "id of this life of the program",
    "version": "version of the package",
    "source": "`program` or `store`: who gives the numbers",
    "harness": "name of the harness",
    "status": "where a harness is in its life, as `orchestrator status` shows it",
    "activity": "what it is doing: `hung`, `halted`, `waiting`, `waiting_for_approval`, `working`",
    "part": "what the time of a step goes into: `work`, `agent`, `effects`, `waiting`, `commit`, `held`",
    "outcome": "how an effect ended: `confirmed`, `refused`, `unknown`, `not_done`",
    "event": "of an approval `requested`, `approved`, `denied`, `reopened`, `used`; of an end the [event](log.md#lifecycle)",
    "pool": "the budget: `harness/NAME`, a pool, a supervisor, or the run",
    "gauge": "what a harness tells of its work: the names in its property `gauges`",
    "resource": "`steps`, `turns`, `tool_calls`, `tokens`, `money`, `working_time_s`",
}
_UNITS = {"orchestrator_budget_spent": "by resource", "orchestrator_budget_limit": "by resource"}
_UNITS["orchestrator_agent_usage"] = "by resource"
_UNITS["orchestrator_harness_gauge"] = "by gauge"


def all_families() -> list[Family]:
    """Return every family that there is."""
    program = ProgramFigures(queued=0, commits_s=Histogram(()), batches=Histogram(()), uncounted=0)
    told = evolve(of_store(), program=program, accounts={})
    return list(families(told))


def of_store() -> Snapshot:
    """Return everything that is known of a store alone."""
    return Snapshot(store="", counts=Counts(), harnesses=(), messages_waiting=0, approvals_waiting=0, effects_unknown={})


def page() -> str:
    """Return the page."""
    stored = {family.name for family in families(of_store())}
    head = ("metric", "type", "unit", "labels", "meaning")
    table = rows(head, (_row(family, family.name in stored) for family in all_families()))
    labels = rows(("label", "meaning"), ((f"`{name}`", meaning) for name, meaning in LABELS.items()))
    return "\n".join([_HEAD.rstrip("\n"), "", *table, "", "## Labels", "", *labels, ""])


def _row(family: Family, is_stored: bool) -> tuple[str, ...]:
    labels = ", ".join(f"`{label}`" for label in family.labels) or "-"
    return f"`{family.name}`", family.kind, _unit(family), labels, family.help + ("" if is_stored else " *program*")


def _unit(family: Family) -> str:
    if family.name.removesuffix("_total").endswith("_timestamp_seconds"):
        return "s since 1970"
    return _UNITS.get(family.name) or ("s" if family.name.removesuffix("_total").endswith("_seconds") else "count")


def labels_of_all() -> Iterator[str]:
    """Yield every label that some family has."""
    for family in all_families():
        yield from family.labels
