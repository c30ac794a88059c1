"""The protocol of validators, and two general ones: a combination of several, and one that accepts everything.

An error raised by a validator is its own failure and says nothing about the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import trio

from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature, Verdict
from harnesses.features.turn_results import check_verdict

WorkT = TypeVar("WorkT")
WorkT_contra = TypeVar("WorkT_contra", contravariant=True)


class OutcomeValidator(Protocol[WorkT_contra]):
    """Validates work. It is never the agent that did the work."""

    async def validate(self, feature: Feature, work: WorkT_contra) -> Verdict:
        """Return the verdict. Must not change the work."""
        ...


class AcceptAll:
    """Accepts everything; created by `accept_all`."""

    proves = False
    """It runs nothing, so it proves nothing."""

    def __repr__(self) -> str:
        return "accept_all()"

    async def validate(self, feature: Feature, work: object) -> Verdict:
        """Return a passing verdict."""
        await trio.lowlevel.checkpoint()
        return Verdict(passed=True, evidence="accepted without validation", validator="accept_all")


def accept_all() -> AcceptAll:
    """Return a validator that accepts everything, for experiments. It is never a default."""
    return AcceptAll()


class AllOf:
    """Asks several validators, the cheapest first, and stops at the first rejection. Created by `all_of`."""

    def __init__(self, validators: Sequence[OutcomeValidator[Any]]) -> None:
        parts = [part for one in validators for part in (one.validators if isinstance(one, AllOf) else (one,))]
        beside = [_beside(part, parts) for part in parts]
        self.validators: tuple[OutcomeValidator[Any], ...] = tuple(sorted(beside, key=_cost))

    @property
    def proves(self) -> bool:
        """Whether any of them runs something."""
        return any(map(proves, self.validators))

    @property
    def side_by_side(self) -> bool:
        """Whether all of them may judge at the same time."""
        return all(getattr(one, "side_by_side", False) for one in self.validators)

    def expect(self, features: Sequence[Feature]) -> None:
        """Tell each of them which features will be judged."""
        for one in self.validators:
            expect_features(one, features)

    @property
    def depends_on_feature(self) -> bool:
        """Whether any of them that runs something may judge different features differently."""
        return any(map(depends_on_feature, self.validators))

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.validators))

    def __and__(self, other: OutcomeValidator[Any]) -> AllOf:
        return AllOf([self, other])

    async def validate(self, feature: Feature, work: Any) -> Verdict:
        """Return the first rejection, or a combined pass, with all evidence so far."""
        found: list[Verdict] = []
        for validator in self.validators:
            found.append(check_verdict(await validator.validate(feature, work), f"validator {validator!r:.100}"))
            if not found[-1].passed:
                break
        return _joined(found)


def all_of(*validators: OutcomeValidator[WorkT]) -> OutcomeValidator[WorkT]:
    """Return a validator that accepts what all of `validators` accept.

    Validators that only inspect (`proves` is false) run before those that run something; those that run everything
    (`runs_everything`) run last. The first rejection stops. A validator with a method `beside` is given the others and returns
    the validator to use in its place.
    """
    if not validators:
        raise InvalidRequest("all_of: expected one validator or more, was none; to accept everything, use accept_all()")
    return AllOf(validators)


def proves(validator: object) -> bool:
    """Return whether a validator runs something; true unless it says otherwise."""
    return bool(getattr(validator, "proves", True))


def depends_on_feature(validator: object) -> bool:
    """Return whether a validator's verdict depends on the feature; true unless it says otherwise, or runs nothing."""
    return proves(validator) and bool(getattr(validator, "depends_on_feature", True))


def expect_features(validator: object, features: Sequence[Feature]) -> None:
    """Tell a validator which features will be judged, if it has a method `expect`: it may then judge many in one run."""
    expect: Callable[[Sequence[Feature]], None] | None = getattr(validator, "expect", None)
    if expect is not None:
        expect(features)


def _beside(validator: OutcomeValidator[Any], others: Sequence[object]) -> OutcomeValidator[Any]:
    """Return the validator to use when others are used together with it."""
    beside: Callable[[Sequence[object]], OutcomeValidator[Any]] | None = getattr(validator, "beside", None)
    return validator if beside is None else beside(others)


def _cost(validator: object) -> int:
    """Return the rank by cost: inspecting, running what the feature asks for, running everything."""
    if getattr(validator, "runs_everything", False):
        return 2
    return int(proves(validator))


def _joined(found: Sequence[Verdict]) -> Verdict:
    """Return one verdict for several. A rejection is always the last of them, and its evidence comes first."""
    commits = {verdict.commit for verdict in found} - {None}
    passed = found[-1].passed
    told = found if passed else (found[-1], *found[:-1])
    return Verdict(
        passed=passed,
        evidence="\n".join(f"{verdict.validator or 'validator'}: {verdict.evidence}" for verdict in told),
        validator=" & ".join(verdict.validator or "validator" for verdict in found),
        commit=commits.pop() if len(commits) == 1 else None,
        duration_s=sum(verdict.duration_s for verdict in found),
    )
