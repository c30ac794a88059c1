"""The main loop of a query process: it opens the run, restricts itself, and executes one query after another.

Input is a line of JSON for each query. Output, a line each: `columns` and `types`; any number of pages of `rows`; then `end`,
with their number and whether there are more. Or `error`, a message. The process ends at once when its input is closed.

The restrictions of the connection; all but one hold even if a query got past the judge:

files       only those of the run can be opened, and none written except in the process's own temporary folder.
            `sqlite_scan` and similar functions open SQLite files in spite of this setting: only the judge refuses those
extensions  none can be loaded or installed; without one there is no network access
settings    locked, including these restrictions
memory      `ENGINE` for the engine; `PROCESS_BYTES` for the whole process: lists and texts made by functions are not
            counted by the engine
disk        at most `TEMPORARY` for data that does not fit into memory
"""

from __future__ import annotations

import glob
import os
import queue
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from harnesses.redaction.redactor import may_hold_secret, redact
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.analysis_run import open as open_run
from orchestrator.analysis.sources.duckdb_session import named, quoted
from orchestrator.analysis.sql.query_judge import NO_QUERY, Refused, judge
from orchestrator.analysis.sql.sql_columns import VIEWS, about
from orchestrator.analysis.sql.sql_room import Plain, is_said_in_words, plain
from orchestrator.errors import OrchestratorError
from orchestrator.text.json_text import object_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation, Statement


PROCESS_BYTES = 1 << 30
"""Memory limit of the process; a query whose functions need more is ended."""
_PAGE_BYTES = 250_000
_MOST_ROWS = 1000
_LARGEST = 32_000_000
"""Limit on the size of a page, bytes. A row can only be larger if it combines very many others."""
_LONGEST_QUERY = 100_000
_FULL = f"it needs more than {PROCESS_BYTES >> 20} MB; ask for less at once, with WHERE, LIMIT or fewer columns"


def serve() -> None:
    """Execute queries until there are no more; the first line of input says of what run."""
    boot: dict[str, Any] = msgspec.json.decode(sys.stdin.buffer.readline())
    out = _only_ours()
    # This process is killed in the end; its parent removes its temporary files.
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
    """Parse and check a query; the parsed form is executed, not the text.

    Raises:
        Refused: it may not be executed.
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
    """Start a query, and return what its rows are fetched from. Values that Python cannot represent are converted to text."""
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
    """Return the rows redacted, taking the names of their columns into account."""
    if not may_hold_secret(str(msgspec.json.encode([columns, rows]), "utf-8")):
        return rows
    return [[redact({name: cell})[name] for name, cell in zip(columns, row, strict=True)] for row in rows]


def _only_ours() -> BinaryIO:
    """Reserve standard output for the results: other output is discarded."""
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
    """Return the queue of arriving queries. When the input is closed the process ends, even during a query."""
    asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            asked.put(msgspec.json.decode(line))
        shutil.rmtree(temporary, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    return asked


ENGINE = "512MB"
"""Measured: enough to sort a log of 1,000,000 steps, 500 MB, by its content."""
TEMPORARY = "2GB"


def wall_in(run: Run, paths: Sequence[str], temporary: str) -> DuckDBPyConnection:
    """Restrict the connection of a run permanently, and return it.

    Args:
        paths: what was opened: files, folders, patterns.
        temporary: an existing private folder.
    """
    db = run.db
    db.execute(f"CREATE VIEW views AS {about()}")
    files, folders = _readable(paths)
    db.execute("SET errors_as_json = true")
    db.execute(f"SET memory_limit = {quoted(ENGINE)}")
    db.execute(f"SET temp_directory = {quoted(temporary)}")
    db.execute(f"SET max_temp_directory_size = {quoted(TEMPORARY)}")
    db.execute(f"SET allowed_paths = [{', '.join(map(quoted, files))}]")
    db.execute(f"SET allowed_directories = [{', '.join(map(quoted, folders))}]")
    for setting in _OFF:
        db.execute(f"SET {setting} = false")
    db.execute("SET enable_external_access = false")
    db.execute("SET lock_configuration = true")
    return db


_OFF = ("python_enable_replacements", "python_scan_all_frames", "allow_community_extensions", "allow_persistent_secrets")


def _readable(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files and folders that the views of a run read."""
    files: list[str] = []
    folders: list[str] = []
    for path in paths:
        if Path(path).is_dir():
            folders.append(path)
        else:
            files += [path] if Path(path).exists() else glob.glob(path, recursive=True)
    return files, folders


def bound_this_process() -> None:
    """Limit the memory of this process, and disable core dumps. Only Linux enforces the former."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = PROCESS_BYTES if hard == resource.RLIM_INFINITY else min(PROCESS_BYTES, hard)
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


_MEMORY = re.compile(r"\s*Possible solutions:.*", re.DOTALL)
_CANDIDATES = re.compile(r"\s*Candidate functions:.*", re.DOTALL)
_HINT = {
    "Out of Memory": "ask for less at once, with WHERE, LIMIT or fewer columns",
    "Permission": "a query reads the views of the run, and nothing else",
}


def in_words(text: str, query: str) -> str:
    """Return the message of a DuckDB error, which may be JSON or text."""
    kind, _, rest = text.partition(" Error: ")
    said = object_of(rest)
    message = str(said.get("exception_message", rest or text))
    message = _CANDIDATES.sub("", _MEMORY.sub("", message))
    message = " ".join(message.split()).rstrip(";")
    where = place(query, _position(said))
    return "; ".join(filter(None, (f"{message}{where}", _HINT.get(kind))))


def place(query: str, at: int | None) -> str:
    """Return a position in a query as ` (line 1, column 8)`; empty if it is unknown.

    Args:
        at: bytes of UTF-8 from its beginning.
    """
    if at is None:
        return ""
    before = query.encode("utf-8", "surrogatepass")[:at].decode("utf-8", "replace")
    line = before.count("\n") + 1
    return f" (line {line}, column {len(before) - before.rfind(chr(10))})"


def _position(said: dict[str, Any]) -> int | None:
    try:
        return int(said["position"])
    except (KeyError, TypeError, ValueError):
        return None
