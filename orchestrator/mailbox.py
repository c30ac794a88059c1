"""The mailbox of one harness: messages that are in the store, and not yet used up by a step.

The law: they are taken in order of `seq`; what was taken for a step that was never recorded is given back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from orchestrator.bell import Bell
from orchestrator.store.protocol import Message


class Mailbox:
    """Messages waiting for one harness, oldest first; it outlives attempts."""

    __slots__ = ("_bell", "_waiting", "taken")

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._waiting: deque[Message] | None = None
        self.taken: list[Message] | None = None
        """What was taken since the last step, in order."""

    def deliver(self, message: Message) -> None:
        """Add a message that is in the store."""
        # In order of `seq`, except before the claim has been answered; `merge` puts that right.
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(message)
        self._bell.ring()

    def merge(self, messages: Iterable[Message]) -> None:
        """Add messages that are in the store, those that are known already but once."""
        known = {message.seq: message for message in (*(self._waiting or ()), *messages)}
        if known:
            self._waiting = deque(known[seq] for seq in sorted(known))

    def take(self) -> Message | None:
        """Take the oldest message for the step being made, if there is one."""
        if not self._waiting:
            return None
        message = self._waiting.popleft()
        self.taken = [*(self.taken or ()), message]
        return message

    async def wait_arrival(self) -> None:
        """Return when there is a message."""
        await self._bell.until(lambda: self._waiting)

    def settle(self, used: list[Message]) -> None:
        """Forget what a recorded step has used; a background task may have taken more meanwhile, for the next one."""
        self.taken = [message for message in self.taken or () if message not in used] or None

    def put_back(self) -> None:
        """Give back what was taken for a step that was never recorded."""
        if self.taken:
            self.merge(self.taken)
            self.taken = None
