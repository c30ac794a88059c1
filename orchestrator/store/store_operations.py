"""What can be asked of a store about messages, approvals and budgets. Values, and what records of messages say.

    plain      for `receive`
    request    asks for a reply; its sender waits for it
    reply      for the harness that asked; `receive` does not give it

Of messages to one harness that have an `id`, the first of each `id` is kept, and the others are dropped.

Whether an action may be done is decided within the commit that takes its approval up, from all that is on record by then, in
its order; so a denial that was recorded before counts, however close it came, and whatever clocks said.

A reservation is on disk before anything of it is spent. A harness's attempt begins with nothing reserved, and a harness that
is given up leaves nothing reserved: what it has open then is charged in full, for what became of it nobody knows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from attrs import frozen

from harnesses.budgets.budget import Budget, Spend
from harnesses.budgets.usage import Usage
from harnesses.effects.approval import Request, Standing
from harnesses.errors import one_of
from harnesses.timing.clock import Ticks
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


InsertRecord: TypeAlias = Callable[[int, int, int, int, int, str, str], int]
"""Writes a record: called with harness (0 for none), epoch, attempt, step, time_us, body, kind; returns its `seq`."""

REQUESTED, ANSWERED, USED = "approval_requested", "approval_answered", "approval_used"
APPROVAL_KINDS = (REQUESTED, ANSWERED, USED)
"""Of the records."""


@frozen
class Ask:
    """Put a request on record, unless the same action of the same step is asked for already. Result: `Asked`."""

    harness: int
    epoch: int
    attempt: int
    request: Request
    secret: bytes


@frozen
class Asked:
    """The request that stands for an action."""

    id: str
    seq: int = 0
    """Of its record, if it was made now."""


@frozen
class Respond:
    """Put a person's answer on record. Result: its `seq`; 0 if the same was said before.

    Refused with `UsageError` if there is no such request, it is over, it was used, or it is denied already. Only what was
    denied or has expired, and was not asked for anew since, is reopened.
    """

    id: str
    verdict: str
    """`approved`, `denied` or `reopened`."""
    by: str
    reason: str
    time_us: int
    secret: bytes
    ticks: Ticks | None = None
    """The same moment by the clock that cannot be set."""


@frozen
class TakeUp:
    """Look where a request stands, and use it if it is approved. Result: `Taken`, or `OwnershipLost`."""

    harness: int
    epoch: int
    attempt: int
    step: int
    id: str
    time_us: int
    secret: bytes
    ticks: Ticks | None = None
    """The same moment by the clock that cannot be set."""


@frozen
class Taken:
    """Where a request stands."""

    standing: Standing
    seq: int = 0
    """Of the record of its use, if it was made now."""
    left_us: int = 0
    """For how long it is good yet, if it is pending."""


ApprovalOperation: TypeAlias = Ask | Respond | TakeUp


@frozen
class Fund:
    """Set the limits of a pool, making it if it is new. What was spent from it stays spent.

    Result: the `seq` of the record; 0 if nothing has changed.
    """

    pool: str
    budget: Budget
    time_us: int


@frozen
class Reserve:
    """Reserve in all of these pools, or in none. Result: the reservation's id, `Later`, `Denied`, or `OwnershipLost`."""

    pools: tuple[str, ...]
    harness: int
    epoch: int
    attempt: int
    step: int
    """The one being made."""
    time_us: int
    amounts: Spend


@frozen
class SettleSpend:
    """Charge what was spent of a reservation, and give back the rest. Result: the `seq` of the record.

    `HarnessMisuse` if the reservation is not open; or if more was spent than it was for: then it is charged in full.
    """

    id: int
    time_us: int
    actual: Spend


@frozen(kw_only=True)
class Charge:
    """Charge what an agent reports to all of these pools, past their limits too: it has happened.

    Result: a `harnesses.budgets.usage.Charged`; or `OwnershipLost`, and nothing is charged.
    """

    pools: tuple[str, ...]
    teller: str
    """The pool that tells what the agents of this harness have used."""
    harness: int
    epoch: int
    attempt: int
    step: int
    """The one being made."""
    time_us: int
    agent: str
    usage: Usage
    """What was used since the last report; with a thread, its total."""
    turns: int = 0
    """Calls of the agent that are counted with it."""
    thread: str = ""
    """The conversation that `usage` is the total of."""
    settled: tuple[str, ...] = ()
    """Fields that the harness settles itself: they are not charged to `pools`."""


BudgetOperation: TypeAlias = Fund | Reserve | SettleSpend | Charge
