"""Optional packages (extras) of this project, and the command that installs one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from harnesses.errors import NotReady

DISTRIBUTION = "durable-harnesses"
"""The distribution name on PyPI."""


def own_version() -> str:
    """Return the installed version of this project; empty where it runs from its sources."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return ""


def install_command(extra: str = "") -> str:
    """Return the `pip` command that installs this project, optionally with an extra.

    It names the checkout or file that it was installed from, this checkout if it is not installed, or else the distribution.
    """
    project, flag = _installed_from() if own_version() else (str(Path(__file__).parents[2]), "")
    named = f"'{project}[{extra}]'" if extra else f"--upgrade '{project}'"
    return f"python -m pip install {flag}{named}"


def _installed_from() -> tuple[str, str]:
    """Return what this project was installed from, and the flag of an editable installation. See PEP 610."""
    from importlib.metadata import distribution

    found: Any = msgspec.json.decode(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    url: str = found.get("url", "")
    is_editable = found.get("dir_info", {}).get("editable", False)
    return (unquote(urlsplit(url).path), "-e " if is_editable else "") if url.startswith("file:") else (DISTRIBUTION, "")


def load_extra(module: str, extra: str, what: str, instead: str = "") -> Any:
    """Import and return a module of a package that is only installed with an extra.

    Args:
        what: what needs the package, for the error.
        instead: an alternative for the error, such as "use CSV".

    Raises:
        NotReady: the package is not installed, or cannot be imported. A harness that does not catch it is blocked until the
            package is installed.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        is_missing = (error.name or "").partition(".")[0] == package and isinstance(error, ModuleNotFoundError)
        why = "is not installed" if is_missing else f"cannot be imported ({error})"
        raise NotReady(
            f"{what} needs {package}, which {why}: expected the extra `{extra}`; "
            f"run `{install_command(extra)}`{instead and f', or {instead}'}"
        ) from error
