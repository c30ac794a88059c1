"""The numbers that a store tells of a run when its program is gone: the same fold over all of its records."""

from __future__ import annotations

from contextlib import suppress

from harnesses.errors import OrchestratorError
from orchestrator.standing import pending_approvals, shown_status
from orchestrator.store.sqlite_reader import SqliteReader
from orchestrator.telemetry.counts import Counts
from orchestrator.telemetry.figures import HarnessFigures, Snapshot
from orchestrator.telemetry.meter import own_version

_PAGE = 1000


def stored_snapshot(reader: SqliteReader) -> Snapshot:
    """Return what is known of a store at this moment. Counters are over its whole life, and nothing is told of commits.

    Raises:
        OrchestratorError: it can not be read.
    """
    counts, after, last = Counts(), 0, reader.last_seq()
    while after < last and (records := reader.records(after=after, limit=_PAGE)):
        counts.take(record for record in records if record.seq <= last)
        after = records[-1].seq
    harnesses = [HarnessFigures(one.name, shown_status(one), one.current_step) for one in reader.harnesses()]
    return Snapshot(
        store=reader.location,
        version=own_version(),
        counts=counts,
        harnesses=harnesses,
        messages_waiting=reader.messages_waiting(),
        approvals_waiting=_pending(reader),
        accounts=reader.accounts(),
    )


def _pending(reader: SqliteReader) -> int | None:
    with suppress(OrchestratorError):
        return pending_approvals(reader)
    return None
