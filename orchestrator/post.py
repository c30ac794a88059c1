"""The post: messages from harness to harness, and from whoever else writes to the store while a run goes on.

    send, handle.send ──recorder──► store ──► mailbox            at once, when it is on disk
    another process ─────────────► store ──watch──► mailbox      within `WATCH_S`

The law: every message that is in the store gets into its mailbox once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import trio

from orchestrator.approvals import Approvals
from orchestrator.codec import encode
from orchestrator.errors import StoreError
from orchestrator.mailbox import Mailbox
from orchestrator.recorder import Recorder
from orchestrator.slot import Receipt
from orchestrator.store.protocol import Message, Post

WATCH_S = 0.2
"""Seconds between two looks: real ones, whatever Trio's clock."""
_PAGE = 1000
_MOST_MET = 20_000
"""The two ways are apart by what is posted within one look; this is hours of what people post."""


class Watched(Protocol):
    """A store that others can write to as well."""

    def messages(self, *, after: int, limit: int) -> Sequence[tuple[str, Message]]:
        """Return at most `limit` messages with `seq > after`, each with the name of the harness that it is for."""
        ...

    def answers(self, *, after: int, limit: int) -> Sequence[tuple[int, str]]:
        """Return at most `limit` answers to requests for approvals with `seq > after`: `seq`, and the id of the request."""
        ...


class PostOffice:
    """Takes messages, and brings them to the mailboxes of harnesses that run here.

    Args:
        mailbox_of: returns the mailbox of a harness; None if it does not run here.
        approvals: is told when somebody else has answered.
    """

    def __init__(self, recorder: Recorder, mailbox_of: Callable[[str], Mailbox | None], approvals: Approvals) -> None:
        self._recorder = recorder
        self._approvals = approvals
        self._mailbox_of = mailbox_of
        self._met: set[int] = set()
        """Messages that have come one way, and may still come the other."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def post(self, to: str, sender: str, message: object) -> Receipt:
        """Have a message put in the mailbox of a harness, of any that the store knows.

        Raises:
            Unstorable: JSON can not carry it.
        """
        body = encode(message)

        def deliver(seq: int) -> None:
            self._deliver(to, Message(seq, sender, body))

        return self._recorder.submit(Post(to, sender, time.time_ns() // 1000, body), deliver)

    def meet(self, messages: Iterable[Message]) -> None:
        """Note messages that a claim has brought."""
        if self._thread is not None:
            for message in messages:
                self._meet(message.seq)

    def watch(self) -> None:
        """Begin to look for what others have posted, if the store is one that others can write to."""
        store: Any = self._recorder.store
        if hasattr(store, "messages"):
            token = trio.lowlevel.current_trio_token()
            args = (store, store.last_seq(), token)
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
                answers = store.answers(after=answered, limit=_PAGE) if self._approvals.waiting else ()
                if answers:
                    answered = answers[-1][0]
                    token.run_sync_soon(self._approvals.ring, [id for _, id in answers])
                messages = store.messages(after=after, limit=_PAGE)
            except trio.RunFinishedError:
                return
            except StoreError:
                continue  # whoever writes to the store will say so, and louder
            if messages:
                after = messages[-1][1].seq
                try:
                    token.run_sync_soon(self._bring, messages)
                except trio.RunFinishedError:
                    return

    def _bring(self, messages: Sequence[tuple[str, Message]]) -> None:
        for to, message in messages:
            self._deliver(to, message)

    def _deliver(self, to: str, message: Message) -> None:
        """Put a message in its mailbox the first time that it comes."""
        if message.seq in self._met:
            self._met.discard(message.seq)
            return
        if self._thread is not None:
            self._meet(message.seq)
        mailbox = self._mailbox_of(to)
        if mailbox is not None:
            mailbox.deliver(message)

    def _meet(self, seq: int) -> None:
        """Note a message. Of others' it comes one way only: what is far behind is not waited for."""
        self._met.add(seq)
        if len(self._met) > _MOST_MET:
            self._met = set(sorted(self._met)[_MOST_MET // 2 :])
