"""The verb `traces`: exports a run as spans, to a file or to a collector."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.export.export_formats import whole_file
from orchestrator.cli.output_targets import check_target
from orchestrator.cli.verb_options import USUAL, Common, Count, Name, WordsOrDash
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.telemetry.otlp_export import BATCH, exporter_to, sender
from orchestrator.telemetry.span import Span
from orchestrator.telemetry.span_processes import stored_requests
from orchestrator.telemetry.stored_spans import stored_spans


class NotTaken(OrchestratorError):
    """A collector has refused spans, or cannot be reached."""


def traces(
    name: Name | None = None,
    /,
    *,
    to: Annotated[str | None, Parameter(metavar="URL")] = None,
    output: Annotated[WordsOrDash | None, Parameter(metavar="FILE")] = None,
    after: Annotated[Count, Parameter(metavar="SEQ")] = 0,
    common: Common = USUAL,
) -> int:
    """Export traces, to standard output, a file or a collector.

    There is a trace for each attempt of a harness: a span for it, below it one for each step, below those its effects and
    approvals. Lines are requests in the JSON of OTLP, which the OpenTelemetry collector reads. Ids are derived from what is
    recorded: exporting again gives the same spans, and so does `orchestrator run --traces`. An attempt under way has no span
    yet; its steps have.

    Args:
        name: only this harness (default: all)
        to: send the spans to this collector, by OTLP over HTTP
        output: write them to this file (default: standard output)
        after: leave out what was recorded up to this `seq`
    """
    if to is not None and output is not None:
        raise UsageError("traces: expected --to or --output, got both; leave one out")
    with closing(SqliteReader(common.store_path)) as reader:
        if to is not None:
            return _send(stored_spans(reader, name, after=after), to)
        requests = stored_requests(reader, name, after=after)
        if output in (None, "-"):
            for some in requests:
                sys.stdout.write(some.decode())
            return ExitCode.OK
        written = _write(requests, Path(output), reader.path)
    streams.say(f"{written} requests of at most {BATCH} spans each written to {output}")
    return ExitCode.OK


def _write(requests: Iterator[bytes], output: Path, store: Path) -> int:
    check_target(output, store)
    written = 0
    with whole_file(output) as file:
        for some in requests:
            file.write(some)
            written += some.count(b"\n")
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
