"""The verbs that reach a running program: `pause`, `resume`, `stop`, `metrics`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

from orchestrator.command import streams
from orchestrator.command.exits import ExitCode
from orchestrator.command.lines import json_line
from orchestrator.command.parsing import Add, add_common, add_verb, print_all, seconds, store_of
from orchestrator.control.asking import Reply, ask_all, order
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.lifecycle import ENDED
from orchestrator.records import HarnessRecord
from orchestrator.standing import shown_status
from orchestrator.store.sqlite_reader import SqliteReader
from orchestrator.telemetry.figures import families
from orchestrator.telemetry.prometheus import text_of
from orchestrator.telemetry.stored import stored_snapshot
from orchestrator.terms import check_name
from orchestrator.text import one_line

_ORDER = """\
The program that runs the harness is told over a socket beside the store, which only its user can open. An order takes effect
at once, and to give it again changes nothing.
exit codes: 0 if the harness is as it was told to be, 1 if no program runs it"""
_METRICS = """\
Of a program that runs: its counters since it began, as `orchestrator run --metrics HOST:PORT` serves them to Prometheus.
Of a store whose program is gone: what can be told from its records, all of them."""
_PAST = {"pause": "paused", "resume": "resumed", "stop": "stopped"}


class NotRunning(OrchestratorError):
    """No living program takes orders for the harness."""


def add_controlling(add: Add) -> None:
    """Add the verbs."""
    for verb, help in (
        ("pause", "hold a harness at its next step boundary"),
        ("resume", "let a held harness go on"),
        ("stop", "end a harness at its next step boundary; run it again to go on"),
    ):
        parser = add_verb(add, verb, help, partial(_order, verb), _ORDER)
        parser.add_argument("name", metavar="NAME")
        if verb == "stop":
            parser.add_argument("--grace", metavar="S", type=seconds, help="seconds until it is cancelled (default: its own)")
        add_common(parser)
    metrics = add_verb(add, "metrics", "print the numbers of a run, as Prometheus reads them", _metrics, _METRICS)
    add_common(metrics, "one JSON object for each number")


def _order(verb: str, options: argparse.Namespace) -> int:
    check_name(options.name)
    store, name = store_of(options), options.name
    with closing(SqliteReader(store)) as reader:
        path, record = reader.path, _known(reader, name)
    grace = f"?grace_s={options.grace}" if getattr(options, "grace", None) else ""
    reply = order(path, name, verb, grace)
    if reply is None or reply.status == 404:
        return _not_running(verb, store, record, reply, as_json=options.json)
    if reply.status not in (200, 202):
        raise UsageError(str(reply.fields.get("error") or reply.text))
    if options.json:
        print_all([json_line(reply.fields)])
    streams.say(_told(verb, reply.fields))
    return ExitCode.OK


def _known(reader: SqliteReader, name: str) -> HarnessRecord:
    """Return what the store knows of a harness.

    Raises:
        UnknownHarness: there is none of that name.
    """
    found = next((record for record in reader.harnesses() if record.name == name), None)
    if found is None:
        reader.steps(name, limit=1)  # raises with the known names
        raise AssertionError(name)
    return found


def _not_running(verb: str, store: str, record: HarnessRecord, reply: Reply | None, *, as_json: bool) -> int:
    """Say that nobody was told; a harness that is to stop, and does not run, is as it was told to be."""
    status = shown_status(record)
    where = f"no program runs on {store}" if reply is None else f"no program on {store} runs {record.name!r} now"
    if record.owned:
        raise NotRunning(
            f"{record.name!r} is {status}, but its program takes no orders: expected a socket beside {store}; run it with "
            "`orchestrator run` or Orchestrator(control=True), and with the extra `control`"
        )
    if verb == "stop":
        if as_json:
            fields = {"harness": record.name, "status": status, "attempt": record.attempt}
            cause = str(record.event.get("cause") or "")
            print_all([json_line({**fields, "current_step": record.current_step, "cause": cause, "done": True})])
        streams.say(f"{where}: {record.name} is {status} at step {record.current_step} already")
        return ExitCode.OK
    raise NotRunning(
        f"{where}, so {record.name!r} ({status}) was not told to {verb}: expected one; `orchestrator run` it first"
    )


def _told(verb: str, fields: dict[str, Any]) -> str:
    name, status, step = (one_line(str(fields.get(key))) for key in ("harness", "status", "current_step"))
    if verb == "stop":
        ended = status in {one.value for one in ENDED} and fields.get("done")
        return (
            f"{name} is {status} at step {step}" if ended else f"{name} is told to stop, and is still {status} at step {step}"
        )
    if not fields.get("done"):
        return f"{name} is told to {verb}; that is not recorded yet, it is {status} at step {step}"
    where = f" at step {step}" if verb == "resume" else f": it stays at its next step boundary after step {step}"
    return f"{name} is {_PAST[verb]}{where}"


def _metrics(options: argparse.Namespace) -> int:
    store = store_of(options)
    with closing(SqliteReader(store)) as reader:
        reader.last_seq()  # refuses what is not there, and what is no store
        is_owned = any(record.owned for record in reader.harnesses())
        replies = list(ask_all(reader.path, "GET", "/metrics"))
        text = _text_of(replies, store) if replies else text_of(families(stored_snapshot(reader))).decode()
    if not replies:
        who = "the program that runs" if is_owned else "no program runs"
        streams.say(f"{who} on {store}{' takes no questions' if is_owned else ''}: this is what its records tell")
    print_all(_json_lines(text) if options.json else text.splitlines())
    return ExitCode.OK


def _text_of(replies: list[Reply], store: str) -> str:
    for reply in replies:
        if reply.status != 200:
            raise UsageError(str(reply.fields.get("error") or reply.text))
    if len(replies) > 1:
        streams.say(f"{len(replies)} programs run on {store}: these are the numbers of one; each has its own `--metrics`")
    return replies[0].text


def _json_lines(text: str) -> Iterator[str]:
    """Yield each number with its name and labels."""
    from prometheus_client.parser import text_string_to_metric_families

    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield json_line({"name": sample.name, "labels": sample.labels, "value": sample.value, "type": family.type})
