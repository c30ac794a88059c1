"""The prompt of `orchestrator sql --interactive`: queries one after the other, each up to its `;`. What was typed is kept for
the next time, in the user's own folder for such things, without secrets.

Invariant: no mistake ends the prompt. Ctrl-C ends the query under way, or forgets what was typed; Ctrl-D or `.quit` ends it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from harnesses.files.state_folder import state_folder
from harnesses.redaction.redactor import redact_text
from orchestrator.analysis.sql.sql_columns import VIEWS
from orchestrator.analysis.sql.sql_room import Room
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.query.answer_tables import MODES, Tally, remarks
from orchestrator.cli.verb_options import count, print_all
from orchestrator.errors import OrchestratorError
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import columns

EXAMPLES = (
    ("which harness has done how much", "SELECT harness, count(*) AS steps, max(timestamp) AS last FROM steps GROUP BY ALL"),
    (
        "the slowest steps, and where their time went",
        "SELECT harness, step_number, work_s, agent_s, effects_s, waiting_s FROM steps ORDER BY work_s DESC LIMIT 10",
    ),
    (
        "why attempts ended",
        "SELECT ended_by, error, cause, count(*) AS attempts FROM attempts GROUP BY ALL ORDER BY attempts DESC",
    ),
    (
        "outputs that come again and again",
        "SELECT harness, output, count(*) AS times FROM steps GROUP BY ALL HAVING times > 2 ORDER BY times DESC LIMIT 10",
    ),
    ("what was begun more than once", "SELECT harness, step_number, key, tries, outcome FROM effects WHERE tries > 1"),
    (
        "how long people are waited for",
        "SELECT category, count(*) AS asked, median(waited_s) AS median_s FROM approvals GROUP BY ALL ORDER BY median_s DESC",
    ),
    ("a field of an output", "SELECT step_number, output ->> '$.status' AS status FROM steps WHERE harness = 'NAME'"),
    ("every view and its columns", "SELECT view, column_name, type, unit, meaning FROM views"),
)
"""What each is about, and the query."""


_PART = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|(?P<tag>\$\w*\$).*?(?P=tag)|(?P<open>'|"|/\*|\$\w*\$)|(?P<end>;)|.""",
    re.DOTALL,
)


def split(text: str) -> tuple[list[str], str]:
    """Return the whole queries of a text, without their `;`, and what is left of it: a query that has not ended yet."""
    queries, begin = list[str](), 0
    for part in _PART.finditer(text):
        if part["open"]:
            break
        if part["end"]:
            queries.append(text[begin : part.start()].strip())
            begin = part.end()
    return [query for query in queries if query], text[begin:].lstrip()


_FIRST, _NEXT = "sql> ", "...> "
_ROWS = 1000
"""That are shown if no limit was given: a terminal is no place for more."""
_HELP = (
    ("SELECT …;", "carries a query out; it may go over several lines, and ends with ;"),
    (".tables", "the views that there are"),
    (".schema VIEW", "its columns: types, units, meanings"),
    (".examples", "queries to begin with"),
    (".mode table|json|csv", "how rows are shown"),
    (".limit N|off", f"how many rows are shown (at first {_ROWS:,})"),
    (".anew", "looks at the run as it is now, and not as it was when it was opened"),
    (".quit", "ends; so does Ctrl-D. Ctrl-C ends a query"),
)


class Prompt:
    """Reads queries from standard input until there are none any more.

    Args:
        limit: rows of each answer; None for a thousand.
    """

    def __init__(self, room: Room, mode: str, limit: int | None, timeout_s: float | None) -> None:
        self._room, self._mode, self._timeout_s = room, mode, timeout_s
        self._limit: int | None = _ROWS if limit is None else limit
        self._is_terminal = sys.stdin.isatty()
        self._text = ""
        """What was typed of a query that has not ended yet."""
        self._is_asking = False

    def run(self) -> int:
        """Answer until the end, and return the exit code."""
        if self._is_terminal:
            streams.say(f"{one_line(self._room.location)}: read-only; .help tells more, Ctrl-D ends")
        with History(self._is_terminal, [*VIEWS, *self._VERBS]) as history:
            goes_on = True
            while goes_on:
                try:
                    goes_on = self._turn(history)
                except KeyboardInterrupt:
                    self._interrupt()
        return ExitCode.OK

    def _turn(self, history: History) -> bool:
        """Do what the next line has completed; return whether there may be another."""
        line = self._line(_NEXT if self._text else _FIRST)
        if line is None:
            if self._is_terminal:
                streams.say("")
            elif self._text:
                self._ask(self._text)
            return False
        if not self._text and line.lstrip().startswith("."):
            history.add(line)
            return self._obey(line.strip())
        queries, self._text = split(f"{self._text}\n{line}" if self._text else line)
        for query in queries:
            history.add(f"{query};")
            self._ask(query)
        return True

    def _interrupt(self) -> None:
        """Forget what was typed, and end the query under way."""
        said = "the query was ended" if self._is_asking else ""
        self._text, self._is_asking = "", False
        self._room.close()
        streams.say(said)

    def _line(self, prompt: str) -> str | None:
        """Return the next line; None if there is none any more."""
        try:
            # Without a terminal there is nobody to be prompted.
            return input(prompt if self._is_terminal else "")
        except EOFError:
            return None

    def _ask(self, query: str) -> None:
        """Carry a query out, or say what is wrong with it."""
        tally, self._is_asking = Tally(), True
        try:
            for line in MODES[self._mode](self._room.ask(query, limit=self._limit, timeout_s=self._timeout_s), tally):
                print_all([line])
            sys.stdout.flush()
            for said in remarks(tally, self._mode):
                streams.say(said)
        except OrchestratorError as error:
            streams.say(one_line(str(error), 2000))
        self._is_asking = False

    def _obey(self, text: str) -> bool:
        """Execute a command of the prompt, such as `.quit`; return whether the prompt continues."""
        verb, *rest = text.split()
        if verb in (".quit", ".exit"):
            return False
        obey = self._VERBS.get(verb)
        if obey is None:
            streams.say(f"{one_line(verb)} is not known: expected one of {', '.join(self._VERBS)}")
        else:
            obey(self, rest)
            sys.stdout.flush()
        return True

    def _anew(self, _: Sequence[str]) -> None:
        self._room.close()
        streams.say("the run is looked at anew")

    def _help(self, _: Sequence[str]) -> None:
        print_all(columns(_HELP[0], _HELP[1:]))

    def _tables(self, _: Sequence[str]) -> None:
        print_all(columns(("VIEW", "WHAT IT HAS"), ((name, view.rows) for name, view in VIEWS.items())))

    def _schema(self, words: Sequence[str]) -> None:
        for name in words or VIEWS:
            if name not in VIEWS:
                streams.say(f"no view {one_line(name)!r}: expected one of {', '.join(VIEWS)}")
                continue
            print_all([f"{name}: {VIEWS[name].rows}"])
            rows = ((f"  {one.name}", one.type, one.unit, one.meaning) for one in VIEWS[name].columns)
            print_all(columns(("  COLUMN", "TYPE", "UNIT", "MEANING"), rows))

    def _examples(self, _: Sequence[str]) -> None:
        for what, query in EXAMPLES:
            print_all([f"-- {what}", f"{query};", ""])

    def _set_mode(self, words: Sequence[str]) -> None:
        if len(words) != 1 or words[0] not in MODES:
            streams.say(f"the mode is {self._mode}: expected one of {', '.join(MODES)} to change it")
            return
        self._mode = words[0]

    def _set_limit(self, words: Sequence[str]) -> None:
        try:
            self._limit = None if words == ["off"] else count(" ".join(words))
        except ValueError as error:
            streams.say(str(error))
        streams.say("every row is shown" if self._limit is None else f"at most {self._limit:,} rows are shown")

    _VERBS: ClassVar[dict[str, Callable[[Prompt, Sequence[str]], None]]] = {
        ".tables": _tables,
        ".schema": _schema,
        ".examples": _examples,
        ".mode": _set_mode,
        ".limit": _set_limit,
        ".anew": _anew,
        ".help": _help,
        ".quit": _help,
    }


_LENGTH = 1000


class History:
    """A context manager: reads what was kept, and keeps what was added.

    Args:
        wanted: whether there is a terminal; without one nothing is read or kept.
        names: what the tab key completes.
    """

    def __init__(self, wanted: bool, names: Sequence[str]) -> None:
        self._readline = _readline() if wanted else None
        self._names = sorted(names)
        self._path = place()

    def __enter__(self) -> History:
        if self._readline is not None:
            self._readline.set_auto_history(False)
            self._readline.set_completer(self._completed)
            self._readline.set_completer_delims(" \t\n,;()")
            self._readline.parse_and_bind("tab: complete")
            with suppress(OSError):
                self._readline.read_history_file(self._path)
        return self

    def __exit__(self, *_: object) -> None:
        if self._readline is None:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Made before it is written, so that nobody else can read it at any moment.
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
            self._readline.set_history_length(_LENGTH)
            self._readline.write_history_file(self._path)

    def add(self, text: str) -> None:
        """Keep what was typed, on one line."""
        if self._readline is not None:
            self._readline.add_history(redact_text(" ".join(text.split())))

    def _completed(self, text: str, state: int) -> str | None:
        return next(iter([name for name in self._names if name.startswith(text)][state : state + 1]), None)


def place() -> Path:
    """Return where it is kept."""
    return state_folder() / "sql_history"


def _readline() -> ModuleType | None:
    try:
        import readline
    except ImportError:
        return None
    return readline
