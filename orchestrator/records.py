"""What readers get: committed steps, committed records of any kind, and what is known of a harness. Values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from attrs import field, frozen

from harnesses.effects.approval import Case
from harnesses.effects.effect import OPEN, EffectOutcome
from harnesses.step import StateDelta
from orchestrator.events import current_kind
from orchestrator.lifecycle import Status


@frozen
class StepRecord:
    """A committed step: the fields of `Step`, and where it stands."""

    harness: str
    attempt: int
    seq: int
    step_number: int
    timestamp: datetime
    input: Any
    output: Any
    state_delta: StateDelta


@frozen
class Record:
    """Anything committed: a step, a lifecycle event or a message."""

    seq: int
    harness: str
    """Empty for what concerns all of them."""
    attempt: int
    step: int
    time_us: int
    kind: str = field(converter=current_kind)
    """`step`, `message`, `intent`, `outcome`, `output`, `latch`, `loop_blocked`, or the `kind` of an event."""
    body: str
    """JSON object."""
    run: str = ""
    """The life of the program that wrote it; empty for messages."""

    @property
    def timestamp(self) -> datetime:
        """The wall time of the record."""
        return datetime.fromtimestamp(self.time_us / 1e6, UTC)


@frozen
class EffectRecord:
    """What is known of one effect."""

    harness: str
    step_number: int
    """The step it belongs to, recorded or being made."""
    key: str
    attempt: int
    """The one that began it last."""
    seq: int
    """Of its newest intent."""
    time_us: int
    outcome: EffectOutcome
    arguments: Any
    result: Any
    reason: str
    idempotent: bool
    settled_by: str = ""
    """`operator` if a person has said what became of it."""

    @property
    def is_open(self) -> bool:
        """Whether nobody knows what became of it; of a harness that runs, it may be under way."""
        return self.outcome in OPEN and not self.idempotent


@frozen
class ChildRecord:
    """A harness that another has started, as of the step it was started with."""

    harness: str
    """Who has started it."""
    step_number: int
    seq: int
    name: str
    """Its durable name; empty if the record is not what was written."""
    body: str
    """JSON object: `child`, `factory`, and whatever else it was started with."""
    status: Status | None = None
    """Where it is in its life; None if it has not begun."""
    harness_class: str = ""
    """Of it, when it was last started."""


def name_in(body: str) -> str:
    """Return the name of the harness that the body of a record of one tells of; empty if it tells of none."""
    try:
        found: object = msgspec.json.decode(body)["child"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return ""
    return found if isinstance(found, str) else ""


@frozen
class ApprovalRecord:
    """All that is on record of one request for an approval. What it is worth, `harnesses.effects.approval.stand` says."""

    id: str
    harness: str
    step_number: int
    """The step it was asked in, recorded or being made."""
    seq: int
    """Of the request."""
    time_us: int
    """When it was asked."""
    case: Case


@frozen
class HarnessRecord:
    """What a store knows of one harness."""

    name: str
    status: Status
    attempt: int
    current_step: int
    harness_class: str
    owned: bool
    """Whether a living process runs it now."""
    last_time_us: int
    event: dict[str, Any]
    """Fields of the last lifecycle event: the cause of a failure, the due time of a restart."""
