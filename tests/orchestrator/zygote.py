"""Starts Python programs by forking a process that has already imported the command: 0.05 s of processor instead of 0.6 s.

What is forked is a process like any other: it has its own environment, folder and standard streams, runs `__main__` from its
first line, and ends as the interpreter ends. Only its imports were made before. One zygote serves one process of pytest, one
program at a time.

    tests ── arguments, environment, folder; stdout, stderr ──▶ zygote ── fork ──▶ program
          ◀── process id, then its return code ────────────────
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

from tests import ROOT

_ROOT = ROOT
_LIMIT = 1 << 20
"""Bytes of a request: arguments and environment."""
_SERVE = "from tests.orchestrator import zygote; zygote.serve(); zygote.run()"
_requested: dict[str, list[str]] = {}


class Zygote:
    """A client of the zygote of this process, which is started at its first use and ends with this process."""

    _socket: socket.socket | None = None
    _process: subprocess.Popen[bytes] | None = None

    def run(
        self, arguments: list[str], *, env: dict[str, str], cwd: Path, out: IO[bytes], err: IO[bytes], seconds: float
    ) -> int:
        """Run `python -W error ARGUMENTS` to its end, and return its return code; what does not end in time is killed.

        What the interpreter itself takes from the environment when it starts, such as `PYTHONIOENCODING`, is the zygote's.

        Raises:
            TimeoutError: it was killed.
        """
        request = json.dumps({"arguments": arguments, "env": env, "cwd": str(cwd)}).encode()
        served, pid = self._served(), 0
        try:
            socket.send_fds(served, [request], [out.fileno(), err.fileno()])
            pid = int(served.recv(32))
            served.settimeout(seconds)
            code = int(served.recv(32))
            served.settimeout(None)
        except BaseException:
            # Its answer is still to come, and is not for whoever asks next.
            if pid:
                os.kill(pid, signal.SIGKILL)
            self.end()
            raise
        return code

    def end(self) -> None:
        """End the zygote; the next run starts another."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.kill()
            self._process.wait()
        self._socket = self._process = None

    def _served(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-W", "error", "-c", _SERVE, str(theirs.fileno())],
                    cwd=_ROOT,
                    env={**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                )
            atexit.register(self.end)
        return self._socket


def serve() -> None:
    """Fork a program for each request. Returns in each of them, with standard streams, environment and folder as requested."""
    import orchestrator.cli  # noqa: F401

    with socket.socket(fileno=int(sys.argv[1])) as served:
        while True:
            request, descriptors, _, _ = socket.recv_fds(served, _LIMIT, 2)
            if not request:
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                break
            for descriptor in descriptors:
                os.close(descriptor)
            served.send(str(pid).encode())
            served.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
    _become(json.loads(request), *descriptors)


def _become(request: dict[str, object], out: int, err: int) -> None:
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[arg-type]
    os.chdir(str(request["cwd"]))
    _requested["arguments"] = request["arguments"]  # type: ignore[assignment]


def run() -> None:
    """Run what was requested as `python` runs its arguments: `-m MODULE …` or `-c CODE …`."""
    option, what, *rest = _requested["arguments"]
    sys.argv[:] = [option if option == "-c" else what, *rest]
    sys.path[0] = "" if option == "-c" else os.getcwd()
    if option == "-c":
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module(what, run_name="__main__", alter_sys=True)
