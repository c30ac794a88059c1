"""Loading a user's code, and telling in one line what is wrong with it."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from harnesses.diagnostics.object_reference import load_object, loading_trouble
from harnesses.errors import HarnessMisuse
from orchestrator.cli.exit_codes import EndedBySignal
from orchestrator.cli.run.ready_made import READY_MADE
from orchestrator.errors import OrchestratorError, UsageError


def find_modules_in(*folders: Path) -> None:
    """Have imports look in these folders first, in this order."""
    wanted = [str(folder.resolve()) for folder in folders]
    sys.path[:] = [*dict.fromkeys(wanted), *(entry for entry in sys.path if entry not in wanted)]


def load_script(path: Path) -> ModuleType:
    """Run a Python file as a module of its own name, and return it.

    Raises:
        UsageError: it cannot be read, is not Python, or raised an error.
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
    call_guarded(str(path), lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
    return module


def load_attribute(where: str, reference: str, *, option: str = "harness") -> Any:
    """Return what `package.module:attribute` names, or the word for a ready-made one.

    Args:
        option: of the table, that says so.

    Raises:
        UsageError: it is not of that form, or there is no such thing.
    """
    words = READY_MADE if option == "harness" else {}
    try:
        return load_object(words.get(reference, reference), words)
    except HarnessMisuse as error:
        raise UsageError(f"{where}: {option}: {error}; correct it") from error


def call_guarded(where: str, call: Callable[[], Any]) -> Any:
    """Return what a call of the user's code returns.

    Raises:
        UsageError: it raised; the message has the place.
    """
    try:
        return call()
    except EndedBySignal:
        raise
    except OrchestratorError as error:
        raise UsageError(f"{where}: {error}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"{loading_trouble(where, error)}; correct it") from error
