"""The file system of a sandboxed command: a list of mounts, ordered from the root to the leaves.

Invariants: deeper paths are mounted later, so that mounting a parent never reveals a hidden path; a folder with files of the
run is not mounted itself: an empty folder takes its place, and its other entries are mounted there. A file of the run that is
created or replaced later therefore stays hidden too.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import define, field, frozen

from harnesses.errors import HarnessMisuse
from harnesses.files.private_files import concealed_names, is_concealed

PRIVATE = ("/tmp", "/run")
"""Temporary files of other programs, and sockets of system services, through which processes outside could be started."""
_OWN = ("/dev", "/proc")
_RESOLVER = "/etc/resolv.conf"
"""May be a link into /run; without it, host names cannot be resolved."""
_MOST_ENTRIES = 1_000
"""Maximum entries of a folder with hidden files; a folder with more appears empty."""
_MOST_SOCKETS = 1_000
_CONTROL = re.compile(r"\.control-[0-9a-f]+$")
_LISTENS, _DATAGRAM = "00010000", "0002"
"""In /proc/net/unix: the flags of a listening socket, __SO_ACCEPTCON, and the type of one that takes datagrams."""


@frozen(kw_only=True)
class Places:
    """The paths that a command may see. They are absolute, without symbolic links."""

    directory: str
    writable: tuple[str, ...]
    readable: tuple[str, ...]
    hidden: tuple[str, ...]
    network: bool
    socket: str = ""
    """A Unix socket that stays reachable although somebody listens on it."""
    temporary_bytes: int | None = None
    """Most bytes of files in /tmp, and as many in /dev/shm; None for no limit but the machine's memory."""


def check_places(places: Places) -> None:
    """Raise `HarnessMisuse` if the writable directory holds files of the run itself."""
    names = concealed_names().get(places.directory, frozenset())
    if any(names) and places.directory in places.writable:
        files = ", ".join(sorted(name for name in names if name))
        raise HarnessMisuse(
            f"directory {places.directory} holds files of the run itself ({files:.200}): expected the agent's directory "
            f"and the store's to differ, because the sandbox hides files of the run; put the store elsewhere"
        )


@define
class Mounts:
    """Arguments for bubblewrap, and the resulting state of each path."""

    words: list[str] = field(factory=list[str])
    states: dict[str, str] = field(factory=dict[str, str])
    """"ro", "rw" or "hidden", by mounted path; each applies to everything below its path."""
    _frozen: list[str] = field(factory=list[str])

    @classmethod
    def of(cls, places: Places) -> Mounts:
        """Return the mounts for these paths."""
        names = concealed_names()
        made = cls()
        made._base(names, places.temporary_bytes)
        wanted = [(path, "ro") for path in places.readable]
        wanted += [(path, "rw") for path in places.writable]
        wanted += [(path, "hidden") for path in places.hidden]
        wanted += [(path, "concealed") for path in names if path != "/"]
        for path, how in sorted(dict.fromkeys(wanted), key=_outer_first):
            made._mount(path, how, names)
        for path in _listening_sockets():
            if path != places.socket:
                made._hide_file(path)
        if places.network:
            made._show_resolver()
        # Files created in these would be lost silently. Remounted last, because mount points are created in them until then.
        made.words += [word for path in made._frozen for word in ("--remount-ro", path)]
        return made

    def state(self, path: str) -> str:
        """Return the state of a path: that of its nearest mounted parent."""
        while path not in self.states:
            path = os.path.dirname(path)
        return self.states[path]

    def _base(self, names: Mapping[str, frozenset[str]], temporary_bytes: int | None) -> None:
        self.states["/"] = "ro"
        if "/" in names:
            self._show_others("/", "ro", names["/"])
        else:
            self.words += ["--ro-bind", "/", "/"]
        # Root without privileges can still write kernel settings, such as the program that is run on a crash.
        self.words += ["--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
        self.states.update(dict.fromkeys(_OWN, "own"))
        private = (*PRIVATE, *(["/var/run"] if os.path.isdir("/var/run") and not os.path.islink("/var/run") else []))
        size = [] if temporary_bytes is None else ["--size", str(temporary_bytes)]
        for path in private:
            self.words += [*size, "--tmpfs", path]
            self.states[path] = "hidden"
        self.words += [*size, "--tmpfs", "/dev/shm"]

    def _mount(self, path: str, how: str, names: Mapping[str, frozenset[str]]) -> None:
        if path == "/" or not os.path.lexists(path) or os.path.islink(path):
            return
        if how in ("ro", "rw"):
            self.words += ["--bind-try" if how == "rw" else "--ro-bind-try", path, path]
            self.states[path] = how
        elif how == "hidden":
            self._hide(path)
        elif (before := self.state(path)) in ("ro", "rw"):
            self._hide(path)
            self._frozen.append(path)
            if "" not in names[path]:
                self._show_others(path, before, names[path])

    def _hide(self, path: str) -> None:
        if os.path.isdir(path):
            self.words += ["--tmpfs", path]
            self.states[path] = "hidden"
        else:
            self._hide_file(path)

    def _hide_file(self, path: str) -> None:
        if self.state(path) in ("ro", "rw"):
            self.words += ["--ro-bind", "/dev/null", path]
            self.states[path] = "hidden"

    def _show_others(self, folder: str, how: str, names: frozenset[str]) -> None:
        """Mount all entries of a folder except the concealed ones."""
        entries = _entries(folder)
        if entries is None:
            return
        for entry in entries:
            if is_concealed(entry.name, names) or (folder == "/" and entry.path in (*_OWN, *PRIVATE)):
                continue
            if entry.is_symlink():
                self.words += ["--symlink", os.readlink(entry.path), entry.path]
            elif stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode) in (stat.S_IFREG, stat.S_IFDIR):
                self.words += ["--bind-try" if how == "rw" else "--ro-bind-try", entry.path, entry.path]
                self.states[entry.path] = how

    def _show_resolver(self) -> None:
        path = os.path.realpath(_RESOLVER)
        if self.state(path) == "hidden":
            self.words += ["--ro-bind-try", path, path]


def _outer_first(wanted: tuple[str, str]) -> tuple[int, str, int]:
    path, how = wanted
    return len(Path(path).parts), path, ("ro", "rw", "concealed", "hidden").index(how)


def _entries(folder: str) -> list[os.DirEntry[str]] | None:
    """Return the entries of a folder; None if it cannot be read or has too many."""
    found: list[os.DirEntry[str]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                found.append(entry)
                if len(found) > _MOST_ENTRIES:
                    return None
    except OSError:
        return None
    return sorted(found, key=lambda entry: entry.name)


def _listening_sockets() -> Iterator[str]:
    """Yield the paths of Unix sockets that are listening on this machine: connecting needs no write permission.

    Control sockets are left out: those of this run are hidden already, and those of other runs receive nothing from a sandbox.
    They come and go with every run, and bubblewrap fails to mount over a path that is gone when it starts.
    """
    try:
        lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="surrogateescape").splitlines()[1:]
    except OSError:
        return
    found: set[str] = set()
    for line in lines:
        words = line.split(maxsplit=7)
        if len(words) == 8 and (words[3] == _LISTENS or words[4] == _DATAGRAM) and words[7].startswith("/"):
            path = os.path.realpath(words[7])
            if path not in found and len(found) < _MOST_SOCKETS and not _CONTROL.search(path) and _is_socket(path):
                found.add(path)
                yield path


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
