"""A supervisor script: a Python file with `async def supervise(orchestrator)`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from orchestrator.command.loading import find_modules_in, load_script
from orchestrator.errors import UsageError
from orchestrator.orchestrator import Orchestrator

Supervise: TypeAlias = Callable[[Orchestrator], Awaitable[None]]


def read_script(path: Path) -> Supervise:
    """Load a supervisor script and return its `supervise`.

    Raises:
        UsageError: it can not be loaded, or has no such function.
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
        raise UsageError(
            f"{path}: supervise can not be called with the orchestrator: {expected}, {error}; change it"
        ) from None
    return supervise  # type: ignore[no-any-return]


def _kind(value: object) -> str:
    if inspect.isasyncgenfunction(value):
        return "an async generator, for it has a `yield`"
    return "a plain function" if inspect.isfunction(value) else f"a {type(value).__name__}"
