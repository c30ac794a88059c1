"""What the engine cannot do by itself, as functions for it: secrets taken out of JSON, and names that lines have changed.

clean_json(text)    the JSON without the secrets in it, by the same rules as the log
own_names(text)     the JSON of a line's own fields, called as they are called in the record
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from harnesses.redaction.prefilter import coarse_suspect
from harnesses.redaction.redactor import may_hold_secret, redact
from orchestrator.analysis.sources.duckdb_session import quoted
from orchestrator.codec import decode, encode_private
from orchestrator.log import HEADER

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def add_functions(db: DuckDBPyConnection) -> None:
    """Make the functions known to a connection."""
    for name, function in FUNCTIONS.items():
        # In columns: called row by row, DuckDB 1.4 keeps the memory of every text until the query ends.
        db.create_function(name, _over(function), ["VARCHAR"], "VARCHAR", type="arrow")  # type: ignore[arg-type, list-item]


def cleaned(column: str) -> str:
    """Return what takes the secrets out of a column of JSON."""
    return f"CASE WHEN regexp_matches({column}, {quoted(coarse_suspect())}) THEN clean_json({column}) ELSE {column} END"


def clean_json(text: str) -> str:
    """Return JSON without the secrets in it; the same text if there is none."""
    if not may_hold_secret(text):
        return text
    return encode_private(redact(decode(text)))


def own_names(text: str) -> str:
    """Return the JSON of an object without the underscores that `orchestrator.log` has put behind clashing names."""
    return encode_private({own_name(name): value for name, value in decode(text).items()})


def own_name(name: str) -> str:
    """Return what a field of a line is called in the record."""
    return name[:-1] if name.endswith("_") and name.rstrip("_") in HEADER else name


FUNCTIONS: dict[str, Callable[[str], str]] = {"clean_json": clean_json, "own_names": own_names}


def _over(function: Callable[[str], str]) -> Callable[[Any], Any]:
    def over(column: Any) -> Any:
        arrow: Any = import_module("pyarrow")
        return arrow.array([None if text is None else function(text) for text in column.to_pylist()], arrow.string())

    return over
