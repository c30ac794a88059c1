"""`Outcome`: how a harness ended."""

from __future__ import annotations

from enum import StrEnum

from attrs import field, frozen


class OutcomeKind(StrEnum):
    """The ways in which a harness ends."""

    COMPLETED = "completed"
    """`is_complete()` returned true."""
    FINISHED = "finished"
    """`execute()` returned."""
    EXHAUSTED = FINISHED
    """Earlier name of `FINISHED`."""
    STOPPED = "stopped"
    """The harness was told to stop; it can be resumed."""
    FAILED = "failed"
    """The harness crashed and is not restarted."""
    GAVE_UP = "gave_up"
    """The harness crashed more often than its intensity allows."""
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
    """One sentence; empty where the kind is sufficient."""
    step: int = 0
    """Number of the last recorded step."""
    attempt: int = 0
    error: BaseException | None = field(default=None, eq=False)
    """The error that it raised, if it failed in this run."""

    @property
    def ok(self) -> bool:
        """Whether the harness neither failed nor gave up."""
        return self.kind not in (OutcomeKind.FAILED, OutcomeKind.GAVE_UP)

    def __str__(self) -> str:
        return f"{self.kind}: {self.cause}" if self.cause else str(self.kind)
