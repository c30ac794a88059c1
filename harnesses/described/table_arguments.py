"""A table as the arguments of a class or function: its keys are the names of the parameters, its values get their types.

The law: every mistake in a table is told, with its key; what a table does not say is left to the default of the parameter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast, get_type_hints

import attrs
from msgspec import convert

from harnesses.coding.sources.problems import Problems, meant
from harnesses.described.table_reading import as_type, placed, tried
from harnesses.diagnostics.object_reference import load_object
from harnesses.errors import HarnessMisuse, one_of

MadeT = TypeVar("MadeT")
Reader: TypeAlias = Callable[[object, str, Problems], object]
"""Takes a value, its place for messages, and the problems found so far; returns what it stands for."""
_NO_READERS: Mapping[str, Reader] = {}


def keys_of(make: Callable[..., object], without: Collection[str] = ()) -> tuple[str, ...]:
    """Return the keys that a table for `make` may have."""
    return tuple(name for name in inspect.signature(make).parameters if name not in without)


def made_from(
    data: object,
    make: Callable[..., MadeT],
    where: str,
    problems: Problems,
    *,
    readers: Mapping[str, Reader] = _NO_READERS,
    without: Collection[str] = (),
    also: Mapping[str, object] | None = None,
) -> MadeT | None:
    """Return what `make` makes of a table; None, with the problems noted, if it is not as expected.

    Args:
        readers: for parameters whose types are none of plain data.
        without: parameters that a table cannot give.
        also: arguments that do not come from the table.
    """
    arguments = arguments_from(data, make, where, problems, readers=readers, without={*without, *(also or ())})
    return None if arguments is None else tried(lambda: make(**arguments, **(also or {})), where, problems)


def arguments_from(
    data: object,
    make: Callable[..., object],
    where: str,
    problems: Problems,
    *,
    readers: Mapping[str, Reader] = _NO_READERS,
    without: Collection[str] = (),
) -> dict[str, Any] | None:
    """Return what a table says as keyword arguments of `make`; None, with the problems noted, if it is not as expected."""
    if not isinstance(data, Mapping):
        problems.add(where, f"expected a table, got {data!r:.100}; write one")
        return None
    table = cast(Mapping[str, object], data)
    known, hints, before = keys_of(make, without), _hints(make), len(problems.found)
    arguments: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            way_out = meant(key, known) or "; correct or remove it"
            problems.add(where, f"unknown key {key!r}: {one_of(known, 'none can be given')}{way_out}")
        elif key in readers:
            arguments[key] = readers[key](value, _join_key(where, key), problems)
        else:
            noted = len(problems.found)
            as_type(value, hints[key], key, where, problems)
            arguments[key] = convert(value, hints[key]) if len(problems.found) == noted else None
    for name in known:
        if name not in table and _is_needed(make, name):
            problems.add(where, f"has no {name}: expected one; add it")
    return None if len(problems.found) > before else arguments


def each(value: object, where: str, problems: Problems, read: Reader) -> list[Any] | None:
    """Return what each table of a list stands for; None, with the problems noted, if one of them is not as expected."""
    if not isinstance(value, list):
        problems.add(where, f"expected a list of tables, got {value!r:.100}; write one")
        return None
    before = len(problems.found)
    made = [read(one, f"{where} {number}", problems) for number, one in enumerate(cast(list[object], value), 1)]
    return made if len(problems.found) == before else None


def typed(kind: Any) -> Reader:
    """Return what reads a value of a type of plain data."""

    def read(value: object, where: str, problems: Problems) -> object:
        noted = len(problems.found)
        place, _, key = where.rpartition(": ")
        as_type(value, kind, key, place, problems)
        return convert(value, kind) if len(problems.found) == noted else None

    return read


def by_key(value: object, where: str, problems: Problems, kinds: Mapping[str, Reader], or_text: str = "") -> object:
    """Return what a table stands for that is of one of several kinds, told by the key that only it has."""
    table: Mapping[str, object] = cast(Mapping[str, object], value) if isinstance(value, Mapping) else {}
    given = [key for key in kinds if key in table]
    if len(given) == 1:
        return kinds[given[0]](table, where, problems)
    got = f"got {', '.join(given)}" if given else f"got {value!r:.100}"
    text = f"{or_text}, or " if or_text else ""
    problems.add(where, f"expected {text}a table with one of {', '.join(kinds)}, {got}; write one")
    return None


def path_beside(beside: Path) -> Reader:
    """Return what reads a path that is relative to a directory."""

    def read(value: object, where: str, problems: Problems) -> object:
        found = typed(str)(value, where, problems)
        return None if found is None else placed(str(found), beside)

    return read


def _hints(make: Callable[..., object]) -> dict[str, Any]:
    if isinstance(make, type):
        return get_type_hints(make if attrs.has(make) else vars(_declaring(make))["__init__"])
    return get_type_hints(make)


def _declaring(cls: type) -> type:
    """Return the class in the line of `cls` that has a constructor of its own."""
    return next(one for one in cls.__mro__ if "__init__" in vars(one))


def _is_needed(make: Callable[..., object], name: str) -> bool:
    return inspect.signature(make).parameters[name].default is inspect.Parameter.empty


def _join_key(where: str, key: str) -> str:
    return f"{where}: {key}" if where else key


def called(function: str, arguments: dict[str, Any] | None = None) -> Any:
    """Return what a function returns; a thing that cannot be called is returned as it is.

    Args:
        function: where it is found, `package.module:name`.
        arguments: what it is called with, by the names of its parameters.

    Raises:
        HarnessMisuse: there is no such function, or it has raised.
    """
    try:
        found = load_object(function)
    except HarnessMisuse as error:
        raise HarnessMisuse(f"function: {error}; correct it") from error
    if not callable(found):
        return found
    try:
        return found(**(arguments or {}))
    except Exception as error:
        raise HarnessMisuse(f"function {function} has failed: {type(error).__name__}: {error}; correct it") from error
