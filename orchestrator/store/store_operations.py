"""Operations of a store on messages, approvals and budgets, as values; and the content of message records.

    plain      received with `receive`
    request    expects a reply; its sender waits for it
    reply      for the harness that asked; not returned by `receive`

Of messages to one harness with the same `id`, the first is kept and the others are dropped.

Whether an action may be done is decided within the commit that takes up its approval, from everything recorded by then, in
order. So a denial that was recorded before counts, however close it came, and whatever the clocks said.

A reservation is on disk before any of it is spent. An attempt begins with nothing reserved, and a released harness has nothing
reserved: what is open then is charged in full, since what became of it is unknown.
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
"""Sender of messages that no harness sends; not a valid harness name."""


class ConsumedRow(NamedTuple):
    """A message that a step has consumed."""

    message: int
    harness: int
    step: int


@frozen
class Post:
    """Put a message into the mailbox of a harness.

    Result: its `seq`, or that of the first one with the same `id`. Refused with `UnknownHarness`, and, unless it is a reply,
    with `MailboxFull`.
    """

    to: str
    sender: str
    time_us: int
    body: str
    id: str = ""
    """Unique among the messages to its recipient; empty for a message that may be sent twice."""
    kind: str = PLAIN
    type: str = ""
    """Name of its type, if the sender knows it."""
    deadline_us: int = 0
    """For a request: when its sender stops waiting, microseconds since 1970 UTC."""


class SentRow(NamedTuple):
    """A message that a step in the same commit sends: put into the mailbox only if the step is written."""

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
    """Return whether the mailbox limit applies to a message; it does not apply to replies, which are waited for."""
    return post.kind != REPLY


def is_open(message: Message, now_us: int) -> bool:
    """Return whether anybody may still wait for the result of a message; a request is over at its deadline."""
    return not message.deadline_us or message.deadline_us > now_us


def full(to: str, limit: int) -> MailboxFull:
    """Return the error for a mailbox that is at its limit."""
    return MailboxFull(
        f"the mailbox of {to!r} is full: expected fewer than {limit:,} waiting messages; nothing was sent, send it later"
    )


def unknown_recipient(name: str, known: Sequence[str], location: str) -> UnknownHarness:
    """Return the error for a message to an unknown harness.

    Args:
        known: existing harnesses; of more than ten, the first eleven.
    """
    more = ", …" if len(known) > 10 else ""
    there = one_of(known[:10], "there is none yet")
    return UnknownHarness(f"no harness {name!r:.100} in {location}: {there}{more}; start it first, or check the name")


def record_fields(
    sender: str, body: str, id: str | None, kind: str, type: str | None, deadline_us: int | None
) -> dict[str, Any]:
    """Return the content of the record of a message; a plain one without a type has only sender and message."""
    said: dict[str, Any] = {"from": sender, "message": decode(body)}
    extra = {"id": id, "kind": kind if kind != PLAIN else "", "type": type, "deadline_us": deadline_us}
    return said | {name: value for name, value in extra.items() if value}


def mailbox_columns(db: sqlite3.Connection, of: str) -> str:
    """Return the columns to select from the mailbox, aliased `of`, for `record_fields`.

    A store of an earlier schema version has only plain messages, and no columns for more.
    """
    known = {row[1] for row in db.execute("PRAGMA table_info(mailbox)")}
    more = f"{of}.id, {of}.kind, {of}.type, {of}.deadline_us" if "kind" in known else "NULL, '', NULL, NULL"
    return f"{of}.sender, {of}.body, {more}"


def record_of(post: Post) -> str:
    """Return the body of the record of a message that is put into a mailbox."""
    return encode(record_fields(post.sender, post.body, post.id, post.kind, post.type, post.deadline_us))


InsertRecord: TypeAlias = Callable[[int, int, int, int, int, str, str], int]
"""Writes a record: called with harness (0 for none), epoch, attempt, step, time_us, body, kind; returns its `seq`."""

REQUESTED, ANSWERED, USED = "approval_requested", "approval_answered", "approval_used"
APPROVAL_KINDS = (REQUESTED, ANSWERED, USED)
"""Kinds of approval records."""


@frozen
class Ask:
    """Record a request, unless there is a valid one for the same action of the same step. Result: `Asked`."""

    harness: int
    epoch: int
    attempt: int
    request: Request
    secret: bytes


@frozen
class Asked:
    """The valid request for an action."""

    id: str
    seq: int = 0
    """`seq` of its record, if it was made now."""


@frozen
class Respond:
    """Record a person's answer. Result: its `seq`; 0 if the same answer was recorded before.

    Refused with `UsageError` if there is no such request, or it is over, used or denied. Only a request that was denied or has
    expired, and was not made again since, can be reopened.
    """

    id: str
    verdict: str
    """`approved`, `denied` or `reopened`."""
    by: str
    reason: str
    time_us: int
    secret: bytes
    ticks: Ticks | None = None
    """The same moment on the clock that cannot be set."""


@frozen
class TakeUp:
    """Check the standing of a request, and use it if it is approved. Result: `Taken`, or `OwnershipLost`."""

    harness: int
    epoch: int
    attempt: int
    step: int
    id: str
    time_us: int
    secret: bytes
    ticks: Ticks | None = None
    """The same moment on the clock that cannot be set."""


@frozen
class Taken:
    """The standing of a request."""

    standing: Standing
    seq: int = 0
    """`seq` of the record of its use, if it was used now."""
    left_us: int = 0
    """Microseconds until it expires, if it is pending."""


ApprovalOperation: TypeAlias = Ask | Respond | TakeUp


@frozen
class Fund:
    """Set the limits of a pool, creating it if it is new. Amounts already spent still count.

    What an operator sets holds, over restarts of the program, until a program declares other limits than it did before.

    Result: the `seq` of the record; 0 if nothing has changed.
    """

    pool: str
    budget: Budget
    time_us: int
    by: str = ""
    """The operator who sets them; empty if a program declares them."""
    reason: str = ""


@frozen
class Reserve:
    """Reserve in all of these pools, or in none. Result: the reservation's id, `Later`, `Denied`, or `OwnershipLost`."""

    pools: tuple[str, ...]
    harness: int
    epoch: int
    attempt: int
    step: int
    """Number of the step in progress."""
    time_us: int
    amounts: Spend
    on_cutoff: Spend | None = None
    """What is charged if it is never settled; None for all of it."""


@frozen
class SettleSpend:
    """Charge what was spent, even if it is more than was reserved, and return the rest. Result: the `seq` of the record.

    `HarnessMisuse` if the reservation is not open.
    """

    id: int
    time_us: int
    actual: Spend


@frozen(kw_only=True)
class Charge:
    """Charge what an agent reports to all of these pools, even past their limits, since it was already used.

    Result: a `harnesses.budgets.usage.Charged`; or `OwnershipLost`, and nothing is charged.
    """

    pools: tuple[str, ...]
    teller: str
    """The pool that records what the agents of this harness have used."""
    harness: int
    epoch: int
    attempt: int
    step: int
    """Number of the step in progress."""
    time_us: int
    agent: str
    usage: Usage
    """Usage since the last report; with a thread, its total."""
    turns: int = 0
    """Calls of the agent that are charged with it."""
    thread: str = ""
    """The conversation that `usage` is the total of."""
    settled: tuple[str, ...] = ()
    """Fields that the harness settles itself; they are not charged to `pools`."""


BudgetOperation: TypeAlias = Fund | Reserve | SettleSpend | Charge
