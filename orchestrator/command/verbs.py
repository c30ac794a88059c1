"""What the reading verbs print: `status`, `steps`, `show`. They read the store only, so a run never waits for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from orchestrator.codec import decode
from orchestrator.command import streams
from orchestrator.command.lines import columns, json_line, json_pretty, stamp_us, step_fields, step_line
from orchestrator.command.pages import pages
from orchestrator.errors import UsageError
from orchestrator.records import HarnessRecord, StepRecord
from orchestrator.standing import cause, json_status, shown_status, waiting_for
from orchestrator.store.settling import pruned
from orchestrator.store.sqlite_reader import SqliteReader
from orchestrator.text import one_line


def status_lines(reader: SqliteReader, *, as_json: bool) -> Iterator[str]:
    """Yield what is known of each harness."""
    if as_json:
        yield from json_status(reader)
        return
    records, waiting = reader.harnesses(), waiting_for(reader)
    if records:
        head = ("HARNESS", "STATUS", "ATTEMPT", "STEP", "LAST EVENT", "CAUSE")
        yield from columns(head, (_status_cells(record, waiting) for record in records))


def _status_cells(record: HarnessRecord, waiting: Mapping[str, str]) -> tuple[str, ...]:
    time = (stamp_us(record.last_time_us) or "-")[:19].replace("T", " ")
    numbers = (str(record.attempt), str(record.current_step))
    said = "; ".join(filter(None, (cause(record), waiting.get(record.name))))
    return (record.name, shown_status(record), *numbers, time, one_line(said, 300))


def steps_lines(reader: SqliteReader, name: str, *, after: int, limit: int | None, as_json: bool) -> Iterator[str]:
    """Yield a line for each step that is recorded now, page by page."""
    for page in pages(reader, name, after=after, limit=limit):
        if page[0].step_number > after + 1:
            streams.say(f"steps {after + 1} to {page[0].step_number - 1} of {name!r} were pruned")
        after = page[-1].step_number
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
    if found:
        raise pruned(name, number, found[0].step_number)
    last = next((record.current_step for record in reader.harnesses() if record.name == name), None)
    if last is None:
        reader.steps(name, limit=1)  # raises with the known names
    expected = f"a number from 1 to {last}" if last else "one that has been recorded, and there is none yet"
    raise UsageError(f"harness {name!r} has no step {number}: expected {expected}; see `orchestrator steps {name}`")
