"""Walls around a command that judges: the machine read-only, nothing of the run, a private /tmp, no network."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from harnesses.agents.sandbox import Bubblewrap


def within_walls(command: Sequence[str], directory: Path) -> list[str]:
    """Return the command that runs another in walls, in a directory which is read-only too."""
    return Bubblewrap().wrap(command, directory, readable=_below_tmp(), read_only=True)


@cache
def _below_tmp() -> tuple[str, ...]:
    """Return where programs are that the private /tmp would hide."""
    path = [os.path.realpath(one) for one in os.environ.get("PATH", "").split(os.pathsep) if one]
    places = [os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), *path]
    return tuple(dict.fromkeys(one for one in places if one.startswith("/tmp/") and os.path.isdir(one)))


def has_walls() -> bool:
    """Return whether bubblewrap is installed, and works here."""
    return Bubblewrap().works()
