"""Nested JSON as typed columns: `input.order.price`.

Invariant: nothing is lost or changed. A column gets a type only if every value fits it, checked over all rows; if types
differ, or numbers do not fit the type, it is JSON. Lists stay JSON. The original JSON column is left out only if all of its
content has columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from attrs import frozen

from orchestrator.analysis.sources.duckdb_session import named, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

MOST_COLUMNS = 200
"""Limit on the columns made from one JSON column."""
MOST_KEYS = 50
"""Limit on the keys of an object, over all rows: an object with more is a dictionary, and stays JSON."""
DEEPEST = 5
"""Limit on the levels of nested objects that become columns."""
_SHAPES = 2000
"""Limit on distinct shapes of values; beyond it all columns are JSON."""
_INTEGERS = frozenset({"UBIGINT", "BIGINT"})

Shape: TypeAlias = "str | list[Any] | dict[str, Shape]"
"""A shape in the format of `json_structure`: a type, a list, or an object."""


@frozen
class Leaf:
    """A place in the JSON that becomes a column."""

    path: tuple[str, ...]
    type: str
    """`BIGINT`, `DOUBLE`, `VARCHAR`, `BOOLEAN` or `JSON`."""

    @property
    def pointer(self) -> str:
        """The place as a JSON pointer, which can express every key."""
        return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in self.path)


def flattened(db: DuckDBPyConnection, frame: str) -> DuckDBPyRelation:
    """Return a frame with the content of its JSON columns as separate columns."""
    described = db.execute(f"DESCRIBE {named(frame)}").fetchall()
    taken = {name.lower() for name, *_ in described}
    inner, outer = ["*"], list[str]()
    for number, (name, type, *_) in enumerate(described):
        leaves, is_whole = _leaves(db, frame, name) if type == "JSON" else ([], False)
        if not (leaves and is_whole):
            outer.append(named(name))
        if leaves:
            places = ", ".join(quoted(leaf.pointer) for leaf in leaves)
            inner.append(f"json_extract({named(name)}, [{places}]) AS __{number}")
            outer += [
                f"{_cast(leaf, f'__{number}[{place}]')} AS {named(_free(name, leaf, taken))}"
                for place, leaf in enumerate(leaves, 1)
            ]
    return db.sql(f"SELECT {', '.join(outer)} FROM (SELECT {', '.join(inner)} FROM {named(frame)})")


def merged(shapes: Iterable[Shape]) -> Shape:
    """Return the common shape of some shapes; `JSON` where they differ."""
    kinds = [shape for shape in shapes if shape != "NULL"]
    if not kinds:
        return "NULL"
    objects = [shape for shape in kinds if isinstance(shape, dict)]
    if len(objects) == len(kinds):
        keys: dict[str, list[Shape]] = {}
        for shape in objects:
            for key, inside in shape.items():
                keys.setdefault(key, []).append(inside)
        return {key: merged(inside) for key, inside in keys.items()} if len(keys) <= MOST_KEYS else "JSON"
    words = {shape if isinstance(shape, str) else "JSON" for shape in kinds}
    if words <= _INTEGERS:
        return "BIGINT"
    if words <= _INTEGERS | {"DOUBLE"}:
        return "DOUBLE"
    return words.pop() if len(words) == 1 else "JSON"


def leaves_of(shape: Shape, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Yield the places that become columns."""
    if isinstance(shape, dict) and shape and len(path) < DEEPEST:
        for key, inside in shape.items():
            yield from leaves_of(inside, (*path, key))
    elif path:
        yield Leaf(path, shape if isinstance(shape, str) and shape != "NULL" else "JSON")


def _leaves(db: DuckDBPyConnection, frame: str, column: str) -> tuple[list[Leaf], bool]:
    """Return the places in a column that become columns, and whether they cover all of its content."""
    found = db.execute(
        f"SELECT json_structure({named(column)}) AS shape FROM {named(frame)} WHERE {named(column)} IS NOT NULL "
        f"GROUP BY shape ORDER BY count(*) DESC, shape LIMIT {_SHAPES + 1}"
    ).fetchall()
    shapes: list[Shape] = [msgspec.json.decode(text) for (text,) in found]
    objects = [shape for shape in shapes if isinstance(shape, dict)]
    leaves = list(leaves_of(merged(objects))) if objects else []
    is_whole = len(objects) == len(shapes) <= _SHAPES and 0 < len(leaves) <= MOST_COLUMNS
    if len(shapes) > _SHAPES:
        leaves = [Leaf(leaf.path, "JSON") for leaf in leaves]
    return _fitting(db, frame, column, leaves[:MOST_COLUMNS]), is_whole


def _fitting(db: DuckDBPyConnection, frame: str, column: str, leaves: list[Leaf]) -> list[Leaf]:
    """Return the places, with type `JSON` where numbers do not fit their type."""
    numbers = [leaf for leaf in leaves if leaf.type in ("BIGINT", "DOUBLE")]
    if not numbers:
        return leaves
    places = ", ".join(quoted(leaf.pointer) for leaf in numbers)
    tests = ", ".join(f"bool_or({_too_large(leaf, f'found[{place}]')})" for place, leaf in enumerate(numbers, 1))
    row = db.execute(
        f"SELECT {tests} FROM (SELECT json_extract({named(column)}, [{places}]) AS found FROM {named(frame)})"
    ).fetchone()
    large: Mapping[tuple[str, ...], Any] = dict(zip((leaf.path for leaf in numbers), row or (), strict=False))
    return [Leaf(leaf.path, "JSON") if large.get(leaf.path) else leaf for leaf in leaves]


def _too_large(leaf: Leaf, value: str) -> str:
    if leaf.type == "BIGINT":
        return f"nullif({value}, 'null') IS NOT NULL AND TRY_CAST({value} AS BIGINT) IS NULL"
    # Not all integers from 2^53 up can be represented as floats.
    return f"regexp_full_match({value}::VARCHAR, '-?[0-9]{{16,}}')"


def _cast(leaf: Leaf, value: str) -> str:
    if leaf.type == "JSON":
        return f"nullif({value}, 'null')"
    return f"{value} ->> '$'" if leaf.type == "VARCHAR" else f"{value}::{leaf.type}"


def _free(column: str, leaf: Leaf, taken: set[str]) -> str:
    """Return an unused column name; DuckDB ignores the case of letters."""
    name = wanted = ".".join((column, *leaf.path)).replace("\0", "\\0")
    count = 1
    while name.lower() in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name.lower())
    return name
