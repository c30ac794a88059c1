"""Starts Python programs by forking a process that has already imported the command: 0.05 s of processor instead of 0.6 s.

What is forked is a process like any other, and a child of the process of pytest: it has its own environment, folder, streams
and descriptors, runs `__main__` from its first line, and ends as the interpreter ends. Only its imports were made before, and
the table of secrets read. Its hash seed is the zygote's: two of them, with different seeds, serve each process of pytest in
turn, so that what depends on the order of a set differs between a program and the next.

    tests ── arguments, environment, folder, descriptors ──▶ zygote ── clone ──▶ program
          ◀── process id ────────────────────────────────────

A test of what the interpreter does when it starts (its options and variables, a terminal, what is imported) starts one itself.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import platform
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from tests import ROOT

_LIMIT = 1 << 20
"""Bytes of a request: arguments and environment."""
_MOST_DESCRIPTORS = 16
_IMPORTED = (
    "harnesses.base",
    "orchestrator.orchestrator",
    "orchestrator.store.sqlite.sqlite_store",
    "cyclopts",
    "harnesses.agents.sandbox.sandboxed_command",
    "harnesses.coding.workplace.coding_harness",
    "harnesses.coding.sources.failing_tests",
    "orchestrator.cli.read.status_verbs",
    "orchestrator.cli.read.verify_verb",
    "orchestrator.cli.run.run_verb",
    "orchestrator.cli.command_app",
    "orchestrator.cli.doctor.doctor_verb",
    "orchestrator.cli.export.export_verb",
    "orchestrator.cli.operate.approval_verbs",
    "orchestrator.cli.operate.live_verbs",
    "orchestrator.cli.query.analyze_verb",
    "orchestrator.cli.query.sql_verb",
    "orchestrator.cli.read.logs_verb",
    "orchestrator.control.control_client",
)
"""What many programs need, and what the most given verbs are made of.

Packages import their parts when they are asked for, so each is named.
"""
_SERVE = "from tests import zygote; zygote.serve(); zygote.run()"
_CLONE_PARENT = 0x8000
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
_requested: dict[str, list[str]] = {}


class Program(subprocess.Popen[Any]):
    """`python -W error ARGUMENTS`, without starting Python: `-m MODULE …`, `-c CODE …` or `SCRIPT …`.

    Takes the options of `subprocess.Popen`, of which `preexec_fn` and those that change the user have no effect. What the
    interpreter itself takes from the environment when it starts, such as `PYTHONIOENCODING`, is the zygote's.
    """

    def _execute_child(
        self,
        args: list[str | os.PathLike[str]],
        executable: object,
        preexec_fn: object,
        close_fds: bool,
        pass_fds: tuple[int, ...],
        cwd: str | os.PathLike[str] | None,
        env: dict[str, str] | None,
        startupinfo: object,
        creationflags: object,
        shell: bool,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        restore_signals: bool,
        gid: object,
        gids: object,
        uid: object,
        umask: int,
        start_new_session: bool,
        process_group: int,
    ) -> None:
        streams = [given if given != -1 else inherited for inherited, given in enumerate((p2cread, c2pwrite, errwrite))]
        request = {
            "arguments": [os.fspath(argument) for argument in args],
            "env": dict(os.environ if env is None else env),
            "cwd": os.fspath(cwd or os.getcwd()),
            "session": start_new_session,
            "descriptors": [0, 1, 2, *pass_fds],
        }
        self.pid = next(_turns).ask(request, [*streams, *pass_fds])
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


def run_python(*arguments: object, timeout: float | None = None, check: bool = False, **options: Any) -> Any:
    """Run a program to its end, and return what `subprocess.run` returns; one that does not end in time is killed."""
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    given = options.pop("input", None)
    if given is not None:
        options["stdin"] = subprocess.PIPE
    words = [argument if isinstance(argument, os.PathLike) else str(argument) for argument in arguments]
    with Program(words, **options) as program:
        try:
            out, err = program.communicate(given, timeout=timeout)
        except BaseException:
            program.kill()
            raise
    done = subprocess.CompletedProcess([sys.executable, *words], program.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def preload(*modules: str) -> None:
    """Have the zygotes import modules, for all programs that are forked from now on."""
    for client in _clients:
        client.ask({"imports": modules})


class _Client:
    """A client of a zygote of this process, which is started at its first use and ends with this process."""

    def __init__(self, hash_seed: str) -> None:
        self._hash_seed = hash_seed
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> int:
        """Return the process id of the new program, if one was asked for."""
        with self._lock:
            served = self._socket or self._begin()
            socket.send_fds(served, [json.dumps(request).encode()], descriptors)
            return int(served.recv(32))

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-W", "error", "-c", _SERVE, str(theirs.fileno())],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": self._hash_seed},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._socket = ours
        atexit.register(self._end, process)
        return ours

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if self._socket is not None:
            self._socket.close()
        process.kill()
        process.wait()


_clients = _Client("1"), _Client("2")
_turns = cycle(_clients)


def serve() -> None:
    """Fork a program for each request. Returns in each of them, with streams, environment and folder as requested."""
    from harnesses.redaction import prefilter  # not needed by the process of pytest

    for name in _IMPORTED:
        importlib.import_module(name)
    prefilter.may_hold_secret("-")  # reads the table

    with socket.socket(fileno=int(sys.argv[1])) as served:
        while True:
            told, descriptors, _, _ = socket.recv_fds(served, _LIMIT, _MOST_DESCRIPTORS)
            if not told:
                os._exit(0)
            request, pid = json.loads(told), 0
            for module in request.get("imports", ()):
                importlib.import_module(module)
            if "arguments" in request:
                gc.freeze()  # what is collected in a fork is copied
                pid = _fork_sibling()
                if pid == 0:
                    break
            for descriptor in descriptors:
                os.close(descriptor)
            served.send(str(pid).encode())
    _become(request, descriptors)


def _fork_sibling() -> int:
    """Fork a process that is a child of our parent, which can so wait for it and kill it. This one has no other threads."""
    if _SYS_CLONE is None:
        raise OSError(f"the number of the system call clone is not known for {platform.machine()}; add it to _SYS_CLONE")
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = ctypes.PyDLL(None, use_errno=True).syscall(_SYS_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(ctypes.get_errno(), "a program could not be forked")
    return pid


def _become(request: dict[str, Any], received: list[int]) -> None:
    numbers: list[int] = request["descriptors"]
    free = max(*numbers, *received) + 1
    for number, descriptor in zip(numbers, [fcntl.fcntl(one, fcntl.F_DUPFD, free) for one in received], strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for descriptor in set(received) - set(numbers):
        os.close(descriptor)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        # What is behind a stream is looked at when it is opened: whether it is a terminal, or can be sought in.
        ours = getattr(sys, name)
        stream = open(number, "w" if number else "r", encoding=ours.encoding, errors=ours.errors, closefd=False)  # noqa: SIM115
        stream.reconfigure(line_buffering=number == 2 or stream.isatty())
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    if request["session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    _requested["arguments"] = request["arguments"]


def run() -> None:
    """Run what was requested as `python` runs its arguments."""
    option, *rest = _requested["arguments"]
    sys.orig_argv[:] = [sys.executable, "-W", "error", option, *rest]
    if option == "-c":
        sys.argv[:] = [option, *rest[1:]]
        sys.path[0] = ""
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    elif option == "-m":
        sys.argv[:] = rest
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = [option, *rest]
        sys.path[0] = str(Path(option).resolve().parent)
        runpy.run_path(option, run_name="__main__")
