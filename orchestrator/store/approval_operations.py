"""What can be asked of a store about approvals. Values.

The law: whether an action may be done is decided within the commit that takes its approval up, from all that is on record
by then, in its order; so a denial that was recorded before counts, however close it came, and whatever clocks said.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from harnesses.effects.approval import Request, Standing
from harnesses.timing.clock import Ticks

REQUESTED, ANSWERED, USED = "approval_requested", "approval_answered", "approval_used"
KINDS = (REQUESTED, ANSWERED, USED)
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
