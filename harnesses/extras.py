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
        NotReady: it is not installed. A harness that lets it pass is blocked until somebody has installed it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise NotReady(
            f"{what} needs {module.partition('.')[0]}, which is not installed: expected the extra `{extra}`; "
            f"run `pip install 'harness-orchestrator[{extra}]'`{instead and f', or {instead}'}"
        ) from error
