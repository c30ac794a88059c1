"""The post: messages from harness to harness, and from whoever else writes to the store while a run goes on.

    send, handle.send ──recorder──► store ──deliver──► mailbox    at once, when it is on disk
    another process ─────────────► store ──notice───► mailbox    within `WATCH_S`

The law: the store decides what is delivered. Each mailbox reads it from where it is on; what comes this way is the news that
there is something to read, which may come late, or twice. A message itself comes this way only where the store says that it
is the next one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import trio

from harnesses.record_size import MAX_RECORD_BYTES, check_size
from orchestrator.approvals import Approvals
from orchestrator.codec import encode
from orchestrator.errors import StoreError
from orchestrator.mailbox import PAGE, Mailbox
from orchestrator.recorder import Recorder
from orchestrator.slot import Receipt
from orchestrator.store.capabilities import Watched
from orchestrator.store.protocol import Message, Post, Store

WATCH_S = 0.2
"""Seconds between two looks: real ones, whatever Trio's clock."""
_PAGE = 1000


class PostOffice:
    """Takes messages, and brings them to the mailboxes of harnesses that run here.

    Args:
        mailbox_of: returns the mailbox of a harness; None if it does not run here.
        approvals: is told when somebody else has answered.
        most: bytes that a message may have.
    """

    def __init__(
        self,
        recorder: Recorder,
        mailbox_of: Callable[[str], Mailbox | None],
        approvals: Approvals,
        most: int = MAX_RECORD_BYTES,
    ) -> None:
        self._recorder = recorder
        self._most = most
        self._approvals = approvals
        self._mailbox_of = mailbox_of
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def post(self, to: str, sender: str, message: object) -> Receipt:
        """Have a message put in the mailbox of a harness, of any that the store knows.

        Raises:
            Unstorable: JSON can not carry it.
            RecordTooLarge: it has more bytes than a record may have.
        """
        body = encode(message)
        check_size(f"the message to {to!r:.100}", body, self._most)

        def deliver(seq: int) -> None:
            mailbox = self._mailbox_of(to)
            if mailbox is not None:
                mailbox.deliver(Message(seq, sender, body), self._recorder.settling.before.get(seq))

        return self._recorder.submit(Post(to, sender, time.time_ns() // 1000, body), deliver)

    def reader_of(self, name: str) -> Callable[[int], Sequence[Message]]:
        """Return what a mailbox reads its messages with."""
        return partial(_read, self._recorder.store, name)

    def watch(self) -> None:
        """Begin to look for what others have done to the store, if it is one that others can write to."""
        store: object = self._recorder.store
        if isinstance(store, Watched):
            token = trio.lowlevel.current_trio_token()
            args = (store, self._recorder.store.last_seq(), token)
            self._thread = threading.Thread(target=self._look, args=args, name="orchestrator-post", daemon=True)
            self._thread.start()

    async def close(self) -> None:
        """Stop looking."""
        self._ended.set()
        if self._thread is not None:
            await trio.to_thread.run_sync(self._thread.join)

    def _look(self, store: Watched, after: int, token: trio.lowlevel.TrioToken) -> None:
        answered = after
        while not self._ended.wait(WATCH_S):
            try:
                store.check_in_place()
            except StoreError as error:
                with suppress(trio.RunFinishedError):
                    token.run_sync_soon(self._recorder.lose, error)
                return
            try:
                answers = store.answers(after=answered, limit=_PAGE) if self._approvals.waiting else ()
                if answers:
                    answered = answers[-1][0]
                    token.run_sync_soon(self._approvals.ring, [id for _, id in answers])
                news = store.arrivals(after=after)
                if news:
                    after = max(seq for _, seq in news)
                    token.run_sync_soon(self._bring, news)
            except trio.RunFinishedError:
                return
            except StoreError:
                continue  # whoever writes to the store will say so, and louder

    def _bring(self, news: Sequence[tuple[str, int]]) -> None:
        for to, seq in news:
            mailbox = self._mailbox_of(to)
            if mailbox is not None:
                mailbox.notice(seq)


def _read(store: Store, name: str, after: int) -> Sequence[Message]:
    return store.mailbox(name, after=after, limit=PAGE)
