"""How the tables of a description are read. Pure.

The law: every mistake in a table is told, with its key; nothing that a table says raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import msgspec
from msgspec import Struct, convert

from harnesses.coding.sources.problems import Problems, meant
from harnesses.errors import OrchestratorError
from harnesses.features.errors import FeatureError

PartT = TypeVar("PartT", bound=Struct)
MadeT = TypeVar("MadeT")
_WORDS = {
    "object": "a table",
    "array": "a list",
    "str": "a text",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "decimal": 'a number, or a text such as "0.1"',
    "datetime": "a time with a zone",
}
_EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]*)`")


def read(data: object, cls: type[PartT], where: str, problems: Problems) -> PartT | None:
    """Return a table as a `cls`; None, with the problems noted, if it is not as expected."""
    if not isinstance(data, Mapping):
        problems.add(where, f"expected a table, was {data!r:.100}; write one")
        return None
    table = cast(Mapping[str, object], data)
    before = len(problems.found)
    known = cls.__struct_fields__
    for key in table:
        if key not in known:
            way_out = meant(str(key), known) or "; correct or remove it"
            problems.add(where, f"unknown key {key!r}: expected one of {', '.join(known)}{way_out}")
    for field in msgspec.structs.fields(cls):
        if field.name in table:
            as_type(table[field.name], field.type, field.name, where, problems)
        elif field.required:
            problems.add(where, f"has no {field.name}: expected one; add it")
    return None if len(problems.found) > before else convert(dict(table), cls)


def as_type(value: object, kind: Any, key: str, where: str, problems: Problems) -> None:
    """Note what is wrong with a value that is to be of a type."""
    try:
        convert(value, kind)
    except msgspec.ValidationError as error:
        message, _, inside = str(error).partition(" - at `$")
        match = _EXPECTED.match(message)
        if match is None:
            wanted = f"one of {', '.join(_choices(kind))}"
        else:
            wanted = " or ".join(_WORDS.get(one, one) for one in match["wanted"].split(" | ") if one != "null")
        problems.add(where, f"{key}{inside.rstrip('`')}: expected {wanted}, was {value!r:.100}; correct it")


def tried(make: Callable[[], MadeT], where: str, problems: Problems) -> MadeT | None:
    """Return what a function makes; None, with the problem noted, if it refuses."""
    try:
        return make()
    except (OrchestratorError, OSError, ValueError) as error:
        said = str(error)
        problems.add(where, said.removeprefix(f"{error.kind}: ") if isinstance(error, FeatureError) else said)
        return None


def placed(path: str, beside: Path) -> Path:
    """Return where a path leads that was written beside something."""
    return beside.absolute() / Path(path).expanduser()


def _choices(hint: Any) -> list[str]:
    """Return the texts that a type allows."""
    return [hint] if isinstance(hint, str) else [text for part in get_args(hint) for text in _choices(part)]
