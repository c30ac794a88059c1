"""The program above the workers: it starts them, starts one again that was killed, and passes signals on to all.

A worker that was killed loses what its harnesses had in progress, and nothing that is recorded: its successor takes them over
from their last recorded steps. One that ends by itself has said how its harnesses ended, and is not started again.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Collection, Sequence
from random import random

import msgspec
import trio
from attrs import define, field
from msgspec.structs import replace

from orchestrator.errors import UsageError
from orchestrator.restart import Again, Backoff, Intensity, Restart, decide, delay_s
from orchestrator.text.terminal_text import say
from orchestrator.workers.worker_channel import Begun, Report, Share, line_of, read_message

_FAILED = 1
"""Exit code of a worker that was given up."""
_PART = 1 << 16
_MOST_WAIT_S = 60.0
"""Seconds that a worker gets to end after SIGTERM when the program is cancelled; then it is killed."""
_OF_THE_PROGRAM = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""Environment variables by which a service manager talks with the program itself."""


@define(eq=False, repr=False)
class WorkerPool:
    """Runs one process for each share, and collects what they report.

    Args:
        shares: what each worker is to do.
        command: returns the words that start a worker which inherits this descriptor.
    """

    shares: Sequence[Share]
    command: Callable[[int], Sequence[str]]
    ended: Callable[[], Collection[str]] = tuple
    """Returns the names of harnesses that have ended in this run: a worker that is started again does not start them."""
    intensity: Intensity = field(factory=Intensity)
    """How often each worker is started again."""
    backoff: Backoff = field(factory=Backoff)
    reports: dict[int, Report] = field(factory=dict[int, Report])
    """What each worker said at its end, by number from 0."""
    codes: dict[int, int] = field(factory=dict[int, int])
    """The exit code of each worker, or the negative number of the signal that ended it; 1 of one that was given up."""
    signalled: int | None = None
    """The first signal that was passed on."""
    _processes: dict[int, trio.Process] = field(factory=dict[int, trio.Process])
    _again: dict[int, Share] = field(factory=dict[int, Share])
    """What workers that were started again are to do."""
    _begun: set[int] = field(factory=set[int])
    _all_begun: trio.Event = field(factory=trio.Event)

    async def run(self) -> None:
        """Run the workers until all have ended. Cancelled, it stops them as SIGTERM does, and waits for their end."""
        async with trio.open_nursery() as nursery:
            for number in range(len(self.shares)):
                nursery.start_soon(self._keep, number)

    async def wait_begun(self) -> None:
        """Wait until each worker has started its harnesses, or has ended."""
        await self._all_begun.wait()

    @property
    def processes(self) -> dict[int, int]:
        """The process ids of the workers that run, by number."""
        return {number: process.pid for number, process in self._processes.items()}

    def pass_on(self, number: int) -> None:
        """Send a signal that ends them to all workers; none is started again from then on."""
        self.signalled = self.signalled or number
        for process in self._processes.values():
            process.send_signal(number)

    async def _keep(self, number: int) -> None:
        """Run one worker, again and again while it is killed."""
        restarts: tuple[float, ...] = ()
        try:
            while True:
                code = await self._live(number)
                if number in self.reports or code >= 0 or self.signalled is not None:
                    self.codes[number] = code
                    return
                name = f"worker {number + 1} was killed by {signal.Signals(-code).name}"
                now = trio.current_time()
                decision = decide(Restart.TRANSIENT, self.intensity, crashed=True, restarts=restarts, now=now)
                if not isinstance(decision, Again):
                    say(f"orchestrator: {name} once too often: it is given up; start the run again when the cause is gone")
                    self.codes[number] = _FAILED
                    return
                restarts = decision.restarts
                self._again[number] = replace(self.shares[number], names=self._left(number))
                if not self._again[number].names:
                    self.reports[number], self.codes[number] = Report(), 0
                    return
                say(f"orchestrator: {name}; it is started again, and its harnesses go on from their last steps")
                await trio.sleep(delay_s(self.backoff, len(restarts), random()))
                if self.signalled is not None:
                    self.codes[number] = -self.signalled
                    return
        finally:
            self._note_begun(number)

    def _left(self, number: int) -> tuple[str, ...]:
        """Return the harnesses of a worker that have not ended."""
        ended = self.ended()
        return tuple(name for name in self.shares[number].names if name not in ended)

    async def _live(self, number: int) -> int:
        """Run one process to its end, and return its exit code, or the negative number of the signal that killed it."""
        ours, theirs = socket.socketpair()
        with theirs:
            words = self.command(theirs.fileno())
            try:
                process = await trio.lowlevel.open_process(
                    words,
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    env={name: value for name, value in os.environ.items() if name not in _OF_THE_PROGRAM},
                )
            except OSError as error:
                ours.close()
                raise UsageError(f"worker {number + 1} cannot be started: {error}") from error
        self._processes[number] = process
        if self.signalled is not None:  # it came while the process was being started, and has reached only the others
            process.send_signal(self.signalled)
        try:
            async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as stream:
                await self._converse(number, stream)
                return await process.wait()
        finally:
            await self._end(process)
            del self._processes[number]

    async def _converse(self, number: int, stream: trio.SocketStream) -> None:
        """Tell a worker its share, and hear it until it says no more."""
        received = bytearray()
        try:
            await stream.send_all(line_of(self._again.get(number, self.shares[number])))
            while part := await stream.receive_some(_PART):
                received += part
                *lines, received = received.split(b"\n")
                for line in lines:
                    message = read_message(line)
                    if isinstance(message, Begun):
                        self._note_begun(number)
                    else:
                        self.reports[number] = message
        except (trio.BrokenResourceError, msgspec.DecodeError):
            return  # what it has not said is told by its exit code

    def _note_begun(self, number: int) -> None:
        self._begun.add(number)
        if len(self._begun) == len(self.shares):
            self._all_begun.set()

    async def _end(self, process: trio.Process) -> None:
        """Stop a worker that is still there, and wait for its end."""
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            with trio.move_on_after(_MOST_WAIT_S, shield=True):
                await process.wait()
                return
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
