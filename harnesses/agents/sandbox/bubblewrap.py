"""Command lines for bubblewrap: the machine is read-only, only the working directory is writable, the run's files are hidden.

    /                      read-only
    /tmp /run /dev /proc   private
    folders of the run     read-only, without the files of the run
    the directory          writable, its `.git` read-only
    additional paths       chosen by the creator of the directory, such as the repository of a worktree

Invariant: visible and writable paths are decided from what this program created or was told, never from a file that a
sandboxed command can write.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from functools import cache

from harnesses.agents.sandbox.sandbox_mounts import Mounts, Places

_NESTED = (("--unshare-user", "--disable-userns"), ("--unshare-user",), ())
"""Flags tried in this order: no nested user namespaces, one user namespace, and none (bubblewrap is set-user-id)."""
_PROBE_S = 20.0


def bubblewrap_command(program: str, places: Places, command: Sequence[str]) -> list[str]:
    """Return the command line that runs a command, which sees these places, in namespaces of its own."""
    wall = [program, "--die-with-parent", "--new-session", *(nesting_flags(program) or ())]
    wall += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    wall += [] if places.network else ["--unshare-net"]
    wall += ["--cap-drop", "ALL", "--setenv", "TMPDIR", "/tmp"]
    return [*wall, *Mounts.of(places).words, "--chdir", places.directory, "--", *command]


def is_set_user_id(program: str) -> bool:
    """Return whether bubblewrap is set-user-id, so that it must run without `no_new_privs`."""
    found = shutil.which(program)
    return found is not None and bool(os.stat(found).st_mode & stat.S_ISUID)


@cache
def nesting_flags(program: str) -> tuple[str, ...] | None:
    """Return the user namespace flags that bubblewrap supports on this machine; None if it does not work at all."""
    for flags in _NESTED:
        tried = [program, *flags, "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", "true"]
        try:
            if subprocess.run(tried, capture_output=True, timeout=_PROBE_S, check=False).returncode == 0:
                return flags
        except (OSError, subprocess.SubprocessError):
            return None
    return None
