"""A sandbox around a command: it sees the machine read-only, writes only where it works, and sees nothing of the run.

    /                      read-only
    /tmp /run /dev /proc   its own
    folders of the run     read-only, without the files of the run
    the directory          writable, its `.git` read-only
    more places            as whoever made the directory says: the repository of a worktree

The law: what is visible and what is writable is decided from what this program has made or was told, never from a file that a
sandboxed command can write. Bubblewrap, Linux.

Network: in a namespace of its own, nothing is reached, neither the internet nor services of this machine. A command that
shares the network reaches all that listens on it, loopback included, and can send away whatever it can read.
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
"""What is tried, in this order: no namespaces of users within, one around it, and none (bubblewrap is set-user-id)."""
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
"""How the variables begin that lead to services outside, or to the run."""


def _paths(paths: Iterable[Path | str]) -> tuple[str, ...]:
    return tuple(os.path.realpath(os.path.expanduser(path)) for path in paths)


@frozen(kw_only=True)
class Bubblewrap:
    """Bubblewrap: namespaces of its own for files, processes, users, IPC and, unless it needs one, the network."""

    writable: tuple[str, ...] = field(default=(), converter=_paths)
    """More places that it may write to, such as caches; those that are not there are passed over."""
    hidden: tuple[str, ...] = field(default=(), converter=_paths)
    """Files and directories that it sees empty, such as `~/.ssh`."""
    network: bool | None = None
    """Whether it shares the machine's network; None is what its use needs: an agent with a dialect does, any other command,
    and all that judges, does not."""
    program: str = "bwrap"

    def check(self) -> None:
        """Raise `AgentMissing` if it is not installed, or does not work here."""
        if shutil.which(self.program) is None:
            raise AgentMissing(f"sandbox {self.program!r} is not installed: expected the package bubblewrap; install it")
        if _nested(self.program) is None:
            raise AgentMissing(
                f"sandbox {self.program!r} does not work: expected a kernel that lets it make namespaces; allow them (sysctl "
                f"kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, or the container's settings)"
            )

    def works(self) -> bool:
        """Return whether it is installed, and the kernel lets it make its namespaces."""
        return shutil.which(self.program) is not None and _nested(self.program) is not None

    def needs_privileges(self) -> bool:
        """Return whether it is set-user-id, and so has to be run without `no_new_privs`."""
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
            writable: more places that it may write to, such as the `.git` of `directory`, which is read-only otherwise.
            readable: places that it may read although they would be hidden, or that lie in a writable one and are not to be
                written.
            network: whether it shares the network if `self.network` does not say.
            read_only: whether it may not write to `directory` either.

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
        # What stands in there (hooks, filters, a monitor) is run by the next git outside, in the user's name.
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
    """Return an environment without secrets, and without what leads to services outside.

    Args:
        keep: how the variables begin that stay, whatever they hold.
    """
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(keep) or not (name.startswith(_LEADS_OUT) or redact({name: value}) != {name: value})
    }


def programs_below_tmp(path: str) -> tuple[str, ...]:
    """Return where programs are that the sandbox's own /tmp would hide: this Python, and the folders of a PATH."""
    found = [os.path.realpath(one) for one in path.split(os.pathsep) if os.path.isabs(one)]
    places = [os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), *found]
    return tuple(dict.fromkeys(one for one in places if one.startswith("/tmp/") and os.path.isdir(one)))


@cache
def _nested(program: str) -> tuple[str, ...] | None:
    """Return what can be asked of a bubblewrap about namespaces of users here; None if it does not work at all."""
    for flags in _NESTED:
        tried = [program, *flags, "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", "true"]
        try:
            if subprocess.run(tried, capture_output=True, timeout=_PROBE_S, check=False).returncode == 0:
                return flags
        except (OSError, subprocess.SubprocessError):
            return None
    return None
