"""What all harnesses of one run share."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from harnesses.data.record_size import MAX_RECORD_BYTES
from harnesses.timing.clock import WallClock
from orchestrator.accounts.budget_account import Teller
from orchestrator.mail.mail_delivery import MailDelivery
from orchestrator.recording.approval_waits import Approvals
from orchestrator.recording.recorder import Recorder
from orchestrator.runtime.started_children import Families


@frozen(kw_only=True)
class RunContext:
    """What a child and its attempts are given of the run."""

    recorder: Recorder
    post: MailDelivery
    check_latch: Callable[[str], None]
    """Raises `Latched` if no effect of the harness called so may begin."""
    clock: WallClock
    teller: Teller
    approvals: Approvals
    families: Families
    lag_s: float
    """Wall time less Trio's time: one value for a run, so that one restart of many children is one moment."""
    redacted: bool = True
    """Whether secrets are taken out of what is recorded."""
    most: int = MAX_RECORD_BYTES
    """Bytes that one record may have."""
    why_cancelled: Callable[[], str] = lambda: "cancelled"
    """Says why everything is cancelled from outside."""
