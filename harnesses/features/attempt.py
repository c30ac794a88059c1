"""What a feature harness knows for as long as one attempt lasts. All else it derives from its state."""

from __future__ import annotations

from datetime import datetime

from attrs import define, field

from harnesses.features.feature import Verdict
from harnesses.features.record import RunOutcome, RunStatus


@define(kw_only=True)
class Made:
    """The step that was made last."""

    number: int = 0
    settled: bool = False
    """Whether it is known to be on record."""
    ended: RunOutcome | None = None
    """The hand-off that came with it."""
    matters: bool = False
    """Whether people are to see it at once in the hand-off files."""

    @property
    def over(self) -> bool:
        """Whether its run was handed off. One that was cut off goes on, unless who has cut it off ends the attempt."""
        return self.ended is not None and self.ended.status is not RunStatus.INTERRUPTED


@define
class Attempt:
    """From one start of `execute()` to its end."""

    own_run: bool = False
    """Whether the open run was opened in it."""
    compared: bool = False
    """Whether the list given was compared with the one being worked."""
    remark: str = ""
    """To be said with the next step."""
    began: datetime | None = None
    """When the run was opened."""
    working: str | None = None
    """The feature being worked."""
    health: Verdict | None = None
    """What the health check has seen, to be recorded with the next step."""
    chat_failures: int = 0
    """Turns in a row in which the agent has failed."""
    last: Made = field(factory=lambda: Made(settled=True))
    then: Exception | None = None
    """To be raised when the step that is made next is recorded."""
    cause: Exception | None = None
    """What the agent, or the validator, has raised last."""
    how: str = ""
    """How it ends, if something has ended it."""
    rechecked: list[str] = field(factory=list[str])
    """Judged anew since the last step, and passing still."""
    stepped_at: float = 0.0
    """When the last step was on record, on Trio's clock."""
    orders: list[object] = field(factory=list[object])
    """Taken from the mailbox, and not yet followed."""
    answers: list[str] = field(factory=list[str])
    """What became of those that were followed since the last step."""
