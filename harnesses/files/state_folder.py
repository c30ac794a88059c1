"""The folder for data that outlives a program and belongs to no store."""

from __future__ import annotations

import os
from pathlib import Path

_NAME = "durable-harnesses"
_EARLIER_NAME = "harness-orchestrator"


def state_folder() -> Path:
    """Return the state folder, which may not exist yet: below `XDG_STATE_HOME`, or `~/.local/state`.

    An existing folder under the project's earlier name is used as it is.
    """
    root = os.environ.get("XDG_STATE_HOME", "")
    # A relative path must be ignored. Source: XDG Base Directory Specification.
    base = Path(root) if root.startswith("/") else Path.home() / ".local" / "state"
    earlier = base / _EARLIER_NAME
    return earlier if earlier.is_dir() else base / _NAME
