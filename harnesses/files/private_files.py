"""Registry of files to hide from sandboxes: stores with the files beside them, keys, logs, workspaces.

Code that opens such a file conceals it, and reveals it on closing; `harnesses.agents.sandbox` hides whatever is concealed when
a sandbox starts. Concealing a file includes all files named after it, such as `run.db-key` and `run.db.control-…`, even if
they are created or replaced later.
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
"""Counts by folder and file name; an empty name stands for everything in the folder."""
_keys: Counter[tuple[str, str]] = Counter()


@frozen
class Concealed:
    """A concealed path. `reveal` may be called more than once."""

    _key: tuple[str, str]
    _among: Counter[tuple[str, str]] = field(repr=False)
    _held: list[bool] = field(factory=lambda: [True], repr=False)

    def reveal(self) -> None:
        """Stop concealing it, unless another owner conceals it too."""
        with _lock:
            if self._held.pop() if self._held else False:
                self._among[self._key] -= 1
                if not self._among[self._key]:
                    del self._among[self._key]


def conceal_file(path: Path | str) -> Concealed:
    """Conceal a file and the files named after it, with a suffix that begins with a dot or a dash."""
    return _conceal(os.path.split(os.path.realpath(path)))


def conceal_folder(path: Path | str) -> Concealed:
    """Conceal everything in a folder."""
    return _conceal((os.path.realpath(path), ""))


def concealed_names() -> Mapping[str, frozenset[str]]:
    """Return the concealed names by folder; see `is_concealed`."""
    names: dict[str, set[str]] = {}
    with _lock:
        for folder, name in _concealed:
            names.setdefault(folder, set()).add(name)
    return {folder: frozenset(found) for folder, found in names.items()}


def conceal_key(path: Path | str) -> Concealed:
    """Conceal a key also from commands outside of a sandbox, where the system can: see `harnesses.processes.reaper`."""
    return _conceal(os.path.split(os.path.realpath(path)), _keys)


def concealed_keys() -> tuple[str, ...]:
    """Return the concealed key files. Missing ones are created, because only an existing file can be hidden.

    Files that are missing and cannot be created are left out.
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
