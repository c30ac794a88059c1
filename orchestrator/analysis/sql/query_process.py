"""What runs in the process of a room: it opens the run, puts up the walls, and answers one query after another.

A line of JSON comes in for each query. What goes out, a line each: `columns` and `types`; any number of pages of `rows`; then
`end`, with how many there were and whether there are more. Or `error`, in words. When nobody listens any more it ends at once.
"""

from __future__ import annotations

import os
import queue
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from harnesses.redaction.redactor import may_hold_secret, redact
from orchestrator.analysis.frames.analysis_run import open as open_run
from orchestrator.analysis.sources.duckdb_session import named
from orchestrator.analysis.sql.errors import in_words, place
from orchestrator.analysis.sql.query_judge import NO_QUERY, Refused, judge
from orchestrator.analysis.sql.query_limits import PROCESS_BYTES, bound_this_process, wall_in
from orchestrator.analysis.sql.sql_cells import Plain, is_said_in_words, plain
from orchestrator.analysis.sql.sql_columns import VIEWS
from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation, Statement

_PAGE_BYTES = 250_000
_MOST_ROWS = 1000
_LARGEST = 32_000_000
"""Bytes of a page. A row can have more only if it is made of very many others."""
_LONGEST_QUERY = 100_000
_FULL = f"it needs more than {PROCESS_BYTES >> 20} MB; ask for less at once, with WHERE, LIMIT or fewer columns"


def serve(boot: Mapping[str, Any]) -> None:
    """Answer until nobody asks any more."""
    out = _only_ours()
    # This process is killed in the end: what it makes on the disk is removed by who has started it.
    tempfile.tempdir = boot["temporary"]
    asked = _listen(boot["temporary"])
    bound_this_process()
    try:
        run = open_run(boot["paths"])
        db = wall_in(run, boot["paths"], boot["temporary"])
    except OrchestratorError as error:
        _say(out, {"error": str(error)})
        return
    _say(out, {"ready": True})
    while True:
        for said in _answers(db, asked.get()):
            _say(out, said)


def _answers(db: DuckDBPyConnection, ask: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    import duckdb

    query = ask["query"]
    try:
        yield from _answer(db, query, ask.get("limit"))
    except Refused as error:
        yield {"error": f"{error}{place(query, error.at)}"}
    except duckdb.OutOfMemoryException as error:
        yield {"error": in_words(str(error), query), "spent": True}
    except duckdb.Error as error:
        yield {"error": in_words(str(error), query)}
    except MemoryError:
        yield {"error": _FULL, "spent": True}


def _answer(db: DuckDBPyConnection, query: str, limit: int | None) -> Iterator[dict[str, Any]]:
    source = _begun(db, _judged(db, query))
    described = _described(source)
    columns = [name for name, _ in described]
    yield {"columns": columns, "types": [type for _, type in described]}
    rows, left, given = 1, limit, 0
    while left is None or left > 0:
        page = source.fetchmany(rows if left is None else min(rows, left))
        if not page:
            yield {"end": given, "more": False}
            return
        said = [[plain(cell) for cell in row] for row in page]
        given, left = given + len(page), None if left is None else left - len(page)
        size = len(msgspec.json.encode(said))
        if size > _LARGEST:
            raise Refused(f"a row is larger than {_LARGEST // 1_000_000} MB: expected less; leave columns out")
        rows = max(1, min(_MOST_ROWS, rows * 8, len(page) * _PAGE_BYTES // size))
        yield {"rows": _clean(columns, said)}
    yield {"end": given, "more": source.fetchone() is not None}


def _judged(db: DuckDBPyConnection, query: str) -> Statement:
    """Return a query, parsed: it is what was judged that is carried out, and not its text.

    Raises:
        Refused: it is not one that may be carried out.
    """
    if len(query) > _LONGEST_QUERY:
        raise Refused(f"the query has {len(query):,} characters: expected at most {_LONGEST_QUERY:,}")
    statements = db.extract_statements(query)
    kinds = [statement.type.name for statement in statements]
    if len(kinds) > 1 and set(kinds) == {"SELECT"}:
        raise Refused(f"{len(kinds)} queries at once: expected one; ask one after the other")
    if kinds != ["SELECT"]:
        raise Refused(NO_QUERY)
    serialized = db.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchone()
    assert serialized is not None
    judge(msgspec.json.decode(serialized[0]), VIEWS)
    return statements[0]


def _begun(db: DuckDBPyConnection, statement: Statement) -> DuckDBPyConnection | DuckDBPyRelation:
    """Begin a query, and return what its rows come from. What Python knows less of than DuckDB comes as text."""
    db.execute(statement)
    columns = _described(db)
    if not any(is_said_in_words(type) for _, type in columns):
        return db
    told = (
        f"#{place}{'::VARCHAR' if is_said_in_words(type) else ''} AS {named(name)}"
        for place, (name, type) in enumerate(columns, 1)
    )
    return db.sql(statement).project(", ".join(told))


def _described(rows: DuckDBPyConnection | DuckDBPyRelation) -> list[tuple[str, str]]:
    """Return the columns and their types."""
    return [(str(name), str(type)) for name, type, *_ in rows.description or ()]


def _clean(columns: list[str], rows: list[list[Plain]]) -> list[list[Plain]]:
    """Return the rows without the secrets in them, by the names of their columns too."""
    if not may_hold_secret(str(msgspec.json.encode([columns, rows]), "utf-8")):
        return rows
    return [[redact({name: cell})[name] for name, cell in zip(columns, row, strict=True)] for row in rows]


def _only_ours() -> BinaryIO:
    """Keep standard output for the answers: what anything else writes there goes nowhere."""
    out = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    return out


def _say(out: BinaryIO, said: dict[str, Any]) -> None:
    out.write(msgspec.json.encode(said) + b"\n")
    out.flush()


def _listen(temporary: str) -> queue.SimpleQueue[dict[str, Any]]:
    """Return where the queries arrive. When there will be none any more, the process ends, also in the middle of one."""
    asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            asked.put(msgspec.json.decode(line))
        shutil.rmtree(temporary, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    return asked
