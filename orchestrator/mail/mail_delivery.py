"""Delivery of messages between harnesses, and from other processes that write to the store during a run.

    send, handle.send ──recorder──► store ──deliver──► mailbox    at once, when it is on disk
    another process ─────────────► store ──notice───► mailbox    when the store tells, or within `WATCH_S`

Invariant: the store decides what is delivered. Each mailbox reads the store from its own position; what is passed here is the
notice that there is something to read, which may come late or twice. A message itself is passed only where the store says
that it is the next one.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

import trio
from attrs import define, field, frozen

from harnesses.data.record_size import MAX_RECORD_BYTES, check_size
from harnesses.errors import MailboxFull, UnknownHarness
from harnesses.messages.requests import check_timeout, sealed, timed_out
from harnesses.timing.clock import now_us
from orchestrator.codec import decode, encode
from orchestrator.errors import StoreError
from orchestrator.mail.durable_mailbox import PAGE, Mailbox
from orchestrator.recording.approval_waits import Approvals
from orchestrator.recording.commit_queue import Condition, Receipt
from orchestrator.recording.recorder import Recorder
from orchestrator.store.store_capabilities import Heralded, Leased, Watched
from orchestrator.store.store_operations import OPERATOR, REQUEST, Message, Post, is_bounded
from orchestrator.store.store_protocol import Store

WATCH_S = 0.2
"""Seconds of real time between two checks, whatever Trio's clock."""
_HERALDED_S = 1.0
"""The same for a store that tells when there is something: in case it has not."""
_GUARD_S = 0.02
"""Seconds between two looks at the lease of a run, which ask nobody."""
_PAGE = 1000
_TRIES = 5_000
"""Tries, one per millisecond, before a harness that runs here counts as unknown to the store."""
_ELSEWHERE_S = 0.02
"""Seconds between two such tries for a harness that another process starts."""


@define(eq=False, repr=False)
class MailDelivery:
    """Accepts messages, and delivers them to the mailboxes of harnesses that run here.

    Args:
        mailbox_of: returns the mailbox of a harness; None if it is not running here.
        approvals: notified when another process has answered a request.
        most: limit on the size of a message, bytes.
    """

    _recorder: Recorder
    _mailbox_of: Callable[[str], Mailbox | None]
    _approvals: Approvals
    _most: int = MAX_RECORD_BYTES
    _known: set[str] = field(factory=set[str])
    _asked: dict[str, Receipt] = field(factory=dict[str, Receipt])
    elsewhere: Collection[str] = ()
    """Names of harnesses that other processes start on the same store."""
    promised: Counter[str] = field(factory=Counter[str])
    """Messages that steps in progress will send to mailboxes with a limit."""
    looks: list[Callable[[], Callable[[], object] | None]] = field(factory=list[Callable[[], Callable[[], object] | None]])
    """Further checks for changes by other processes, made in a thread; each returns what is to be done in Trio's, or None."""
    _ended: threading.Event = field(factory=threading.Event)
    _thread: threading.Thread | None = None

    def post(self, to: str, sender: str, message: object) -> Receipt:
        """Put a message into the mailbox of any harness that the store knows.

        Raises:
            Unstorable: the value cannot be stored as JSON.
            RecordTooLarge: it exceeds the limit on the size of a record.
        """
        body, type = self.encoded(to, message)
        return self.put(Post(to, sender, now_us(), body, type=type))

    def put(self, post: Post) -> Receipt:
        """Put a validated message into the mailbox of a harness."""
        return self._recorder.submit(post, lambda seq: self.deliver(post, seq, self._recorder.settling.before.get(seq)))

    def deliver(self, post: Post, seq: int, before: int | None) -> None:
        """Deliver a message that is in the store to a harness that runs here."""
        mailbox = self._mailbox_of(post.to)
        if mailbox is not None:
            message = Message(seq, post.sender, post.body, post.id, post.kind, post.type, post.deadline_us)
            mailbox.deliver(message, before)

    def encoded(self, to: str, message: object) -> tuple[str, str]:
        """Return the JSON of a message and the name of its type, as they are stored in a mailbox.

        Raises:
            WrongMessage: the recipient is running here, and does not accept messages of that type.
            Unstorable: the value cannot be stored as JSON.
            RecordTooLarge: it exceeds the limit on the size of a record.
        """
        mailbox = self._mailbox_of(to)
        accepts = () if mailbox is None else mailbox.accepts
        message, type = sealed(message, accepts, to)
        return self.checked(to, message), type

    def checked(self, to: str, message: object) -> str:
        """Return the JSON of a message.

        Raises:
            Unstorable: the value cannot be stored as JSON.
            RecordTooLarge: it exceeds the limit on the size of a record.
        """
        body = encode(message)
        check_size(f"the message to {to!r:.100}", body, self._most)
        return body

    def promise(self, post: Post, count: int) -> None:
        """Reserve room for messages that a step in progress will send, or release it, if the mailbox has a limit."""
        mailbox = self._mailbox_of(post.to)
        if mailbox is not None and mailbox.limit is not None and is_bounded(post):
            self.promised[post.to] = max(0, self.promised[post.to] + count)

    async def check_room(self, to: str, sender: str) -> None:
        """Raise if a mailbox has no room for a message besides those promised by other steps in progress.

        Raises:
            UnknownHarness: there is no such harness; the error names the existing ones.
            MailboxFull: it has no room.
        """
        mailbox = self._mailbox_of(to)
        if mailbox is not None and mailbox.limit is None and to in self._known:
            await trio.lowlevel.checkpoint()
            return
        room = await self._room(to)
        self._known.add(to)
        if room is not None and room <= self.promised[to]:
            raise MailboxFull(
                f"the mailbox of {to!r} is full: expected room for one more message; nothing was sent, send it later"
            )

    async def _room(self, to: str) -> int | None:
        """Return the room in a mailbox; wait for a harness that was just started to be in the store."""
        tries = 0
        while True:
            try:
                await trio.lowlevel.checkpoint()
                return await self._recorder.read(partial(self._recorder.store.room, to))
            except UnknownHarness:
                tries += 1
                is_elsewhere = to in self.elsewhere
                if (self._mailbox_of(to) is None and not is_elsewhere) or tries > _TRIES:
                    raise
                await trio.sleep(_ELSEWHERE_S if is_elsewhere else 0.001)

    async def replies(self, name: str) -> Sequence[Message]:
        """Return the replies waiting for a harness."""
        return await self._recorder.read(partial(self._recorder.store.replies, name))

    async def ask(self, to: str, message: object, timeout_s: float) -> Any:
        """Ask a harness for an operator, and return its reply.

        Raises:
            AskTimeout: no reply came in time.
        """
        check_timeout(timeout_s)
        body, type = self.encoded(to, message)
        await self.check_room(to, OPERATOR)
        id = f"{OPERATOR}/{uuid4().hex}"
        now = now_us()
        post = Post(to, OPERATOR, now, body, id, REQUEST, type, now + int(timeout_s * 1e6))
        reply = self._asked[id] = Receipt()
        try:
            with trio.move_on_after(timeout_s):
                await self.put(post)
                return decode(await reply)
        finally:
            del self._asked[id]
        raise timed_out(to, timeout_s)

    def answer(self, id: str, body: str) -> None:
        """Pass the reply to a request to the operator, now that it is in the store."""
        if (reply := self._asked.get(id)) is not None:
            reply.settle(body)

    def forget(self, name: str) -> None:
        """Forget a harness that no longer runs here."""
        self._known.discard(name)
        self.promised.pop(name, None)

    def mailbox_of(self, name: str, bell: Condition, accepts: tuple[type, ...], limit: int | None) -> Mailbox:
        """Return the mailbox of a harness."""
        ahead = self._recorder.read if isinstance(self._recorder.store, Leased) else None
        return Mailbox(bell, _MailboxReader(self._recorder.store, name), accepts, limit, ahead)

    def watch(self) -> None:
        """Begin to check for changes by other processes, if they can write to the store."""
        store: object = self._recorder.store
        if isinstance(store, Watched):
            token = trio.lowlevel.current_trio_token()
            args = (store, self._recorder.store.last_seq(), token)
            self._thread = threading.Thread(target=self._look, args=args, name="orchestrator-post", daemon=True)
            self._thread.start()
            if isinstance(store, Leased):
                # By itself: the other thread may be waiting for the server while the lease ends.
                threading.Thread(target=self._guard, args=(store, token), name="orchestrator-guard", daemon=True).start()

    async def close(self) -> None:
        """Stop checking."""
        self._ended.set()
        if isinstance(store := self._recorder.store, Heralded):
            store.wake()
        if self._thread is not None:
            await trio.to_thread.run_sync(self._thread.join)

    def _is_lost(self, store: Watched, token: trio.lowlevel.TrioToken) -> bool:
        """Return whether the lease of the run has ended; everything is aborted if it has."""
        try:
            store.check_in_place()
        except StoreError as error:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(self._recorder.lose, error)
            return True
        return False

    def _guard(self, store: Watched, token: trio.lowlevel.TrioToken) -> None:
        """Have everything aborted when the lease of the run has ended."""
        while not self._ended.wait(_GUARD_S):
            if self._is_lost(store, token):
                return

    def _look(self, store: Watched, after: int, token: trio.lowlevel.TrioToken) -> None:
        answered = after
        wait: Callable[[], object] = (
            partial(store.wait_news, _HERALDED_S) if isinstance(store, Heralded) else partial(self._ended.wait, WATCH_S)
        )
        while True:
            wait()
            if self._ended.is_set() or self._is_lost(store, token):
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
                for look in tuple(self.looks):
                    if (bring := look()) is not None:
                        token.run_sync_soon(bring)
            except trio.RunFinishedError:
                return
            except StoreError:
                continue  # The writer of the store reports this error itself.

    def _bring(self, news: Sequence[tuple[str, int]]) -> None:
        for to, seq in news:
            mailbox = self._mailbox_of(to)
            if mailbox is not None:
                mailbox.notice(seq)
                mailbox.notice_reply()


@frozen(eq=False)
class _MailboxReader:
    """Reads the messages of one mailbox, a page after a `seq`."""

    _store: Store
    _name: str

    def __call__(self, after: int) -> Sequence[Message]:
        return self._store.mailbox(self._name, after=after, limit=PAGE)
