"""How a harness ended. A value."""

from __future__ import annotations

from enum import StrEnum

from attrs import field, frozen


class OutcomeKind(StrEnum):
    """The ways to end."""

    COMPLETED = "completed"
    """`is_complete()` was true."""
    FINISHED = "finished"
    """`execute()` returned."""
    EXHAUSTED = FINISHED
    """Earlier name of `FINISHED`."""
    STOPPED = "stopped"
    """It was told to stop; it can be resumed."""
    FAILED = "failed"
    """It crashed and is not started again."""
    GAVE_UP = "gave_up"
    """It crashed more often than its intensity allows."""
    BUDGET_SPENT = "budget_spent"
    BLOCKED = "blocked"
    """The harness waits for human action."""

    @classmethod
    def _missing_(cls, value: object) -> OutcomeKind | None:
        return cls.FINISHED if value == "exhausted" else None


@frozen
class Outcome:
    """How a harness ended, and why."""

    kind: OutcomeKind
    cause: str = ""
    """A sentence; empty where the kind says it all."""
    step: int = 0
    """The last recorded step."""
    attempt: int = 0
    error: BaseException | None = field(default=None, eq=False)
    """What it raised, if it failed in this run."""

    @property
    def ok(self) -> bool:
        """Whether it neither failed nor gave up."""
        return self.kind not in (OutcomeKind.FAILED, OutcomeKind.GAVE_UP)

    def __str__(self) -> str:
        return f"{self.kind}: {self.cause}" if self.cause else str(self.kind)
