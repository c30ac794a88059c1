"""Nested values as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


def flattened(db: DuckDBPyConnection, relation: DuckDBPyRelation) -> DuckDBPyRelation:
    """Return a relation in which what is in the JSON has columns of its own."""
    return relation
