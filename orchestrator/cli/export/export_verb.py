"""The verb `export`: what is recorded, to a file, a folder of parts, or a run folder."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from contextlib import closing
from pathlib import Path
from types import FrameType

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import EndedBySignal, ExitCode
from orchestrator.cli.export.export_formats import FORMATS, export, export_sheet
from orchestrator.cli.export.export_parts import PARTITIONS, State, export_parts, pruned_since
from orchestrator.cli.output_targets import check_target
from orchestrator.cli.parsing import Add, add_common, add_verb, count, reader_of
from orchestrator.errors import UsageError

_LAYOUTS = ("steps", "run-folder")
_WHATS = ("steps", "records", "events", "effects", "messages", "approvals")
_EXPORT = """\
records are everything that is recorded, and what `orchestrator analyze` reads: a folder of them as Parquet, or JSON lines.
With --partition-by or --incremental, --output is a folder: harness=x/day=2026-11-22/part-<first seq>-<last seq>.parquet

examples:
  orchestrator export counting --output steps.csv
  orchestrator export --what records --output run.parquet
  orchestrator export --what records --output archive --partition-by harness,day --incremental      what is new, each time"""


def add_verbs(add: Add) -> None:
    """Add the verb."""
    export = add_verb(add, "export", "write what is recorded to a file, or to a folder of parts", _export, _EXPORT)
    export.add_argument("name", metavar="NAME", nargs="?", help="default: all harnesses")
    export.add_argument("--what", choices=_WHATS, help="default: steps")
    export.add_argument(
        "--layout",
        choices=_LAYOUTS,
        default=_LAYOUTS[0],
        help="steps: a line each (default); run-folder: a directory of files",
    )
    export.add_argument(
        "--format", choices=FORMATS, help="default: by the end of the file's name, else jsonl; of parts parquet"
    )
    export.add_argument("--output", metavar="FILE|DIR", help="default: standard output")
    export.add_argument("--after", metavar="N", type=count, default=0, help="leave out the first N steps of NAME")
    export.add_argument("--after-seq", metavar="N", type=count, help="leave out all that is recorded up to number N")
    export.add_argument("--partition-by", metavar="BY", type=_partitions, help="harness, day, or harness,day")
    export.add_argument("--incremental", action="store_true", help="go on from what is in the folder already")
    add_common(export, "the same as --format jsonl")


def _partitions(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    if not parts or set(parts) - set(PARTITIONS) or len(set(parts)) != len(parts):
        raise argparse.ArgumentTypeError(f"expected harness, day or harness,day, was {text!r}")
    return parts


def _export(options: argparse.Namespace) -> int:
    output = None if options.output in (None, "-") else Path(options.output)
    if options.layout == "run-folder":
        return _export_run_folder(options, output)
    in_parts = options.incremental or options.partition_by is not None
    ending = output.suffix[1:] if output is not None and not in_parts else ""
    usual = "parquet" if in_parts and not options.json else "jsonl"
    format = options.format or (ending if ending in FORMATS and not options.json else usual)
    if options.json and format != "jsonl":
        raise UsageError(f"--json contradicts --format {format}: expected one of the two; leave one out")
    by_number = options.name is not None and options.what in (None, "steps") and options.after_seq is None and not in_parts
    if options.after and not by_number:
        raise UsageError("--after counts the steps of one harness: expected NAME and its steps; for the rest give --after-seq")
    _end_on_sigterm()
    return _export_parts(options, output, format) if in_parts else _export_file(options, output, format, by_number=by_number)


def _export_file(options: argparse.Namespace, output: Path | None, format: str, *, by_number: bool) -> int:
    what = options.what or "steps"
    with closing(reader_of(options)) as reader:
        if by_number:
            written = export(reader, options.name, format, output, sys.stdout, after=options.after)
        else:
            after = options.after_seq or 0
            written = export_sheet(reader, what, options.name, format, output, sys.stdout, after_seq=after)
    if output is not None:
        streams.say(f"{written} {what} written to {output}")
    return ExitCode.OK


def _export_parts(options: argparse.Namespace, output: Path | None, format: str) -> int:
    if output is None:
        raise UsageError("parts cannot be written to standard output: expected --output DIR; give one")
    if options.incremental and options.after_seq:
        raise UsageError("--incremental contradicts --after-seq: it knows itself where to go on; leave one out")
    what, by = options.what or "steps", options.partition_by or ()
    with closing(reader_of(options)) as reader:
        wanted = State(what, format, by, options.name, options.after_seq or 0)
        before, now = export_parts(reader, wanted, output, incremental=options.incremental)
        if pruned_since(reader, before):
            streams.say(f"records after {before.last_seq} were pruned before they were exported: {output} lacks them")
    written, parts = now.rows - before.rows, now.parts - before.parts
    streams.say(f"{written} {what} written to {output} in {parts} parts, up to record {now.last_seq}")
    return ExitCode.OK


def _export_run_folder(options: argparse.Namespace, output: Path | None) -> int:
    from orchestrator.presets.run_folder import export_run_folder

    if output is None:
        raise UsageError("a run folder cannot be written to standard output: expected --output DIR; give one")
    others = (
        options.format or options.after or options.after_seq or options.what or options.incremental or options.partition_by
    )
    if others or options.name is None:
        raise UsageError("--layout run-folder takes NAME and --output: expected all of a harness in its own form, and no more")
    _end_on_sigterm()
    with closing(reader_of(options)) as reader:
        check_target(output, reader.path)
        written = export_run_folder(reader, options.name, output)
    streams.say(f"{written} files written to {output}")
    return ExitCode.OK


def _end_on_sigterm() -> None:
    """Have SIGTERM unwind the program, so that no half-written file is left behind."""

    def end(number: int, frame: FrameType | None) -> None:
        raise EndedBySignal(number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)
