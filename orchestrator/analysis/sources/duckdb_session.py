"""The engine: DuckDB without network access, and its extension for reading SQLite files.

Functions added to it:

clean_json(text)    the JSON without its secrets, by the same rules as the log
line_bodies(text)   the JSON of a record's body, from that of its line in the log
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from harnesses.diagnostics.extras import install_command
from harnesses.redaction.prefilter import coarse_suspect, suspects
from harnesses.redaction.redactor import redact
from orchestrator.codec import decode, encode_private
from orchestrator.errors import UsageError
from orchestrator.text.log_line import body_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


MEMORY = "224MB"
"""Memory limit of the engine; data beyond it goes to a temporary folder. With Python and the frames it stays below 500 MB."""
MORE_MEMORY = ("1GB", "4GB")
"""Further memory limits, tried in order for records too large for the first."""
USUAL = 16 << 20
"""Length of a JSON line in bytes that DuckDB handles by default; its buffers are twice that, for each thread."""
_SETTINGS: dict[str, Any] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # The extension is a file of an installed package, which pip has verified like every other module.
    # Verifying its signature in DuckDB too would take 0.2 s of the 0.25 s that opening a store takes.
    "allow_unsigned_extensions": "true",
}


def missing_extra(what: str) -> UsageError:
    """Return the error for a missing package of the extra `analysis`."""
    return UsageError(f"analysis needs {what}: expected the extra `analysis`; {install_command('analysis')}")


def connect(temporary: Path) -> DuckDBPyConnection:
    """Return a connection to an empty in-memory database.

    Args:
        temporary: folder for data that does not fit into memory.

    Raises:
        UsageError: DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError:
        raise missing_extra("DuckDB") from None
    db = duckdb.connect(config=_SETTINGS)
    db.execute(f"SET memory_limit = '{MEMORY}'; SET preserve_insertion_order = false; SET TimeZone = 'UTC'")
    db.execute(f"SET temp_directory = {quoted(str(temporary))}")
    # The progress bar would be printed to standard output, into data for other programs. In a notebook that cannot show one,
    # DuckDB refuses this setting, and shows none.
    with suppress(duckdb.InvalidInputException):
        db.execute("SET enable_progress_bar = false")
    return db


_TOKENS = re.compile("""('(?:[^']|'')*'|"(?:[^"]|"")*"|[?])""")
"""Matches quoted text and names, and question marks, in a query."""
_LISTED = {frozenset[type](): "VARCHAR", frozenset[type]({str}): "VARCHAR", frozenset[type]({int}): "BIGINT"}


def asked(db: DuckDBPyConnection, query: str, parameters: Sequence[Any]) -> DuckDBPyConnection:
    """Execute a query with values for its question marks.

    Values are written as literals where possible: to convert one Python value, DuckDB loads all of pandas.
    """
    literals = [_literal(value) for value in parameters]
    texts = _TOKENS.split(query)
    if None in literals or texts.count("?") != len(literals):
        return db.execute(query, parameters)
    rest = iter(literals)
    return db.execute("".join(str(next(rest)) if text == "?" else text for text in texts))


def _literal(value: Any) -> str | None:
    """Return a value as an SQL literal, None if that is not certainly exact."""
    if isinstance(value, list):
        items: list[object] = cast(Any, value)
        told = [_literal(one) for one in items]
        of = _LISTED.get(frozenset(type(one) for one in items))
        return None if of is None or None in told else f"[{', '.join(map(str, told))}]::{of}[]"
    if isinstance(value, str):
        return None if "\0" in value else quoted(value)
    if isinstance(value, float):
        return f"{value!r}::DOUBLE" if isfinite(value) else None
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 63 else None
    return "NULL" if value is None else None


def make_room(db: DuckDBPyConnection, longest: int) -> None:
    """Raise the memory limit for lines of this length: the engine holds several copies of a line for each thread."""
    if longest > USUAL:
        db.execute(f"SET threads = 1; SET memory_limit = '{(256 << 20) + 16 * longest >> 20}MiB'")


def load_sqlite(db: DuckDBPyConnection) -> None:
    """Load the extension that reads SQLite files, which is installed as a package.

    Raises:
        UsageError: it is not installed, or does not fit this DuckDB.
    """
    try:
        import duckdb_ext  # type: ignore[import-untyped]
    except ImportError:
        raise missing_extra("DuckDB's extension for SQLite, duckdb-ext-sqlite") from None
    import duckdb

    for root in duckdb_ext.__path__:
        for file in glob.glob(
            str(Path(root) / "extensions" / f"v{duckdb.__version__}" / "*" / "sqlite_scanner.duckdb_extension")
        ):
            db.execute(f"LOAD {quoted(file)}")
            return
    raise UsageError(
        f"analysis: duckdb-ext-sqlite does not fit DuckDB {duckdb.__version__}: expected the same version of both; "
        f"pip install 'duckdb-ext-sqlite=={duckdb.__version__}.*'"
    )


def quoted(text: str) -> str:
    """Return text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def named(name: str) -> str:
    """Return a name quoted as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def add_functions(db: DuckDBPyConnection) -> None:
    """Register the functions with a connection."""
    for name, function in FUNCTIONS.items():
        # Vectorised: called row by row, DuckDB 1.4 keeps the memory of every text until the query ends.
        db.create_function(name, _over(function), ["VARCHAR"], "VARCHAR", type="arrow")  # type: ignore[arg-type, list-item]


def cleaned(column: str) -> str:
    """Return the SQL that redacts a column of JSON."""
    return f"CASE WHEN regexp_matches({column}, {quoted(coarse_suspect())}) THEN clean_json({column}) ELSE {column} END"


def clean_json(texts: Sequence[str]) -> Mapping[int, str]:
    """Return JSON texts without their secrets, by index: those that may hold one. All are searched together."""
    return {place: encode_private(redact(decode(texts[place]))) for place in set(suspects(texts))}


def line_bodies(texts: Sequence[str]) -> Mapping[int, str]:
    """Return the JSON of the bodies of records from the JSON of their lines in the log, by index."""
    return {place: encode_private(body_of(decode(text))) for place, text in enumerate(texts)}


FUNCTIONS: dict[str, Callable[[Sequence[str]], Mapping[int, str]]] = {"clean_json": clean_json, "line_bodies": line_bodies}
"""Each takes the texts of a batch, and returns those that it changes, by index."""


def _over(function: Callable[[Sequence[str]], Mapping[int, str]]) -> Callable[[Any], Any]:
    def over(column: Any) -> Any:
        texts: list[str | None] = column.to_pylist()
        changed = function([text or "" for text in texts])
        if not changed:
            return column
        arrow: Any = import_module("pyarrow")
        return arrow.array([changed.get(place, text) for place, text in enumerate(texts)], arrow.string())

    return over
