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
from contextlib import suppress
from pathlib import Path

from attrs import field, frozen

from harnesses.files.safe_files import make_key

_lock = threading.Lock()
_concealed: Counter[tuple[str, str]] = Counter()
"""Folder and name; an empty name stands for all that is in the folder."""
_keys: Counter[tuple[str, str]] = Counter()


@frozen
class Concealed:
    """What is concealed until `reveal`, which may be called again."""

    _key: tuple[str, str]
    _among: Counter[tuple[str, str]] = field(repr=False)
    _held: list[bool] = field(factory=lambda: [True], repr=False)

    def reveal(self) -> None:
        """Have it concealed no longer, unless somebody else conceals it too."""
        with _lock:
            if self._held.pop() if self._held else False:
                self._among[self._key] -= 1
                if not self._among[self._key]:
                    del self._among[self._key]


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


def conceal_key(path: Path | str) -> Concealed:
    """Conceal a key also from commands outside of a sandbox, as far as the system can: see `harnesses.processes.reaper`."""
    return _conceal(os.path.split(os.path.realpath(path)), _keys)


def concealed_keys() -> tuple[str, ...]:
    """Return the files of keys, each of them there: what is not there cannot be hidden, so it is made.

    Those that can be neither made nor found are left out.
    """
    with _lock:
        paths = [os.path.join(*key) for key in _keys]
    for path in paths:
        with suppress(OSError):
            make_key(Path(path))
    return tuple(sorted(path for path in paths if os.path.isfile(path)))


def is_concealed(name: str, names: frozenset[str]) -> bool:
    """Return whether a file is concealed, given the concealed names of its folder."""
    return any(not one or name == one or name.startswith((f"{one}-", f"{one}.")) for one in names)


def _conceal(key: tuple[str, str], among: Counter[tuple[str, str]] = _concealed) -> Concealed:
    with _lock:
        among[key] += 1
    return Concealed(key, among)
