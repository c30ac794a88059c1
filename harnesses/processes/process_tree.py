"""A command with all its descendants, which can be killed as a whole.

    Linux      a reaper process in between collects every descendant (`reaper.py`); a mark in the environment
               finds them if the reaper is killed
    elsewhere  a process group with a watcher in it; a process that leaves the group by `setsid` escapes

Invariant: `ended()` returns when no process of the tree is left. If this program is killed, the tree ends too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO
from uuid import uuid4

import trio
from attrs import frozen

from harnesses.processes.process_sweep import MARK, sweep_marked

_REAPER = Path(__file__).with_name("reaper.py")
HAS_REAPER = (
    sys.platform.startswith("linux")
    and hasattr(os, "pidfd_open")
    and Path("/proc/self/stat").exists()
    and bool(sys.executable)
    and _REAPER.is_file()
)
"""Whether the reaper works on this system."""
_STUCK_S = 15.0
"""Seconds to wait for the reaper's report; more than its own `_GRACE_S`. Only a stopped reaper takes longer."""


@cache
def can_hide_files() -> bool:
    """Return whether files can be hidden from a command here, that is, whether the kernel allows private mount namespaces."""
    if not HAS_REAPER:
        return False
    with NamedTemporaryFile() as file:
        tried = [sys.executable, "-I", "-S", "-B", str(_REAPER), "try", file.name]
        return subprocess.run(tried, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


@frozen
class Ended:
    """How a process tree ended."""

    code: int
    """Exit code of the command, negative for a signal."""
    left: tuple[int, ...] = ()
    """Ids of processes that could not be killed: they hang in the kernel, or belong to another user."""
    watched: bool = True
    """False if the reaper was killed; the code is then not that of the command."""


@frozen(kw_only=True)
class Streams:
    """Standard streams of a command: descriptors, or the constants of `subprocess`."""

    stdin: int | IO[bytes] = subprocess.DEVNULL
    stdout: int | IO[bytes] = subprocess.PIPE
    stderr: int | IO[bytes] = subprocess.STDOUT


@frozen(kw_only=True)
class Rights:
    """Extra rights and restrictions of a command."""

    gain_privileges: bool = False
    """Whether `sudo` and the like work in it and it may signal processes outside of its tree. It can then kill its reaper."""
    hidden: tuple[str, ...] = ()
    """Key files that it finds empty, where the kernel supports mount namespaces. Not with `gain_privileges`."""
    scoped_sockets: bool = False
    """Whether to forbid connections to abstract Unix sockets outside of the tree."""

    @property
    def word(self) -> str:
        """The argument that passes these rights to the reaper."""
        return "free" if self.gain_privileges else "walled" if self.scoped_sockets else "scoped"


class Tree(ABC):
    """A running command with all its descendants."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process

    async def wait(self) -> None:
        """Wait until the command has ended."""
        await self.process.wait()

    @abstractmethod
    def end(self) -> None:
        """Kill everything; `ended` waits until that is done. Idempotent."""

    @abstractmethod
    async def ended(self) -> Ended:
        """Wait until nothing is left, after `end`. Shield it; it returns in bounded time. May be called again."""


async def start_tree(
    command: Sequence[str],
    *,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    streams: Streams = Streams(),
    rights: Rights = Rights(),
) -> Tree:
    """Start a command. Raises `NotADirectoryError` if the directory does not exist.

    Args:
        env: the whole environment; None for this program's. The mark is added to it.
    """
    mark = uuid4().hex
    around = os.environ.get(MARK, "")
    marked = {**(os.environ if env is None else env), MARK: f"{around}{mark}:"}
    control, lifeline = os.pipe()
    report, speaks = os.pipe()
    if HAS_REAPER:
        reaper = [sys.executable, "-I", "-S", "-B", str(_REAPER), str(control), str(speaks), str(os.getpid())]
        before = [*reaper, rights.word, str(len(rights.hidden)), *rights.hidden]
    else:
        before = ["/bin/sh", "-c", _WATCHED.format(control), "sh"]
    try:
        process = await trio.lowlevel.open_process(
            [*before, *command],
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            cwd=cwd,
            env=marked,
            start_new_session=True,
            pass_fds=(control, speaks) if HAS_REAPER else (control,),
        )
    except BaseException as error:
        os.close(lifeline)
        os.close(report)
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise
        raise NotADirectoryError(
            f"command {command[0]!r} cannot be run: expected a directory to run it in, got {str(cwd)!r}; make it first"
        ) from error
    finally:
        os.close(control)
        os.close(speaks)
    if HAS_REAPER:
        return _Reaped(process, lifeline, report, mark)
    os.close(report)
    return _Group(process, lifeline)


class _Reaped(Tree):
    def __init__(self, process: trio.Process, control: int, report: int, mark: str) -> None:
        super().__init__(process)
        self._control: int | None = control
        self._report = report
        self._mark = mark
        self._ended: Ended | None = None

    def end(self) -> None:
        if self._control is not None:
            os.close(self._control)
            self._control = None
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGCONT)  # The command may have stopped the reaper.

    async def ended(self) -> Ended:
        if self._ended is None:
            self._ended = await self._find_out()
        return self._ended

    async def _find_out(self) -> Ended:
        with trio.move_on_after(_STUCK_S) as patience:
            await self.process.wait()
        if patience.cancelled_caught:
            self.process.kill()
            await self.process.wait()
        report: list[bytes] = []
        os.set_blocking(self._report, False)
        with suppress(BlockingIOError):
            report = os.read(self._report, 65_536).split()
        os.close(self._report)
        if report:
            code, *left = (int(number) for number in report)
            return Ended(code, tuple(left))
        swept = await sweep_marked(self._mark)
        return Ended(-signal.SIGKILL, swept.left, watched=False)


# PR_SET_PDEATHSIG cannot replace the watcher: it fires when the *thread* that spawned the command ends, and Trio
# spawns in a worker thread, which ends after ten idle seconds.
# `/dev/fd`, because shells accept only one-digit descriptors in redirections.
_WATCHED = 'exec 3</dev/fd/{}; ( {{ read -r _ <&3; kill -KILL 0; }} >/dev/null 2>&1 </dev/null & ); exec 3<&-; exec "$@"'


class _Group(Tree):
    def __init__(self, process: trio.Process, lifeline: int) -> None:
        super().__init__(process)
        self._lifeline: int | None = lifeline

    def end(self) -> None:
        # The watcher outlives the command, so the group id cannot be reused before the group has been killed.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    async def ended(self) -> Ended:
        return Ended(await self.process.wait())
