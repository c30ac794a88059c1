"""The messages of one attempt: what the step in progress sends, asks, replies and receives.

    send, reply    kept here until the step is committed, and delivered with it (`Outgoing`)
    ask            the request is in the store before its sender waits, under an id that is the same after a crash
    receive        consumed by the step in progress

Invariant: messages kept here are sent exactly if the step is recorded. The end of an attempt drops them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any, cast

import trio
from attrs import field, frozen
from trio.lowlevel import Task, current_task

from harnesses.control import Control
from harnesses.effects.effect import check_key
from harnesses.errors import HarnessMisuse, UnknownHarness
from harnesses.messages.requests import (
    Request,
    WrongMessage,
    check_kinds,
    check_timeout,
    check_waiting,
    moment_of,
    opened,
    timed_out,
)
from harnesses.timing.clock import now_us
from orchestrator.codec import decode, encode
from orchestrator.mail.durable_mailbox import Mailbox
from orchestrator.mail.mail_delivery import MailDelivery
from orchestrator.store.store_operations import OPERATOR, REPLY, REQUEST, Message, Post, SentRow

MAX_SENT = 1_000
"""Limit on the messages that one step may send."""
_RE = "re:"


@frozen
class Outgoing:
    """Messages sent by one step."""

    office: MailDelivery
    rows: tuple[SentRow, ...]
    answers: tuple[tuple[str, str], ...]
    """Replies to operators: id of the request, and JSON."""

    def deliver(self, seqs: Sequence[int], before: Mapping[int, int]) -> None:
        """Deliver the messages; the step is already in the store."""
        for row, seq in zip(self.rows, seqs, strict=True):
            self.office.deliver(row.post, seq, before.get(seq))
        for id, body in self.answers:
            self.office.answer(id, body)


@frozen
class Sender:
    """The sender of the messages."""

    name: str
    number: int
    step: Callable[[], int]
    """Returns the number of the step in progress."""
    log: Callable[[str], None]
    """Records a line of output."""
    attach: Callable[[str, str], None]
    """Attaches a record to the step in progress: its kind, and JSON."""
    starting: Callable[[], Collection[str]] = tuple
    """Returns the names of the harnesses that are started with the step in progress."""
    before: Callable[[], object] | None = None
    """Called before a request is sent, to send the steps that come before it."""


@frozen
class _Fitting:
    """Matches messages of some types. A message of unknown type matches, and is then set aside."""

    kinds: frozenset[type]
    accepts: tuple[type, ...]

    def __call__(self, message: Message) -> bool:
        if message.kind == REQUEST:
            return Request in self.kinds
        named = [cls for cls in self.accepts if cls.__name__ == message.type]
        if named and self.kinds.isdisjoint(named):
            return False
        try:
            return opened(decode(message.body), message.type, self.accepts)[1] in self.kinds
        except WrongMessage:
            return True


@frozen
class AttemptMessages:
    """The messages of one attempt."""

    _office: MailDelivery
    _mailbox: Mailbox
    _sender: Sender
    _control: Control
    _posts: list[Post] = field(factory=list[Post])
    _answers: list[tuple[str, str]] = field(factory=list[tuple[str, str]])
    _asked: Counter[str] = field(factory=Counter[str])
    """How often each question was asked in the step in progress."""
    _given_up: set[str] = field(factory=set[str])
    """Replies that the step in progress no longer waits for."""
    _awaited: list[str] = field(factory=list[str])
    """Replies that are awaited, including by tasks that outlive the step in which they asked."""

    _senders: set[Task] = field(factory=set[Task])
    """The tasks that have sent something with the step in progress."""
    _reminded: set[int] = field(factory=set[int])

    # outgoing

    async def send(self, to: str, message: object) -> None:
        """Validate a message, and keep it for the step in progress."""
        body, type = self._office.encoded(to, message)
        await self._check_room(to)
        self._keep(Post(to, self._sender.name, 0, body, type=type))

    def reply(self, request: Request, answer: object) -> None:
        """Keep a reply for the step in progress."""
        if not isinstance(cast(object, request), Request):
            raise HarnessMisuse(f"reply: expected a Request from `receive`, was {request!r:.200}")
        id = _RE + request.id
        if any(post.id == id for post in self._posts) or any(of == request.id for of, _ in self._answers):
            raise HarnessMisuse(f"reply to {request.sender!r}: expected one to each request, got a second; combine them")
        body = self._office.checked(request.sender, answer)
        if request.sender == OPERATOR:
            self._sender.attach("reply", encode({"re": request.id, "to": OPERATOR, "message": decode(body)}))
            self._answers.append((request.id, body))
            self._senders.add(current_task())
        else:
            self._keep(Post(request.sender, self._sender.name, 0, body, id, REPLY))

    async def ask(self, to: str, message: object, timeout_s: float, key: str) -> Any:
        """Ask a harness and return its reply; see `BaseHarness.ask`."""
        check_timeout(timeout_s)
        if to == self._sender.name:
            raise HarnessMisuse(f"ask {to!r}: expected another harness, was the one that asks; call the method directly")
        body, type = self._office.encoded(to, message)
        id = self._id_of(to, body, key)
        reply = await self._find(id)
        if reply is None:
            await self._check_room(to)
            now = now_us()
            post = Post(to, self._sender.name, now, body, id, REQUEST, type, now + int(timeout_s * 1e6))
            self._awaited.append(_RE + id)
            try:
                with trio.move_on_after(timeout_s):
                    if self._sender.before is not None:
                        self._sender.before()
                    await self._office.put(post)
                    seen = self._mailbox.replies
                    while (reply := await self._find(id)) is None:
                        await self._control.wait(self._mailbox.wait_reply, seen)
                        seen = self._mailbox.replies
            finally:
                self._awaited.remove(_RE + id)
        if reply is None:
            self._given_up.add(_RE + id)
            raise timed_out(to, timeout_s)
        self._mailbox.take_reply(reply)
        return decode(reply.body)

    def outgoing(self, step: int, time_us: int) -> Outgoing | None:
        """Return the messages of a step, stamped with its time; None if it sends none."""
        if not self._posts and not self._answers:
            return None
        rows = [SentRow(self._sender.number, step, _stamped(post, time_us)) for post in self._posts]
        return Outgoing(self._office, tuple(rows), tuple(self._answers))

    def settle(self, outgoing: Outgoing | None) -> None:
        """Forget the messages of a recorded step; a background task may have added more since, for the next step."""
        self._asked.clear()
        self._senders.clear()
        self._given_up.clear()
        self._reminded.clear()
        if outgoing is not None:
            self._drop(len(outgoing.rows), len(outgoing.answers))

    def end_attempt(self) -> None:
        """Drop the messages that no step has sent."""
        self._senders.clear()
        self._drop(len(self._posts), len(self._answers))

    @property
    def unsent(self) -> Sequence[str]:
        """Recipients of the messages that no step has sent yet."""
        return [*(post.to for post in self._posts), *(OPERATOR for _ in self._answers)]

    # incoming

    async def receive(self, kinds: Sequence[type], *, in_execute: bool) -> Any:
        """Wait for a message, of one of those types if any is named, and return the oldest; see `Mail.receive`."""
        while True:
            await self._mailbox.prepare()
            try:
                return self.receive_nowait(kinds)
            except trio.WouldBlock:
                if in_execute and current_task() in self._senders:
                    check_waiting(self.unsent)
                self._remind()
                await self._control.wait(self._mailbox.wait_more if kinds else self._mailbox.wait_arrival)

    def receive_nowait(self, kinds: Sequence[type]) -> Any:
        """Return the oldest message, of one of those types if any is named.

        Raises:
            trio.WouldBlock: there is none.
        """
        check_kinds(kinds, self._mailbox.accepts)
        fits = _Fitting(frozenset(kinds), self._mailbox.accepts) if kinds else None
        while (message := self._mailbox.take(fits)) is not None:
            try:
                value, _ = opened(decode(message.body), message.type, self._mailbox.accepts)
            except WrongMessage as error:
                self._sender.log(f"message {message.seq} from {message.sender or 'an operator'!r} is set aside: {error}")
                continue
            if message.kind == REQUEST:
                return Request(value, message.sender, message.id, moment_of(message.deadline_us))
            return value
        raise trio.WouldBlock

    def _remind(self) -> None:
        """Print a reminder once per step while the harness waits with unsent messages: nobody can answer those."""
        if self._posts and not self._reminded:
            self._reminded.add(self._sender.step())
            to = self._posts[0].to
            self._sender.log(
                f"waits for a message with {len(self._posts)} unsent, the first to {to!r}: they go with the next step"
            )

    async def _check_room(self, to: str) -> None:
        """Raise if a message cannot be sent; a harness that the same step starts has no mailbox yet."""
        try:
            await self._office.check_room(to, self._sender.name)
        except UnknownHarness as error:
            if to not in self._sender.starting():
                raise
            raise HarnessMisuse(
                f"message to {to!r}: expected a `yield` between start_child and it, got none; "
                "yield first, or give it to the factory as an argument"
            ) from error

    def _keep(self, post: Post) -> None:
        if len(self._posts) >= MAX_SENT:
            raise HarnessMisuse(f"send: expected at most {MAX_SENT:,} messages of one step; yield in between")
        self._posts.append(post)
        self._senders.add(current_task())
        self._office.promise(post, 1)

    def _drop(self, posts: int, answers: int) -> None:
        for post in self._posts[:posts]:
            self._office.promise(post, -1)
        del self._posts[:posts]
        del self._answers[:answers]

    def _id_of(self, to: str, body: str, key: str) -> str:
        """Return the id of a request: the same when the step is made again and asks the same."""
        place = f"{self._sender.name}/{self._sender.step()}"
        if key:
            check_key(key)
            return f"{place}/{to}/{key}"
        question = sha256(f"{to}\n{body}".encode()).hexdigest()[:16]
        self._asked[question] += 1
        return f"{place}/{question}.{self._asked[question]}"

    async def _find(self, id: str) -> Message | None:
        """Return the reply to a request, if it has arrived; the step in progress consumes replies that came too late."""
        found: Message | None = None
        replies = await self._office.replies(self._sender.name)
        taken = {message.seq for message in self._mailbox.taken or ()}
        for message in replies:
            if message.id == _RE + id:
                found = message
            elif message.seq not in taken and self._is_late(message):
                self._mailbox.take_reply(message)
                self._sender.log(f"reply {message.seq} from {message.sender!r} came too late and is dropped")
        return found

    def _is_late(self, reply: Message) -> bool:
        if reply.id in self._awaited:
            return False
        step = reply.id.removeprefix(_RE).split("/", 2)[1]
        return reply.id in self._given_up or int(step) < self._sender.step()


def _stamped(post: Post, now_us: int) -> Post:
    return Post(post.to, post.sender, now_us, post.body, post.id, post.kind, post.type, post.deadline_us)
