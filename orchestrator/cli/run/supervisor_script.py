"""Python files that the command runs: supervisor scripts, and programs.

supervisor script    has `async def supervise(orchestrator)`, and is given an orchestrator that is open
program              has none, and begins at `if __name__ == "__main__":`; it makes an orchestrator of its own, which takes
                     orders from outside unless the program, or the environment, says otherwise
"""

from __future__ import annotations

import ast
import inspect
import os
import runpy
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from orchestrator.cli.run.code_loading import find_modules_in, load_script
from orchestrator.control.run_services import CONTROL_VARIABLE
from orchestrator.errors import UsageError
from orchestrator.orchestrator import Orchestrator

Supervise: TypeAlias = Callable[[Orchestrator], Awaitable[None]]


def is_program(path: Path) -> bool:
    """Return whether a Python file is a program: it has no `supervise`, and something to do as `__main__`. It is not run."""
    try:
        module = ast.parse(path.read_bytes(), str(path))
    except (OSError, SyntaxError, ValueError):
        return False
    names = {name for statement in module.body for name in _names(statement)}
    return "__main__" in names and not names & {"supervise", "*"}


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
