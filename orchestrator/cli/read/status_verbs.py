"""The verbs `status`, `steps` and `show`. They only read the store, so a run never waits for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from harnesses.timing.clock import now_s
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.following import looks
from orchestrator.cli.verb_options import USUAL, Common, Count, Name, StepNumber, print_all
from orchestrator.codec import decode
from orchestrator.errors import UsageError
from orchestrator.history.past_reader import find_harness, pages
from orchestrator.history.supervision_tree import SupervisionTree, SupervisorView
from orchestrator.kill_switch import KillSwitch
from orchestrator.lifecycle import Status
from orchestrator.operating.kill_switch_orders import in_words
from orchestrator.records import StepRecord
from orchestrator.runtime.activity import Live, span
from orchestrator.status import At, look
from orchestrator.status_lines import json_status, lives_in
from orchestrator.store.file.server_copy import shown_place
from orchestrator.store.rules.effect_rules import pruned
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.step_lines import step_line
from orchestrator.text.terminal_text import CAUSE_WIDTH, one_line
from orchestrator.text.value_lines import columns, json_line, json_pretty, stamp_us, step_fields

_ANSWER_S = 2.0
"""How long `status` waits for a running program."""
_WATCH_S = 1.0
_FOLLOW_S = 0.2
_SHOWN = {"working": Status.RUNNING.value, "backing_off": Status.BACKING_OFF.value}


def status(*, watch: bool = False, common: Common = USUAL) -> int:
    """Show the status and progress of each harness.

    It reads the store, and asks the program that runs on it what each harness is doing; a program that does not answer within
    2 s is reported on standard error. With --watch, a terminal is redrawn every second, and a pipe gets a block for each
    change, until the program ends; Ctrl-C ends only the watching.

    Args:
        watch: show it again when it changes, until the program ends
    """
    with closing(common.reader()) as reader:
        if watch:
            return _watch(reader, common)
        if not print_all(status_lines(reader, as_json=common.json)):
            streams.say(f"{reader.location} has no harness yet")
    if latched := in_words(KillSwitch(reader.path)):
        streams.say(latched)
    return ExitCode.OK


def _watch(reader: SqliteReader, common: Common) -> int:
    """Show how far each harness is when that changes, until no program runs on the store."""
    is_drawn = sys.stdout.isatty() and not common.json and os.environ.get("TERM", "dumb") != "dumb"
    before: object = None
    tree = SupervisionTree(reader)
    for _ in looks(reader.path, _WATCH_S):
        found = look(reader, _lives(reader, is_quiet=before is not None))
        now = [(at.record.name, at.activity, at.record.attempt, at.record.current_step, at.cause) for at in found]
        if not is_drawn and now == before:
            continue
        if is_drawn:
            sys.stdout.write("\x1b[H\x1b[2J" if before is None else "\x1b[H\x1b[J")
        elif before is not None and not common.json:
            sys.stdout.write("\n")
        print_all(
            json_status(reader, {at.record.name: at.live for at in found if at.live}) if common.json else _table(found, tree)
        )
        before = now
    streams.say(f"no program runs on {shown_place(common.store_path)}")
    return ExitCode.OK


def steps(
    name: Name,
    /,
    *,
    after: Count = 0,
    limit: Count | None = None,
    newest: Count | None = None,
    follow: bool = False,
    common: Common = USUAL,
) -> int:
    """Show the recorded steps of a harness.

    A line has the number of the step, its time, the attempt, what the step did, and what changed in the state. Steps of
    trading, feature and pipeline harnesses are summarised; --json has everything.

    Args:
        name: the name of the harness
        after: leave out the first N steps
        limit: show at most N steps, the oldest
        newest: show only the newest N steps
        follow: continue with new steps until the program ends; Ctrl-C ends only the following
    """
    with closing(common.reader()) as reader:
        if newest is not None:
            after = max(after, find_harness(reader, name).current_step - newest)
        for _ in looks(reader.path, _FOLLOW_S) if follow else [None]:
            shown = 0
            for record in _steps(reader, name, after, limit):
                print_all([json_line(step_fields(record)) if common.json else step_line(record)])
                after, shown = record.step_number, shown + 1
            if limit is not None:
                limit -= shown
                if limit <= 0:
                    return ExitCode.OK
    if follow:
        streams.say(f"no program runs on {shown_place(common.store_path)}")
    return ExitCode.OK


def show(name: Name, step: StepNumber | None = None, /, *, state: bool = False, common: Common = USUAL) -> int:
    """Show everything about one step.

    Args:
        name: the name of the harness
        step: the number of the step, from 1 (default: the newest)
        state: also show the whole state after the step
    """
    with closing(common.reader()) as reader:
        number = find_harness(reader, name).current_step if step is None else step
        print_all(show_lines(reader, name, number, with_state=state, as_json=common.json))
    return ExitCode.OK


def status_lines(reader: SqliteReader, *, as_json: bool) -> Iterator[str]:
    """Yield what is known of each harness."""
    lives = _lives(reader)
    yield from json_status(reader, lives) if as_json else _table(look(reader, lives), SupervisionTree(reader))


def _table(found: Sequence[At], tree: SupervisionTree) -> Iterator[str]:
    """Yield a line for each harness; where there are supervisors, below a line for each of those."""
    if found:
        head = ("HARNESS", "STATUS", "ATTEMPT", "STEP", "LAST EVENT", "CAUSE")
        supervisors = tree.supervisors(now_s())
        yield from columns(head, _rows(found, supervisors) if supervisors else map(_status_cells, found))


def _rows(found: Sequence[At], supervisors: Sequence[SupervisorView]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of the harnesses without a supervisor, then each supervisor with those below it."""
    below = {name: one.path for one in supervisors for name in one.harnesses}
    cells: dict[str, list[tuple[str, ...]]] = {}
    for at in found:
        cells.setdefault(below.get(at.record.name, ""), []).append(_status_cells(at))
    yield from cells.get("", ())
    for one in supervisors:
        indent = "  " * one.path.count("/")
        yield (f"{indent}{one_line(one.path.rpartition('/')[2])}/", "", "", "", "", one.limits)
        yield from ((f"{indent}  {name}", *rest) for name, *rest in cells.get(one.path, ()))


def _lives(reader: SqliteReader, *, is_quiet: bool = False) -> Mapping[str, Live]:
    """Return what the programs that run on a store report about their harnesses; only programs that answer at once count.

    Args:
        is_quiet: do not report a program that does not answer.
    """
    if not any(record.owned and record.status is Status.RUNNING for record in reader.harnesses()):
        return {}
    from orchestrator.control.control_client import ask_soon

    replies, late = ask_soon(reader.path, "/status", _ANSWER_S)
    if late and not is_quiet:
        streams.say(
            f"a program that runs on {reader.location} has not answered within {_ANSWER_S:g} s: its loop may be blocked"
        )
    return lives_in(text for reply in replies if reply.status == 200 for text in reply.text.splitlines())


def _status_cells(at: At) -> tuple[str, ...]:
    record = at.record
    time = (stamp_us(at.last_us) or "-")[:19].replace("T", " ")
    numbers = (str(record.attempt), str(record.current_step))
    status = _SHOWN.get(at.activity, at.activity).replace("_", " ")
    until = f"until {stamp_us(at.until_us) or '-'}"[:25].replace("T", " ") if at.until_us else ""
    age = "" if at.age_s is None else f"step {record.current_step + 1} for {span(at.age_s)}"
    halted = f"halted: {at.live.halted}" if at.live and at.live.halted else ""
    said = "; ".join(filter(None, (until, at.cause, at.asks_in_words, halted, age)))
    return (record.name, status, *numbers, time, one_line(said, CAUSE_WIDTH))


def _steps(reader: SqliteReader, name: str, after: int, limit: int | None) -> Iterator[StepRecord]:
    """Yield the steps that are recorded now, page by page."""
    for page in pages(reader, name, after=after, limit=limit):
        if page[0].step_number > after + 1:
            streams.say(f"steps {after + 1} to {page[0].step_number - 1} of {name!r} were pruned")
        after = page[-1].step_number
        yield from page


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
    last = find_harness(reader, name).current_step
    expected = f"a number from 1 to {last}" if last else "one that has been recorded, and there is none yet"
    raise UsageError(f"harness {name!r} has no step {number}: expected {expected}; see `orchestrator steps {name}`")
