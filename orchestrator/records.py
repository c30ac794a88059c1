"""What readers get: committed steps, committed records of any kind, and what is known of a harness. Values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from attrs import frozen

from harnesses.step import StateDelta
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
    attempt: int
    step: int
    time_us: int
    kind: str
    """`step`, `message`, or the `kind` of an event."""
    body: str
    """JSON object."""
    run: str = ""
    """The life of the program that wrote it; empty for messages."""

    @property
    def timestamp(self) -> datetime:
        """The wall time of the record."""
        return datetime.fromtimestamp(self.time_us / 1e6, UTC)


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
