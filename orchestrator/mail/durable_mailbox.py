"""The mailbox of one harness: what is waiting for it in the store, read page by page.

The law: the store decides what waits. Each message that no recorded step has used is taken once, in order of `seq`; what was
taken for a step that was never recorded is read again. Of what waits, one page is in memory.

    taken           for the step being made
    _page           read, and not yet taken
    _cursor         the last message read: what is newer is in the store alone
    _newest         the newest message known of: while it is past the cursor, there is something to read
    _searched       for who looks for some messages only: the last message that it has looked at
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from math import inf

from attrs import define, field

from harnesses.errors import HarnessMisuse
from orchestrator.recording.commit_queue import Condition
from orchestrator.store.store_operations import REPLY, Message

PAGE = 256
"""Messages that are read at once: from then on the cost of asking does not show."""
MAX_SKIPPED = 10_000
"""Messages of other types that may wait before the one that is asked for: they are in memory meanwhile."""
_SEARCHES = 64
"""Kinds of searches whose place is remembered."""
_SMALL = 65_536
"""Characters of a message that may stay in memory without having been read for it."""


@define(eq=False, repr=False)
class Mailbox:
    """Messages waiting for one harness, oldest first; it outlives attempts.

    Args:
        read: returns the oldest messages after a `seq` that no step has used, `PAGE` of them, or fewer if they are large;
            none only if there is none.
        accepts: the types of messages that the harness takes; any if none is named.
        limit: how many messages may wait; any number if None.
    """

    _bell: Condition
    _read: Callable[[int], Sequence[Message]]
    accepts: tuple[type, ...] = ()
    limit: int | None = None
    replies: int = 0
    """How often there was news of replies."""
    _cursor: int = 0
    # Unknown until the store has been asked once: there may be any number.
    _newest: float = inf
    _page: deque[Message] | None = None
    _searched: dict[Callable[[Message], bool], int] = field(factory=dict[Callable[[Message], bool], int])
    taken: list[Message] | None = None
    """What was taken since the last step, in order."""

    def deliver(self, message: Message, before: int | None) -> None:
        """Take in a message that is in the store: at once, if it is the next one, and otherwise in its turn.

        Args:
            before: the `seq` of the one before it that no step has used, 0 if there is none; None if that is not known.
        """
        if message.kind == REPLY:
            self.notice_reply()
            return
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

    def notice_reply(self) -> None:
        """Have whoever waits for a reply look for it."""
        self.replies += 1
        self._bell.ring()

    def take(self, fits: Callable[[Message], bool] | None = None) -> Message | None:
        """Take the oldest message for the step being made, if there is one.

        Args:
            fits: says whether it is one that is wanted; others stay where they are. An equal one does not see them again.

        Raises:
            HarnessMisuse: `MAX_SKIPPED` others wait before it.
            StoreError: the store cannot be read.
        """
        if not self._page and not self._turn_page():
            return None
        assert self._page is not None
        message = self._page.popleft() if fits is None else self._pick(fits)
        if message is not None:
            self.take_reply(message)
        return message

    def take_reply(self, message: Message) -> None:
        """Have a message used up by the step being made that was not taken from here."""
        if self.taken is None:
            self.taken = []
        self.taken.append(message)

    async def wait_arrival(self) -> None:
        """Return when there may be a message."""
        await self._bell.until(lambda: self._page or self._newest > self._cursor)

    async def wait_more(self) -> None:
        """Return when there may be a message besides those that were read."""
        read = self._cursor
        await self._bell.until(lambda: self._cursor != read or self._newest > self._cursor)

    async def wait_reply(self, seen: int) -> None:
        """Return when there is more news of replies than was seen."""
        await self._bell.until(lambda: self.replies != seen)

    def settle(self, used: Sequence[Message]) -> None:
        """Forget what a recorded step has used; a background task may have taken more meanwhile, for the next one."""
        if self.taken is not None:
            self.taken = self.taken[len(used) :] or None

    def put_back(self) -> None:
        """Give back what was taken for a step that was not recorded: the store is asked again from there on."""
        if self.taken:
            self._newest = max(self._newest, self._cursor)
            # A reply is not read from here: what waits before it may never have been.
            given_back = (message.seq - 1 for message in (*self.taken, *(self._page or ())) if message.kind != REPLY)
            self._cursor = min(self._cursor, min(given_back, default=self._cursor))
            self._page = self.taken = None
            self._searched.clear()

    def _has_room(self, message: Message) -> bool:
        return len(message.body) < _SMALL and (self._page is None or len(self._page) < PAGE)

    def _pick(self, fits: Callable[[Message], bool]) -> Message | None:
        """Take the oldest message that fits, reading on while there is none."""
        assert self._page is not None
        if fits not in self._searched and len(self._searched) >= _SEARCHES:
            self._searched.clear()
        while True:
            first = bisect_right(self._page, self._searched.get(fits, 0), key=lambda message: message.seq)
            for place, message in enumerate(islice(self._page, first, None), first):
                if fits(message):
                    del self._page[place]
                    self._searched[fits] = message.seq
                    return message
            if self._page:
                self._searched[fits] = self._page[-1].seq
            if len(self._page) >= MAX_SKIPPED and self._newest > self._cursor:
                raise HarnessMisuse(
                    f"receive: expected a message of that type among the oldest {MAX_SKIPPED:,}, found none; "
                    "receive the others first"
                )
            before, self._page = self._page, deque()
            try:
                has_more = self._turn_page()
            finally:
                before.extend(self._page or ())
                self._page = before
            if not has_more:
                return None

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
