"""Runs a command within a time limit and leaves nothing of it behind.

The law: when `run_bounded` is over, by whatever way, no process of the command's group is left; and if this program is
killed, the group dies with it.

    this program ──pipe──►  watcher      reads; at the end of the pipe kills the group, itself included
        │                      │ same process group, a session of its own
        └──output◄──────────  command    and whatever it starts

The pipe's other end is open in this program alone, so the kernel closes it even after `kill -9`. The watcher outlives the
command, so the group's number can not be given to another one before it has been killed. What leaves the group by `setsid`
escapes: run code that you do not trust in a sandbox.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import trio
from attrs import frozen

_DRAIN_S = 1.0
"""For output still in the pipe when the group is dead; only a process that left the group can keep it open that long."""

# PR_SET_PDEATHSIG would not do instead of the watcher: it fires when the *thread* that spawned the command ends, and Trio
# spawns in a worker thread, which ends after ten idle seconds.
_WATCHED = 'exec 3<&0 </dev/null; ( { read -r _ <&3; kill -KILL 0; } >/dev/null 2>&1 & ); exec 3<&-; exec "$@"'


@frozen
class Ran:
    """How a command ended."""

    code: int | None
    """Its exit code, negative for a signal; None if it was killed at its time limit."""
    tail: str
    """The last of what it wrote, standard output and error together."""
    duration_s: float


async def run_bounded(
    command: Sequence[str],
    *,
    limit_s: float,
    tail_bytes: int = 4_000,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Ran:
    """Run `command` with no input, kill it and all it started after `limit_s` seconds, and return how it ended.

    A command that can not be found ends with code 127. If cancelled, raises `Cancelled` when everything is killed.
    """
    started = trio.current_time()
    process = await trio.lowlevel.open_process(
        ["/bin/sh", "-c", _WATCHED, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=env,
        start_new_session=True,
    )
    tail = bytearray()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_keep_tail, process, tail, tail_bytes)
            with trio.move_on_after(limit_s) as limit:
                await process.wait()
            _kill_group(process)
            nursery.cancel_scope.deadline = trio.current_time() + _DRAIN_S
    finally:
        _kill_group(process)
        with trio.CancelScope(shield=True):
            await _reap(process)
    code = None if limit.cancelled_caught else process.returncode
    return Ran(code, tail.decode(errors="replace"), trio.current_time() - started)


async def _keep_tail(process: trio.Process, tail: bytearray, tail_bytes: int) -> None:
    assert process.stdout is not None
    async for chunk in process.stdout:
        tail += chunk
        del tail[: max(0, len(tail) - tail_bytes)]


async def _reap(process: trio.Process) -> None:
    await process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            await pipe.aclose()


def _kill_group(process: trio.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
