"""The verbs that take something out of a store: `export`, which leaves it there, and `prune`, which does not."""

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
from orchestrator.cli.output_targets import check_target
from orchestrator.cli.parsing import Add, add_common, add_verb, count, number, print_all, reader_of, store_of
from orchestrator.errors import UsageError

_FORMATS = ("jsonl", "csv", "parquet")
_LAYOUTS = ("steps", "run-folder")
_WHATS = ("steps", "records", "events", "effects", "messages", "approvals")
_PARTITIONS = ("harness", "day")
_EXPORT = """\
records are everything that is recorded, and what `orchestrator analyze` reads: a folder of them as Parquet, or JSON lines.
With --partition-by or --incremental, --output is a folder: harness=x/day=2026-11-22/part-<first seq>-<last seq>.parquet

examples:
  orchestrator export counting --output steps.csv
  orchestrator export --what records --output run.parquet
  orchestrator export --what records --output archive --partition-by harness,day --incremental      what is new, each time"""
_PRUNE = """\
What a harness needs again stays, whatever is asked for: the newest snapshot before the steps that are kept and all since, the
last 100 steps of a harness that can go on (--context), messages that wait, open reservations; what people have said stays for
ever. A program may run on the store meanwhile. `orchestrator verify` proves what is left, and says how far it was pruned.

examples:
  orchestrator prune --older-than 30d --dry-run
  orchestrator prune eurusd --keep 10000 --vacuum"""


def add_keeping(add: Add) -> None:
    """Add the verbs."""
    _add_export(add)
    _add_prune(add)


def _add_export(add: Add) -> None:
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
        "--format", choices=_FORMATS, help="default: by the end of the file's name, else jsonl; of parts parquet"
    )
    export.add_argument("--output", metavar="FILE|DIR", help="default: standard output")
    export.add_argument("--after", metavar="N", type=count, default=0, help="leave out the first N steps of NAME")
    export.add_argument("--after-seq", metavar="N", type=count, help="leave out all that is recorded up to number N")
    export.add_argument("--partition-by", metavar="BY", type=_partitions, help="harness, day, or harness,day")
    export.add_argument("--incremental", action="store_true", help="go on from what is in the folder already")
    add_common(export, "the same as --format jsonl")


def _add_prune(add: Add) -> None:
    prune = add_verb(add, "prune", "take away old steps and records", _prune, _PRUNE)
    prune.add_argument("names", metavar="NAME", nargs="*", help="default: all harnesses")
    rule = prune.add_mutually_exclusive_group(required=True)
    rule.add_argument("--older-than", metavar="AGE", type=_age, help="what is older: 30d, 12h, 4w")
    rule.add_argument("--keep", metavar="N", type=number, help="all but the last N steps of each")
    prune.add_argument(
        "--context",
        metavar="N",
        type=count,
        help="steps that stay of a harness that can go on: as many as its max_context_steps, or more (default: 100)",
    )
    prune.add_argument("--dry-run", action="store_true", help="only say what would go, and what would stay and why")
    prune.add_argument("--vacuum", action="store_true", help="give the space back, if no program runs on the store")
    add_common(prune)


def _partitions(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    if not parts or set(parts) - set(_PARTITIONS) or len(set(parts)) != len(parts):
        raise argparse.ArgumentTypeError(f"expected harness, day or harness,day, was {text!r}")
    return parts


def _age(text: str) -> float:
    from orchestrator.cli.export.prune_verb import age

    return age(text)


def _export(options: argparse.Namespace) -> int:
    output = None if options.output in (None, "-") else Path(options.output)
    if options.layout == "run-folder":
        return _export_run_folder(options, output)
    in_parts = options.incremental or options.partition_by is not None
    ending = output.suffix[1:] if output is not None and not in_parts else ""
    usual = "parquet" if in_parts and not options.json else "jsonl"
    format = options.format or (ending if ending in _FORMATS and not options.json else usual)
    if options.json and format != "jsonl":
        raise UsageError(f"--json contradicts --format {format}: expected one of the two; leave one out")
    by_number = options.name is not None and options.what in (None, "steps") and options.after_seq is None and not in_parts
    if options.after and not by_number:
        raise UsageError("--after counts the steps of one harness: expected NAME and its steps; for the rest give --after-seq")
    _end_on_sigterm()
    return _export_parts(options, output, format) if in_parts else _export_file(options, output, format, by_number=by_number)


def _export_file(options: argparse.Namespace, output: Path | None, format: str, *, by_number: bool) -> int:
    from orchestrator.cli.export.export_verb import export, export_sheet

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
    from orchestrator.cli.export.export_parts import State, export_parts, pruned_since

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


def _prune(options: argparse.Namespace) -> int:
    from orchestrator.cli.export.prune_verb import prune_lines, rule_of, space_of, vacuum
    from orchestrator.cli.store_writing import user_name
    from orchestrator.store.pruning.prune_plan import LOOKED_BACK_AT
    from orchestrator.store.pruning.prune_store import prune, survey

    store = store_of(options)
    context = LOOKED_BACK_AT if options.context is None else options.context
    rule = rule_of(options.keep, options.older_than, context)
    done = survey(store, rule, options.names) if options.dry_run else prune(store, rule, options.names, by=user_name())
    print_all(prune_lines(store, done, dry=options.dry_run, as_json=options.json))
    if not options.dry_run and (options.vacuum or done.records):
        streams.say(vacuum(Path(store)) if options.vacuum else space_of(Path(store)))
    return ExitCode.OK


def _end_on_sigterm() -> None:
    """Have SIGTERM unwind the program, so that no half-written file is left behind."""

    def end(number: int, frame: FrameType | None) -> None:
        raise EndedBySignal(number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)
