"""Walls around a command: all of the machine read-only, a private /tmp, no network. Bubblewrap makes them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path


def within_walls(command: Sequence[str], directory: Path) -> list[str]:
    """Return the command that runs another where all of the machine is read-only, /tmp is private, and there is no network."""
    wall = ["bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--cap-drop"]
    wall += ["ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run"]
    place = str(directory)
    for path in _below_tmp():
        wall += ["--ro-bind", path, path]
    return [*wall, "--ro-bind", place, place, "--setenv", "TMPDIR", "/tmp", "--chdir", place, "--", *command]


@cache
def _below_tmp() -> tuple[str, ...]:
    """Return where programs are that the private /tmp would hide."""
    path = [os.path.realpath(one) for one in os.environ.get("PATH", "").split(os.pathsep) if one]
    places = [os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), *path]
    return tuple(dict.fromkeys(one for one in places if one.startswith("/tmp/") and os.path.isdir(one)))


@cache
def has_walls() -> bool:
    """Return whether bubblewrap is installed, and works here."""
    if shutil.which("bwrap") is None:
        return False
    tried = within_walls(["true"], Path(tempfile.gettempdir()) / "..")
    try:
        return subprocess.run(tried, capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
