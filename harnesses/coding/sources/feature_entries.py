"""Feature lists of plain tables, as TOML and JSON give them, and the rules for each list however it was written. Pure.

    objective = "A parser for dates"       optional

    [[feature]]
    id = "iso"
    description = "Dates of ISO 8601 are read"
    steps = ["2024-02-29 is read", "2023-02-29 is refused"]
    depends_on = ["lexer"]                 category, priority, depends_on and required may be left out

In JSON: `{"objective": …, "features": [{"id": …}, …]}`, or the list alone. Every mistake is told, all at once.

key          what is expected                                  default
id           a text of its own, on one line                    none
description  a text                                            none
steps        texts, at least one: how one sees that it works   none
category     a text                                            functional
priority     a whole number; higher goes first                 0
depends_on   ids of features of the same list                  none
required     true or false                                     true
passes       false: a file can prove nothing                   false
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, cast

from attrs import frozen

from harnesses.coding.sources.problems import Problems, meant
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
    """What a file says."""

    features: tuple[Feature, ...]
    objective: str | None = None
    """What the list is worked for, if the file says so."""


@frozen
class Entry:
    """A feature, and where it was found."""

    place: str
    """For messages: `feature 2 'parse'`, `line 7 'parse'`."""
    feature: Feature


def entry_of(data: object, number: int, problems: Problems) -> Entry | None:
    """Return the feature that a table describes; None, with the problems noted, if it is not as expected."""
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
            problems.add(place, was + (meant(key, _FIELDS, _SYNONYMS) or "; correct or remove it"))
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
    """Note which features of a list have the id of another one."""
    places: dict[str, str] = {}
    for entry in entries:
        first = places.setdefault(entry.feature.id, entry.place)
        if first != entry.place:
            problems.add(entry.place, f"id {entry.feature.id!r} is that of {first} too: expected one of its own; rename one")


def check_order(entries: Sequence[Entry], problems: Problems, others: frozenset[str] = frozenset()) -> None:
    """Note which features of a list can never be worked, for what they depend on.

    Args:
        others: ids that one may depend on beside those of the list.
    """
    known = {entry.feature.id for entry in entries}
    for entry in entries:
        for other in entry.feature.depends_on:
            if other == entry.feature.id:
                problems.add(entry.place, "depends on itself: expected ids of other features; remove it")
            elif other not in known | others:
                way_out = meant(other, known) or "; correct or remove it"
                problems.add(entry.place, f"depends on {other!r}: expected the id of a feature of this list{way_out}")
    _check_rings([entry.feature for entry in entries], known, problems)


def _check_rings(features: Sequence[Feature], known: Set[str], problems: Problems) -> None:
    others = {one.id: [other for other in one.depends_on if other in known and other != one.id] for one in features}
    if found := cycle_in(others):
        ring = " → ".join(map(repr, found))
        problems.add("", f"features wait for each other: {ring}: expected an order in which they can be worked; cut one")


def _are_texts(value: object) -> bool:
    if isinstance(value, str):
        return says_something(value)
    return isinstance(value, list) and value != [] and all(map(says_something, cast(list[object], value)))


def _are_ids(value: object) -> bool:
    if isinstance(value, str):
        return is_id(value)
    return isinstance(value, list) and all(map(is_id, cast(list[object], value)))


_FIELDS: Mapping[str, tuple[bool, str, Callable[[object], bool]]] = {
    "id": (True, f"a text of its own, of at most {MAX_ID} characters, on one line", is_id),
    "description": (True, "a text that says what is wanted", says_something),
    "steps": (True, "at least one text that says how one sees that it works", _are_texts),
    "category": (False, "a text", says_something),
    "priority": (False, f"a whole number between -{MAX_PRIORITY} and {MAX_PRIORITY}", is_priority),
    "depends_on": (False, "a list of ids", _are_ids),
    "required": (False, "true or false", lambda value: isinstance(value, bool)),
    "passes": (False, "false, for a file can prove nothing", lambda value: value is False),
}
"""By key: whether it is needed, what is expected, and whether a value is that."""
_WAY_OUT = {"passes": "remove it, and have the validator look first (check_first), so that what works already costs no agent"}


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
