"""`orchestrator sql`: queries over what was recorded, from whoever. What keeps them harmless is in `orchestrator.analysis`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.parsing import Add, add_common, add_verb, count, print_all, seconds, store_of, words
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.analysis.sql.sql_room import Room

_LONGEST = 100_000
_MORE = """\
RUN is a store, a log or a pattern of logs (plain or compressed), or a folder of exported Parquet; default: --store.
QUERY is one statement of DuckDB's SQL that reads; - reads it from standard input. It sees the views of the run and nothing
else: no file, no setting, no network, and it cannot write. Times are UTC, `_s` is seconds.

  FROM views                      every view, its columns, their types and meanings
  docs/reference/views.md         the same on a page, with samples; docs/reference/questions.md: worked questions

example:
  orchestrator sql run.db "select harness, count(*) from steps group by all"
  orchestrator sql steps.jsonl "from effects where tries > 1" --json
  orchestrator sql run.db --interactive

exit codes: 0 answered; 1 it took more memory, disk or time than it may; 2 it is refused, or wrong; 130 stopped by Ctrl-C"""


def add_verbs(add: Add) -> None:
    """Add the verb."""
    verb = add_verb(add, "sql", "ask a query of what was recorded: read-only SQL over documented views", _sql, _MORE)
    verb.add_argument("words", metavar="RUN QUERY", nargs="*", type=words, help="the run, and the query; - reads the query")
    verb.add_argument("--interactive", action="store_true", help="ask one query after the other; each ends with ;")
    verb.add_argument("--csv", action="store_true", help="standard output is CSV")
    verb.add_argument("--limit", metavar="N", type=count, help="give at most N rows")
    verb.add_argument("--timeout", metavar="S", type=seconds, help="end a query that takes longer than S seconds")
    add_common(verb)


def _sql(options: argparse.Namespace) -> int:
    from orchestrator.analysis.sql.sql_room import Room

    if options.csv and options.json:
        raise UsageError("--csv contradicts --json: expected one of the two; leave one out")
    mode = "csv" if options.csv else "json" if options.json else "table"
    run, query = asked(options.words, store_of(options), interactive=options.interactive)
    with Room(run) as room:
        if options.interactive:
            from orchestrator.cli.query.sql_prompt import Prompt

            return Prompt(room, mode, options.limit, options.timeout).run()
        return _answer(room, query, mode, options)


def asked(words: Sequence[str], default: str, *, interactive: bool) -> tuple[str, str]:
    """Return the run and the query that the words of the command are.

    Raises:
        UsageError: they are neither.
    """
    if interactive:
        if len(words) > 1:
            raise UsageError("sql --interactive takes no query: expected RUN alone; leave the query out")
        return (words[0] if words else default), ""
    if len(words) == 1 and (words[0] == "-" or any(letter.isspace() for letter in words[0])):
        return default, words[0]
    if len(words) != 2:
        raise UsageError(f"sql: expected RUN and a query in quotes, was {len(words)} words; see `orchestrator sql --help`")
    return words[0], words[1]


def _answer(room: Room, query: str, mode: str, options: argparse.Namespace) -> int:
    from orchestrator.cli.query.answer_tables import MODES, Tally, remarks

    if query == "-":
        query = sys.stdin.read(_LONGEST + 1)
    tally = Tally()
    for line in MODES[mode](room.ask(query, limit=options.limit, timeout_s=options.timeout), tally):
        print_all([line])
    for text in remarks(tally, mode):
        streams.say(text)
    return ExitCode.OK
