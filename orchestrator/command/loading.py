"""Loading a user's code, and telling in one line what is wrong with it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from orchestrator.command.exits import EndedBySignal
from orchestrator.command.ready_made import READY_MADE
from orchestrator.errors import OrchestratorError, UsageError


def find_modules_in(*folders: Path) -> None:
    """Have imports look in these folders first, in this order."""
    wanted = [str(folder.resolve()) for folder in folders]
    sys.path[:] = [*dict.fromkeys(wanted), *(entry for entry in sys.path if entry not in wanted)]


def load_script(path: Path) -> ModuleType:
    """Run a Python file as a module of its own name, and return it.

    Raises:
        UsageError: it can not be read, is not Python, or raised an error.
    """
    name = re.sub(r"\W", "_", path.stem)
    if name in sys.modules:
        name = f"script_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Registered first, as `import` does: dataclasses and pickle look their module up.
    sys.modules[name] = module
    guarded(str(path), lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
    return module


def load_attribute(where: str, reference: str, *, option: str = "harness") -> Any:
    """Return what `package.module:attribute` names, or the word for a ready-made one.

    Args:
        option: of the table, that says so.

    Raises:
        UsageError: it is not of that form, or there is no such thing.
    """
    reference = READY_MADE.get(reference, reference) if option == "harness" else reference
    module_name, _, attribute = reference.partition(":")
    if not module_name or not attribute or not all(map(str.isidentifier, reference.replace(":", ".").split("."))):
        ready = f" or {' or '.join(map(repr, READY_MADE))}" if option == "harness" else ""
        raise UsageError(f'{where}: {option}: expected "package.module:attribute"{ready}, was {reference!r}; correct it')
    found: Any = guarded(where, lambda: importlib.import_module(module_name))
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{where}: {module_name} has no {attribute!r}: expected one of {_public(found)}; correct it")
        found = getattr(found, part)
    return found


def guarded(where: str, call: Callable[[], Any]) -> Any:
    """Return what a call of the user's code returns.

    Raises:
        UsageError: it raised; the message has the place.
    """
    try:
        return call()
    except EndedBySignal:
        raise
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{where}: there is no module {error.name!r}: expected it beside the file, in the working directory, "
            "or installed; install it, or correct the name"
        ) from error
    except SyntaxError as error:
        place = f"{_near(error.filename or where)}:{error.lineno or 0}"
        raise UsageError(f"{where} is not valid Python: {error.msg} at {place}; correct it") from error
    except OrchestratorError as error:
        raise UsageError(f"{where}: {error}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{where} could not be loaded: {type(error).__name__}: {error} ({_place(error)}); correct it"
        ) from error


def _place(error: BaseException) -> str:
    """Return the innermost place that is no part of Python's import machinery."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    ours = os.path.dirname(__file__)
    users = [frame for frame in frames if os.path.dirname(frame.filename) != ours] or frames
    return f"{_near(users[-1].filename)}:{users[-1].lineno}"


def _near(filename: str) -> str:
    """Return a path relative to the working directory where it lies in there."""
    relative = os.path.relpath(filename)
    return filename if relative.startswith("..") else relative


def _public(found: Any) -> str:
    named = ((name, getattr(found, name, None)) for name in dir(found) if not name.startswith("_"))
    home = getattr(found, "__name__", None)
    names = sorted(name for name, value in named if getattr(value, "__module__", home) == home)
    return ", ".join(names[:8]) or "nothing"
