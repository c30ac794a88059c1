"""The `watch` verb: shows the run of another program while it goes on, from its store alone."""

from __future__ import annotations

import sys
import time
from contextlib import closing

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.read.status_verbs import status_lines
from orchestrator.cli.run.live_display import LiveTable, choose_view
from orchestrator.cli.verb_options import USUAL, Common, print_all
from orchestrator.store.file.run_lock import running_on
from orchestrator.store.sqlite.sqlite_reader import SqliteReader


def watch(*, common: Common = USUAL) -> int:
    """Follow a running program until it ends.

    On a terminal it shows a table that is redrawn several times a second; otherwise it prints the status of each harness,
    and then a line for each event. With --json it writes an object for each record from now on. It only reads the store, so it
    cannot disturb the run. It ends when no program runs on the store any more; Ctrl-C ends only the watching.
    """
    store = common.store_path
    with closing(SqliteReader(store)) as reader:
        reader.last_seq()  # refuses what is not there, and what is no store
        view = choose_view(
            reader, lambda: {record.name for record in reader.harnesses()}, as_json=common.json, file=sys.stdout
        )
        if not isinstance(view, LiveTable) and not common.json:
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
