"""The verbs `status`, `steps`, `show` and `budgets`. They read the store only, so a run never waits for them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from harnesses.budgets.budget import FIELDS
from harnesses.budgets.pools import Account
from harnesses.budgets.usage import THREAD
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.operate.kill_switch_verb import in_words
from orchestrator.cli.parsing import Add, add_common, add_verb, count, number, print_all, reader_of, store_of
from orchestrator.cli.value_lines import columns, json_line, json_pretty, stamp_us, step_fields, step_line
from orchestrator.codec import decode
from orchestrator.control.control_client import ask_soon
from orchestrator.errors import UsageError
from orchestrator.history.state_at_step import find_harness, pages
from orchestrator.kill_switch import KillSwitch
from orchestrator.lifecycle import Status
from orchestrator.records import StepRecord
from orchestrator.runtime.activity import Live, span
from orchestrator.status import At, json_status, lives_in, look
from orchestrator.store.rules.effect_rules import pruned
from orchestrator.store.sqlite.sqlite_file import open_reader, translated
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.sqlite.sqlite_rows import accounts
from orchestrator.text.terminal_text import CAUSE_WIDTH, one_line

_ANSWER_S = 2.0
"""What `status` waits for a running program."""
_SHOWN = {"working": Status.RUNNING.value, "backing_off": Status.BACKING_OFF.value}


def add_verbs(add: Add) -> None:
    """Add the verbs."""
    add_common(add_verb(add, "status", "show how far each harness is", _status))
    steps = add_verb(add, "steps", "show the recorded steps of a harness", _steps)
    steps.add_argument("name", metavar="NAME")
    add_common(steps)
    steps.add_argument("--after", metavar="N", type=count, default=0, help="leave out the first N steps")
    steps.add_argument("--limit", metavar="N", type=count, help="show at most N steps")
    show = add_verb(add, "show", "show all about one step", _show)
    show.add_argument("name", metavar="NAME")
    show.add_argument("step", metavar="STEP", type=number, help="its number, from 1")
    show.add_argument("--state", action="store_true", help="also the whole state after the step")
    add_common(show)
    add_common(add_verb(add, "budgets", "show what may be spent, what is spent and what is left", _budgets))


def _status(options: argparse.Namespace) -> int:
    with closing(reader_of(options)) as reader:
        if not print_all(status_lines(reader, as_json=options.json)):
            streams.say(f"{reader.location} has no harness yet")
    if latched := in_words(KillSwitch(store_of(options))):
        streams.say(latched)
    return ExitCode.OK


def _steps(options: argparse.Namespace) -> int:
    with closing(reader_of(options)) as reader:
        print_all(steps_lines(reader, options.name, after=options.after, limit=options.limit, as_json=options.json))
    return ExitCode.OK


def _show(options: argparse.Namespace) -> int:
    with closing(reader_of(options)) as reader:
        print_all(show_lines(reader, options.name, options.step, with_state=options.state, as_json=options.json))
    return ExitCode.OK


def _budgets(options: argparse.Namespace) -> int:
    store = store_of(options)
    if not print_all(budgets_lines(read_accounts(store), as_json=options.json)):
        streams.say(f"{store} has no budget")
    return ExitCode.OK


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
    last = find_harness(reader, name).current_step
    expected = f"a number from 1 to {last}" if last else "one that has been recorded, and there is none yet"
    raise UsageError(f"harness {name!r} has no step {number}: expected {expected}; see `orchestrator steps {name}`")


_HEAD = ("POOL", "OF", "LIMIT", "SPENT", "RESERVED", "LEFT")


def read_accounts(store: str) -> Mapping[str, Account]:
    """Return where every pool stands.

    Raises:
        StoreError: the store is not there, or cannot be read.
    """
    with closing(open_reader(Path(store))) as db, translated(store):
        return {pool: account for pool, account in accounts(db, None).items() if not pool.startswith(THREAD)}


def budgets_lines(pools: Mapping[str, Account], *, as_json: bool) -> Iterator[str]:
    """Yield what is known of each pool: in JSON an object, else a line for each field that is limited or spent."""
    if as_json:
        yield from (json_line(_fields(pool, account)) for pool, account in pools.items())
    elif rows := [row for pool, account in pools.items() for row in _rows(pool, account)]:
        yield from columns(_HEAD, rows)


def _fields(pool: str, account: Account) -> dict[str, Any]:
    return {
        "pool": pool,
        "limits": account.budget.plain(),
        "spent": account.spent.plain(),
        "reserved": account.reserved.plain(),
        "left": account.left.plain(),
    }


def _rows(pool: str, account: Account) -> Iterator[tuple[str, ...]]:
    parts = [part.plain() for part in (account.budget, account.spent, account.reserved, account.left)]
    for name in FIELDS:
        if any(name in part for part in parts[:3]):
            limit, spent, reserved, left = (part.get(name) for part in parts)
            cells = (_or(limit, "none"), _or(spent, "0"), _or(reserved, "0"), _or(left, "no limit"))
            yield (one_line(pool), name, *cells)


def _or(amount: object, nothing: str) -> str:
    return nothing if amount is None else str(amount)
