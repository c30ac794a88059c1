"""Deaths and faults at chosen moments: at a commit of the store, or at a system call, by `strace`."""

from __future__ import annotations

import shutil
import signal
import subprocess
from functools import cache
from pathlib import Path

from .lives import End, History, Life, assert_sound
from .workload import KINDS

WRITES = "pwrite64,write,ftruncate,unlink"
SYNCS = "fdatasync,fsync"


@cache
def why_no_strace() -> str:
    """Return why system calls cannot be tampered with here; empty if they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(
        ["strace", "-f", "-o", "/dev/null", "-e", "inject=fsync:error=EIO", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if tried.returncode == 0 else f"strace cannot be used here: {tried.stderr.strip()}"


def tampered(calls: str, tampering: str) -> list[str]:
    """Return a command that runs another with some of its system calls tampered with."""
    return [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        f"trace={calls}",
        "-e",
        f"inject={calls}:{tampering}",
    ]


def watched(notes: Path) -> list[str]:
    """Return a command that runs another and notes its writes and syncs."""
    return ["strace", "-f", "-qq", "-o", str(notes), "-e", f"trace={WRITES},{SYNCS}"]


def die_and_go_on(store: Path, *arguments: str, steps: int, before: list[str] | None = None) -> bool:
    """Have a program die at a chosen moment, verify, and have the next one go on to the end.

    Returns:
        Whether it did die; if it made fewer calls than that, it came to its end.
    """
    history = History(store)
    life = Life(store, *arguments, steps=steps, before=before or [])
    end = life.end()
    died = end.code in (-signal.SIGKILL, 128 + signal.SIGKILL)
    assert died or end.code == 0, f"the program ended with code {end.code}:\n{end.errors[-4000:]}"
    history.add(life)
    history.verify()
    go_on(history, steps=steps)
    return died


def fail_and_go_on(store: Path, *, steps: int, before: list[str]) -> End:
    """Have a program meet a fault, verify, and have the next one, without it, go on to the end. Return how the first ended."""
    history = History(store)
    life = Life(store, steps=steps, before=before)
    end = life.end()
    history.add(life)
    history.verify()
    go_on(history, steps=steps)
    return end


def go_on(history: History, *, steps: int) -> None:
    """Run the program to its end, and assert that every harness has all its steps."""
    life = Life(history.store, steps=steps)
    end = life.end()
    assert end.code == 0, f"the program ended with code {end.code}:\n{end.errors[-4000:]}"
    history.add(life)
    assert history.verify() == dict.fromkeys(KINDS, steps)
    assert_sound(history.store)


def die_at_each_call(folder: Path, *, steps: int = 8) -> dict[str, int]:
    """Have programs die at the first write, the second, and so on, until one makes fewer; then the same with the syncs.

    Returns:
        How many died of each. Calls are counted for each thread by itself.
    """
    deaths: dict[str, int] = {}
    for calls in (SYNCS, WRITES):
        number = 1
        while die_and_go_on(
            folder / f"{calls}-{number}.db", steps=steps, before=tampered(calls, f"signal=KILL:when={number}")
        ):
            number += 1
        deaths[calls] = number - 1
    return deaths
