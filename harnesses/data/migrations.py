"""Versions of state classes, and the migrations from one version to the next. Pure.

    @frozen
    class Account:
        schema_version: ClassVar[int] = 2
        sum: int = 0

    @migrates(Account, from_version=1)
    def rename_total(stored: dict[str, Any]) -> dict[str, Any]:
        return {"sum": stored["total"]}

A class without `schema_version` has version 1. Migrations take and return plain JSON data. Each one leads to the next version,
and a stored state passes through all of them from its own version on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from harnesses.data.values import fields_of
from harnesses.errors import HarnessMisuse

Migration: TypeAlias = Callable[[Any], Any]
"""Converts the plain data of a state to that of the next version."""
MigrationT = TypeVar("MigrationT")

_MARK = "__migrates_from_version__"
_registered: WeakKeyDictionary[type, dict[int, Migration]] = WeakKeyDictionary()


def migrates(state_class: type | None = None, /, *, from_version: int) -> Callable[[MigrationT], MigrationT]:
    """Register a function that converts a stored state of `from_version` to the next version.

    Args:
        state_class: the state class; omit it inside the body of the class, where the function may be a static method, a class
            method, or a plain function of the stored data.
        from_version: version of the function's argument, from 1.

    Raises:
        HarnessMisuse: the version is invalid, or the class already has a migration from it.
    """
    if not isinstance(cast(object, from_version), int) or isinstance(from_version, bool) or from_version < 1:
        raise HarnessMisuse(f"migrates: from_version: expected a whole number from 1 up, got {from_version!r:.100}")
    if state_class is not None and not isinstance(cast(object, state_class), type):
        raise HarnessMisuse(f"migrates: expected a state class, got {state_class!r:.100}; write @migrates(from_version=1)")

    def register(function: MigrationT) -> MigrationT:
        if state_class is None:
            setattr(getattr(function, "__func__", function), _MARK, from_version)
            return function
        known = _registered.setdefault(state_class, {})
        if from_version in known:
            raise HarnessMisuse(_twice(state_class, from_version))
        known[from_version] = cast(Migration, getattr(function, "__func__", function))
        return function

    return register


def version_of(state_class: Any) -> int:
    """Return the version of a state class: its `schema_version`, or 1 without one.

    Raises:
        HarnessMisuse: it is not a whole number from 1 up.
    """
    names = fields_of(state_class) if isinstance(state_class, type) else None
    if names is None or "schema_version" in names:  # A field of that name is part of the state.
        return 1
    version = getattr(state_class, "schema_version", 1)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise HarnessMisuse(f"{called(state_class)}.schema_version: expected a whole number from 1 up, got {version!r:.100}")
    return version


def migrations_of(state_class: Any) -> Mapping[int, Migration]:
    """Return the migrations of a class and its base classes, by the version they start from.

    Raises:
        HarnessMisuse: a class has two migrations from the same version.
    """
    found: dict[int, Migration] = {}
    for cls in getattr(state_class, "__mro__", ()):
        own: dict[int, Migration] = dict(_registered.get(cls, {}))
        for from_version, value in _marked_in(cls):
            if from_version in own:
                raise HarnessMisuse(_twice(cls, from_version))
            own[from_version] = _bound(value, state_class)
        found = {**own, **found}
    return found


@cache
def _marked_in(cls: type) -> tuple[tuple[int, Any], ...]:
    """Return the migrations in the body of a class, and the versions they start from; each harness that starts asks."""
    of = [(getattr(getattr(value, "__func__", value), _MARK, None), value) for value in cast(Any, vars(cls)).values()]
    return tuple((start, value) for start, value in of if start is not None)


def called(cls: Any) -> str:
    """Return the name of a class as written in its source."""
    return str(getattr(cls, "__qualname__", cls)).rpartition("<locals>.")[2]


def _bound(value: Any, state_class: type) -> Migration:
    """Return the migration as a function of the stored data alone."""
    if isinstance(value, staticmethod | classmethod):
        return cast(Migration, cast(Any, value).__get__(None, state_class))
    positional = [
        one
        for one in inspect.signature(value).parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty
    ]
    if len(positional) == 2:
        return lambda stored: value(state_class, stored)
    return cast(Migration, value)


def _twice(cls: type, from_version: int) -> str:
    return f"{called(cls)}: two migrations from version {from_version}: expected one; remove the other"
