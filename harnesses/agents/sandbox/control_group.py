"""A control group that limits the processes of a sandbox, for root, who is exempt from the limit of getrlimit(2).

Invariant: when a group is removed, no process is left in it. Sources: cgroups(7); getrlimit(2), RLIMIT_NPROC.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "harness-"
_OF_SANDBOX = 4
"""Processes of the sandbox itself: two of bubblewrap, the launcher, the forwarder to a proxy."""
_REMOVE_S = 2.0
_JOIN = ("/bin/sh", "-c", 'echo 0 >"$1/cgroup.procs" || exit 125; shift; exec "$@"', "sh")


def make_group(processes: int | None) -> Path | None:
    """Make a group with this limit and return its folder; None if there is no limit, or this program may not make one."""
    if processes is None or os.geteuid() != 0:
        return None
    for parent in _parents():
        group = parent / f"{_PREFIX}{os.getpid()}-{uuid4().hex[:12]}"
        with suppress(OSError):
            _remove_stale(parent)
            group.mkdir()
            (group / "pids.max").write_text(str(processes + _OF_SANDBOX), encoding="ascii")
            return group
    return None


def remove_group(group: Path) -> None:
    """Kill what is left in a group, and remove it."""
    deadline = time.monotonic() + _REMOVE_S
    while True:
        with suppress(OSError):
            for process in (group / "cgroup.procs").read_text(encoding="ascii").split():
                os.kill(int(process), signal.SIGKILL)
        with suppress(OSError):
            group.rmdir()
            return
        if time.monotonic() > deadline:
            return
        time.sleep(0.005)


def join_group(group: Path, command: Sequence[str]) -> list[str]:
    """Return the command line that joins a group and becomes a command."""
    return [*_JOIN, str(group), *command]


def _parents() -> Iterator[Path]:
    """Yield folders below which a group may be made: of version 1 with the controller `pids`, or of version 2 with it."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        own = path.lstrip("/")
        if "pids" in controllers.split(","):
            yield _ROOT / "pids" / own
        elif not controllers:
            for place in dict.fromkeys((_ROOT / own, (_ROOT / own).parent)):
                with suppress(OSError):
                    if "pids" in (place / "cgroup.subtree_control").read_text(encoding="ascii").split():
                        yield place


def _remove_stale(parent: Path) -> None:
    """Remove the groups of programs that are gone."""
    for group in parent.glob(f"{_PREFIX}*"):
        owner = group.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            with suppress(OSError):
                group.rmdir()
