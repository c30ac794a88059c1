"""Tests which sandbox levels work on this machine: a program in the sandbox tries to escape, and is checked from outside."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from harnesses.agents.sandbox.bubblewrap import bubblewrap_command, nesting_flags
from harnesses.agents.sandbox.landlock import landlock_options
from harnesses.agents.sandbox.sandbox_level import Level
from harnesses.agents.sandbox.sandbox_mounts import PRIVATE, Places

LAUNCHER = Path(__file__).with_name("sandbox_launcher.py")
PYTHON = os.path.realpath(sys.executable)
_PROBE_S = 20.0
_REMEDIES = {
    Level.BUBBLEWRAP: "allow user namespaces, or update bubblewrap",
    Level.LANDLOCK: "use Linux 6.12 or newer with Landlock enabled (lsm=landlock,…), or install bubblewrap",
}
_ATTEMPTS = """
import _socket, os, sys
def attempt(name, deed):
    try:
        deed()
        print(name)
    except OSError:
        pass
attempt("work in its directory", lambda: open("made", "w").write("x"))
attempt("read a hidden file", lambda: open("../hidden/secret").read())
attempt("write outside of its directory", lambda: open("../written", "w").write("x"))
attempt("reach loopback", lambda: _socket.socket().connect(("127.0.0.1", int(sys.argv[1]))))
if int(sys.argv[2]):
    attempt("signal a process outside", lambda: os.kill(int(sys.argv[2]), 0))
if os.readlink("/proc/self/ns/pid") == sys.argv[3]:
    print("share the process ids")
"""


def launch(options: list[str], command: list[str]) -> list[str]:
    """Return the command line of the launcher, which becomes `command`."""
    return [PYTHON, "-I", "-S", "-B", str(LAUNCHER), *options, "--", *command]


def launcher_places(hidden: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that the launcher needs and that would not be visible otherwise.

    Args:
        hidden: paths that are hidden besides those that always are.
    """
    needed = (os.path.realpath(sys.base_prefix), str(LAUNCHER))
    return tuple(path for path in needed if any(path.startswith(f"{one}/") for one in (*PRIVATE, *hidden)))


def why_bubblewrap_fails(program: str) -> str:
    """Return why bubblewrap does not hold on this machine, with the remedy; empty if it does."""
    if shutil.which(program) is None:
        return f"sandbox {program!r} is not installed: expected the package bubblewrap; install it"
    if nesting_flags(program) is None:
        return (
            f"sandbox {program!r} does not work: expected a kernel that allows its namespaces; allow them (sysctl "
            f"kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, or the container's settings)"
        )
    return _why_not(Level.BUBBLEWRAP, program)


def why_landlock_fails() -> str:
    """Return why Landlock does not hold on this machine, with the remedy; empty if it does."""
    if not sys.platform.startswith("linux"):
        return f"sandbox 'landlock' does not exist here: expected Linux 6.12, got {sys.platform}; run the agent on Linux"
    return _why_not(Level.LANDLOCK, "")


@cache
def _why_not(level: Level, program: str) -> str:
    with TemporaryDirectory(prefix="sandbox-probe-", dir=_folder()) as made, socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        folder = os.path.realpath(made)
        for name in ("work", "hidden"):
            os.mkdir(os.path.join(folder, name))
        Path(folder, "hidden", "secret").write_text("secret", encoding="utf-8")
        wanted = {"work in its directory"}
        if level is Level.LANDLOCK:
            wanted.add("share the process ids")
        # Within bubblewrap the process id of this program may be that of another process.
        told = [str(listening.getsockname()[1]), str(os.getpid() if level is Level.LANDLOCK else 0)]
        ran = _try(level, program, folder, [*told, os.readlink("/proc/self/ns/pid")])
        got = set(ran.stdout.splitlines())
        if os.path.exists(os.path.join(folder, "written")):
            got.add("write outside of its directory")
    if got == wanted and ran.returncode == 0:
        return ""
    escapes = sorted(got - wanted)
    could = f"could {', '.join(escapes)}" if escapes else f"ended with {ran.returncode}: {ran.stderr.strip()[-300:]}"
    return (
        f"sandbox {level.value!r} does not hold here: expected a program that can only {' and '.join(sorted(wanted))}, "
        f"but it {could}; {_REMEDIES[level]}"
    )


def _try(level: Level, program: str, folder: str, told: list[str]) -> subprocess.CompletedProcess[str]:
    work = f"{folder}/work"
    places = Places(
        directory=work, writable=(work,), readable=launcher_places(()), hidden=(f"{folder}/hidden",), network=False
    )
    attempts = [PYTHON, "-I", "-S", "-c", _ATTEMPTS, *told]
    command = (
        bubblewrap_command(program, places, launch([], attempts))
        if level is Level.BUBBLEWRAP
        else launch(landlock_options(places), attempts)
    )
    return subprocess.run(
        command,
        cwd=work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_PROBE_S,
        check=False,
    )


def _folder() -> str | None:
    """Return a folder for the test that is not hidden anyhow, if there is one."""
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
