"""Packages that come with an extra of this project."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from harnesses.errors import NotReady


def load_extra(module: str, extra: str, what: str, instead: str = "") -> Any:
    """Return a module of a package that is only installed with an extra.

    Args:
        what: needs it, for the error.
        instead: what may be done instead, such as "use CSV".

    Raises:
        NotReady: it is not installed, or lacks something itself. A harness that lets it pass is blocked until somebody has
            installed it.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        is_missing = (error.name or "").partition(".")[0] == package and isinstance(error, ModuleNotFoundError)
        why = "is not installed" if is_missing else f"cannot be imported ({error})"
        raise NotReady(
            f"{what} needs {package}, which {why}: expected the extra `{extra}`; "
            f"run `pip install 'harness-orchestrator[{extra}]'`{instead and f', or {instead}'}"
        ) from error
