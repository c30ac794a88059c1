"""The verb `logs`: the lines of the structured log, from the store, of a live or a dead run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Annotated

from cyclopts import Parameter

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.following import looks
from orchestrator.cli.verb_options import USUAL, Common, Count, Name, print_all
from orchestrator.history.past_reader import find_harness
from orchestrator.log import HEADER, json_line_of, line
from orchestrator.records import Record
from orchestrator.store.file.server_copy import shown_place
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.step_lines import describe
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import brief

_PERIOD_S = 0.2
_PAGE = 1000


def logs(
    name: Name | None = None,
    /,
    *,
    follow: bool = False,
    after: Annotated[Count, Parameter(metavar="SEQ")] = 0,
    common: Common = USUAL,
) -> int:
    """Print the structured log of a run.

    There is a line for each record, in the order of `seq`: time, level, event, harness, and what it is about. With --json, the
    lines are those that `--log` writes. It works on a live and on a dead run, whether or not a log was written.

    Args:
        name: only this harness (default: all, and records of no harness)
        follow: continue with new records until the program ends; Ctrl-C ends only the following
        after: only what was recorded after this `seq`
    """
    with closing(common.reader()) as reader:
        if name is not None:
            find_harness(reader, name)
        for _ in looks(reader.path, _PERIOD_S) if follow else [None]:
            for record in _records(reader, after):
                after = record.seq
                if name in (None, record.harness):
                    print_all([json_line_of(record) if common.json else log_line(record)])
    if follow:
        streams.say(f"no program runs on {shown_place(common.store_path)}")
    return ExitCode.OK


def _records(reader: SqliteReader, after: int) -> Iterator[Record]:
    """Yield the records after a `seq` that are there now."""
    while page := reader.records(after=after, limit=_PAGE):
        yield from page
        after = page[-1].seq


def log_line(record: Record) -> str:
    """Return a record as a line for people."""
    fields = line(record)
    own = {name: value for name, value in fields.items() if name not in (*HEADER, "traceback")}
    said = describe(own.get("input"), own.get("output")) if record.kind == "step" else ""
    if record.kind == "step" and not said:
        said = f"{brief(own.get('input'), 60)} → {brief(own.get('output'), 100)}"
    about = said or " ".join(f"{name}={brief(value, 60)}" for name, value in own.items() if value not in (None, "", [], {}))
    place = f"{record.harness} step {record.step}" if record.harness else "-"
    when = str(fields["timestamp"])[:19].replace("T", " ")
    return f"{when}  {fields['level']:<7}  {fields['event']:<24}  {place:<20}  {one_line(about, 300)}".rstrip()
