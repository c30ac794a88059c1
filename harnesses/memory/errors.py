"""What a memory raises. Pure."""

from __future__ import annotations

from harnesses.errors import HarnessError, NotReady


class MemoryUnusable(HarnessError):
    """The file of a memory, or its key, cannot be used: it is no memory, torn, locked, or not to be written."""


class EmbedderMissing(MemoryUnusable, NotReady):
    """The package that says what texts mean is not installed."""
