"""What only code can say, in a table: `{ function = "package.module:name", arguments = { … } }`.

The module is looked for where Python looks for modules; a run file's own folder comes first.
"""

from __future__ import annotations

from typing import Any

from harnesses.errors import HarnessMisuse
from harnesses.object_reference import load_object


def called(function: str, arguments: dict[str, Any] | None = None) -> Any:
    """Return what a function returns; a thing that can not be called is returned as it is.

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
