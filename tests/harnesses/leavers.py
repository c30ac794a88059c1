"""Ways in which a program tries to leave something behind: each starts `sleep` in the background with a word of its own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

DOUBLE_FORK = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.closerange(0, 64)
    os.execv("/bin/sleep", ["WORD", "300"])
os.wait()
"""
STUBBORN = """
import os, signal, time
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    os.execv("/bin/sleep", ["WORD", "300"])
time.sleep(0.2)
"""
FORGETFUL = """
import os
if os.fork() == 0:
    os.setsid()
    os.execve("/bin/sleep", ["WORD", "300"], {})
"""
# Of a chain no link lives long: when one is seen, the next one has begun. It ends by itself, though not within a test.
CHAIN = """
import os, time
begin, first = time.monotonic(), True
while time.monotonic() < begin + 60:
    if os.fork():
        time.sleep(0.3 if first else 0)
        os._exit(0)
    first = False
    os.setsid()
"""
CROWD = """
import os, time
for depth in range(6):
    os.fork()
os.setsid() if os.getpid() != os.getpgrp() else None
os.spawnv(os.P_NOWAIT, "/bin/sleep", ["WORD", "300"])
"""
SUBREAPER = """
import ctypes, os, time
if os.fork() == 0:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    os.setsid()
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            os.execv("/bin/sleep", ["WORD", "300"])
        os._exit(0)
    time.sleep(300)
time.sleep(0.2)
"""
STOPPED = """
import os, signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    os.execv("/bin/sleep", ["WORD", "300"])
"""

WAYS = {
    "background": ["bash", "-c", "exec -a WORD sleep 300 & echo"],
    "double fork": [sys.executable, "-S", "-c", DOUBLE_FORK],
    "ignores signals": [sys.executable, "-S", "-c", STUBBORN],
    "clears its environment": [sys.executable, "-S", "-c", FORGETFUL],
    "forks on and on": ["bash", "-c", 'exec -a WORD "$@"', "bash", sys.executable, "-S", "-c", CHAIN],
    "a crowd": [sys.executable, "-S", "-c", CROWD],
    "is a reaper itself": [sys.executable, "-S", "-c", SUBREAPER],
    "stopped": [sys.executable, "-S", "-c", STOPPED],
}


def way(name: str, word: str) -> list[str]:
    """Return the command that leaves a process that is called by a word."""
    return [part.replace("WORD", word) for part in WAYS[name]]


def named(word: str) -> set[int]:
    """Return the living processes that are called by a word. Looks many times, for some do not live long."""
    return {number for _ in range(10) for number in _named(word)}


def _named(word: str) -> Iterator[int]:
    for number in sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True):
        with suppress(OSError):
            if Path(f"/proc/{number}/cmdline").read_bytes().startswith(word.encode()):
                yield number


def soon(true: object, within_s: float = 20.0) -> bool:
    """Return whether something comes true within a time."""
    assert callable(true)
    deadline = time.monotonic() + within_s
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(true())
