"""Judging the attempt that is claimed, and no other. Pure, but for the files that evidence speaks of.

    nothing handed in              FAIL  builder_contract_exists
    it cannot be read             FAIL  builder_contract, a check for each problem
    it says FAIL or BLOCKED        FAIL  builder_reported_pass
    one check failed               FAIL  that check
    the validator says FAIL        FAIL  validator_passed
    evidence too low, stale        FAIL  evidence…
    else                           PASS

The laws: what was handed in for another claim is no verdict but an error, whatever it says; and nothing passes for lack of
something to look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import evolve

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
from harnesses.governance.evidence.claims import Claim, check_claimed

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
