"""The `watch` verb: shows the run of another program while it goes on, from its store alone."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.read.status_verbs import status_lines
from orchestrator.cli.run.live_display import LiveTable, choose_view
from orchestrator.cli.verb_options import USUAL, Common, print_all
from orchestrator.store.file.run_lock import running_on
from orchestrator.store.file.server_copy import shown_place
from orchestrator.store.places.store_location import keep_fresh
from orchestrator.store.sqlite.sqlite_reader import SqliteReader


def watch(*, table: bool = False, common: Common = USUAL) -> int:
    """Follow a running program, and give it orders.

    On a terminal it shows what needs you, the fleet and each harness, with keys for orders, until `q`; also after the program
    has ended. It needs the extra `watch`. With --table, or without the extra, it shows a table until no program runs on the
    store any more. Not on a terminal, it prints the status of each harness, and then a line for each event. With --json it
    writes an object for each record from now on. It only reads the store, so it cannot disturb the run; Ctrl-C ends only the
    watching.

    Args:
        table: show the table only
    """
    store = common.store_path
    keep_fresh(Path(store))
    if sys.stdout.isatty() and not (table or common.json) and find_spec("textual") is not None:
        return _show_screen(Path(store))
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
    streams.say(f"no program runs on {shown_place(store)}")
    return ExitCode.OK


def _show_screen(store: Path) -> int:
    from orchestrator.cli.read.watch_screen import WatchApp
    from orchestrator.web.site import Site

    with closing(Site(store)) as site:
        WatchApp(site).run()
    return ExitCode.OK
