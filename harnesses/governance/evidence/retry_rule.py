"""What follows from a verdict. Pure.

    verdict   recommendation    attempts left   decision        status of the task
    PASS      none              -               complete        PASS
    FAIL      none              yes             retry           FAIL
    FAIL      retry_builder     yes             retry           FAIL
    PASS      retry_builder     yes             retry           FAIL      ¹
    *         none ², retry_…   no              exhausted       BLOCKED
    *         ask_user          -               human_context   NEEDS_CONTEXT
    *         block             -               block           BLOCKED
    *         anything else     -               block           BLOCKED
    else      -                 -               block           BLOCKED

    ¹ who says both is not believed: what it asks for is done        ² but for PASS

The law: nothing that is not known becomes a PASS.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from attrs import frozen

from harnesses.features.agent_text import one_line
from harnesses.governance.contracts.contract import Check, Recommendation, ValidatorContract, ValidatorStatus
from harnesses.governance.evidence.attempt_verdict import ISSUE, ISSUES


class Decision(StrEnum):
    """What happens next."""

    COMPLETE = "complete"
    RETRY = "retry"
    EXHAUSTED = "exhausted"
    HUMAN_CONTEXT = "human_context"
    BLOCK = "block"


class TaskStatus(StrEnum):
    """Where a task stands."""

    PENDING = "PENDING"
    READY = "READY"
    IN_PROGRESS = "IN_PROGRESS"
    PASS = "PASS"
    FAIL = "FAIL"
    """Judged and found wanting; it may be tried again."""
    BLOCKED = "BLOCKED"
    NEEDS_CONTEXT = "NEEDS_CONTEXT"
    """A person has to say something first."""


STATUS_AFTER = {
    Decision.COMPLETE: TaskStatus.PASS,
    Decision.RETRY: TaskStatus.FAIL,
    Decision.EXHAUSTED: TaskStatus.BLOCKED,
    Decision.HUMAN_CONTEXT: TaskStatus.NEEDS_CONTEXT,
    Decision.BLOCK: TaskStatus.BLOCKED,
}


@frozen
class Retry:
    """What follows from a verdict."""

    decision: Decision
    reason: str

    @property
    def status(self) -> TaskStatus:
        """Of the task."""
        return STATUS_AFTER[self.decision]


def decide(status: ValidatorStatus | str, recommendation: Recommendation | str, *, attempts: int, most: int) -> Retry:
    """Return what follows from a verdict.

    Args:
        attempts: begun so far, the one that was judged included.
        most: how many there may be; see `Guardrails.attempts_for`.
    """
    if status not in tuple(ValidatorStatus) or recommendation not in tuple(Recommendation):
        return Retry(Decision.BLOCK, f"verdict {status!r:.40}, recommendation {recommendation!r:.40}: not known here")
    if recommendation == Recommendation.BLOCK:
        return Retry(Decision.BLOCK, "the validator wants it blocked")
    if recommendation == Recommendation.ASK_USER:
        return Retry(Decision.HUMAN_CONTEXT, "a person has to say something first")
    if status == ValidatorStatus.PASS and recommendation == Recommendation.NONE:
        return Retry(Decision.COMPLETE, "passed")
    if attempts >= most:
        return Retry(Decision.EXHAUSTED, f"attempt {attempts} of {most} was not passed")
    return Retry(Decision.RETRY, f"attempt {attempts} of {most} was not passed")


def follow(verdict: ValidatorContract, *, attempts: int, most: int) -> Retry:
    """Return what follows from a verdict; see `decide`."""
    return decide(verdict.status, verdict.retry_recommendation, attempts=attempts, most=most)


def feedback(checks: Iterable[Check], issues: Iterable[str] = ()) -> str:
    """Return what the next prompt says of the attempt before: at most 5 lines of 120 characters, as data; "" for nothing."""
    failures = [f"{check.name}: {check.evidence}" for check in checks if not check.ok]
    lines = list(dict.fromkeys(one_line(text, ISSUE) for text in (*failures, *issues)))
    if not lines:
        return ""
    more = [] if len(lines) <= ISSUES else [f"- and {len(lines) - ISSUES} more"]
    return "\n".join(["The attempt before failed these checks:", *(f"- {line}" for line in lines[:ISSUES]), *more])
