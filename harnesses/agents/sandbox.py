"""A sandbox for a command: the machine is read-only, only the working directory is writable, the run's files are hidden.

    /                      read-only
    /tmp /run /dev /proc   private
    folders of the run     read-only, without the files of the run
    the directory          writable, its `.git` read-only
    additional paths       chosen by the creator of the directory, such as the repository of a worktree

Invariant: visible and writable paths are decided from what this program created or was told, never from a file that a
sandboxed command can write. Requires Bubblewrap on Linux.

Network: a command with its own network namespace reaches neither the internet nor services on this machine. A command that
shares the network reaches every listening service, including on loopback, and can send out everything it can read.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from attrs import field, frozen

from harnesses.agents.errors import AgentMissing
from harnesses.agents.sandbox_mounts import Mounts, Places
from harnesses.redaction.redactor import redact

_NESTED = (("--unshare-user", "--disable-userns"), ("--unshare-user",), ())
"""Flags tried in this order: no nested user namespaces, one user namespace, and none (bubblewrap is set-user-id)."""
_PROBE_S = 20.0
_LEADS_OUT = (
    *(
        "DBUS_",
        "SSH_",
        "GPG_",
        "DISPLAY",
        "WAYLAND_",
        "XAUTHORITY",
        "XDG_RUNTIME_DIR",
        "XDG_SESSION_",
        "DOCKER_",
        "CONTAINER_",
    ),
    *("PODMAN_", "TMUX", "STY", "NOTIFY_SOCKET", "LISTEN_", "JOURNAL_", "INVOCATION_", "VSCODE_", "ORCHESTRATOR_", "OTEL_"),
)
"""Prefixes of the environment variables that give access to services outside the sandbox, or to the run."""


def _paths(paths: Iterable[Path | str]) -> tuple[str, ...]:
    return tuple(os.path.realpath(os.path.expanduser(path)) for path in paths)


@frozen(kw_only=True)
class Bubblewrap:
    """A bubblewrap sandbox: separate namespaces for files, processes, users, IPC and, unless it needs one, the network."""

    writable: tuple[str, ...] = field(default=(), converter=_paths)
    """Additional writable paths, such as caches; missing ones are ignored."""
    hidden: tuple[str, ...] = field(default=(), converter=_paths)
    """Files and directories that appear empty, such as `~/.ssh`."""
    network: bool | None = None
    """Whether it shares the machine's network; None depends on its use: shared for an agent with a dialect, separate for other
    commands and for validators."""
    program: str = "bwrap"

    def check(self) -> None:
        """Raise `AgentMissing` if bubblewrap is not installed or does not work on this machine."""
        if shutil.which(self.program) is None:
            raise AgentMissing(f"sandbox {self.program!r} is not installed: expected the package bubblewrap; install it")
        if _nested(self.program) is None:
            raise AgentMissing(
                f"sandbox {self.program!r} does not work: expected a kernel that allows its namespaces; allow them (sysctl "
                f"kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, or the container's settings)"
            )

    def works(self) -> bool:
        """Return whether bubblewrap is installed and the kernel allows its namespaces."""
        return shutil.which(self.program) is not None and _nested(self.program) is not None

    def needs_privileges(self) -> bool:
        """Return whether bubblewrap is set-user-id, so that it must run without `no_new_privs`."""
        found = shutil.which(self.program)
        return found is not None and bool(os.stat(found).st_mode & stat.S_ISUID)

    def wrap(
        self,
        command: Sequence[str],
        directory: Path,
        *,
        writable: Iterable[str] = (),
        readable: Iterable[str] = (),
        network: bool = False,
        read_only: bool = False,
    ) -> list[str]:
        """Return the command that runs `command` in the sandbox, in `directory`.

        Args:
            writable: additional writable paths, such as the `.git` of `directory`, which is read-only otherwise.
            readable: paths that stay readable although hidden by default, or stay read-only inside a writable one.
            network: whether it shares the network, if `self.network` is None.
            read_only: whether `directory` is read-only too.

        Raises:
            HarnessMisuse: the directory holds files of the run itself, such as its store.
        """
        shares = network if self.network is None else self.network
        wall = [self.program, "--die-with-parent", "--new-session", *(_nested(self.program) or ())]
        wall += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        wall += [] if shares else ["--unshare-net"]
        wall += ["--cap-drop", "ALL", "--setenv", "TMPDIR", "/tmp"]
        place = os.path.realpath(directory)
        open_to = (*self.writable, *_paths(writable))
        # Files in `.git` (hooks, filters, a monitor) are run by the next git outside the sandbox, as the user.
        seen = (*_paths(readable), os.path.join(place, ".git"))
        places = Places(
            directory=place,
            writable=open_to if read_only else (*open_to, place),
            readable=(*seen, place) if read_only else seen,
            hidden=self.hidden,
            network=shares,
        )
        return [*wall, *Mounts.of(places).words, "--chdir", place, "--", *command]


def environment_within(environment: Mapping[str, str], keep: tuple[str, ...] = ()) -> dict[str, str]:
    """Return a copy of an environment without secrets and without access to services outside.

    Args:
        keep: prefixes of variables that are kept in any case.
    """
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(keep) or not (name.startswith(_LEADS_OUT) or redact({name: value}) != {name: value})
    }


def programs_below_tmp(path: str) -> tuple[str, ...]:
    """Return the directories of programs that the private /tmp would hide: of this Python, and of PATH."""
    found = [os.path.realpath(one) for one in path.split(os.pathsep) if os.path.isabs(one)]
    places = [os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), *found]
    return tuple(dict.fromkeys(one for one in places if one.startswith("/tmp/") and os.path.isdir(one)))


@cache
def _nested(program: str) -> tuple[str, ...] | None:
    """Return the user namespace flags that bubblewrap supports on this machine; None if it does not work at all."""
    for flags in _NESTED:
        tried = [program, *flags, "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", "true"]
        try:
            if subprocess.run(tried, capture_output=True, timeout=_PROBE_S, check=False).returncode == 0:
                return flags
        except (OSError, subprocess.SubprocessError):
            return None
    return None
