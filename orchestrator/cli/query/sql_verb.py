"""`orchestrator sql`: queries over what was recorded, from whoever. What keeps them harmless is in `orchestrator.analysis`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, Count, Seconds, WordsOrDash, print_all
from orchestrator.errors import UsageError
from orchestrator.store.places.store_location import local_path

if TYPE_CHECKING:
    from orchestrator.analysis.sql.sql_room import Room

_LONGEST = 100_000


def sql(
    *words: Annotated[WordsOrDash, Parameter(metavar="RUN QUERY")],
    interactive: bool = False,
    csv: bool = False,
    limit: Count | None = None,
    timeout: Seconds | None = None,
    common: Common = USUAL,
) -> int:
    """Run a read-only SQL query over what was recorded.

    RUN is a store, a log or a pattern of logs (plain or compressed), or a folder of exported Parquet (default: --store).
    QUERY is one statement of DuckDB's SQL that reads; - reads it from standard input. It sees the views of the run and
    nothing else: no file, no setting, no network, and it cannot write. Times are UTC, `_s` is seconds. `FROM views` lists
    every view, its columns, their types and meanings; docs/reference/views.md shows the same with samples, and
    docs/reference/questions.md worked questions.

    Examples:
        orchestrator sql run.db "select harness, count(*) from steps group by all"
        orchestrator sql steps.jsonl "from effects where tries > 1" --json
        orchestrator sql run.db --interactive

    Exit codes: 0 answered, 1 it took more memory, disk or time than it may, 2 it is refused or wrong, 130 stopped by Ctrl-C.

    Args:
        words: the run, and the query
        interactive: ask one query after the other; each ends with ;
        csv: write CSV to standard output
        limit: give at most N rows
        timeout: end a query that takes longer than S seconds
    """
    from orchestrator.analysis.sql.sql_room import Room

    if csv and common.json:
        raise UsageError("--csv contradicts --json: expected one of the two; leave one out")
    mode = "csv" if csv else "json" if common.json else "table"
    run, query = asked(words, common.location, interactive=interactive)
    with Room(str(local_path(run))) as room:
        if interactive:
            from orchestrator.cli.query.sql_prompt import Prompt

            return Prompt(room, mode, limit, timeout).run()
        return _answer(room, query, mode, limit, timeout)


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
        raise UsageError(f"sql: expected RUN and a query in quotes, got {len(words)} words; see `orchestrator sql --help`")
    return words[0], words[1]


def _answer(room: Room, query: str, mode: str, limit: int | None, timeout_s: float | None) -> int:
    from orchestrator.cli.query.answer_tables import MODES, Tally, remarks

    if query == "-":
        query = sys.stdin.read(_LONGEST + 1)
    tally = Tally()
    for line in MODES[mode](room.ask(query, limit=limit, timeout_s=timeout_s), tally):
        print_all([line])
    for text in remarks(tally, mode):
        streams.say(text)
    return ExitCode.OK
