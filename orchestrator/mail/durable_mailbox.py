"""The mailbox of one harness: its waiting messages, read from the store page by page.

Invariant: the store decides what is waiting. Each message that no recorded step has consumed is taken once, in order of
`seq`; messages taken for a step that was never recorded are read again. At most one page of waiting messages is in memory.

    taken           taken by the step in progress
    _page           read, and not yet taken
    _cursor         the last message read; newer ones are only in the store
    _newest         the newest message known of; while it is past the cursor, there is something to read
    _searched       for selective receives: the last message examined
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from math import inf

from attrs import define

from harnesses.errors import HarnessMisuse
from orchestrator.recording.commit_queue import Condition
from orchestrator.store.store_operations import REPLY, Message

PAGE = 256
"""Messages read at a time: from this size on, the cost of a query is negligible."""
MAX_SKIPPED = 10_000
"""Limit on the messages of other types that may precede the wanted one, since they are held in memory meanwhile."""
_SEARCHES = 64
"""Limit on the selective receives whose position is remembered."""
_SMALL = 65_536
"""Size in characters up to which a delivered message is kept in memory."""


@define(eq=False, repr=False)
class Mailbox:
    """Waiting messages of one harness, oldest first; it outlives attempts.

    Args:
        read: returns the oldest unconsumed messages after a `seq`: `PAGE` of them, fewer if they are large, none only if
            there are none.
        accepts: the message types that the harness accepts; all if empty.
        limit: limit on waiting messages; None for no limit.
        read_ahead: calls `read` without holding up the loop, where the store is on a server; None where `take` may read.
    """

    _bell: Condition
    _read: Callable[[int], Sequence[Message]]
    accepts: tuple[type, ...] = ()
    limit: int | None = None
    _read_ahead: Callable[[Callable[[], Sequence[Message]]], Awaitable[Sequence[Message]]] | None = None
    replies: int = 0
    """How often replies have arrived."""
    _cursor: int = 0
    # Unknown until the store was queried once: there may be any number.
    _newest: float = inf
    _page: deque[Message] | None = None
    _searched: dict[Callable[[Message], bool], int] | None = None
    taken: list[Message] | None = None
    """Messages taken since the last step, in order."""
    _notices: int = 0
    """How often a message was noticed."""
    _moves: int = 0
    """How often the cursor has moved, ahead or back."""

    def deliver(self, message: Message, before: int | None) -> None:
        """Add a message that is in the store: at once if it is the next one, otherwise it is read in its turn.

        Args:
            before: `seq` of the unconsumed message before it, 0 if there is none; None if unknown.
        """
        if message.kind == REPLY:
            self.notice_reply()
            return
        if message.seq <= self._cursor:
            return  # Already read: a committed message can be read before the loop is told of the commit.
        if before is None or before > self._cursor or self._newest > self._cursor or not self._has_room(message):
            self.notice(message.seq)
            return
        if self._page is None:
            self._page = deque()
        self._page.append(message)
        self._newest = self._cursor = message.seq
        self._moves += 1
        self._bell.ring()

    def notice(self, seq: int) -> None:
        """Note that the store has a message with that `seq` for this harness, so that it is queried again."""
        self._notices += 1
        if seq > self._newest:
            self._newest = seq
            self._bell.ring()

    def notice_reply(self) -> None:
        """Wake those who wait for a reply."""
        self.replies += 1
        self._bell.ring()

    async def prepare(self) -> None:
        """Read the page that `take` would read, if that is on a server."""
        while self._read_ahead is not None and not self._page and self._newest > self._cursor:
            moves, notices = self._moves, self._notices
            page = await self._read_ahead(partial(self._read, self._cursor))
            # Another task may have read it meanwhile, or put messages back; and what came since is not in the page.
            if moves == self._moves and (page or notices == self._notices):
                self._turn_to(page)

    def take(self, fits: Callable[[Message], bool] | None = None) -> Message | None:
        """Take the oldest message for the step in progress, if there is one.

        Args:
            fits: decides whether a message is wanted; others stay. An equal function does not see them again.

        Raises:
            HarnessMisuse: `MAX_SKIPPED` others precede it.
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
        """Let the step in progress consume a message that was not taken from here."""
        if self.taken is None:
            self.taken = []
        self.taken.append(message)

    async def wait_arrival(self) -> None:
        """Wait until there may be a message."""
        await self._bell.until(lambda: self._page or self._newest > self._cursor)

    async def wait_more(self) -> None:
        """Wait until there may be unread messages."""
        read = self._cursor
        await self._bell.until(lambda: self._cursor != read or self._newest > self._cursor)

    async def wait_reply(self, seen: int) -> None:
        """Wait until more replies have arrived than were seen."""
        await self._bell.until(lambda: self.replies != seen)

    def settle(self, used: Sequence[Message]) -> None:
        """Forget the messages that a recorded step consumed; those that a background task took since are for the next."""
        if self.taken is not None:
            self.taken = self.taken[len(used) :] or None

    def put_back(self) -> None:
        """Return the messages that were taken for an unrecorded step: the store is read again from there."""
        if self.taken:
            self._newest = max(self._newest, self._cursor)
            # A reply is not read from here: messages before it may never have been read.
            given_back = (message.seq - 1 for message in (*self.taken, *(self._page or ())) if message.kind != REPLY)
            self._cursor = min(self._cursor, min(given_back, default=self._cursor))
            self._page = self.taken = None
            self._searched = None
            self._moves += 1

    def _has_room(self, message: Message) -> bool:
        return len(message.body) < _SMALL and (self._page is None or len(self._page) < PAGE)

    def _pick(self, fits: Callable[[Message], bool]) -> Message | None:
        """Take the oldest message that fits, reading further pages until there is one."""
        assert self._page is not None
        if self._searched is None or (fits not in self._searched and len(self._searched) >= _SEARCHES):
            self._searched = {}
        searched = self._searched
        while True:
            first = bisect_right(self._page, searched.get(fits, 0), key=lambda message: message.seq)
            for place, message in enumerate(islice(self._page, first, None), first):
                if fits(message):
                    del self._page[place]
                    searched[fits] = message.seq
                    return message
            if self._page:
                searched[fits] = self._page[-1].seq
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
        """Read the next page; return whether there is one."""
        if self._newest <= self._cursor:
            return False
        return self._turn_to(self._read(self._cursor))

    def _turn_to(self, page: Sequence[Message]) -> bool:
        self._moves += 1
        if page:
            self._page, self._cursor = deque(page), page[-1].seq
        else:
            # All messages that were noticed are consumed.
            self._newest = self._cursor = self._cursor if self._newest == inf else int(self._newest)
        return bool(page)
