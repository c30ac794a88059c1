"""Whether the files that a program writes are still those which others find under their names.

A file that was deleted or replaced can be written to as before: everything succeeds, and nothing of it will ever be read.
"""

from __future__ import annotations

import os
from pathlib import Path

from orchestrator.errors import StoreUnusable

_ENDS = ("", "-wal", "-shm")


class Presence:
    """The files of one store, as they were when it was opened. What was not there then is not looked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = {file: known for end in _ENDS if (known := _identity(file := f"{path}{end}")) is not None}

    def check(self) -> None:
        """Return if all are there. Three calls to the system, of a microsecond each.

        Raises:
            StoreUnusable: one is not, or is another.
        """
        for file, known in self._known.items():
            try:
                found = _identity(file)
            except OSError:  # it cannot be looked at, which says nothing
                continue
            if found != known:
                raise StoreUnusable(
                    f"{file} was {'deleted or moved' if found is None else 'replaced'} while it was being written to: "
                    f"expected the file that was opened; what was recorded since is lost; put {self._path} back, from a copy "
                    "if need be, and start again"
                )


def _identity(file: str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino
