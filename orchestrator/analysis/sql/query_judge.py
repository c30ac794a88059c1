"""Whether a query may be carried out, by its parsed form. Pure.

The law: everything is refused that is not known to be harmless: each node of the tree, each table, each function. What is
named in FROM is a view of the run, or a name that WITH has given at that place; a file has no name here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from orchestrator.analysis.sql.sql_functions import FUNCTIONS, TABLES, WINDOWS

_EXPRESSIONS = frozenset(
    {"BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "LAMBDA"}
    | {"LAMBDA_REF", "OPERATOR", "PARAMETER", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "WINDOW"}
)
_QUERIES = frozenset({"CTE_NODE", "RECURSIVE_CTE_NODE", "SELECT_NODE", "SET_OPERATION_NODE"})
_SOURCES = frozenset({"BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SHOW_REF", "SUBQUERY", "TABLE_FUNCTION"})
_MODIFIERS = frozenset({"DISTINCT_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "ORDER_MODIFIER"})
_ORDERS = frozenset({"ASCENDING", "DESCENDING", "ORDER_DEFAULT"})
_NODES = _QUERIES | _SOURCES | _MODIFIERS | _ORDERS
_SMALL = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
"""DuckDB takes A for a, and no other letter for another."""

Names = frozenset[str]


class Refused(Exception):
    """A query is not to be carried out. Its text says why; `at` is where in the query, in bytes from 0, if that is known."""

    def __init__(self, why: str, at: int | None = None) -> None:
        super().__init__(why)
        self.at = at


def judge(tree: Mapping[str, Any], views: Collection[str]) -> None:
    """Let a query pass, or not.

    Args:
        tree: what DuckDB's `json_serialize_sql` says of it.
        views: what may be read.

    Raises:
        Refused: it is more, or something else, than one query over these views.
    """
    statements: list[Any] = tree.get("statements") or []
    if tree.get("error") or len(statements) != 1:
        raise Refused(NO_QUERY)
    try:
        _Judge(frozenset(views)).look(statements[0]["node"], frozenset())
    except RecursionError:
        raise Refused("the query is nested too deep: expected fewer levels") from None


NO_QUERY = (
    "only a query can be carried out: expected one statement that begins with SELECT, FROM, WITH, VALUES, DESCRIBE or "
    "SUMMARIZE; of PIVOT say the values, as in `ON kind IN ('a', 'b')`"
)


class _Judge:
    def __init__(self, views: Names) -> None:
        self._views = views

    def look(self, node: Any, given: Names) -> None:
        """Go through a part of the tree; `given` are the names of WITH that hold there."""
        if isinstance(node, list):
            for part in cast("Iterable[Any]", node):
                self.look(part, given)
        elif isinstance(node, dict):
            self._look_at(cast("dict[str, Any]", node), given)

    def _look_at(self, node: dict[str, Any], given: Names) -> None:
        self._known(node)
        rest: dict[str, Any] = node
        if "cte_map" in node:
            given = self._with(node["cte_map"], given)
            rest = {name: part for name, part in node.items() if name != "cte_map"}
        kind = node.get("type")
        if kind == "RECURSIVE_CTE_NODE":
            self.look(node.get("left"), given)
            given |= {_small(node["cte_name"])}
            rest = {name: part for name, part in rest.items() if name != "left"}
        elif kind == "BASE_TABLE":
            self._table(node, given)
        elif kind == "SHOW_REF":
            _show(node)
        elif kind == "TABLE_FUNCTION":
            function: dict[str, Any] = node.get("function") or {}
            _callable(function, TABLES, "in FROM")
            rest = {**rest, "function": function.get("children")}
        elif node.get("class") in ("FUNCTION", "WINDOW"):
            _callable(node, FUNCTIONS | WINDOWS if node["class"] == "WINDOW" else FUNCTIONS, "in a query")
        for part in rest.values():
            self.look(part, given)

    def _known(self, node: dict[str, Any]) -> None:
        """Refuse a node of a kind that nobody has looked at yet."""
        if "class" in node:
            known = node["class"] in _EXPRESSIONS
        else:
            kind = node.get("type")
            known = not isinstance(kind, str) or kind in _NODES or kind.endswith("_TYPE_INFO")
        if not known:
            raise Refused(f"{node.get('class') or node.get('type')} is not known here: expected a plain query", _at(node))

    def _with(self, map: dict[str, Any], given: Names) -> Names:
        """Look at the queries of WITH, each of which sees those before it; return the names that hold after them."""
        for entry in map.get("map") or ():
            self.look(entry["value"], given)
            given |= {_small(entry["key"])}
        return given

    def _table(self, node: dict[str, Any], given: Names) -> None:
        name = node.get("table_name", "")
        schema, catalog = node.get("schema_name") or "", node.get("catalog_name") or ""
        if not schema and not catalog and _small(name) in given:
            return
        if catalog or schema not in ("", "main") or _small(name) not in self._views:
            whole = ".".join(filter(None, (catalog, schema, name)))
            raise Refused(f"no view {whole!r}: expected one of {', '.join(sorted(self._views))}", _at(node))


def _show(node: dict[str, Any]) -> None:
    """Let DESCRIBE and SUMMARIZE of a query pass, and no other question to the catalogue."""
    if node.get("table_name"):
        raise Refused("SHOW is not to be had here: expected DESCRIBE or SUMMARIZE of a view; ask `FROM views`", _at(node))


def _callable(node: dict[str, Any], allowed: Names, where: str) -> None:
    name = str(node.get("function_name", ""))
    is_operator = not any(letter.isalnum() or letter == "_" for letter in name)
    if not (is_operator and allowed is not TABLES) and _small(name) not in allowed:
        raise Refused(
            f"{name}() is not to be had {where}: expected a function of values alone, which reads nothing else",
            _at(node),
        )


def _small(name: str) -> str:
    return name.translate(_SMALL)


def _at(node: dict[str, Any]) -> int | None:
    place = node.get("query_location")
    return place if isinstance(place, int) else None
