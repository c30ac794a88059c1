"""Metrics and spans read from a store, by the same code as for a running program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from harnesses.diagnostics.extras import own_version
from harnesses.errors import OrchestratorError
from orchestrator.history.past_reader import read_records
from orchestrator.status import look, pending_approvals, shown_status, unknown_effects
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.telemetry.metric_figures import HarnessFigures, Snapshot
from orchestrator.telemetry.record_counts import Counts
from orchestrator.telemetry.span import Span
from orchestrator.telemetry.spans import Traces


def stored_snapshot(reader: SqliteReader) -> Snapshot:
    """Return the metrics of a store at this moment. Counters cover its whole life; metrics of commits are missing.

    Raises:
        OrchestratorError: it cannot be read.
    """
    counts = Counts()
    counts.take(read_records(reader, read=reader.outlines))
    harnesses = [
        HarnessFigures(at.record.name, shown_status(at.record), at.record.current_step, activity=at.activity, age_s=at.age_s)
        for at in look(reader, {})
    ]
    return Snapshot(
        store=reader.location,
        version=own_version(),
        counts=counts,
        harnesses=harnesses,
        messages_waiting=reader.messages_waiting(),
        approvals_waiting=_pending(reader),
        effects_unknown=unknown_effects(reader),
        accounts=reader.accounts(),
    )


def _pending(reader: SqliteReader) -> int | None:
    with suppress(OrchestratorError):
        return pending_approvals(reader)
    return None


def stored_spans(reader: SqliteReader, name: str | None = None, *, after: int = 0) -> Iterator[Span]:
    """Yield the spans of one harness, or of all, as of now. An attempt whose program is gone ends with its last record.

    Raises:
        UnknownHarness: there is no such harness.
        OrchestratorError: it cannot be read.
    """
    if name is not None:
        reader.steps(name, limit=1)  # raises with the known names
    traces = Traces()
    gone = [one.name for one in reader.harnesses() if not one.owned]
    for record in read_records(reader):
        if name is None or record.harness == name:
            made = traces.take(record)
            yield from made if record.seq > after else ()
    yield from traces.interrupt(gone)
