"""Messages on their way to the store, and waiting in it. Values, and what their records say;
what a store does with them is in `store.store_protocol`.

    plain      for `receive`
    request    asks for a reply; its sender waits for it
    reply      for the harness that asked; `receive` does not give it

The law: of messages to one harness that have an `id`, the first of each `id` is kept, and the others are dropped.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from attrs import frozen

from harnesses.errors import one_of
from orchestrator.codec import decode, encode
from orchestrator.errors import MailboxFull, UnknownHarness

PLAIN, REQUEST, REPLY = "plain", "request", "reply"
OPERATOR = "@operator"
"""Who sends what no harness sends; none can be called so."""


class ConsumedRow(NamedTuple):
    """A message that a step has used up."""

    message: int
    harness: int
    step: int


@frozen
class Post:
    """Put a message in the mailbox of a harness.

    Result: its `seq`; that of the first one, if there was one of that `id`. Refused with `UnknownHarness`, and, unless it is
    a reply, with `MailboxFull`.
    """

    to: str
    sender: str
    time_us: int
    body: str
    id: str = ""
    """Names it among all that its recipient gets; empty for a message of which there may be two."""
    kind: str = PLAIN
    type: str = ""
    """The name of its type, if the sender knows one."""
    deadline_us: int = 0
    """Of a request: when its sender stops waiting, wall time in microseconds since 1970 UTC."""


class SentRow(NamedTuple):
    """A message that a step in the same commit sends: put in the mailbox if the step is written, and only then."""

    harness: int
    step: int
    post: Post


@frozen
class Message:
    """A message waiting in a mailbox."""

    seq: int
    sender: str
    body: str
    id: str = ""
    kind: str = PLAIN
    type: str = ""
    deadline_us: int = 0


def is_bounded(post: Post) -> bool:
    """Return whether a limit of the mailbox holds for a message: a reply is waited for, and always has room."""
    return post.kind != REPLY


def is_open(message: Message, now_us: int) -> bool:
    """Return whether anybody may still wait for what becomes of a message: a request is over at its deadline."""
    return not message.deadline_us or message.deadline_us > now_us


def full(to: str, limit: int) -> MailboxFull:
    """Return the error for a mailbox that has no room."""
    return MailboxFull(
        f"the mailbox of {to!r} is full: expected fewer than {limit:,} waiting messages; nothing was sent, send it later"
    )


def unknown_recipient(name: str, known: Sequence[str], location: str) -> UnknownHarness:
    """Return the error for a message to nobody.

    Args:
        known: the harnesses that there are; of more than ten the first eleven.
    """
    more = ", …" if len(known) > 10 else ""
    there = one_of(known[:10], "there is none yet")
    return UnknownHarness(f"no harness {name!r:.100} in {location}: {there}{more}; start it first, or check the name")


def record_fields(
    sender: str, body: str, id: str | None, kind: str, type: str | None, deadline_us: int | None
) -> dict[str, Any]:
    """Return what the record of a message says; of a plain one without a type no more than its sender and the message."""
    said: dict[str, Any] = {"from": sender, "message": decode(body)}
    extra = {"id": id, "kind": kind if kind != PLAIN else "", "type": type, "deadline_us": deadline_us}
    return said | {name: value for name, value in extra.items() if value}


def mailbox_columns(db: sqlite3.Connection, of: str) -> str:
    """Return what to select from the mailbox, known as `of`, for `record_fields`.

    A store of an earlier schema version has plain messages only, and no columns for more.
    """
    known = {row[1] for row in db.execute("PRAGMA table_info(mailbox)")}
    more = f"{of}.id, {of}.kind, {of}.type, {of}.deadline_us" if "kind" in known else "NULL, '', NULL, NULL"
    return f"{of}.sender, {of}.body, {more}"


def record_of(post: Post) -> str:
    """Return the body of the record of a message that is put in a mailbox."""
    return encode(record_fields(post.sender, post.body, post.id, post.kind, post.type, post.deadline_us))
