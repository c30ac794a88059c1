"""Feature lists in TOML and in JSON. Pure.

    objective = "A parser for dates"       optional

    [[feature]]
    id = "iso"
    description = "Dates of ISO 8601 are read"
    steps = ["2024-02-29 is read", "2023-02-29 is refused"]
    depends_on = ["lexer"]                 category, priority, depends_on and required may be left out

In JSON: `{"objective": …, "features": [{"id": …}, …]}`, or the list alone. Every mistake is told, all at once.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any, cast

from harnesses.coding.sources.feature_entries import FeatureList, check_ids, check_order, entry_of
from harnesses.coding.sources.problems import Problems, meant
from harnesses.features.agent_text import says_something
from harnesses.features.errors import InvalidRequest


def parse_toml(text: str, where: str) -> FeatureList:
    """Return the feature list that the text of a TOML file holds.

    Raises:
        InvalidRequest: something in it is not as expected, or there is nothing in it.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"{where} is not valid TOML: {error}; correct it") from error
    except RecursionError as error:
        raise InvalidRequest(f"{where} cannot be read: expected tables within tables a few deep; flatten it") from error
    return _list_of(data, where, key="feature", wanted="[[feature]] tables", way_out="write each with two brackets")


def parse_json(text: str, where: str) -> FeatureList:
    """Return the feature list that the text of a JSON file holds.

    Raises:
        InvalidRequest: something in it is not as expected, or there is nothing in it.
    """
    try:
        data = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            f"{where} is not valid JSON: {error.msg} (at line {error.lineno}, column {error.colno}); correct it"
        ) from error
    except _Twice as error:
        raise InvalidRequest(f"{where}: key {error.args[0]!r} is there twice in one object; remove one") from error
    except (RecursionError, ValueError) as error:
        raise InvalidRequest(f"{where} cannot be read: {error}; correct it") from error
    if not isinstance(data, dict):
        data = {"features": data}
    return _list_of(cast(dict[str, object], data), where, key="features", wanted="a list of objects", way_out="write one")


class _Twice(ValueError):
    """A key that an object has twice; the later value would silently win."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Twice(next(key for key in keys if keys.count(key) > 1))
    return made


def _list_of(data: Mapping[str, object], where: str, *, key: str, wanted: str, way_out: str) -> FeatureList:
    problems = Problems(where)
    known = ("objective", key)
    for other in data:
        if other not in known:
            problem = f"unknown key {other!r}: expected one of {', '.join(known)}"
            problems.add("", problem + (meant(other, known) or "; correct or remove it"))
    objective = data.get("objective")
    if objective is not None and not says_something(objective):
        problems.add("objective", f"expected a text, was {objective!r:.100}; correct or remove it")
    tables = data.get(key, [])
    if not isinstance(tables, list):
        problems.add(key, f"expected {wanted}, was {tables!r:.100}; {way_out}")
        tables = []
    found = [entry_of(table, number, problems) for number, table in enumerate(cast(list[object], tables), 1)]
    entries = [entry for entry in found if entry is not None]
    check_ids(entries, problems)
    check_order(entries, problems, _ids(cast(list[object], tables)))
    problems.check(nothing="" if tables else f"expected at least one feature ({wanted}), was none; add one")
    return FeatureList(tuple(entry.feature for entry in entries), cast("str | None", objective))


def _ids(tables: list[object]) -> frozenset[str]:
    """Return the ids of all tables, of those too that have mistakes: one may depend on them."""
    ids = (cast(Mapping[str, object], table).get("id") for table in tables if isinstance(table, Mapping))
    return frozenset(one for one in ids if isinstance(one, str))
