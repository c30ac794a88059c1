"""An attempt at a task: claiming it, the verdict on it, and the decision that follows. Only reading evidence does I/O.

    nothing handed in             FAIL  builder_contract_exists
    it cannot be read             FAIL  builder_contract, a check for each problem
    it reports FAIL or BLOCKED    FAIL  builder_reported_pass
    one check failed              FAIL  that check
    the validator reports FAIL    FAIL  validator_passed
    evidence too low, stale       FAIL  evidence…
    else                          PASS

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

    ¹ contradictory: the recommendation is followed        ² except with PASS

Invariants: an attempt is recorded before its work begins, so an interrupted one counts. A contract without the nonce of the
current claim belongs to another attempt and raises an error, whatever its content. Missing or unknown input never leads to a
PASS.
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
    """An attempt at a task that has begun and is not judged yet. Recorded before its work begins."""

    task_id: str
    attempt: int
    """Number of the attempt, from 1."""
    nonce: str = field(repr=False)
    """Random id that distinguishes it from all other attempts, in any run."""


def stamped(contract: BuilderContract, claim: Claim) -> BuilderContract:
    """Add the nonce of the claim to a contract that came directly from the agent run under it.

    A contract with another nonce is returned unchanged, and `judge` refuses it. A contract from a file, which may be older
    than the claim, must contain the nonce itself.
    """
    return contract if contract.nonce else evolve(contract, nonce=claim.nonce)


def check_claimed(claim: Claim | None, contract: BuilderContract | ValidatorContract) -> Claim:
    """Return the claim under which a contract was handed in.

    Raises:
        NotClaimed: there is no claim, or another one.
    """
    if claim is None or not claim.nonce:
        raise NotClaimed(
            f"task {contract.task_id!r:.100} is not claimed: expected an attempt in progress, got none; claim it first"
        )
    if contract.task_id != claim.task_id:
        raise NotClaimed(
            f"task {claim.task_id!r:.100}, attempt {claim.attempt}: expected a contract of this task, got one of "
            f"{contract.task_id!r:.100}; hand in the right one"
        )
    if contract.nonce != claim.nonce:
        was = "none" if not contract.nonce else "that of another attempt"
        raise NotClaimed(
            f"task {claim.task_id!r:.100}, attempt {claim.attempt}: expected the nonce of the claim, got {was}; "
            "only the attempt in progress can be judged"
        )
    return claim


def refused_claim(guardrails: Guardrails, *, task_id: str, attempts: int, destructive: bool = False) -> Finding | None:
    """Return a finding if a task may not have another attempt; None if it may.

    Args:
        attempts: attempts on record, including interrupted ones.
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
"""Maximum number of issues in a verdict, and of characters in each: they go into the next prompt."""
MAX_CHECKS = 500


def unreadable(error: ContractError) -> tuple[Check, ...]:
    """Return a failed check for each problem of an unreadable contract."""
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
    """Return the verdict on the claimed attempt.

    Args:
        builder: the builder's contract; None if there is none, or it was unreadable (then `checks` has the problems).
        checks: results of the checks: completeness, files, independence, commands.
        evidence: result of `EvidencePolicy.met_by`; None if a pass needs no evidence.
        validator: the contract of a validator, or the name of a judge that only applies rules.
        contract_needed: `Guardrails.require_builder_contract`.
        validator_needed: `Guardrails.require_validator_contract`: rules alone then never pass.

    Raises:
        NotClaimed: a contract was not handed in under this claim.
    """
    given = list(checks)[:MAX_CHECKS]
    if claim is None:
        raise NotClaimed("no task is claimed: expected an attempt in progress; claim the task first")
    looked = [*_builder_checks(claim, builder, bool(given), contract_needed), *given]
    if evidence is not None:
        looked += evidence or [failed("evidence", "expected evidence, got none; verify the work")]
    said = validator if isinstance(validator, ValidatorContract) else None
    if said is not None:
        check_claimed(claim, said)
        looked += [evolve(check, name=f"validator:{check.name}") for check in said.checks[:MAX_CHECKS]]
        looked.append(_check_validation(said))
    elif validator_needed:
        looked.append(failed("validator_contract_exists", "expected the contract of a validator, got none; ask one"))
    looked = looked or [failed("checks", "nothing was checked: expected at least one check")]
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
    """Return the share of checks that passed, rounded to two decimals; 0.0 if there are none."""
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
    return [failed("builder_reported_pass", f"the builder reports {builder.status.value}: {one_line(builder.summary, 200)}")]


def _check_validation(said: ValidatorContract) -> Check:
    if said.status is ValidatorStatus.PASS and not said.checks:
        return failed("validator_passed", f"{said.validator!r:.100} reports PASS without any check: expected at least one")
    if said.status is ValidatorStatus.PASS:
        return passed("validator_passed", f"{said.validator!r:.100} reports PASS")
    return failed("validator_passed", f"{said.validator!r:.100} reports FAIL: {one_line('; '.join(said.issues[:3]), 200)}")


def _issues(checks: Sequence[Check], said: ValidatorContract | None) -> tuple[str, ...]:
    found = [f"{check.name}: {check.evidence}" for check in checks if not check.ok]
    found += [] if said is None else list(said.issues)
    return tuple(one_line(issue, ISSUE) for issue in found[:ISSUES])


def _recommend(good: bool, builder: BuilderContract | None, said: ValidatorContract | None) -> Recommendation:
    """Return the recommendation: the validator's, if it made one."""
    if said is not None and said.retry_recommendation is not Recommendation.NONE:
        return said.retry_recommendation
    if good:
        return Recommendation.NONE
    blocked = builder is not None and builder.status is BuilderStatus.BLOCKED
    return Recommendation.ASK_USER if blocked else Recommendation.RETRY_BUILDER


class Decision(StrEnum):
    """The next action on a task."""

    COMPLETE = "complete"
    RETRY = "retry"
    EXHAUSTED = "exhausted"
    HUMAN_CONTEXT = "human_context"
    BLOCK = "block"


class TaskStatus(StrEnum):
    """Status of a task."""

    PENDING = "PENDING"
    READY = "READY"
    IN_PROGRESS = "IN_PROGRESS"
    PASS = "PASS"
    FAIL = "FAIL"
    """Judged as failed; may be tried again."""
    BLOCKED = "BLOCKED"
    NEEDS_CONTEXT = "NEEDS_CONTEXT"
    """Needs input from a person."""


STATUS_AFTER = {
    Decision.COMPLETE: TaskStatus.PASS,
    Decision.RETRY: TaskStatus.FAIL,
    Decision.EXHAUSTED: TaskStatus.BLOCKED,
    Decision.HUMAN_CONTEXT: TaskStatus.NEEDS_CONTEXT,
    Decision.BLOCK: TaskStatus.BLOCKED,
}


@frozen
class Retry:
    """The decision after a verdict."""

    decision: Decision
    reason: str

    @property
    def status(self) -> TaskStatus:
        """The status of the task."""
        return STATUS_AFTER[self.decision]


def decide(status: ValidatorStatus | str, recommendation: Recommendation | str, *, attempts: int, most: int) -> Retry:
    """Decide what follows from a verdict.

    Args:
        attempts: attempts begun so far, including the judged one.
        most: most attempts allowed; see `Guardrails.attempts_for`.
    """
    if status not in tuple(ValidatorStatus) or recommendation not in tuple(Recommendation):
        return Retry(Decision.BLOCK, f"verdict {status!r:.40}, recommendation {recommendation!r:.40}: not known here")
    if recommendation == Recommendation.BLOCK:
        return Retry(Decision.BLOCK, "the validator recommends blocking it")
    if recommendation == Recommendation.ASK_USER:
        return Retry(Decision.HUMAN_CONTEXT, "a person has to add information first")
    if status == ValidatorStatus.PASS and recommendation == Recommendation.NONE:
        return Retry(Decision.COMPLETE, "passed")
    if attempts >= most:
        return Retry(Decision.EXHAUSTED, f"attempt {attempts} of {most} did not pass")
    return Retry(Decision.RETRY, f"attempt {attempts} of {most} did not pass")


def follow(verdict: ValidatorContract, *, attempts: int, most: int) -> Retry:
    """Decide what follows from a validator's contract; see `decide`."""
    return decide(verdict.status, verdict.retry_recommendation, attempts=attempts, most=most)


def feedback(checks: Iterable[Check], issues: Iterable[str] = ()) -> str:
    """Return the feedback for the next prompt: at most 5 lines of 120 characters, as data; "" if there is none."""
    failures = [f"{check.name}: {check.evidence}" for check in checks if not check.ok]
    lines = list(dict.fromkeys(one_line(text, ISSUE) for text in (*failures, *issues)))
    if not lines:
        return ""
    more = [] if len(lines) <= ISSUES else [f"- and {len(lines) - ISSUES} more"]
    return "\n".join(["The previous attempt failed these checks:", *(f"- {line}" for line in lines[:ISSUES]), *more])
