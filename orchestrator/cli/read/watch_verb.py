"""The `watch` verb: shows the run of another program while it goes on, from its store alone."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.parsing import Add, add_common, add_verb, print_all, store_of
from orchestrator.cli.read.status_verbs import status_lines
from orchestrator.cli.run.live_display import LiveTable, choose_view
from orchestrator.store.file.run_lock import running_on
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

_MORE = """\
On a terminal a table that is drawn anew several times a second; else how each harness stands, and then a line for each event.
With --json, an object for each record from now on. It reads the store alone: a run neither knows of it nor waits for it.
It ends when no program runs on the store any more; Ctrl-C ends it before, and stops nothing but itself."""


def add_verbs(add: Add) -> None:
    """Add the verb."""
    watch = add_verb(add, "watch", "follow a running program until it ends", _watch, _MORE)
    add_common(watch, "standard output is JSON, an object for each record")


def _watch(options: argparse.Namespace) -> int:
    store = store_of(options)
    with closing(SqliteReader(store)) as reader:
        reader.last_seq()  # refuses what is not there, and what is no store
        view = choose_view(
            reader, lambda: {record.name for record in reader.harnesses()}, as_json=options.json, file=sys.stdout
        )
        if not isinstance(view, LiveTable) and not options.json:
            print_all(status_lines(reader, as_json=False))
            sys.stdout.flush()
        view.open()
        try:
            while running_on(reader.path.resolve()):
                view.show()
                time.sleep(view.period_s)
        finally:
            view.close()
        if isinstance(view, LiveTable):
            print_all(status_lines(reader, as_json=False))
    streams.say(f"no program runs on {store}")
    return ExitCode.OK
