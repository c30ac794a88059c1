"""Options with which the launcher confines a command by Landlock, where bubblewrap is not available.

Invariants as for bubblewrap, except that Landlock grants rights on whole folders: `.git` in the directory is writable, and in
a folder with hidden files nothing new can be created. It does not restrict metadata, UDP, Unix sockets with a file, or the
sight of other processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from harnesses.agents.sandbox.sandbox_mounts import Places
from harnesses.files.private_files import concealed_names

_PRIVATE = ("/tmp", "/run", "/var/run", "/dev", "/sys/kernel")
"""Sockets of system services, devices, and temporary files of other programs."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def landlock_options(places: Places) -> list[str]:
    """Return the options of the launcher that confine a command to these places."""
    return ["--landlock", "1", *(["--network", "1"] if places.network else []), *_paths(places)]


def _paths(places: Places) -> Iterator[str]:
    hidden = [*_PRIVATE, *places.hidden]
    for path in hidden:
        yield from ("--hide", path)
    for folder, names in concealed_names().items():
        for name in names:
            yield from ("--hide", f"{os.path.join(folder, name)}*" if name else f"{folder}/")
    yield from ("--read", "/")
    # A path that was chosen is granted itself, although it is below a hidden one.
    for path in places.readable:
        yield from ("--read", path)
    for path in places.writable:
        yield from ("--write", path)
    for path in _DEVICES:
        yield from ("--device", path)
