"""Loading a user's code, and telling in one line what is wrong with it; and the Python files that the command runs:

supervisor script    has `async def supervise(orchestrator)`, and is given an orchestrator that is open
program              has none, and begins at `if __name__ == "__main__":` or calls `trio.run(…)`; it makes an orchestrator of
                     its own, which takes orders from outside unless the program, or the environment, says otherwise
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import re
import runpy
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from harnesses.diagnostics.object_reference import load_object, loading_trouble
from harnesses.diagnostics.uncaught_errors import line_of
from harnesses.errors import HarnessMisuse
from orchestrator.cli.exit_codes import EndedBySignal
from orchestrator.cli.run.ready_made import READY_MADE
from orchestrator.control.run_services import CONTROL_VARIABLE
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.orchestrator import Orchestrator


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
        raise UsageError(f"{where}: {line_of(error)}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"{loading_trouble(where, error)}; correct it") from error


_RUNNERS = frozenset(("trio.run", "anyio.run", "asyncio.run", "trio_asyncio.run"))
Supervise: TypeAlias = Callable[[Orchestrator], Awaitable[None]]


def is_program(path: Path) -> bool:
    """Return whether a Python file is a program: it has no `supervise`, and something to do as `__main__`. It is not run."""
    try:
        module = ast.parse(path.read_bytes(), str(path))
    except (OSError, SyntaxError, ValueError):
        return False
    names = {name for statement in module.body for name in _names(statement)}
    return ("__main__" in names or any(map(_runs, module.body))) and not names & {"supervise", "*"}


def _runs(statement: ast.stmt) -> bool:
    """Return whether a statement of a module, outside of functions and classes, calls `trio.run` or its like."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(ast.unparse(call.func) in _RUNNERS for call in calls)


def _names(statement: ast.stmt) -> list[str]:
    """Return the names that a statement of a module gives; `__main__` for what is done by that name alone."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [one.asname or one.name for one in names]
        case ast.Assign(targets=targets):
            return [one.id for one in targets if isinstance(one, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"), comparators=[ast.Constant(value="__main__")])):
            return ["__main__"]
        case _:
            return []


def run_program(path: Path, arguments: Sequence[str]) -> None:
    """Run a program, as Python itself would, with control on where nobody says otherwise. What it raises is raised.

    Args:
        arguments: its own.
    """
    os.environ.setdefault(CONTROL_VARIABLE, "1")
    sys.argv[:] = [str(path), *arguments]
    find_modules_in(path.parent)
    runpy.run_path(str(path), run_name="__main__")


def read_script(path: Path) -> Supervise:
    """Load a supervisor script and return its `supervise`.

    Raises:
        UsageError: it cannot be loaded, or has no such function.
    """
    find_modules_in(path.parent, Path.cwd())
    return _supervise(path, load_script(path))


def _supervise(path: Path, module: ModuleType) -> Supervise:
    supervise: Any = getattr(module, "supervise", None)
    expected = "expected `async def supervise(orchestrator)`"
    if supervise is None:
        raise UsageError(f"{path} has no function supervise: {expected}; add it")
    if not inspect.iscoroutinefunction(supervise):
        raise UsageError(f"{path}: supervise is {_kind(supervise)}: {expected}; change it")
    try:
        inspect.signature(supervise).bind(object())
    except TypeError as error:
        raise UsageError(f"{path}: supervise cannot be called with the orchestrator: {expected}, {error}; change it") from None
    return supervise  # type: ignore[no-any-return]


def _kind(value: object) -> str:
    if inspect.isasyncgenfunction(value):
        return "an async generator, for it has a `yield`"
    return "a plain function" if inspect.isfunction(value) else f"a {type(value).__name__}"
