"""What is recorded beside a step, in one commit with it: proof of the work it tells of, and what it has set off. Pure.

The law: what is attached is on disk if the step is, and only then.

    evidence     what speaks for or against work
    task         what has happened to a task
    guardrail    what a guardrail has found
    child        a harness that it has started: `start_child`, and nothing else, attaches that
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
"""To one step: more of it belongs into the state or an artifact."""
MAX_CHARACTERS = 100_000
"""Of the JSON of one attachment."""
_BUDGET = 250 * MAX_CHARACTERS
"""Of the walk over a value before it is encoded: JSON of that length fits into it, whatever it is made of."""


@frozen
class Attachment:
    """Something recorded beside a step."""

    kind: str
    """One of `KINDS`, or `CHILD`."""
    body: str
    """JSON object."""


def attachment(kind: str, value: object) -> Attachment:
    """Return what `value` is recorded as.

    Raises:
        HarnessMisuse: there is no such kind, or it is too long.
        Unstorable: JSON cannot carry it, or it is no object.
    """
    if kind not in KINDS:
        raise HarnessMisuse(f"attach: expected one of {', '.join(KINDS)}, was {kind!r:.100}; choose one")
    try:
        private = detach(value, _BUDGET)
    except RecordTooLarge:
        raise HarnessMisuse(
            f"{kind}: expected at most {MAX_CHARACTERS} characters, was far more; attach where it is"
        ) from None
    try:
        body = msgspec.json.encode(private).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unstorable(explain(private, kind)) from error
    if not body.startswith("{"):
        raise Unstorable(f"{kind}: expected an object, a dict or an attrs class, was {type(value).__name__}; name its fields")
    if len(body) > MAX_CHARACTERS:
        raise HarnessMisuse(f"{kind}: expected at most {MAX_CHARACTERS} characters, was {len(body)}; attach where it is")
    return Attachment(kind, body)


def value_of(attached: Attachment) -> dict[str, object]:
    """Return an attachment as plain data."""
    return cast(dict[str, object], msgspec.json.decode(attached.body))
