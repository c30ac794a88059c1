"""The mailbox of a harness that runs alone: in memory, with nobody else to write to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, cast

import trio

from harnesses.control import Control
from harnesses.data.values import detach
from harnesses.errors import HarnessMisuse, UnknownHarness
from harnesses.messages.requests import Request, WrongMessage, check_kinds, check_timeout, check_waiting, opened, sealed


class LocalMail:
    """What waits for one harness that runs alone, and what its step being made sends to itself."""

    def __init__(self, name: str, control: Control) -> None:
        self.accepts: tuple[type, ...] = ()
        """The types of messages that the harness takes; any if none is named."""
        self._name = name
        self._control = control
        self._waiting: deque[object] = deque()
        self._sending: list[object] = []
        self._senders: set[trio.lowlevel.Task] = set()
        """The tasks that have sent something with the step being made."""
        self._arrival = trio.Event()
        """Of the next message; another one for each."""

    def check(self, to: str) -> None:
        """Raise `UnknownHarness` unless a message is for the harness itself."""
        if to != self._name:
            raise UnknownHarness(f"no harness {to!r}: {self._name!r} runs alone; start both in an Orchestrator")

    def deliver(self, messages: Iterable[object]) -> None:
        """Put messages in the mailbox."""
        self._waiting.extend([detach(message) for message in messages])
        self._arrival.set()
        self._arrival = trio.Event()

    async def receive(self, kinds: Sequence[type], *, in_execute: bool) -> Any:
        while True:
            try:
                return self.receive_nowait(kinds)
            except trio.WouldBlock:
                if in_execute and trio.lowlevel.current_task() in self._senders:
                    check_waiting(self.unsent)
                await self._control.wait(self._arrival.wait)

    def receive_nowait(self, kinds: Sequence[type]) -> Any:
        check_kinds(kinds, self.accepts)
        place = 0
        while place < len(self._waiting):
            try:
                message = self._opened(self._waiting[place])
            except WrongMessage:
                del self._waiting[place]  # set aside, as in an Orchestrator
                continue
            if not kinds or isinstance(message, tuple(kinds)):
                del self._waiting[place]
                return message
            place += 1
        raise trio.WouldBlock

    def _opened(self, message: object) -> object:
        if not self.accepts or isinstance(message, self.accepts):
            return message
        return opened(message, "", self.accepts)[0]

    async def send(self, to: str, message: object) -> None:
        self.check(to)
        self._sending.append(detach(sealed(message, self.accepts, to)[0]))
        self._senders.add(trio.lowlevel.current_task())
        await trio.lowlevel.checkpoint()

    async def ask(self, to: str, message: object, timeout_s: float, key: str) -> Any:
        check_timeout(timeout_s)
        if to == self._name:
            raise HarnessMisuse(f"ask {to!r}: expected another harness, was the one that asks; call the method instead")
        self.check(to)

    def reply(self, request: Request, answer: object) -> None:
        if not isinstance(cast(object, request), Request):
            raise HarnessMisuse(f"reply: expected a Request from `receive`, was {request!r:.200}")
        raise HarnessMisuse(f"reply to {request.sender!r}: {self._name!r} runs alone; start both in an Orchestrator")

    @property
    def unsent(self) -> Sequence[str]:
        return [self._name for _ in self._sending]

    def settle(self) -> None:
        """Send what the step that was recorded has sent."""
        self._senders.clear()
        if self._sending:
            sent, self._sending = self._sending, []
            self.deliver(sent)

    def end_attempt(self) -> None:
        """Drop what no step has sent."""
        self._sending.clear()
        self._senders.clear()
