"""What the reading verbs print: `status`, `steps`, `show`. They read the store only, so a run never waits for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from orchestrator.cli import std_streams as streams
from orchestrator.cli.step_pages import pages
from orchestrator.cli.value_lines import columns, json_line, json_pretty, stamp_us, step_fields, step_line
from orchestrator.codec import decode
from orchestrator.control.control_client import ask_soon
from orchestrator.errors import UsageError
from orchestrator.lifecycle import Status
from orchestrator.records import StepRecord
from orchestrator.runtime.activity import Live, span
from orchestrator.status import At, json_status, lives_in, look
from orchestrator.store.rules.effect_rules import pruned
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.terminal_text import CAUSE_WIDTH, one_line

_ANSWER_S = 2.0
"""What `status` waits for a running program."""
_SHOWN = {"working": Status.RUNNING.value, "backing_off": Status.BACKING_OFF.value}


def status_lines(reader: SqliteReader, *, as_json: bool) -> Iterator[str]:
    """Yield what is known of each harness."""
    lives = _lives(reader)
    if as_json:
        yield from json_status(reader, lives)
        return
    if found := look(reader, lives):
        head = ("HARNESS", "STATUS", "ATTEMPT", "STEP", "LAST EVENT", "CAUSE")
        yield from columns(head, (_status_cells(at) for at in found))


def _lives(reader: SqliteReader) -> Mapping[str, Live]:
    """Return what the programs that run on a store say of their harnesses, those that answer at once."""
    if not any(record.owned and record.status is Status.RUNNING for record in reader.harnesses()):
        return {}
    replies, late = ask_soon(reader.path, "/status", _ANSWER_S)
    if late:
        streams.say(
            f"a program that runs on {reader.location} has not answered within {_ANSWER_S:g} s: its loop may be blocked"
        )
    return lives_in(text for reply in replies if reply.status == 200 for text in reply.text.splitlines())


def _status_cells(at: At) -> tuple[str, ...]:
    record = at.record
    time = (stamp_us(record.last_time_us) or "-")[:19].replace("T", " ")
    numbers = (str(record.attempt), str(record.current_step))
    status = _SHOWN.get(at.activity, at.activity).replace("_", " ")
    until = f"until {stamp_us(at.until_us) or '-'}"[:25].replace("T", " ") if at.until_us else ""
    age = "" if at.age_s is None else f"step {record.current_step + 1} for {span(at.age_s)}"
    halted = f"halted: {at.live.halted}" if at.live and at.live.halted else ""
    said = "; ".join(filter(None, (until, at.cause, at.asks_in_words, halted, age)))
    return (record.name, status, *numbers, time, one_line(said, CAUSE_WIDTH))


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
    known = reader.children()
    parent = next((child.harness for child in known if child.name == name), None)
    children = [child.name for child in known if (child.harness, child.step_number) == (name, number)]
    if as_json:
        yield json_line({**step_fields(record), **state, "parent": parent, "children": children})
        return
    fields = step_fields(record)
    for label in ("harness", "step_number", "timestamp", "attempt", "seq"):
        yield f"{label:<12} {fields[label]}"
    for label, said in (("parent", parent), ("children", one_line(", ".join(children), 2000))):
        if said:
            yield f"{label:<12} {said}"
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
