"""The processor cores that this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Return how many cores this process may use, at least 1; on macOS, which does not say, how many there are."""
    if hasattr(os, "sched_getaffinity"):
        return max(len(os.sched_getaffinity(0)), 1)
    return os.cpu_count() or 1
