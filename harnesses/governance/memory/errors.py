"""What a memory raises. Pure."""

from __future__ import annotations

from harnesses.errors import HarnessError


class MemoryUnusable(HarnessError):
    """The file of a memory, or its key, can not be used: it is no memory, torn, locked, or not to be written."""
