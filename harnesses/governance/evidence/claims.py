"""Claims: an attempt that has begun, what may be handed in for it, and whether another may begin. Pure.

The laws: an attempt is on record before any work of it begins, so one that was cut off counts; and what is handed in without
the nonce of the claim under way is of another attempt, whoever hands it in.
"""

from __future__ import annotations

from attrs import evolve, field, frozen

from harnesses.governance.contracts.contract import BuilderContract, ValidatorContract
from harnesses.governance.errors import NotClaimed
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.governor import Finding


@frozen(kw_only=True)
class Claim:
    """An attempt at a task that has begun and is not judged yet. On record before any work begins."""

    task_id: str
    attempt: int
    """From 1."""
    nonce: str = field(repr=False)
    """What tells it from every other attempt, of this run and of any other."""


def stamped(contract: BuilderContract, claim: Claim) -> BuilderContract:
    """Return a contract with the nonce of the claim, for one that came straight from the agent run under it.

    A contract that names another claim is not changed: `judge` refuses it. One that comes from a file that may be older than
    the claim must name the claim itself.
    """
    return contract if contract.nonce else evolve(contract, nonce=claim.nonce)


def check_claimed(claim: Claim | None, contract: BuilderContract | ValidatorContract) -> Claim:
    """Return the claim that a contract was handed in under.

    Raises:
        NotClaimed: there is none, or it is another.
    """
    if claim is None or not claim.nonce:
        raise NotClaimed(f"task {contract.task_id!r:.100} is not claimed: expected an attempt under way; claim it first")
    if contract.task_id != claim.task_id:
        raise NotClaimed(
            f"task {claim.task_id!r:.100}, attempt {claim.attempt}: expected a contract of this task, was one of "
            f"{contract.task_id!r:.100}; hand in the right one"
        )
    if contract.nonce != claim.nonce:
        was = "one without" if not contract.nonce else "that of another attempt"
        raise NotClaimed(
            f"task {claim.task_id!r:.100}, attempt {claim.attempt}: expected the nonce of the claim, was {was}; "
            "only the attempt under way can be judged"
        )
    return claim


def refused_claim(guardrails: Guardrails, *, task_id: str, attempts: int, destructive: bool = False) -> Finding | None:
    """Return why a task may not be claimed once more; None if it may.

    Args:
        attempts: on record, those that were cut off included.
    """
    most = guardrails.attempts_for(destructive=destructive)
    if attempts < most:
        return None
    name = "max_task_attempts"
    if destructive and guardrails.max_destructive_task_attempts <= guardrails.max_task_attempts:
        name = "max_destructive_task_attempts"
    reason = f"task {task_id!r:.100} has had {attempts} of {most} attempts; a person has to decide whether it gets another"
    return Finding(limit_name=name, current_value=str(attempts), limit_value=str(most), reason=reason)
