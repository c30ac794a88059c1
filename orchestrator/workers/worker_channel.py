"""What passes between a program and its workers: lines of JSON over a socket that each worker inherits.

    program ──► worker    `Share`, once
    worker ──► program    `Begun` when its harnesses have been started, and `Report` at its end

Invariant: a worker does not outlive its program. The end of the socket is the end of the program, however it came about, and
the worker stops as it does after SIGTERM.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Any

import msgspec
from attrs import define

from harnesses.processes.fork_safety import keep_from_forks
from orchestrator.outcome import Outcome, OutcomeKind

_PART = 1 << 16


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is to do."""

    names: tuple[str, ...]
    """Of its harnesses."""
    options: dict[str, Any] = {}
    """Whatever else the worker is told."""


class Begun(msgspec.Struct, frozen=True, tag=True):
    """The harnesses of a worker have been started."""


class Ended(msgspec.Struct, frozen=True):
    """How a harness ended, as plain values."""

    name: str
    kind: str
    cause: str
    step: int
    attempt: int

    @property
    def outcome(self) -> Outcome:
        return Outcome(OutcomeKind(self.kind), self.cause, self.step, self.attempt)


class Report(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How a worker ended."""

    ended: tuple[Ended, ...] = ()
    code: int = 0
    """Its exit code."""
    said: tuple[str, ...] = ()
    """Lines for people, each of which is worth saying once, however many workers say it."""


_encode = msgspec.json.Encoder().encode
_share = msgspec.json.Decoder(Share).decode
read_message = msgspec.json.Decoder(Begun | Report).decode


def line_of(message: msgspec.Struct) -> bytes:
    """Return a message as it is sent."""
    return _encode(message) + b"\n"


@define(eq=False)
class WorkerChannel:
    """A worker's side."""

    share: Share
    _socket: socket.socket

    @classmethod
    def open(cls, descriptor: int) -> WorkerChannel:
        """Take over the inherited socket, and receive the share.

        Raises:
            EOFError: the program has ended before it said anything.
        """
        connection = socket.socket(fileno=descriptor)
        connection.set_inheritable(False)
        # A process that a harness forks would keep the socket open, and the program would wait for its words.
        keep_from_forks(descriptor)
        received = bytearray()
        while not received.endswith(b"\n"):
            part = connection.recv(_PART)
            if not part:
                raise EOFError("the program that started this worker has ended")
            received += part
        return cls(_share(received), connection)

    def stop_with_program(self) -> None:
        """From now on, stop this process as SIGTERM does when the program has ended."""
        threading.Thread(target=self._wait_for_end, name="orchestrator-worker", daemon=True).start()

    def _wait_for_end(self) -> None:
        try:
            while self._socket.recv(_PART):
                pass
        except OSError:
            return  # closed here
        os.kill(os.getpid(), signal.SIGTERM)

    def tell(self, message: Begun | Report) -> None:
        """Send a message; nothing if the program has ended."""
        try:
            self._socket.sendall(line_of(message))
        except OSError:
            return
