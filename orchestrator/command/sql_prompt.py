"""The prompt of `orchestrator sql --interactive`: queries one after the other, each up to its `;`.

The law: no mistake ends it. Ctrl-C ends the query under way, or forgets what was typed; Ctrl-D, or `.quit`, ends it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from orchestrator.analysis.sql_columns import VIEWS
from orchestrator.analysis.sql_room import Room
from orchestrator.command import streams
from orchestrator.command.exits import ExitCode
from orchestrator.command.lines import columns
from orchestrator.command.parsing import count, print_all
from orchestrator.command.sql_examples import EXAMPLES
from orchestrator.command.sql_history import History
from orchestrator.command.sql_lines import MODES, Tally, remarks
from orchestrator.command.sql_splitting import split
from orchestrator.errors import OrchestratorError
from orchestrator.text import one_line

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

    def run(self) -> int:
        """Answer until the end, and return the exit code."""
        if self._is_terminal:
            streams.say(f"{one_line(self._room.location)}: read-only; .help tells more, Ctrl-D ends")
        with History(self._is_terminal, [*VIEWS, *self._VERBS]) as history:
            for text in self._typed(history):
                if text in (".quit", ".exit"):
                    break
                self._guarded(text)
        return ExitCode.OK

    def _typed(self, history: History) -> Iterator[str]:
        """Yield each query and each word of the prompt."""
        text = ""
        while True:
            try:
                line = self._line(_NEXT if text else _FIRST)
            except KeyboardInterrupt:
                text = ""
                streams.say("")
                continue
            if line is None:
                if self._is_terminal:
                    streams.say("")
                elif text.strip():
                    yield text
                return
            if not text and line.lstrip().startswith("."):
                history.add(line)
                yield line.strip()
                continue
            queries, text = split(f"{text}\n{line}" if text else line)
            for query in queries:
                history.add(f"{query};")
                yield query

    def _line(self, prompt: str) -> str | None:
        """Return the next line; None if there is none any more."""
        try:
            # Without a terminal there is nobody to be prompted.
            return input(prompt if self._is_terminal else "")
        except EOFError:
            return None

    def _guarded(self, text: str) -> None:
        """Do what was typed, and say what is wrong with it."""
        try:
            self._obey(text) if text.startswith(".") else self._ask(text)
        except OrchestratorError as error:
            streams.say(one_line(str(error), 2000))
        except KeyboardInterrupt:
            self._room.close()
            streams.say("the query was ended")

    def _ask(self, query: str) -> None:
        tally = Tally()
        for line in MODES[self._mode](self._room.ask(query, limit=self._limit, timeout_s=self._timeout_s), tally):
            print_all([line])
        sys.stdout.flush()
        for said in remarks(tally, self._mode):
            streams.say(said)

    def _obey(self, text: str) -> None:
        verb, *rest = text.split()
        obey = self._VERBS.get(verb)
        if obey is None:
            streams.say(f"{one_line(verb)} is not known: expected one of {', '.join(self._VERBS)}")
            return
        obey(self, rest)
        sys.stdout.flush()

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
        except argparse.ArgumentTypeError as error:
            streams.say(str(error))
        streams.say("every row is shown" if self._limit is None else f"at most {self._limit:,} rows are shown")

    _VERBS: ClassVar[dict[str, Callable[[Prompt, Sequence[str]], None]]] = {
        ".tables": _tables,
        ".schema": _schema,
        ".examples": _examples,
        ".mode": _set_mode,
        ".limit": _set_limit,
        ".help": _help,
        ".quit": _help,
    }
