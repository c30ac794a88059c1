"""Objects by their reference, `package.module:attribute`, and what is wrong with one, in a line.

The module is looked for where Python looks for modules. What is to be done about a mistake is for whoever has the reference.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from harnesses.diagnostics.author_frames import near, place_of
from harnesses.errors import HarnessMisuse, OrchestratorError, one_of

_MOST_NAMES = 8


def load_object(reference: str, words: Iterable[str] = ()) -> Any:
    """Return what a reference names.

    Args:
        words: what else may be written in its place.

    Raises:
        HarnessMisuse: it is none, its module cannot be imported, or there is no such attribute.
    """
    module, _, path = reference.partition(":")
    if not module or not path or not all(map(str.isidentifier, reference.replace(":", ".").split("."))):
        wanted = " or ".join(['"package.module:attribute"', *map(repr, words)])
        raise HarnessMisuse(f"expected {wanted}, was {reference!r:.100}")
    try:
        found: Any = _imported(module, path.partition(".")[0])
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and type(error) is not SystemExit:
            raise  # a signal that ends the program
        raise HarnessMisuse(loading_trouble(module, error)) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise HarnessMisuse(f"{module} has no {path!r}: {_public(found)}")
        found = getattr(found, part)
    return found


def _imported(module: str, attribute: str) -> Any:
    """Import a module, or the nearest package above one of ours that has moved: stores keep references for years."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.rpartition(".")[0]
        if error.name is None or not f"{module}.".startswith(f"{error.name}.") or not package.startswith("harnesses."):
            raise
        found = _imported(package, attribute)
        if not hasattr(found, attribute):
            raise
        return found


def loading_trouble(subject: str, error: BaseException) -> str:
    """Return in a line why a module, a file or what it makes could not be loaded."""
    if isinstance(error, OrchestratorError):
        return f"{subject}: {error}"
    if isinstance(error, ModuleNotFoundError):
        missing = f"there is no module {error.name!r}: expected it beside the file, in the working directory, or installed"
        return missing if error.name == subject else f"{subject}: {missing}"
    if isinstance(error, SyntaxError):
        place = f"{near(error.filename or subject)}:{error.lineno or 0}"
        return f"{subject} is not valid Python: {error.msg} at {place}"
    return f"{subject} could not be loaded: {type(error).__name__}: {error} ({place_of(error)})"


def _public(found: Any) -> str:
    named = ((name, getattr(found, name, None)) for name in dir(found) if not name.startswith("_"))
    home = getattr(found, "__name__", None)
    names = sorted(name for name, value in named if getattr(value, "__module__", home) == home)
    return one_of(names[:_MOST_NAMES], "it has nothing public")
