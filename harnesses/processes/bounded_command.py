"""Runs a command within a time limit and leaves no process of it behind.

Invariant: when `run_bounded` ends, however it ends, no process started by the command is left, including those that left its
group or session. If this program is killed, they end with it. How: `harnesses.processes.process_tree`.

This is clean-up, not a sandbox. The command can read and write whatever this program can, except the keys of open stores,
which it finds empty where the kernel supports that (`reaper.py`). It can have services of the machine (cron, systemd, docker)
start processes outside of its tree. Run untrusted code in a sandbox as well.

Output is read as it arrives: its end is kept (`Tail`), its lines are passed on (`Lines`). Memory use does not grow with it.
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
"""Seconds to read output left in the pipe after the tree is dead; only an escaped process can keep the pipe open."""


@frozen
class Ran:
    """How a command ended."""

    code: int | None
    """Exit code, negative for a signal; None if it was killed at its time limit."""
    tail: str
    """The end of its output, standard output and error together."""
    duration_s: float
    left: tuple[int, ...] = ()
    """Ids of processes that could not be killed: they hang in the kernel, or belong to another user."""
    cut_bytes: int = 0
    """Bytes of output before `tail`; to see them, raise `tail_bytes` or use `on_line`."""


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
    """Run `command`, kill its process tree after `limit_s` seconds or when it has ended, and return how it ended.

    A command that is not found ends with code 127, one that cannot be run with 126, and the tail says why. If cancelled,
    raises `Cancelled` once everything is killed.

    Args:
        tail_bytes: how much of the output is kept.
        cwd: must exist, else `NotADirectoryError`.
        env: the whole environment; None for this program's. `HARNESS_TREE` is added: it marks the command's processes.
        input: standard input of the command; None for none.
        on_line: called with each line of output as it arrives, at most a megabyte of it. If it raises, the command is killed
            and the error propagates.
        on_error_line: called with the lines of standard error, which `on_line` then does not get.
        may_gain_privileges: whether programs such as `sudo` work in it and it may signal processes outside of its tree. It can
            then kill its own reaper.
        scoped_sockets: whether to forbid connections to abstract Unix sockets outside of the tree (Linux 6.12). Not with
            `may_gain_privileges`.
    """
    started = trio.current_time()
    streams = Streams(
        stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
        stderr=subprocess.STDOUT if on_error_line is None else subprocess.PIPE,
    )
    # A sandbox hides them completely.
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
    """Wait for a command to end, kill what is left of it, and return whether it ended in time."""
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
            pass  # The command closed its standard input early.
        finally:
            await pipe.aclose()


class _Reader:
    def __init__(self, pipe: trio.abc.ReceiveStream | None, tail: Tail, on_line: Callable[[str], object] | None) -> None:
        self._pipe = pipe
        self._tail = tail
        self._lines = None if on_line is None else Lines(on_line)
        self._error: Exception | None = None

    async def read(self, stop: Callable[[], None]) -> None:
        """Read to the end; if passing on a line fails, keep the error for `close` and call `stop`."""
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
        """Pass on the last, unterminated line, or raise the kept error."""
        if self._error is not None:
            raise self._error
        if self._lines is not None:
            self._lines.close()


def _remark(ended: Ended) -> str:
    """Return what must be said about the end of a command besides its code."""
    remark = "" if ended.watched else "\n[what watched over the command was killed; its exit code is not known]"
    return remark + (f"\n[could not be ended: processes {', '.join(map(str, ended.left))}]" if ended.left else "")


MAX_LINE = 1_000_000
"""Bytes of a line that are passed on; the rest of it is dropped."""


class Tail:
    """Keeps the end of an output stream.

    Args:
        limit: bytes to keep.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.cut_bytes = 0
        """Bytes dropped before the kept ones."""

    def __str__(self) -> str:
        return self._kept.decode(errors="replace")

    def add(self, chunk: bytes | bytearray) -> None:
        """Append a chunk of output."""
        self._kept += chunk
        cut = max(0, len(self._kept) - self._limit)
        self.cut_bytes += cut
        del self._kept[:cut]


class Lines:
    r"""Splits output into lines, and passes each to `on_line` without its `\n` or `\r\n`.

    Args:
        on_line: called with every line, including empty ones, and at the end with an unterminated one.
        limit: bytes of a line that are passed on.
    """

    def __init__(self, on_line: Callable[[str], object], *, limit: int = MAX_LINE) -> None:
        self._on_line = on_line
        self._limit = limit
        self._line = bytearray()

    def add(self, chunk: bytes | bytearray) -> None:
        """Append a chunk of output, and pass on the lines that it completes."""
        *complete, rest = bytes(chunk).split(b"\n")
        for part in complete:
            self._keep(part)
            self._hand_on()
        self._keep(rest)

    def close(self) -> None:
        """Pass on an unterminated line, if there is one."""
        if self._line:
            self._hand_on()

    def _keep(self, part: bytes) -> None:
        self._line += part[: self._limit - len(self._line)]

    def _hand_on(self) -> None:
        line = self._line.decode(errors="replace").removesuffix("\r")
        self._line.clear()
        self._on_line(line)
