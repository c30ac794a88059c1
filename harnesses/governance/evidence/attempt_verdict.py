"""The attempt at a task: claimed, judged, and what follows from the verdict. Pure, but for the files that evidence speaks of.

    nothing handed in              FAIL  builder_contract_exists
    it cannot be read             FAIL  builder_contract, a check for each problem
    it says FAIL or BLOCKED        FAIL  builder_reported_pass
    one check failed               FAIL  that check
    the validator says FAIL        FAIL  validator_passed
    evidence too low, stale        FAIL  evidence…
    else                           PASS

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

The laws: an attempt is on record before any work of it begins, so one that was cut off counts; what is handed in without the
nonce of the claim under way is of another attempt, and no verdict but an error, whoever hands it in and whatever it says;
nothing passes for lack of something to look at, and nothing that is not known becomes a PASS.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from attrs import evolve, field, frozen

from harnesses.features.agent_text import one_line
from harnesses.governance.contracts.contract import (
    BuilderContract,
    BuilderStatus,
    Check,
    Recommendation,
    ValidatorContract,
    ValidatorStatus,
    failed,
    passed,
)
from harnesses.governance.errors import ContractError, NotClaimed
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


ISSUES, ISSUE = 5, 120
"""Issues of a verdict, and characters of each: they go into the next prompt."""
MAX_CHECKS = 500


def unreadable(error: ContractError) -> tuple[Check, ...]:
    """Return a failed check for each problem of a contract that cannot be read."""
    return tuple(failed("builder_contract", one_line(problem, 300)) for problem in error.problems[:20])


def judge(
    claim: Claim | None,
    builder: BuilderContract | None,
    checks: Iterable[Check],
    evidence: Sequence[Check] | None = None,
    *,
    validator: ValidatorContract | str,
    contract_needed: bool = True,
    validator_needed: bool = False,
) -> ValidatorContract:
    """Return the verdict on the attempt that is claimed.

    Args:
        builder: what was handed in; None for nothing, or for what could not be read (then `checks` says what is wrong).
        checks: what was looked at: completeness, files, independence, commands.
        evidence: what `EvidencePolicy.met_by` says; None if a pass needs no evidence.
        validator: the contract of a validator that was asked, or the name of whoever judges by rules alone.
        contract_needed: `Guardrails.require_builder_contract`.
        validator_needed: `Guardrails.require_validator_contract`: then rules alone pass nothing.

    Raises:
        NotClaimed: one of the contracts was not handed in under this claim.
    """
    given = list(checks)[:MAX_CHECKS]
    if claim is None:
        raise NotClaimed("nothing is claimed: expected an attempt under way; claim the task first")
    looked = [*_builder_checks(claim, builder, bool(given), contract_needed), *given]
    if evidence is not None:
        looked += evidence or [failed("evidence", "expected evidence, was none; look for yourself")]
    said = validator if isinstance(validator, ValidatorContract) else None
    if said is not None:
        check_claimed(claim, said)
        looked += [evolve(check, name=f"validator:{check.name}") for check in said.checks[:MAX_CHECKS]]
        looked.append(_check_validation(said))
    elif validator_needed:
        looked.append(failed("validator_contract_exists", "expected the contract of a validator, was none; ask one"))
    looked = looked or [failed("checks", "nothing was looked at: expected one check at least")]
    issues = _issues(looked, said)
    good = all(check.ok for check in looked)
    return ValidatorContract(
        task_id=claim.task_id,
        validator=said.validator if said is not None else str(validator),
        status=ValidatorStatus.PASS if good else ValidatorStatus.FAIL,
        checks=looked,
        issues=issues,
        retry_recommendation=_recommend(good, builder, said),
        identity=None if said is None else said.identity,
        nonce=claim.nonce,
    )


def quality(checks: Sequence[Check]) -> float:
    """Return which part of the checks was passed, to two decimals; 0.0 if there are none."""
    return round(sum(check.ok for check in checks) / len(checks), 2) if checks else 0.0


def _builder_checks(claim: Claim, builder: BuilderContract | None, explained: bool, needed: bool) -> list[Check]:
    if builder is None:
        if not needed:
            return []
        why = "it could not be read" if explained else "nothing was handed in"
        return [failed("builder_contract_exists", f"expected a builder contract: {why}; write builder.json")]
    check_claimed(claim, builder)
    if builder.status.passing:
        return [passed("builder_reported_pass", builder.status.value)]
    return [failed("builder_reported_pass", f"the builder says {builder.status.value}: {one_line(builder.summary, 200)}")]


def _check_validation(said: ValidatorContract) -> Check:
    if said.status is ValidatorStatus.PASS and not said.checks:
        return failed(
            "validator_passed", f"{said.validator!r:.100} says PASS and has looked at nothing: expected one check at least"
        )
    if said.status is ValidatorStatus.PASS:
        return passed("validator_passed", f"{said.validator!r:.100} says PASS")
    return failed("validator_passed", f"{said.validator!r:.100} says FAIL: {one_line('; '.join(said.issues[:3]), 200)}")


def _issues(checks: Sequence[Check], said: ValidatorContract | None) -> tuple[str, ...]:
    found = [f"{check.name}: {check.evidence}" for check in checks if not check.ok]
    found += [] if said is None else list(said.issues)
    return tuple(one_line(issue, ISSUE) for issue in found[:ISSUES])


def _recommend(good: bool, builder: BuilderContract | None, said: ValidatorContract | None) -> Recommendation:
    """Return what is to happen next: the validator's word, if it has one."""
    if said is not None and said.retry_recommendation is not Recommendation.NONE:
        return said.retry_recommendation
    if good:
        return Recommendation.NONE
    blocked = builder is not None and builder.status is BuilderStatus.BLOCKED
    return Recommendation.ASK_USER if blocked else Recommendation.RETRY_BUILDER


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
