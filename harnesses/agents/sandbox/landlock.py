"""Options with which the launcher confines a command by Landlock, where bubblewrap is not available.

Invariants as for bubblewrap, except that Landlock grants rights on whole folders: `.git` in the directory is writable, and in
a folder with hidden files nothing new can be created. It does not restrict metadata, or the sight of other processes. A filter
of system calls restricts what Landlock does not: see `system_call_filter`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from harnesses.agents.errors import AgentMissing
from harnesses.agents.sandbox.sandbox_mounts import Places
from harnesses.agents.sandbox.system_call_filter import filter_program
from harnesses.files.private_files import concealed_names

_PRIVATE = ("/tmp", "/run", "/var/run", "/dev", "/sys/kernel")
"""Sockets of system services, devices, and temporary files of other programs."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def landlock_options(places: Places) -> list[str]:
    """Return the options of the launcher that confine a command to these places."""
    program = filter_program(places.network)
    if program is None:
        raise AgentMissing(
            f"sandbox 'landlock' does not know the system calls of this machine: expected x86_64, aarch64 or riscv64, got "
            f"{os.uname().machine}; install bubblewrap"
        )
    network = ["--network", "yes"] if places.network else []
    return ["--landlock", "need", *network, "--filter", program.hex(), *_paths(places)]


def second_wall(places: Places) -> list[str]:
    """Return the options of the launcher that repeat, within bubblewrap, what may be written.

    A read-only mount does not keep a command from named pipes, and a mask not from sockets that are made later.
    """
    writable = ("/dev", "/tmp", "/run", "/var/run", *places.writable)
    words = (word for path in writable for word in ("--device" if path == "/dev" else "--write", path))
    return ["--landlock", "try", "--network", "yes", "--read", "/", *words]


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
