"""The mailbox of a harness that runs alone: in memory, with the harness itself as the only recipient."""

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
    """The mailbox of a harness that runs alone, and the messages it sends to itself in the step in progress."""

    def __init__(self, name: str, control: Control) -> None:
        self.accepts: tuple[type, ...] = ()
        """Message types the harness accepts; empty for any."""
        self._name = name
        self._control = control
        self._waiting: deque[object] = deque()
        self._sending: list[object] = []
        self._senders: set[trio.lowlevel.Task] = set()
        """Tasks that have sent messages in the step in progress."""
        self._arrival = trio.Event()
        """Set when the next message arrives, then replaced."""

    def check(self, to: str) -> None:
        """Raise `UnknownHarness` unless the recipient is the harness itself."""
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
                del self._waiting[place]  # Set aside, as in an Orchestrator.
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
            raise HarnessMisuse(f"ask {to!r}: expected another harness, got the one that asks; call the method instead")
        self.check(to)

    def reply(self, request: Request, answer: object) -> None:
        if not isinstance(cast(object, request), Request):
            raise HarnessMisuse(f"reply: expected a Request from `receive`, got {request!r:.200}")
        raise HarnessMisuse(f"reply to {request.sender!r}: {self._name!r} runs alone; start both in an Orchestrator")

    @property
    def unsent(self) -> Sequence[str]:
        return [self._name for _ in self._sending]

    def settle(self) -> None:
        """Send the messages of the step that was just recorded."""
        self._senders.clear()
        if self._sending:
            sent, self._sending = self._sending, []
            self.deliver(sent)

    def end_attempt(self) -> None:
        """Drop messages that no step has sent."""
        self._sending.clear()
        self._senders.clear()
