"""What only code can say, in a table: `{ function = "package.module:name", arguments = { … } }`.

The module is looked for where Python looks for modules; a run file's own folder comes first.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from harnesses.errors import HarnessMisuse


def called(function: str, arguments: dict[str, Any] | None = None) -> Any:
    """Return what a function returns; a thing that can not be called is returned as it is.

    Args:
        function: where it is found, `package.module:name`.
        arguments: what it is called with, by the names of its parameters.

    Raises:
        HarnessMisuse: there is no such function, or it has raised.
    """
    module_name, _, name = function.partition(":")
    if not module_name or not name:
        raise HarnessMisuse(f"function: expected 'package.module:name', got {function!r:.100}; correct it")
    found = _found(module_name, name)
    if not callable(found):
        return found
    try:
        return found(**(arguments or {}))
    except Exception as error:
        raise HarnessMisuse(f"function {function} has failed: {type(error).__name__}: {error}; correct it") from error


def _found(module_name: str, name: str) -> Any:
    try:
        found: Any = import_module(module_name)
    except Exception as error:
        raise HarnessMisuse(
            f"function: module {module_name!r} can not be imported: {type(error).__name__}: {error}; expected it beside the "
            "file, in the working directory, or installed"
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise HarnessMisuse(f"function: {module_name} has no {name!r}: expected a function in it; correct the name")
        found = getattr(found, part)
    return found
