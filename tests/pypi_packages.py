"""Packages of PyPI that tests run as programs of their own: installed once, each version in a folder in the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

_PATIENCE_S = 300


@cache
def pypi_package(name: str, version: str) -> Path:
    """Return the folder of a package with all that it depends on, for `PYTHONPATH`; install it if it is missing.

    Skips the test where it cannot be installed.
    """
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "durable-harnesses" / "pypi"
    cache_folder.mkdir(parents=True, exist_ok=True)
    whole = cache_folder / f"{name}=={version}-{sys.version_info.major}.{sys.version_info.minor}"
    with (cache_folder / "lock").open("w") as lock:  # test processes may install side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            _install(f"{name}=={version}", whole)
    return whole


def _install(package: str, whole: Path) -> None:
    draft = whole.with_name(f"{whole.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--target", str(draft), package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"pip has not installed {package} within {_PATIENCE_S} s")
    if done.returncode != 0:
        pytest.skip(f"pip cannot install {package}: {done.stderr.strip()[-200:]}")
    draft.rename(whole)
