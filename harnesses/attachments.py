"""Attachments: records committed in one transaction with a step, such as evidence and child starts. Pure.

Invariant: an attachment is on disk if and only if its step is.

    evidence     evidence for or against the work
    task         a change of a task
    guardrail    a finding of a guardrail
    transcript   the conversation of an agent's turn: `harnesses.agents.model.transcript`
    child        a started harness; only `start_child` attaches it
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec
from attrs import frozen

from harnesses.data.large_values import LARGE_BYTES
from harnesses.data.values import detach, explain
from harnesses.errors import HarnessMisuse, RecordTooLarge, Unstorable

TRANSCRIPT = "transcript"
KINDS = ("evidence", "task", "guardrail", TRANSCRIPT)
CHILD = "child"
MAX_ATTACHED = 1_000
"""Attachments of one step; keep larger collections in the state or in an artifact."""
MAX_CHARACTERS = 100_000
"""Characters of JSON of one attachment, other than a transcript."""
_MAX_TRANSCRIPT = 16_000_000
_BUDGET = 250
"""Budget for walking a value before it is encoded, for each character: enough for any value whose JSON is not too long."""


@frozen
class Attachment:
    """A record stored beside a step."""

    kind: str
    """One of `KINDS`, or `CHILD`."""
    body: str
    """A JSON object."""

    @property
    def weight(self) -> int:
        """Characters that it takes in the database: the rest of a transcript goes to a file."""
        return min(len(self.body), LARGE_BYTES) if self.kind == TRANSCRIPT else len(self.body)


def attachment(kind: str, value: object) -> Attachment:
    """Encode `value` as an attachment of this kind.

    Raises:
        HarnessMisuse: the kind does not exist, or the value is too long.
        Unstorable: JSON cannot represent the value, or it is not an object.
    """
    if kind not in KINDS:
        raise HarnessMisuse(f"attach: expected one of {', '.join(KINDS)}, got {kind!r:.100}; choose one")
    most = _MAX_TRANSCRIPT if kind == TRANSCRIPT else MAX_CHARACTERS
    try:
        private = detach(value, _BUDGET * most)
    except RecordTooLarge:
        raise HarnessMisuse(
            f"{kind}: expected at most {most} characters, got far more; attach a path or link instead"
        ) from None
    try:
        body = msgspec.json.encode(private).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unstorable(explain(private, kind)) from error
    if not body.startswith("{"):
        raise Unstorable(f"{kind}: expected an object, a dict or an attrs class, got {type(value).__name__}; name its fields")
    if len(body) > most:
        raise HarnessMisuse(f"{kind}: expected at most {most} characters, got {len(body)}; attach a path or link instead")
    return Attachment(kind, body)


def value_of(attached: Attachment) -> dict[str, object]:
    """Decode an attachment to plain data."""
    return cast(dict[str, object], msgspec.json.decode(attached.body))


def turns_of(attached: Iterable[Attachment], session: str) -> tuple[dict[str, object], ...]:
    """Return the turns of one conversation among attachments, in order."""
    turns = (value_of(one) for one in attached if one.kind == TRANSCRIPT)
    return tuple(turn for turn in turns if turn.get("session") == session)
