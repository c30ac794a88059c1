"""The mailbox of one harness: what is waiting for it in the store, read page by page.

The law: the store decides what waits. Each message that no recorded step has used is taken once, in order of `seq`; what was
taken for a step that was never recorded is read again. Of what waits, one page is in memory.

    taken           for the step being made
    _page           read, and not yet taken
    _cursor         the last message read: what is newer is in the store alone
    _newest         the newest message known of: while it is past the cursor, there is something to read
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import inf

from orchestrator.bell import Bell
from orchestrator.store.protocol import Message

PAGE = 256
"""Messages that are read at once: from then on the cost of asking does not show."""
_SMALL = 65_536
"""Characters of a message that may stay in memory without having been read for it."""


class Mailbox:
    """Messages waiting for one harness, oldest first; it outlives attempts.

    Args:
        read: returns the oldest messages after a `seq` that no step has used, `PAGE` of them, or fewer if they are large;
            none only if there is none.
    """

    __slots__ = ("_bell", "_cursor", "_newest", "_page", "_read", "taken")

    def __init__(self, bell: Bell, read: Callable[[int], Sequence[Message]]) -> None:
        self._bell = bell
        self._read = read
        self._cursor = 0
        # Unknown until the store has been asked once: there may be any number.
        self._newest: float = inf
        self._page: deque[Message] | None = None
        self.taken: list[Message] | None = None
        """What was taken since the last step, in order."""

    def deliver(self, message: Message, before: int | None) -> None:
        """Take in a message that is in the store: at once, if it is the next one, and otherwise in its turn.

        Args:
            before: the `seq` of the one before it that no step has used, 0 if there is none; None if that is not known.
        """
        if message.seq <= self._cursor:
            return  # read already: what is committed can be read before the loop is told of it
        if before is None or before > self._cursor or self._newest > self._cursor or not self._has_room(message):
            self.notice(message.seq)
            return
        if self._page is None:
            self._page = deque()
        self._page.append(message)
        self._newest = self._cursor = message.seq
        self._bell.ring()

    def notice(self, seq: int) -> None:
        """Have the store asked again, which has a message for this harness with that `seq`."""
        if seq > self._newest:
            self._newest = seq
            self._bell.ring()

    def take(self) -> Message | None:
        """Take the oldest message for the step being made, if there is one.

        Raises:
            StoreError: the store can not be read.
        """
        if not self._page and not self._turn_page():
            return None
        assert self._page is not None
        message = self._page.popleft()
        if self.taken is None:
            self.taken = []
        self.taken.append(message)
        return message

    async def wait_arrival(self) -> None:
        """Return when there may be a message."""
        await self._bell.until(lambda: self._page or self._newest > self._cursor)

    def settle(self, used: Sequence[Message]) -> None:
        """Forget what a recorded step has used; a background task may have taken more meanwhile, for the next one."""
        if self.taken is not None:
            self.taken = self.taken[len(used) :] or None

    def put_back(self) -> None:
        """Give back what was taken for a step that was not recorded: the store is asked again from there on."""
        if self.taken:
            self._newest = max(self._newest, self._cursor)
            self._cursor = self.taken[0].seq - 1
            self._page = self.taken = None

    def _has_room(self, message: Message) -> bool:
        return len(message.body) < _SMALL and (self._page is None or len(self._page) < PAGE)

    def _turn_page(self) -> bool:
        """Read what comes next; return whether there is anything."""
        if self._newest <= self._cursor:
            return False
        page = self._read(self._cursor)
        if page:
            self._page, self._cursor = deque(page), page[-1].seq
        else:
            # Whatever was noticed is used up.
            self._newest = self._cursor = self._cursor if self._newest == inf else int(self._newest)
        return bool(page)
