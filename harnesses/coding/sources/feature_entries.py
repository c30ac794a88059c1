"""Parses feature lists in TOML and JSON, and checks the rules that apply to every list. No I/O.

    objective = "A parser for dates"       optional

    [[feature]]
    id = "iso"
    description = "Dates of ISO 8601 are read"
    steps = ["2024-02-29 is read", "2023-02-29 is refused"]
    depends_on = ["lexer"]                 category, priority, depends_on and required are optional

In JSON: `{"objective": …, "features": [{"id": …}, …]}`, or only the list. All mistakes are reported together.

key          expected value                                    default
id           a unique text, on one line                        none
description  a text                                            none
steps        texts, at least one: how to verify that it works  none
category     a text                                            functional
priority     a whole number; higher is worked first            0
depends_on   ids of features of the same list                  none
required     true or false                                     true
passes       false: a file cannot prove anything               false
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, cast

from attrs import frozen

from harnesses.coding.sources.problems import Problems
from harnesses.errors import near
from harnesses.features.agent_text import says_something
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature
from harnesses.features.planning.feature_list import MAX_ID, MAX_PRIORITY, cycle_in, is_id, is_priority

_SYNONYMS = {
    "name": "id",
    "key": "id",
    "title": "description",
    "text": "description",
    "summary": "description",
    "acceptance": "steps",
    "acceptance_criteria": "steps",
    "criteria": "steps",
    "group": "category",
    "type": "category",
    "after": "depends_on",
    "depends": "depends_on",
    "dependencies": "depends_on",
    "needs": "depends_on",
    "requires": "depends_on",
    "optional": "required",
    "done": "passes",
    "passed": "passes",
    "status": "passes",
}


@frozen
class FeatureList:
    """The contents of a file."""

    features: tuple[Feature, ...]
    objective: str | None = None
    """The goal of the list, if the file has one."""


@frozen
class Entry:
    """A feature, and its place in the file."""

    place: str
    """Place for messages: `feature 2 'parse'`, `line 7 'parse'`."""
    feature: Feature


def entry_of(data: object, number: int, problems: Problems) -> Entry | None:
    """Return the feature that a table describes; None if it is invalid, with the problems added."""
    place = f"feature {number}"
    if not isinstance(data, Mapping):
        problems.add(place, f"expected a table with id, description and steps, was {data!r:.100}; write one")
        return None
    table = cast(Mapping[str, object], data)
    if is_id(table.get("id")):
        place = f"{place} {table['id']!r}"
    before = len(problems.found)
    for key in table:
        if key not in _FIELDS:
            was = f"unknown key {key!r}: expected one of {', '.join(_FIELDS)}"
            problems.add(place, was + (near(key, _FIELDS, _SYNONYMS) or "; correct or remove it"))
    for key, (needed, wanted, fits) in _FIELDS.items():
        if key not in table:
            if needed:
                problems.add(place, f"has no {key}: expected {wanted}; add it")
        elif not fits(table[key]):
            problems.add(place, f"{key}: expected {wanted}, was {table[key]!r:.100}; {_WAY_OUT.get(key, 'correct it')}")
    if len(problems.found) > before:
        return None
    return Entry(place, Feature(**{key: table[key] for key in _FIELDS if key in table}))  # type: ignore[arg-type]


def check_ids(entries: Sequence[Entry], problems: Problems) -> None:
    """Report features whose id is not unique."""
    places: dict[str, str] = {}
    for entry in entries:
        first = places.setdefault(entry.feature.id, entry.place)
        if first != entry.place:
            problems.add(entry.place, f"id {entry.feature.id!r} is also used by {first}: expected a unique id; rename one")


def check_order(entries: Sequence[Entry], problems: Problems, others: frozenset[str] = frozenset()) -> None:
    """Report features that can never be worked because of their dependencies.

    Args:
        others: ids outside the list that a feature may depend on.
    """
    known = {entry.feature.id for entry in entries}
    for entry in entries:
        for other in entry.feature.depends_on:
            if other == entry.feature.id:
                problems.add(entry.place, "depends on itself: expected ids of other features; remove it")
            elif other not in known | others:
                way_out = near(other, known) or "; correct or remove it"
                problems.add(entry.place, f"depends on {other!r}: expected the id of a feature of this list{way_out}")
    _check_rings([entry.feature for entry in entries], known, problems)


def _check_rings(features: Sequence[Feature], known: Set[str], problems: Problems) -> None:
    others = {one.id: [other for other in one.depends_on if other in known and other != one.id] for one in features}
    if found := cycle_in(others):
        ring = " → ".join(map(repr, found))
        problems.add("", f"features depend on each other: {ring}: expected dependencies without a cycle; remove one")


def _are_texts(value: object) -> bool:
    if isinstance(value, str):
        return says_something(value)
    return isinstance(value, list) and value != [] and all(map(says_something, cast(list[object], value)))


def _are_ids(value: object) -> bool:
    if isinstance(value, str):
        return is_id(value)
    return isinstance(value, list) and all(map(is_id, cast(list[object], value)))


_FIELDS: Mapping[str, tuple[bool, str, Callable[[object], bool]]] = {
    "id": (True, f"a unique text of at most {MAX_ID} characters, on one line", is_id),
    "description": (True, "a text that is not blank", says_something),
    "steps": (True, "at least one text that says how to verify the feature", _are_texts),
    "category": (False, "a text", says_something),
    "priority": (False, f"a whole number between -{MAX_PRIORITY} and {MAX_PRIORITY}", is_priority),
    "depends_on": (False, "a list of ids", _are_ids),
    "required": (False, "true or false", lambda value: isinstance(value, bool)),
    "passes": (False, "false, because a file cannot prove anything", lambda value: value is False),
}
"""By key: whether it is required, what is expected, and a check for it."""
_WAY_OUT = {
    "passes": "remove it, and let the validator check first (check_first), so that features that already pass use no agent"
}


def parse_toml(text: str, where: str) -> FeatureList:
    """Return the feature list in a TOML text.

    Raises:
        InvalidRequest: something in it is invalid, or it is empty.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"{where} is not valid TOML: {error}; correct it") from error
    except RecursionError as error:
        raise InvalidRequest(f"{where} cannot be read: expected tables within tables a few deep; flatten it") from error
    return _list_of(data, where, key="feature", wanted="[[feature]] tables", way_out="write each with two brackets")


def parse_json(text: str, where: str) -> FeatureList:
    """Return the feature list in a JSON text.

    Raises:
        InvalidRequest: something in it is invalid, or it is empty.
    """
    try:
        data = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            f"{where} is not valid JSON: {error.msg} (at line {error.lineno}, column {error.colno}); correct it"
        ) from error
    except _Twice as error:
        raise InvalidRequest(f"{where}: key {error.args[0]!r} occurs twice in one object; remove one") from error
    except (RecursionError, ValueError) as error:
        raise InvalidRequest(f"{where} cannot be read: {error}; correct it") from error
    if not isinstance(data, dict):
        data = {"features": data}
    return _list_of(cast(dict[str, object], data), where, key="features", wanted="a list of objects", way_out="write one")


class _Twice(ValueError):
    """A duplicate key of an object, whose later value would silently win."""


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
            problems.add("", problem + (near(other, known) or "; correct or remove it"))
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
    """Return the ids of all tables, including invalid ones, because other features may depend on them."""
    ids = (cast(Mapping[str, object], table).get("id") for table in tables if isinstance(table, Mapping))
    return frozenset(one for one in ids if isinstance(one, str))
