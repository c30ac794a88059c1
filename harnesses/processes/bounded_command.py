"""Runs a command within a time limit and leaves nothing of it behind.

The law: when `run_bounded` is over, by whatever way, no process that the command has started is left, also none that has
left its group or session; and if this program is killed, they end with it. How: `harnesses.processes.process_tree`.

It keeps order among processes; it is no wall. The command can read and write what this program can, but for the keys of open
stores, which it finds empty where the kernel can do that (`reaper.py`). It can have services of the machine start
something that is not of its tree: cron, systemd, docker. Run code that you do not trust in a sandbox as well.

What it writes is taken in as it comes: its end is kept (`Tail`), its lines are handed on (`Lines`); a flood costs no memory.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import trio
from attrs import frozen

from harnesses.files.private_files import concealed_keys
from harnesses.processes.process_sweep import Swept, sweep
from harnesses.processes.process_tree import Ended, Rights, Streams, Tree, start_tree

__all__ = ["Ran", "Swept", "run_bounded", "sweep"]

_DRAIN_S = 1.0
"""For output still in the pipe when the tree is dead; only a process that has escaped can keep it open that long."""


@frozen
class Ran:
    """How a command ended."""

    code: int | None
    """Its exit code, negative for a signal; None if it was killed at its time limit."""
    tail: str
    """The last of what it wrote, standard output and error together."""
    duration_s: float
    left: tuple[int, ...] = ()
    """Ids of processes that could not be ended: they hang in the kernel, or belong to another user."""
    cut_bytes: int = 0
    """How much it wrote before `tail`; give more `tail_bytes`, or `on_line`, to see it."""


async def run_bounded(
    command: Sequence[str],
    *,
    limit_s: float,
    tail_bytes: int = 4_000,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    input: bytes | None = None,
    on_line: Callable[[str], object] | None = None,
    on_error_line: Callable[[str], object] | None = None,
    may_gain_privileges: bool = False,
    scoped_sockets: bool = False,
) -> Ran:
    """Run `command`, kill it and all it started after `limit_s` seconds or when it has ended, and return how it ended.

    A command that cannot be found ends with code 127, one that cannot be run with 126, and the tail says why. If
    cancelled, raises `Cancelled` when everything is killed.

    Args:
        tail_bytes: how much of the output is kept.
        cwd: must exist, else `NotADirectoryError`.
        env: the whole environment; None is this program's. `HARNESS_TREE` is added: it marks what belongs to the command.
        input: what the command can read; None is nothing.
        on_line: gets each line of output as it comes, at most a megabyte of it. Its error ends the command and is raised.
        on_error_line: gets the lines of standard error, which `on_line` then does not get.
        may_gain_privileges: whether programs such as `sudo` work in it, and it may signal processes that are not its own.
            It can then kill what watches over it.
        scoped_sockets: whether it may not connect to sockets of the machine that have no file (Linux 6.12). Not with
            `may_gain_privileges`.
    """
    started = trio.current_time()
    streams = Streams(
        stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
        stderr=subprocess.STDOUT if on_error_line is None else subprocess.PIPE,
    )
    # In a sandbox they are not there at all.
    hidden = () if may_gain_privileges or scoped_sockets else concealed_keys()
    rights = Rights(gain_privileges=may_gain_privileges, hidden=hidden, scoped_sockets=scoped_sockets)
    tree = await start_tree(command, cwd=cwd, env=env, streams=streams, rights=rights)
    tail = Tail(tail_bytes)
    readers = [_Reader(tree.process.stdout, tail, on_line), _Reader(tree.process.stderr, tail, on_error_line)]
    in_time = await _see_through(tree, readers, input, limit_s)
    for reader in readers:
        reader.close()
    ended = await tree.ended()
    return Ran(
        ended.code if in_time else None, f"{tail}{_remark(ended)}", trio.current_time() - started, ended.left, tail.cut_bytes
    )


async def _see_through(tree: Tree, readers: Sequence[_Reader], input: bytes | None, limit_s: float) -> bool:
    """Wait for a command to end, have nothing left of it, and return whether it ended in time."""
    try:
        async with trio.open_nursery() as nursery:
            for reader in readers:
                nursery.start_soon(reader.read, tree.end)
            nursery.start_soon(_feed, tree.process.stdin, input)
            with trio.move_on_after(limit_s) as limit:
                await tree.wait()
            await _end(tree)
            nursery.cancel_scope.deadline = trio.current_time() + _DRAIN_S
    finally:
        await _end(tree)
        with trio.CancelScope(shield=True):
            for pipe in (tree.process.stdin, tree.process.stdout, tree.process.stderr):
                if pipe is not None:
                    await pipe.aclose()
    return not limit.cancelled_caught


async def _end(tree: Tree) -> None:
    tree.end()
    with trio.CancelScope(shield=True):
        await tree.ended()


async def _feed(pipe: trio.abc.SendStream | None, input: bytes | None) -> None:
    if pipe is not None and input is not None:
        try:
            await pipe.send_all(input)
        except trio.BrokenResourceError:
            pass  # it did not want to read all of it
        finally:
            await pipe.aclose()


class _Reader:
    def __init__(self, pipe: trio.abc.ReceiveStream | None, tail: Tail, on_line: Callable[[str], object] | None) -> None:
        self._pipe = pipe
        self._tail = tail
        self._lines = None if on_line is None else Lines(on_line)
        self._error: Exception | None = None

    async def read(self, stop: Callable[[], None]) -> None:
        """Read to the end; when a line cannot be handed on, keep the error for `close` and call `stop`."""
        if self._pipe is None:
            return
        async for chunk in self._pipe:
            self._tail.add(chunk)
            if self._lines is not None and self._error is None:
                try:
                    self._lines.add(chunk)
                except Exception as error:
                    self._error = error
                    stop()

    def close(self) -> None:
        """Hand on what was not terminated, or raise the error."""
        if self._error is not None:
            raise self._error
        if self._lines is not None:
            self._lines.close()


def _remark(ended: Ended) -> str:
    """Return what has to be said of the end of a command that its code does not say."""
    remark = "" if ended.watched else "\n[what watched over the command was killed; its exit code is not known]"
    return remark + (f"\n[could not be ended: processes {', '.join(map(str, ended.left))}]" if ended.left else "")


MAX_LINE = 1_000_000
"""Bytes of a line that are handed on; the rest of it is dropped."""


class Tail:
    """The last of some output.

    Args:
        limit: bytes that are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.cut_bytes = 0
        """How much came before what is kept."""

    def __str__(self) -> str:
        return self._kept.decode(errors="replace")

    def add(self, chunk: bytes | bytearray) -> None:
        """Take in what comes next."""
        self._kept += chunk
        cut = max(0, len(self._kept) - self._limit)
        self.cut_bytes += cut
        del self._kept[:cut]


class Lines:
    r"""Cuts output into lines, and hands each to `on_line` without its `\n`, or `\r\n`.

    Args:
        on_line: gets every line, also an empty one, and at the end one that is not terminated.
        limit: bytes of a line that are handed on.
    """

    def __init__(self, on_line: Callable[[str], object], *, limit: int = MAX_LINE) -> None:
        self._on_line = on_line
        self._limit = limit
        self._line = bytearray()

    def add(self, chunk: bytes | bytearray) -> None:
        """Take in what comes next, and hand on the lines that it completes."""
        *complete, rest = bytes(chunk).split(b"\n")
        for part in complete:
            self._keep(part)
            self._hand_on()
        self._keep(rest)

    def close(self) -> None:
        """Hand on the line that has begun, if one has."""
        if self._line:
            self._hand_on()

    def _keep(self, part: bytes) -> None:
        self._line += part[: self._limit - len(self._line)]

    def _hand_on(self) -> None:
        line = self._line.decode(errors="replace").removesuffix("\r")
        self._line.clear()
        self._on_line(line)
