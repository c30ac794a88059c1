"""The verb `traces`: a run told as spans, to a file or to a collector."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.export.export_formats import whole_file
from orchestrator.cli.output_targets import check_target
from orchestrator.cli.parsing import Add, add_common, add_verb, count, print_all, store_of
from orchestrator.errors import OrchestratorError
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.telemetry.otlp_export import BATCH, exporter_to, otlp_lines, sender
from orchestrator.telemetry.spans import Span
from orchestrator.telemetry.stored_spans import stored_spans

_TRACES = """\
A trace for each attempt of a harness: a span for it, below it one for each step, below those its effects and approvals. Lines
are requests in the JSON of OpenTelemetry's protocol, which its collector reads. Ids come from what is recorded: to tell it
again is to tell the same spans, as is what `orchestrator run --traces` sends. An attempt under way has no span yet, its steps
have."""


class NotTaken(OrchestratorError):
    """A collector has refused spans, or cannot be reached."""


def add_verbs(add: Add) -> None:
    """Add the verb."""
    traces = add_verb(add, "traces", "tell a run as spans: on standard output, to a file or to a collector", _traces, _TRACES)
    traces.add_argument("name", metavar="NAME", nargs="?", help="of a harness; default: all")
    where = traces.add_mutually_exclusive_group()
    where.add_argument("--to", metavar="URL", help="send them to this collector, by OTLP over HTTP")
    where.add_argument("--output", metavar="FILE", help="default: standard output")
    traces.add_argument("--after", metavar="SEQ", type=count, default=0, help="leave out what was recorded up to this `seq`")
    add_common(traces, "as always: a line of JSON for each request")


def _traces(options: argparse.Namespace) -> int:
    with closing(SqliteReader(store_of(options))) as reader:
        told = stored_spans(reader, options.name, after=options.after)
        if options.to is not None:
            return _send(told, options.to)
        lines = otlp_lines(told)
        if options.output in (None, "-"):
            print_all(lines)
            return ExitCode.OK
        written = _write(lines, Path(options.output), reader.path)
    streams.say(f"{written} requests of at most {BATCH} spans each written to {options.output}")
    return ExitCode.OK


def _write(lines: Iterator[str], output: Path, store: Path) -> int:
    check_target(output, store)
    written = 0
    with whole_file(output) as file:
        for line in lines:
            file.write(f"{line}\n".encode())
            written += 1
    return written


def _send(spans: Iterator[Span], url: str) -> int:
    """Send spans to a collector; the first batch that it does not take is the last."""
    exporter = exporter_to(url)
    send, sent = sender(exporter, ""), 0
    try:
        while some := list(islice(spans, BATCH)):
            if not send(some):
                raise NotTaken(f"the collector at {url} has not taken spans {sent + 1} to {sent + len(some)}; look at its log")
            sent += len(some)
    finally:
        exporter.shutdown()
    streams.say(f"{sent} spans sent to {url}")
    return ExitCode.OK
