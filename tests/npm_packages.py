"""npm packages that tests use: installed once, each version in a folder of its own in the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

_PATIENCE_S = 300


def cache_folder() -> Path:
    """Return the folder in which the tests keep what they install."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "durable-harnesses"


@cache
def npm_package(name: str, version: str, *options: str) -> Path:
    """Return the folder of a package; install it if it is missing. What it depends on is beside it, in `node_modules`.

    Args:
        options: of `npm install`; and further packages to install beside it.

    Skips the test where Node.js or npm is missing, or the package cannot be installed.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip(f"{name} needs node and npm, which are not installed")
    place = npm_place(name, version)
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock:  # test processes may install side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            _install(f"{name}@{version}", place, options)
    return place / "node_modules" / name


def npm_place(name: str, version: str) -> Path:
    """Return where a package is once it is installed."""
    return cache_folder() / "npm" / f"{name.replace('/', '+')}@{version}"


def _install(package: str, whole: Path, options: Sequence[str]) -> None:
    draft = whole.with_name(f"{whole.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(draft), package, *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm has not installed {package} within {_PATIENCE_S} s")
    if done.returncode != 0:
        pytest.skip(f"npm cannot install {package}: {done.stderr.strip()[-200:]}")
    draft.rename(whole)
