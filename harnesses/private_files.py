"""Which files of this program nobody in a sandbox is to see: stores with all that lies beside them, keys, logs, workspaces.

Whoever opens such a file conceals it, and reveals it when it is closed; `harnesses.agents.sandbox` hides what is concealed at
that time. With a file all are concealed that are called after it, `run.db-key` and `run.db.control-…`, those as well that are
made later or replaced.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

_lock = threading.Lock()
_concealed: Counter[tuple[str, str]] = Counter()
"""Folder and name; an empty name stands for all that is in the folder."""


@frozen
class Concealed:
    """What is concealed until `reveal`, which may be called again."""

    _key: tuple[str, str]
    _held: list[bool] = field(factory=lambda: [True], repr=False)

    def reveal(self) -> None:
        """Have it concealed no longer, unless somebody else conceals it too."""
        with _lock:
            if self._held.pop() if self._held else False:
                _concealed[self._key] -= 1
                if not _concealed[self._key]:
                    del _concealed[self._key]


def conceal_file(path: Path | str) -> Concealed:
    """Conceal a file and those beside it that are called after it: its name, and more behind a dot or a dash."""
    return _conceal(os.path.split(os.path.realpath(path)))


def conceal_folder(path: Path | str) -> Concealed:
    """Conceal all that is in a folder."""
    return _conceal((os.path.realpath(path), ""))


def concealed_names() -> Mapping[str, frozenset[str]]:
    """Return what is concealed, names by folder; see `is_concealed`."""
    names: dict[str, set[str]] = {}
    with _lock:
        for folder, name in _concealed:
            names.setdefault(folder, set()).add(name)
    return {folder: frozenset(found) for folder, found in names.items()}


def is_concealed(name: str, names: frozenset[str]) -> bool:
    """Return whether a file is concealed, given the concealed names of its folder."""
    return any(not one or name == one or name.startswith((f"{one}-", f"{one}.")) for one in names)


def _conceal(key: tuple[str, str]) -> Concealed:
    with _lock:
        _concealed[key] += 1
    return Concealed(key)
