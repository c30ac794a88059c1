"""Walls around a command-line agent: it sees the machine, and can write only where it works.

Bubblewrap, Linux. The network stays open, because agents talk to their model; what can be read can be sent away.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from attrs import field, frozen

from harnesses.agents.errors import AgentMissing

_RESOLVERS = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")
"""Where /etc/resolv.conf may lead to; without it no name is found in the network."""


def _paths(paths: Iterable[Path | str]) -> tuple[str, ...]:
    return tuple(os.path.abspath(os.path.expanduser(path)) for path in paths)


@frozen(kw_only=True)
class Bubblewrap:
    """Bubblewrap: the root read-only, /tmp private, processes in a namespace of their own that ends with the command."""

    writable: tuple[str, ...] = field(default=(), converter=_paths)
    """More places that it may write to, such as caches; those that are not there are passed over."""
    hidden: tuple[str, ...] = field(default=(), converter=_paths)
    """Directories that it sees empty, such as `~/.ssh`."""
    program: str = "bwrap"

    def check(self) -> None:
        """Raise `AgentMissing` if it is not installed."""
        if shutil.which(self.program) is None:
            raise AgentMissing(f"sandbox {self.program!r} is not installed: expected the package bubblewrap; install it")

    def wrap(
        self, command: Sequence[str], directory: Path, *, writable: Iterable[str] = (), readable: Iterable[str] = ()
    ) -> list[str]:
        """Return the command that runs `command` within the walls, in `directory`.

        Args:
            writable: more places that it may write to.
            readable: places below /tmp that it is to see.
        """
        wall = [self.program, "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"]
        wall += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        # The services of the machine are spoken to through /run: they would start programs outside the walls.
        wall += ["--tmpfs", "/run", "--setenv", "TMPDIR", "/tmp"]
        for path in _RESOLVERS:
            wall += ["--ro-bind-try", path, path]
        for path in self.hidden:
            wall += ["--tmpfs", path] if os.path.isdir(path) else []
        for path in readable:
            wall += ["--ro-bind", path, path]
        for path in dict.fromkeys((*self.writable, *_paths(writable), *git_directory(directory))):
            wall += ["--bind-try", path, path]
        return [*wall, "--bind", str(directory), str(directory), "--chdir", str(directory), "--", *command]


def git_directory(directory: Path) -> tuple[str, ...]:
    """Return where git keeps what belongs to a worktree, if that is outside it: the repository's own directory."""
    try:
        link = (directory / ".git").read_text(encoding="utf-8", errors="surrogateescape")
        gitdir = directory / link.removeprefix("gitdir:").strip()
        common = gitdir / (gitdir / "commondir").read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return ()
    return (os.path.realpath(common),)
