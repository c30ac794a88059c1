"""Packages that import what they export when it is asked for, so that importing a part of one does not import all of it.

A package lists its exports twice, for type checkers and by name; a test holds the two lists together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec


def lazy(package: str, exports: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package (PEP 562).

    Modules of the package are attributes of it too, as they are after an import of all exports.

    Args:
        exports: by module, the names that the package exports from it, separated by spaces.
    """
    modules = {name: module for module, names in exports.items() for name in names.split()}

    def get(name: str) -> object:
        if name in modules:
            found = getattr(import_module(modules[name]), name)
        elif not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            found = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names
