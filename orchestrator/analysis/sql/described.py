"""What is said of a view and of its columns. Nouns, and the columns that many views begin with. Pure."""

from __future__ import annotations

from attrs import frozen


@frozen
class Column:
    """One column of a view."""

    name: str
    type: str
    """As DuckDB writes it."""
    unit: str
    """`s` seconds, `share` 0 to 1, `money` in the currency of the account; empty where there is none."""
    meaning: str


@frozen
class View:
    """One view: what a row is, and the columns in their order."""

    rows: str
    columns: tuple[Column, ...]


def at(name: str, what: str) -> Column:
    """Return a column that says when something happened."""
    return Column(name, "TIMESTAMP", "UTC", f"when {what}")


SEQ = (
    Column("seq", "BIGINT", "", "place among all records: what happened before what"),
    at("timestamp", "it was recorded"),
)
HEAD = (
    *SEQ,
    Column("run", "VARCHAR", "", "the life of the program that recorded it; empty for messages from elsewhere"),
    Column("harness", "VARCHAR", "", "whose it is; empty for what concerns all"),
    Column("attempt", "INTEGER", "", "which life of the harness, from 1; 0 before the first"),
)
WHERE = (*HEAD, Column("step_number", "BIGINT", "", "the step it belongs to, made or being made; else the last one before it"))
