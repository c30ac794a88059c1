"""What a sandboxed command sees of the file system: a list of mounts, from the root of the tree to its leaves.

The laws: what lies deeper is mounted later, so nothing that is hidden comes back with what lies around it; a folder with files
of the run is never shown itself, but as an empty one in which everything else is mounted. So a file that the run makes later,
or puts in the place of another, is not there either.
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

_PRIVATE = ("/tmp", "/run")
"""Temporary files of others, and the sockets of the machine's services, which would start programs outside."""
_OWN = ("/dev", "/proc")
_RESOLVER = "/etc/resolv.conf"
"""It may lead to /run; without it no name is found in the network."""
_MOST_ENTRIES = 1_000
"""Of a folder in which something is concealed; with more of them it is shown empty."""
_MOST_SOCKETS = 1_000
_CONTROL = re.compile(r"\.control-[0-9a-f]+$")
_LISTENS = "00010000"
"""Flags of a listening socket in /proc/net/unix: __SO_ACCEPTCON."""


@frozen(kw_only=True)
class Places:
    """What a command is to see. Paths are absolute, without symbolic links."""

    directory: str
    writable: tuple[str, ...]
    readable: tuple[str, ...]
    hidden: tuple[str, ...]
    network: bool


@define
class Mounts:
    """Words for bubblewrap, and what they make of each path."""

    words: list[str] = field(factory=list[str])
    states: dict[str, str] = field(factory=dict[str, str])
    """"ro", "rw" or "hidden", of each path that something is mounted at; it holds for all below."""
    _frozen: list[str] = field(factory=list[str])

    @classmethod
    def of(cls, places: Places) -> Mounts:
        """Return what shows these places.

        Raises:
            HarnessMisuse: the directory that a command is to write to holds files of the run itself.
        """
        names = concealed_names()
        if any(names.get(places.directory, ())) and places.directory in places.writable:
            files = ", ".join(sorted(name for name in names[places.directory] if name))
            raise HarnessMisuse(
                f"directory {places.directory} holds files of the run itself ({files:.200}): expected the agent's directory "
                f"and the store's to differ, for the sandbox hides what belongs to a run; put the store elsewhere"
            )
        made = cls()
        made._base(names)
        wanted = [(path, "ro") for path in places.readable]
        wanted += [(path, "rw") for path in places.writable]
        wanted += [(path, "hidden") for path in places.hidden]
        wanted += [(path, "concealed") for path in names if path != "/"]
        for path, how in sorted(dict.fromkeys(wanted), key=_outer_first):
            made._mount(path, how, names)
        for path in _listening_sockets():
            made._hide_file(path)
        if places.network:
            made._show_resolver()
        # What a command makes there would seem to be kept. At the end: until then, places to mount at are made.
        made.words += [word for path in made._frozen for word in ("--remount-ro", path)]
        return made

    def state(self, path: str) -> str:
        """Return what is made of a path."""
        while path not in self.states:
            path = os.path.dirname(path)
        return self.states[path]

    def _base(self, names: Mapping[str, frozenset[str]]) -> None:
        self.states["/"] = "ro"
        if "/" in names:
            self._show_others("/", "ro", names["/"])
        else:
            self.words += ["--ro-bind", "/", "/"]
        # Root without any privilege can still write to settings of the kernel, such as what is run when a program crashes.
        self.words += ["--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
        self.states.update(dict.fromkeys(_OWN, "own"))
        private = (*_PRIVATE, *(["/var/run"] if os.path.isdir("/var/run") and not os.path.islink("/var/run") else []))
        for path in private:
            self.words += ["--tmpfs", path]
            self.states[path] = "hidden"

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
        """Mount what is in a folder, but for what is concealed there."""
        entries = _entries(folder)
        if entries is None:
            return
        for entry in entries:
            if is_concealed(entry.name, names) or (folder == "/" and entry.path in (*_OWN, *_PRIVATE)):
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
    """Return what is in a folder; None if that cannot be told, or is too much."""
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
    """Yield the paths of sockets on which somebody on this machine listens: connecting needs no right to write.

    Left out are control sockets: those of this run are hidden already, those of others hear nobody in a sandbox; and they come
    and go with every run, while bubblewrap can mount nothing over what is gone when it begins.
    """
    try:
        lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="surrogateescape").splitlines()[1:]
    except OSError:
        return
    found: set[str] = set()
    for line in lines:
        words = line.split(maxsplit=7)
        if len(words) == 8 and words[3] == _LISTENS and words[7].startswith("/"):
            path = os.path.realpath(words[7])
            if path not in found and len(found) < _MOST_SOCKETS and not _CONTROL.search(path) and _is_socket(path):
                found.add(path)
                yield path


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
