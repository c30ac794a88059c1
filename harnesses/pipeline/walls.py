"""Walls around a command that judges: the machine read-only, nothing of the run, a private /tmp, no network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from harnesses.agents.sandbox import Bubblewrap, programs_below_tmp


def within_walls(command: Sequence[str], directory: Path) -> list[str]:
    """Return the command that runs another in walls, in a directory which is read-only too."""
    return Bubblewrap().wrap(command, directory, readable=programs_below_tmp(os.environ.get("PATH", "")), read_only=True)


def has_walls() -> bool:
    """Return whether bubblewrap is installed, and works here."""
    return Bubblewrap().works()
