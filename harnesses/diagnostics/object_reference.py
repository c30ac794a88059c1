"""Object references, `package.module:attribute`: imports them, and explains in one line why one cannot be imported.

Modules are searched as in Python's import. The caller adds the remedy to a message.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from harnesses.diagnostics.author_frames import author_line, near
from harnesses.errors import HarnessMisuse, OrchestratorError, one_of

_MOST_NAMES = 8


def load_object(reference: str, words: Iterable[str] = ()) -> Any:
    """Import the object that a reference names.

    Args:
        words: other values that are allowed instead of a reference, for the message.

    Raises:
        HarnessMisuse: it is malformed, its module cannot be imported, or the attribute does not exist.
    """
    module, _, path = reference.partition(":")
    if not module or not path or not all(map(str.isidentifier, reference.replace(":", ".").split("."))):
        wanted = " or ".join(['"package.module:attribute"', *map(repr, words)])
        raise HarnessMisuse(f"expected {wanted}, got {reference!r:.100}")
    try:
        found: Any = _imported(module, path.partition(".")[0])
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and type(error) is not SystemExit:
            raise  # A signal that ends the program.
        raise HarnessMisuse(loading_trouble(module, error)) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise HarnessMisuse(f"{module} has no {path!r}: {_public(found)}")
        found = getattr(found, part)
    return found


def _imported(module: str, attribute: str) -> Any:
    """Import a module, or the nearest package above a renamed module of ours: stores keep references for years."""
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
    """Return in one line why a module or file could not be loaded, or an object could not be made from it."""
    if isinstance(error, OrchestratorError):
        return f"{subject}: {error}"
    if isinstance(error, ModuleNotFoundError):
        missing = f"there is no module {error.name!r}: expected it beside the file, in the working directory, or installed"
        return missing if error.name == subject else f"{subject}: {missing}"
    if isinstance(error, SyntaxError):
        place = f"{near(error.filename or subject)}:{error.lineno or 0}"
        return f"{subject} is not valid Python: {error.msg} at {place}"
    line = author_line(error)
    return f"{subject} could not be loaded: {type(error).__name__}: {error}{line and f' ({line})'}"


def _public(found: Any) -> str:
    named = ((name, getattr(found, name, None)) for name in dir(found) if not name.startswith("_"))
    home = getattr(found, "__name__", None)
    names = sorted(name for name, value in named if getattr(value, "__module__", home) == home)
    return one_of(names[:_MOST_NAMES], "it has nothing public")
