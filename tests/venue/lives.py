"""Programs that are killed and started again, quickly: each is forked off one process that has imported everything.

The process that forks takes lines from its standard input, and answers each with one:

    start ARGUMENTS…    the number of the new process, which runs `tests.venue.placing` with these
    ask PID             the code with which it has ended, or `alive`
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from types import TracebackType

from .running import ROOT


class Forker:
    """The process that forks programs. They die with it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.venue.lives"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._alive: set[int] = set()

    def __enter__(self) -> Forker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pid in list(self._alive):
            self.kill(pid)
        self._process.communicate()

    def start(self, *arguments: str) -> int:
        """Start a program; return its number."""
        pid = int(self._say("start", *arguments))
        self._alive.add(pid)
        return pid

    def code(self, pid: int) -> int | None:
        """Return the code with which a program has ended; None while it lives."""
        answer = self._say("ask", str(pid))
        if answer == "alive":
            return None
        self._alive.discard(pid)
        return int(answer)

    def kill(self, pid: int) -> None:
        """Kill a program with `kill -9`."""
        os.kill(pid, signal.SIGKILL)
        while self.code(pid) is None:
            time.sleep(0.001)

    def _say(self, *words: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, sep="\t", file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline().strip()
        assert answer, "the process that forks has died"
        return answer


def serve() -> None:
    """Fork and reap as told, until there is nobody to tell."""
    importlib.import_module("ccxt")
    placing = importlib.import_module("tests.venue.placing")
    for line in sys.stdin:
        verb, *words = line.rstrip("\n").split("\t")
        if verb == "ask":
            pid, status = os.waitpid(int(words[0]), os.WNOHANG)
            print(os.waitstatus_to_exitcode(status) if pid else "alive", flush=True)
            continue
        pid = os.fork()
        if not pid:
            _live(placing.run, words)
        print(pid, flush=True)


def _live(run: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> None:
    """Be a program, to its end."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    code = 1
    try:
        code = run(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
