"""Runs attempts to get out of a sandbox, each in a process of its own; run by its path, in the sandbox. Standard library only.

What an attempt obtains is written to `loot/NAME` in the working directory; all else is judged from outside.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import termios
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

AT_ONCE = 6
LIMIT_S = 5.0
libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int) -> int:
    """Return the result of a C function or system call, or raise what it failed with."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def syscall(number: int, *arguments: object) -> int:
    return checked(libc.syscall(number, *arguments))


def read(path: str | int, size: int = 100_000) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read(size)


def write(path: str, text: str = "owned", flags: int = os.O_WRONLY | os.O_CREAT | os.O_TRUNC) -> None:
    opened = os.open(path, flags, 0o644)
    try:
        os.write(opened, text.encode())
    finally:
        os.close(opened)


def send(family: int, kind: int, address: object, text: str, protocol: int = 0) -> None:
    with socket.socket(family, kind, protocol) as one:
        one.settimeout(2)
        one.connect(address)  # type: ignore[arg-type]
        one.sendall(text.encode())


def run(*words: str, **options: object) -> bytes:
    return subprocess.run(words, capture_output=True, timeout=4, **options).stdout  # type: ignore[call-overload]


def stack_of(pid: int) -> tuple[int, int]:
    """Return the addresses of a process's stack, where its environment is."""
    line = next(line for line in read(f"/proc/{pid}/maps").decode().splitlines() if "[stack]" in line)
    first, last = line.split()[0].split("-")
    return int(first, 16), int(last, 16)


started: list[int] = []


def loot_more_than(loot: Callable[[str], None], limit: int, make: Callable[[], object]) -> None:
    """Make as many as a limit allows and more; end the processes that were made."""
    made = 0
    try:
        while made <= limit:
            make()
            made += 1
    except (OSError, RuntimeError):
        pass
    for child in started:
        os.kill(child, signal.SIGKILL)
    if made > limit:
        loot(SECRET_IF_DONE)


def loot_key(loot: Callable[[bytes], None], ring: int, description: str) -> None:
    key = syscall(250, 10, ring, b"user", description.encode(), 0)
    kept = ctypes.create_string_buffer(200)
    syscall(250, 11, key, kept, 200)
    loot(kept.raw)


def attach_segment(segment: int) -> int:
    libc.shmat.restype = ctypes.c_ssize_t
    return checked(libc.shmat(segment, None, 0o10000))


def payload(name: str) -> str:
    return f"[core]\n\tfsmonitor = touch {name}\n"


SECRET_IF_DONE = "DONE-AND-NOT-REFUSED"
"""For what cannot be seen from outside, such as a privilege."""


def attempt(one: dict[str, str], ground: dict[str, object]) -> None:
    """Run one attempt in this process."""
    name = one["name"]

    def loot(found: object) -> None:
        with open(f"{ground['work']}/loot/{name}", "ab") as file:
            file.write(found if isinstance(found, bytes) else repr(found).encode())

    around = {**globals(), **ground, "name": name, "loot": loot, "secret_if_done": SECRET_IF_DONE}
    around |= {"victim": f"{ground['outside']}/{name}/victim", "fresh": f"{ground['outside']}/{name}/fresh"}
    around["folder"] = f"{ground['outside']}/{name}"
    around["bystander"] = ground["bystanders"].get(name)  # type: ignore[attr-defined]
    exec(compile(one["code"], name, "exec"), around)


def fork(one: dict[str, str], ground: dict[str, object]) -> int:
    child = os.fork()
    if child:
        return child
    os.environ["ATTEMPT"] = one["name"]
    with open(f"said/{one['name']}", "w") as said:
        try:
            attempt(one, ground)
            said.write("did not fail")
        except BaseException:
            said.write(traceback.format_exc())
    os._exit(0)


def main() -> None:
    ground = json.loads(Path("ground.json").read_text())
    waiting = list(json.loads(Path("attempts.json").read_text()))
    running: dict[int, float] = {}
    alone = False
    while waiting or running:
        while waiting and len(running) < AT_ONCE and not (running and (alone or waiting[0]["alone"])):
            alone = waiting[0]["alone"]
            running[fork(waiting.pop(0), ground)] = time.monotonic() + LIMIT_S
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        running.pop(ended, None)
        if ended == 0:
            time.sleep(0.002)
        for child, until in running.items():
            if time.monotonic() > until:
                os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # Not waiting for threads.

__all__ = ["fcntl", "shutil", "stat", "struct", "termios", "threading"]
