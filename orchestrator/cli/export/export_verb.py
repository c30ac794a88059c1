"""The verb `export`: what is recorded, to a file, a folder of parts, or a run folder."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

from attrs import evolve, frozen
from cyclopts import Parameter

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.export.export_formats import FORMATS, export_sheet
from orchestrator.cli.export.export_formats import export as export_steps
from orchestrator.cli.export.export_parts import PARTITIONS, State, export_parts, pruned_since
from orchestrator.cli.following import end_on_sigterm
from orchestrator.cli.output_targets import check_target
from orchestrator.cli.verb_options import USUAL, Common, Count, Name, WordsOrDash, converter
from orchestrator.errors import UsageError

What = Literal["steps", "records", "events", "effects", "messages", "approvals", "transcripts"]
Format = Literal["jsonl", "csv", "parquet"]
After = Annotated[Count, Parameter(metavar="N")]


def _partitions(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    if not parts or set(parts) - set(PARTITIONS) or len(set(parts)) != len(parts):
        raise ValueError(f"expected harness, day or harness,day, got {text!r}")
    return parts


@Parameter(name="*")
@frozen
class Wanted:
    """What is to be exported."""

    layout: Annotated[Literal["steps", "run-folder"], Parameter(help="steps: a line each (default); run-folder: a folder")] = (
        "steps"
    )
    what: Annotated[What | None, Parameter(help="what to export (default: steps)")] = None
    format: Annotated[
        Format | None, Parameter(help="default: by the suffix of the file's name, else jsonl; for parts parquet")
    ] = None
    after: Annotated[After, Parameter(help="leave out the first N steps of NAME")] = 0
    after_seq: Annotated[After | None, Parameter(help="leave out everything recorded up to number N")] = None
    partition_by: Annotated[
        tuple[str, ...] | None,
        Parameter(converter=converter(_partitions), metavar="BY", n_tokens=1, help="harness, day, or harness,day"),
    ] = None
    incremental: Annotated[bool, Parameter(help="continue from what is in the folder already")] = False


STEPS = Wanted()


def export(
    name: Name | None = None,
    /,
    *,
    output: Annotated[WordsOrDash | None, Parameter(metavar="FILE|DIR")] = None,
    wanted: Wanted = STEPS,
    common: Common = USUAL,
) -> int:
    """Write what is recorded to a file, or to a folder of parts.

    `--what records` is everything that is recorded, and what `orchestrator analyze` reads: Parquet, or JSON lines. With
    --partition-by or --incremental, --output is a folder: harness=x/day=2026-11-22/part-<first seq>-<last seq>.parquet. With
    --json, the format is jsonl.

    Examples:
        orchestrator export counting --output steps.csv
        orchestrator export --what records --output run.parquet
        orchestrator export --what records --output archive --partition-by harness,day --incremental

    Args:
        name: only this harness (default: all)
        output: where to write it (default: standard output)
    """
    target = None if output in (None, "-") else Path(output)
    if wanted.layout == "run-folder":
        return _export_run_folder(name, wanted, target, common)
    in_parts = wanted.incremental or wanted.partition_by is not None
    suffix = target.suffix[1:] if target is not None and not in_parts else ""
    usual = "parquet" if in_parts and not common.json else "jsonl"
    format = wanted.format or (suffix if suffix in FORMATS and not common.json else usual)
    if common.json and format != "jsonl":
        raise UsageError(f"--json contradicts --format {format}: expected one of the two; leave one out")
    by_number = name is not None and wanted.what in (None, "steps") and wanted.after_seq is None and not in_parts
    if wanted.after and not by_number:
        raise UsageError("--after counts the steps of one harness: expected NAME and its steps; for the rest give --after-seq")
    end_on_sigterm()
    if in_parts:
        return _export_parts(name, wanted, target, format, common)
    return _export_file(name if by_number else None, name, wanted, target, format, common)


def _export_file(
    numbered: str | None, name: str | None, wanted: Wanted, output: Path | None, format: str, common: Common
) -> int:
    """Write one file.

    Args:
        numbered: the harness, if its steps are chosen by their numbers.
    """
    what = wanted.what or "steps"
    with closing(common.reader()) as reader:
        if numbered is not None:
            written = export_steps(reader, numbered, format, output, sys.stdout, after=wanted.after)
        else:
            written = export_sheet(reader, what, name, format, output, sys.stdout, after_seq=wanted.after_seq or 0)
    if output is not None:
        streams.say(f"{written} {what} written to {output}")
    return ExitCode.OK


def _export_parts(name: str | None, wanted: Wanted, output: Path | None, format: str, common: Common) -> int:
    if output is None:
        raise UsageError("parts cannot be written to standard output: expected --output DIR; give one")
    if wanted.incremental and wanted.after_seq:
        raise UsageError("--incremental contradicts --after-seq: it continues where it stopped; leave one out")
    what = wanted.what or "steps"
    with closing(common.reader()) as reader:
        state = State(what, format, wanted.partition_by or (), name, wanted.after_seq or 0)
        before, now = export_parts(reader, state, output, incremental=wanted.incremental)
        if pruned_since(reader, before):
            streams.say(f"records after {before.last_seq} were pruned before they were exported: {output} lacks them")
    written, parts = now.rows - before.rows, now.parts - before.parts
    streams.say(f"{written} {what} written to {output} in {parts} parts, up to record {now.last_seq}")
    return ExitCode.OK


def _export_run_folder(name: str | None, wanted: Wanted, output: Path | None, common: Common) -> int:
    from orchestrator.presets.run_folder import export_run_folder

    if output is None:
        raise UsageError("a run folder cannot be written to standard output: expected --output DIR; give one")
    if name is None or wanted != evolve(STEPS, layout=wanted.layout):
        raise UsageError("--layout run-folder takes NAME and --output: expected all of a harness in its own form, and no more")
    end_on_sigterm()
    with closing(common.reader()) as reader:
        check_target(output, reader.path)
        written = export_run_folder(reader, name, output)
    streams.say(f"{written} files written to {output}")
    return ExitCode.OK
