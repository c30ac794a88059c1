"""Attachments: records committed in one transaction with a step, such as evidence and child starts. Pure.

Invariant: an attachment is on disk if and only if its step is.

    evidence     evidence for or against the work
    task         a change of a task
    guardrail    a finding of a guardrail
    child        a started harness; only `start_child` attaches it
"""

from __future__ import annotations

from typing import cast

import msgspec
from attrs import frozen

from harnesses.data.values import detach, explain
from harnesses.errors import HarnessMisuse, RecordTooLarge, Unstorable

KINDS = ("evidence", "task", "guardrail")
CHILD = "child"
MAX_ATTACHED = 1_000
"""Attachments of one step; keep larger collections in the state or in an artifact."""
MAX_CHARACTERS = 100_000
"""Characters of JSON of one attachment."""
_BUDGET = 250 * MAX_CHARACTERS
"""Budget for walking a value before it is encoded; large enough for any value whose JSON has at most `MAX_CHARACTERS`."""


@frozen
class Attachment:
    """A record stored beside a step."""

    kind: str
    """One of `KINDS`, or `CHILD`."""
    body: str
    """A JSON object."""


def attachment(kind: str, value: object) -> Attachment:
    """Encode `value` as an attachment of this kind.

    Raises:
        HarnessMisuse: the kind does not exist, or the value is too long.
        Unstorable: JSON cannot represent the value, or it is not an object.
    """
    if kind not in KINDS:
        raise HarnessMisuse(f"attach: expected one of {', '.join(KINDS)}, got {kind!r:.100}; choose one")
    try:
        private = detach(value, _BUDGET)
    except RecordTooLarge:
        raise HarnessMisuse(
            f"{kind}: expected at most {MAX_CHARACTERS} characters, got far more; attach a path or link instead"
        ) from None
    try:
        body = msgspec.json.encode(private).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unstorable(explain(private, kind)) from error
    if not body.startswith("{"):
        raise Unstorable(f"{kind}: expected an object, a dict or an attrs class, got {type(value).__name__}; name its fields")
    if len(body) > MAX_CHARACTERS:
        raise HarnessMisuse(
            f"{kind}: expected at most {MAX_CHARACTERS} characters, got {len(body)}; attach a path or link instead"
        )
    return Attachment(kind, body)


def value_of(attached: Attachment) -> dict[str, object]:
    """Decode an attachment to plain data."""
    return cast(dict[str, object], msgspec.json.decode(attached.body))
