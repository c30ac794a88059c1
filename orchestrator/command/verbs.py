"""What the reading verbs print: `status`, `steps`, `show`. They read the store only, so a run never waits for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from orchestrator.codec import decode
from orchestrator.command.approvals import waiting_for
from orchestrator.command.latching import latched_names
from orchestrator.command.lines import columns, json_line, json_pretty, stamp_us, step_fields, step_line
from orchestrator.command.pages import pages
from orchestrator.errors import UsageError
from orchestrator.latch import ALL, Latch
from orchestrator.lifecycle import Status
from orchestrator.records import HarnessRecord, StepRecord
from orchestrator.store.sqlite_reader import SqliteReader
from orchestrator.text import one_line

INTERRUPTED = "interrupted"
"""Shown instead of a status that only a living program can keep."""
_NEEDS_OWNER = (Status.RUNNING, Status.BACKING_OFF)


def shown_status(record: HarnessRecord) -> str:
    """Return the status as it is now: a harness whose program is gone does not run, whatever the last event was."""
    return INTERRUPTED if record.status in _NEEDS_OWNER and not record.owned else record.status.value


def cause(record: HarnessRecord) -> str:
    """Return why a harness is where it is; empty where its status says it all."""
    if shown_status(record) == INTERRUPTED:
        return "its program is gone; run it again to go on"
    return str(record.event.get("cause") or "")


def status_lines(reader: SqliteReader, *, as_json: bool) -> Iterator[str]:
    """Yield what is known of each harness."""
    records, waiting = reader.harnesses(), waiting_for(reader)
    if as_json:
        latched = latched_names(Latch(reader.path))
        yield from (json_line(_status_fields(record, latched, waiting)) for record in records)
    elif records:
        head = ("HARNESS", "STATUS", "ATTEMPT", "STEP", "LAST EVENT", "CAUSE")
        yield from columns(head, (_status_cells(record, waiting) for record in records))


def _status_fields(record: HarnessRecord, latched: Collection[str], waiting: Mapping[str, str]) -> dict[str, Any]:
    return {
        "harness": record.name,
        "status": shown_status(record),
        "attempt": record.attempt,
        "current_step": record.current_step,
        "timestamp": stamp_us(record.last_time_us),
        "cause": waiting.get(record.name) or cause(record),
        "waiting": record.name in waiting,
        "class": record.harness_class,
        "owned": record.owned,
        "latched": ALL in latched or record.name in latched,
        "last_event": record.event,
    }


def _status_cells(record: HarnessRecord, waiting: Mapping[str, str]) -> tuple[str, ...]:
    time = (stamp_us(record.last_time_us) or "-")[:19].replace("T", " ")
    numbers = (str(record.attempt), str(record.current_step))
    said = "; ".join(filter(None, (cause(record), waiting.get(record.name))))
    return (record.name, shown_status(record), *numbers, time, one_line(said, 300))


def steps_lines(reader: SqliteReader, name: str, *, after: int, limit: int | None, as_json: bool) -> Iterator[str]:
    """Yield a line for each step that is recorded now, page by page."""
    for page in pages(reader, name, after=after, limit=limit):
        for record in page:
            yield json_line(step_fields(record)) if as_json else step_line(record)


def show_lines(reader: SqliteReader, name: str, number: int, *, with_state: bool, as_json: bool) -> Iterator[str]:
    """Yield all about one step.

    Raises:
        UsageError: there is no such step.
    """
    record = _step(reader, name, number)
    state = {"state": decode(reader.state_at(name, number))} if with_state else {}
    if as_json:
        yield json_line({**step_fields(record), **state})
        return
    fields = step_fields(record)
    for label in ("harness", "step_number", "timestamp", "attempt", "seq"):
        yield f"{label:<12} {fields[label]}"
    yield f"{'modified':<12} {one_line(', '.join(record.state_delta.modified)) or '-'}"
    yield f"{'summary':<12} {one_line(record.state_delta.summary or '-', 2000)}"
    for label, value in (("input", record.input), ("output", record.output), *state.items()):
        yield f"{label}\n{json_pretty(value)}"


def _step(reader: SqliteReader, name: str, number: int) -> StepRecord:
    found = reader.steps(name, after=number - 1, limit=1) if number > 0 else []
    if found and found[0].step_number == number:
        return found[0]
    last = next((record.current_step for record in reader.harnesses() if record.name == name), None)
    if last is None:
        reader.steps(name, limit=1)  # raises with the known names
    expected = f"a number from 1 to {last}" if last else "one that has been recorded, and there is none yet"
    raise UsageError(f"harness {name!r} has no step {number}: expected {expected}; see `orchestrator steps {name}`")
