"""How a run is shown while it is under way: a live table on a terminal, else a line for each event, or JSON for programs.

Invariant: a view reads committed records in a thread and cannot affect the run. A view that fails is abandoned, and a view
uses at most a tenth of the time.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TextIO

import trio

from harnesses.diagnostics.extras import install_command
from orchestrator.cli.run.new_records import Notices, Seen, Tail
from orchestrator.cli.run.run_progress import Progress, Rest, Row
from orchestrator.cli.std_streams import abandon, say
from orchestrator.codec import decode, decode_step
from orchestrator.lifecycle import Status
from orchestrator.log import line
from orchestrator.operating.kill_switch_orders import in_words
from orchestrator.records import LIMITS_SET, ORDERED, RELOADED, Record
from orchestrator.store.store_capabilities import kill_switch_of, place_beside
from orchestrator.text.command_hints import for_store, way_to_resume
from orchestrator.text.log_line import sentence_of
from orchestrator.text.step_lines import output_line
from orchestrator.text.terminal_text import CAUSE_WIDTH, one_line
from orchestrator.text.value_lines import json_line, step_fields

_PERIOD_S = 0.25
"""At most four redraws a second; one takes about 20 ms of the interpreter."""
_SHARE = 10.0
_MOST_ROWS = 40
_SAID = 120
"""Characters shown of what an agent is saying."""
_OTHER_LINES = 4
"""Of the screen: head, sums, and the line that the cursor is on."""
_COLOURS = {
    Status.RUNNING: "green",
    Status.PAUSED: "yellow",
    Status.BACKING_OFF: "yellow",
    Status.COMPLETED: "cyan",
    Status.FINISHED: "cyan",
    Status.FAILED: "red",
    Status.GAVE_UP: "red",
    Status.BLOCKED: "magenta",
    Status.BUDGET_SPENT: "yellow",
}


class View:
    """One way to show a run. All are called in threads, one call at a time."""

    period_s = 0.1

    def open(self) -> None:
        """Begin."""

    def show(self) -> None:
        """Show what is new."""
        raise NotImplementedError

    def close(self) -> None:
        """Show what is left, and end."""


async def follow(view: View) -> None:
    """Show a run until cancelled. A view that fails is abandoned with a message; the run continues."""
    try:
        while True:
            begin = time.perf_counter()
            await trio.to_thread.run_sync(view.show)
            await trio.sleep(max(view.period_s, _SHARE * (time.perf_counter() - begin)))
    except Exception as error:
        say(f"orchestrator: the run is no longer shown: {one_line(str(error) or type(error).__name__)}; it goes on")


def can_be_drawn_on(environment: Mapping[str, str]) -> bool:
    """Return whether standard error is a terminal that can move its cursor, and nobody minds. Source: no-color.org."""
    term = environment.get("TERM", "unknown")
    return sys.stderr.isatty() and not environment.get("NO_COLOR") and term not in ("", "dumb", "unknown")


class EventLines(View):
    """A line for each lifecycle event, and for each step that is to be seen.

    Args:
        file: where they are written; default is standard error, whatever that is at the time.
    """

    def __init__(self, store: Seen, file: TextIO | None = None) -> None:
        self._file = file
        self._path = place_beside(store)
        self._tail = Tail(store)
        self._notices = Notices(store)

    def show(self) -> None:
        """Write what happened since the last call."""
        while numbered := self._number_lines():
            file = self._file or sys.stderr
            file.write("".join(f"{text}\n" for _, text in sorted(numbered)))
            file.flush()

    def close(self) -> None:
        """Write the rest."""
        try:
            self.show()
        finally:
            self._tail.close()
            self._notices.close()

    def _number_lines(self) -> list[tuple[int, str]]:
        notices = [(notice.seq, notice.line) for notice in self._notices.next()]
        return notices + [(record.seq, for_store(event_line(record), self._path)) for record in self._tail.events()]


def event_line(record: Record) -> str:
    """Return a lifecycle event as a human-readable line."""
    own = decode(record.body)
    if record.kind == "latch":
        return _kill_switch_line(record.harness, own)
    if record.kind in (LIMITS_SET, ORDERED, RELOADED):
        return sentence_of(record)
    if record.kind == "loop_blocked":
        return _loop_line(record.harness, own)
    delay = f" in {own['delay_s']:.2g} s" if "delay_s" in own else ""
    cause = f": {one_line(str(own['cause']), CAUSE_WIDTH)}" if own.get("cause") else ""
    kind = record.kind.replace("_", " ")
    held = f", and is paused; {way_to_resume(record.harness)}" if record.kind == "started" and own.get("paused") else ""
    return f"{record.harness}: {kind}{delay} at step {record.step}, attempt {record.attempt}{cause}{held}"


def _loop_line(name: str, own: Mapping[str, Any]) -> str:
    times = "" if own.get("times", 1) == 1 else f", {own['times']} times"
    where = one_line(str(own.get("place", "?")))
    return f"{name or 'no harness'}: blocked the loop for {own.get('seconds', 0):.1f} s{times}, at {where}"


def _kill_switch_line(name: str, own: Mapping[str, Any]) -> str:
    because = f": {one_line(str(own['reason']))}" if own.get("reason") else ""
    by = one_line(str(own.get("by", "?")))
    return f"{name or 'all harnesses'}: kill switch {'on' if own.get('on') else 'off'}, by {by}{because}"


class JsonLines(View):
    """A JSON object for each record: steps as everywhere, whatever else happened as in the log."""

    def __init__(self, store: Seen, file: TextIO) -> None:
        self._tail = Tail(store)
        self._file = file

    def show(self) -> None:
        """Write what was committed since the last call."""
        while records := self._tail.records():
            try:
                self._file.write("".join(f"{json_line(_fields(record))}\n" for record in records))
                self._file.flush()
            except OSError:
                abandon(self._file)
                raise

    def close(self) -> None:
        """Write the rest."""
        try:
            self.show()
        finally:
            self._tail.close()


def _fields(record: Record) -> dict[str, Any]:
    if record.kind == "step":
        step = decode_step(record.harness, record.attempt, record.seq, record.step, record.time_us, record.body)
        return step_fields(step)
    return line(record)


class LiveTable(View):
    """A table on the terminal, a row for each harness, drawn anew several times a second. Needs rich.

    Steps that are to be seen scroll by above it, a line each.

    Args:
        names: the harnesses of this run; the store may know more.
        saying: returns what an agent of a harness is saying; it is shown in place of the last output.

    Raises:
        ImportError: rich is not installed.
    """

    period_s = _PERIOD_S

    def __init__(self, store: Seen, names: Callable[[], Collection[str]], saying: Callable[[str], str] | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._store = store
        self._names = names
        self._saying = saying
        self._path = place_beside(store)
        self._kill_switch = kill_switch_of(store)
        self._notices = Notices(store)
        self._progress = Progress()
        self._outputs: dict[str, tuple[int, str]] = {}
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        # Standard output is captured only where it would be written into the table: on the same terminal.
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, redirect_stdout=sys.stdout.isatty(), screen=False
        )

    def open(self) -> None:
        """Take the lower part of the terminal."""
        self._live.start()

    def show(self) -> None:
        """Draw the table."""
        names = self._names()
        self._progress.look((one for one in self._store.harnesses() if one.name in names), time.monotonic())
        latched = in_words(self._kill_switch)
        room = self._console.height - _OTHER_LINES - bool(latched)
        rows = self._progress.rows(min(_MOST_ROWS, max(1, room)))
        outputs = [self._last_output(row) for row in rows]
        table = _table(rows, outputs, self._progress.all(), latched)
        self._live.update(table, refresh=True)
        self._tell()

    def close(self) -> None:
        """Give the terminal back as it was."""
        try:
            self._tell()
        finally:
            self._live.stop()
            self._notices.close()

    def _tell(self) -> None:
        """Write above the table what is to be seen."""
        while notices := self._notices.next():
            self._console.print("\n".join(notice.line for notice in notices), soft_wrap=True)

    def _last_output(self, row: Row) -> str:
        """Return the output of the last step, read when there is a new one, or why there will be none."""
        if row.cause:
            return one_line(for_store(row.cause, self._path))
        if self._saying is not None and (said := self._saying(row.name)):
            return f"… {one_line(said[-_SAID:].strip(), _SAID)}"
        known = self._outputs.get(row.name, (0, ""))
        if row.step != known[0]:
            steps = self._store.steps(row.name, after=row.step - 1, limit=1)
            known = (row.step, output_line(steps[-1], 200) if steps else "")
            self._outputs[row.name] = known
        return known[1]


def choose_view(
    store: Seen,
    names: Callable[[], Collection[str]],
    *,
    as_json: bool,
    file: TextIO | None = None,
    saying: Callable[[str], str] | None = None,
) -> View:
    """Return how a run is shown: as JSON, as a table where that can be drawn, else as a line for each event.

    Args:
        file: where the lines go, which has to be a terminal for a table; default is standard error.
        saying: see `LiveTable`.
    """
    if as_json:
        return JsonLines(store, sys.stdout)
    if can_be_drawn_on(os.environ) and (file is None or file.isatty()):
        try:
            return LiveTable(store, names, saying)
        except ImportError:
            say(f"orchestrator: for a live display, run `{install_command('display')}`")
    return EventLines(store, file)


def _table(rows: list[Row], outputs: list[str], total: Rest, latched: str) -> Any:
    """Return the rows for rich. Every cell is a `Text`: nothing in it is read as markup."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, expand=True, pad_edge=False, show_footer=False)
    for title in ("harness", "status"):
        table.add_column(Text(title), no_wrap=True)
    for title in ("attempt", "step", "steps/s"):
        table.add_column(Text(title), justify="right", no_wrap=True)
    table.add_column(Text("last output"), no_wrap=True, overflow="ellipsis", ratio=1)
    for row, output in zip(rows, outputs, strict=True):
        status = Text(row.status.replace("_", " "), style=_COLOURS.get(row.status, ""))
        table.add_row(Text(row.name), status, str(row.attempt), str(row.step), f"{row.rate:.1f}", Text(output))
    more = f"{total.harnesses - len(rows)} more not shown, " if total.harnesses > len(rows) else ""
    waiting = f", {total.blocked} of them blocked" if total.blocked else ""
    summary = f"{more}{total.ended} of {total.harnesses} ended{waiting}"
    table.add_row(Text("all", style="bold"), "", "", str(total.steps), f"{total.rate:.1f}", Text(summary))
    if latched:
        said = latched.removeprefix("the kill switch is ")
        table.add_row(Text("kill switch", style="bold red"), "", "", "", "", Text(said))
    return table
