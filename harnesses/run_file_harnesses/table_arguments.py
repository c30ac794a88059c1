"""Converts tables of a run file to arguments of a class or function: keys are parameter names, values are converted by type.

Invariants: every mistake in a table is reported with its key, and an invalid table never raises; keys that a table leaves out
keep the default of the parameter.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast, get_args, get_type_hints

import attrs
import msgspec
from attrs import frozen
from msgspec import convert

from harnesses.coding.sources.problems import Problems
from harnesses.diagnostics.object_reference import load_object
from harnesses.errors import HarnessMisuse, OrchestratorError, near, one_of
from harnesses.features.errors import FeatureError

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
_FORMS = {"Invalid decimal string": "a number"}
_EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]*)`(?: >= (?P<least>\d+))?")


@frozen
class TableProblems(Problems):
    """The problems found in a table so far."""

    beside: Path = Path()
    """The directory that paths in it are relative to."""

    def place(self, path: str) -> Path:
        """Return the absolute path of a path written in the table."""
        return place_beside(path, self.beside)


Reader: TypeAlias = Callable[[object, str, TableProblems], Any]
"""Takes a value, its place for messages, and the problems found so far; returns the converted value."""
_NO_READERS: Mapping[str, Reader] = {}


def keys_of(make: Callable[..., object], without: Collection[str] = ()) -> tuple[str, ...]:
    """Return the keys allowed in a table for `make`."""
    return tuple(name for name in _parameters(make) if name not in without)


def _meant_within(key: str, known: Mapping[str, tuple[Any, bool]]) -> str:
    """Return what to write if a key belongs into the table of another one; empty if it does not."""
    for name, (hint, _) in known.items():
        for kind in (hint, *get_args(hint)):
            if isinstance(kind, type) and attrs.has(kind) and key in attrs.fields_dict(kind):
                return f"; write {name} = {{ {key} = … }}"
    return ""


def read_arguments(
    make: Callable[..., object],
    data: object,
    where: str,
    problems: TableProblems,
    *,
    readers: Mapping[str, Reader] = _NO_READERS,
    without: Collection[str] = (),
    own: Collection[str] = (),
) -> dict[str, Any] | None:
    """Return a table as keyword arguments of `make`; None if it is invalid, with the problems added.

    Args:
        readers: for parameters whose types are not plain data.
        without: parameters that a table cannot set.
        own: keys of the table that are not parameters and have been read already.
    """
    if not isinstance(data, Mapping):
        problems.add(where, f"expected a table, got {data!r:.100}; write one")
        return None
    table = cast(Mapping[str, object], data)
    known = {name: found for name, found in _parameters(make).items() if name not in without}
    arguments: dict[str, Any] = {}
    before = len(problems.found)
    for key, value in table.items():
        if key not in known:
            way_out = _meant_within(key, known) or near(key, known) or "; correct or remove it"
            problems.add(where, f"unknown key {key!r}: {one_of((*own, *known), 'none can be given')}{way_out}")
        else:
            read = readers[key] if key in readers else reader_of(known[key][0])
            arguments[key] = read(value, _join_key(where, key), problems)
    for name, (_, is_needed) in known.items():
        if is_needed and name not in table:
            problems.add(where, f"has no {name}: expected one; add it")
    return None if len(problems.found) > before else arguments


def make_from(
    make: Callable[..., MadeT],
    data: object,
    where: str,
    problems: TableProblems,
    *,
    readers: Mapping[str, Reader] = _NO_READERS,
    without: Collection[str] = (),
    own: Collection[str] = (),
) -> MadeT | None:
    """Return the result of calling `make` with a table; None if it is invalid, with the problems added."""
    arguments = read_arguments(make, data, where, problems, readers=readers, without=without, own=own)
    return None if arguments is None else attempt(lambda: make(**arguments), where, problems)


@frozen
class Kind:
    """One of several kinds of table, recognised by a key that only this kind has."""

    make: Callable[..., object]
    argument: str = ""
    """The parameter that the value of the key is passed as; empty: the value is not passed and must be true."""
    read: Reader | None = None
    """Reads the value of the key."""
    readers: Mapping[str, Reader] = _NO_READERS
    """Readers of the other parameters."""
    without: Collection[str] = ()
    """Parameters that a table cannot set."""
    by: Callable[..., object] | None = None
    """Called instead of `make`, with the same arguments."""

    def read_table(self, key: str, table: Mapping[str, object], where: str, problems: TableProblems) -> object:
        """Return the object that a table of this kind describes; None if it is invalid, with the problems added."""
        rest, before = {name: one for name, one in table.items() if name != key}, len(problems.found)
        given: dict[str, Any] = {}
        if self.read is not None:
            given = {self.argument: self.read(table[key], _join_key(where, key), problems)}
        elif table[key] is not True:
            problems.add(where, f"{key}: expected true, was {table[key]!r:.100}; write true, or leave {key} out")
        without = {*self.without, *given}
        arguments = read_arguments(self.make, rest, where, problems, readers=self.readers, without=without, own=(key,))
        if arguments is None or len(problems.found) > before:
            return None
        return attempt(lambda: (self.by or self.make)(**given, **arguments), where, problems)


def read_kind(
    kinds: Mapping[str, Kind],
    value: object,
    where: str,
    problems: TableProblems,
    or_text: str = "",
    of_several: str = "keep one of them",
) -> Any:
    """Return the object that a table of one of several kinds describes; None if it is invalid, with the problems added.

    Args:
        or_text: what else is accepted in place of a table, for messages.
        of_several: the remedy for a table of more than one kind, for messages.
    """
    table: Mapping[str, object] = cast(Mapping[str, object], value) if isinstance(value, Mapping) else {}
    given = [key for key in kinds if key in table]
    if len(given) == 1:
        return kinds[given[0]].read_table(given[0], table, where, problems)
    got = f"got {', '.join(given)}; {of_several}" if given else f"got {value!r:.100}; write one"
    text = f"{or_text}, or " if or_text else ""
    problems.add(where, f"expected {text}a table with one of {', '.join(kinds)}, {got}")
    return None


def read_list(read: Reader, value: object, where: str, problems: TableProblems) -> list[Any] | None:
    """Return the objects that a list of tables describes; None if one is invalid, with the problems added."""
    if not isinstance(value, list):
        problems.add(where, f"expected a list of tables, got {value!r:.100}; write one")
        return None
    before = len(problems.found)
    made = [read(one, f"{where} {number}", problems) for number, one in enumerate(cast(list[object], value), 1)]
    return made if len(problems.found) == before else None


def reader_of(kind: Any) -> Reader:
    """Return a reader for values of a plain data type."""

    def read(value: object, where: str, problems: TableProblems) -> Any:
        try:
            return convert(value, kind)
        except msgspec.ValidationError as error:
            message, _, inside = str(error).partition(" - at `$")
        match = _EXPECTED.match(message)
        if match is None:
            choices = ", ".join(_choices(kind))
            wanted = f"one of {choices}" if choices else _FORMS.get(message, "a value of another form")
        elif match["least"]:
            wanted = f"{match['least']} or more"
        else:
            wanted = " or ".join(_WORDS.get(one, one) for one in match["wanted"].split(" | ") if one != "null")
        problems.add("", f"{where}{inside.rstrip('`')}: expected {wanted}, was {value!r:.100}; correct it")
        return None

    return read


def read_path(value: object, where: str, problems: TableProblems) -> Path | None:
    """Return the absolute path of a path relative to the table's directory."""
    found = reader_of(str)(value, where, problems)
    return None if found is None else problems.place(found)


def attempt(make: Callable[[], MadeT], where: str, problems: Problems) -> MadeT | None:
    """Return the result of a function; None, with the problem added, if it refuses its input."""
    try:
        return make()
    except (OrchestratorError, OSError, ValueError) as error:
        said = str(error)
        problems.add(where, said.removeprefix(f"{error.kind}: ") if isinstance(error, FeatureError) else said)
        return None


def place_beside(path: str, beside: Path) -> Path:
    """Return the absolute path of a path relative to a directory."""
    return beside.absolute() / Path(path).expanduser()


def _choices(hint: Any) -> list[str]:
    """Return the strings that a type allows."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [str(member) for member in hint]
    return [hint] if isinstance(hint, str) else [text for part in get_args(hint) for text in _choices(part)]


def _parameters(make: Callable[..., object]) -> dict[str, tuple[Any, bool]]:
    """Return the type of each parameter and whether it is required, including parameters that are passed on."""
    plain = not isinstance(make, type) or attrs.has(make)
    hints = get_type_hints(make if plain else cast(Any, make).__init__)
    found: dict[str, tuple[Any, bool]] = {}
    for name, parameter in inspect.signature(make).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            found |= {key: (hint, False) for key, hint in get_type_hints(get_args(hints[name])[0]).items()}
        else:
            found[name] = hints.get(name), parameter.default is inspect.Parameter.empty
    return found


def _join_key(where: str, key: str) -> str:
    return f"{where}: {key}" if where else key


def call(function: str, arguments: dict[str, Any] | None = None) -> Any:
    """Return the result of a function; return an object that is not callable as it is.

    Args:
        function: its location, `package.module:name`.
        arguments: keyword arguments.

    Raises:
        HarnessMisuse: there is no such function, or it raised an exception.
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
        raise HarnessMisuse(f"function {function} failed: {type(error).__name__}: {error}; correct it") from error


def check_arguments(make: Callable[..., object], arguments: Mapping[str, object], where: str, problems: TableProblems) -> None:
    """Add a problem for each argument that is not of the type which the function says for it."""
    try:
        types = _parameters(make)
    except (NameError, TypeError, ValueError):
        return  # types that cannot be found say nothing
    for key, value in arguments.items():
        kind, _ = types.get(key, (None, False))
        if kind is None or isinstance(value, kind if isinstance(kind, type) else ()):
            continue
        try:
            reader_of(kind)(value, _join_key(where, key), problems)
        except TypeError:
            continue  # not a type of plain data


FUNCTION = Kind(call, "function", reader_of(str))
"""A table with `function` and its `arguments`, for values that need Python code."""
