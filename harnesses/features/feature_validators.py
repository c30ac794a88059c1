"""What a validator is, and those that judge any kind of work: all that are asked, and one that accepts everything.

An error that a validator raises is its own: it says nothing about the work.
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
    """Judges work. Never the agent that did it."""

    async def validate(self, feature: Feature, work: WorkT_contra) -> Verdict:
        """Return what was found. It must leave the work as it is."""
        ...


class AcceptAll:
    """Accepts everything; made by `accept_all`."""

    proves = False
    """It runs nothing, so it proves nothing."""

    def __repr__(self) -> str:
        return "accept_all()"

    async def validate(self, feature: Feature, work: object) -> Verdict:
        """Return that it passes."""
        await trio.lowlevel.checkpoint()
        return Verdict(passed=True, evidence="accepted without being looked at", validator="accept_all")


def accept_all() -> AcceptAll:
    """Return a validator that accepts everything, for trying things out. No harness has it unless it is asked for."""
    return AcceptAll()


class AllOf:
    """Asks several validators, those that cost least first; the first no ends it. Made by `all_of`."""

    def __init__(self, validators: Sequence[OutcomeValidator[Any]]) -> None:
        parts = [part for one in validators for part in (one.validators if isinstance(one, AllOf) else (one,))]
        beside = [_beside(part, parts) for part in parts]
        self.validators: tuple[OutcomeValidator[Any], ...] = tuple(sorted(beside, key=_cost))

    @property
    def proves(self) -> bool:
        """Whether one of them runs something."""
        return any(map(proves, self.validators))

    @property
    def depends_on_feature(self) -> bool:
        """Whether one of those that run something can say one thing of one feature and another of another."""
        return any(map(depends_on_feature, self.validators))

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.validators))

    def __and__(self, other: OutcomeValidator[Any]) -> AllOf:
        return AllOf([self, other])

    async def validate(self, feature: Feature, work: Any) -> Verdict:
        """Return what the first one that refuses has found, or else what all have, with all evidence up to there."""
        found: list[Verdict] = []
        for validator in self.validators:
            found.append(check_verdict(await validator.validate(feature, work), f"validator {validator!r:.100}"))
            if not found[-1].passed:
                break
        return _joined(found)


def all_of(*validators: OutcomeValidator[WorkT]) -> OutcomeValidator[WorkT]:
    """Return a validator that accepts what all of `validators` accept.

    Those that only look (`proves` is false) are asked before those that run something, and those that run everything
    (`runs_everything`) last; the first that refuses ends it. A validator that is asked otherwise beside certain others has a
    method `beside`, which is given them and returns what is asked in its place.
    """
    if not validators:
        raise InvalidRequest("all_of: expected one validator or more, was none; to accept everything, ask for accept_all()")
    return AllOf(validators)


def proves(validator: object) -> bool:
    """Return whether a validator runs something; one that does not say so does."""
    return bool(getattr(validator, "proves", True))


def depends_on_feature(validator: object) -> bool:
    """Return whether a validator runs something that is about the feature; one that does not say so does."""
    return proves(validator) and bool(getattr(validator, "depends_on_feature", True))


def _beside(validator: OutcomeValidator[Any], others: Sequence[object]) -> OutcomeValidator[Any]:
    """Return what is asked in place of a validator where others are asked too."""
    beside: Callable[[Sequence[object]], OutcomeValidator[Any]] | None = getattr(validator, "beside", None)
    return validator if beside is None else beside(others)


def _cost(validator: object) -> int:
    """Return what comes before what: looking, running what the feature asks for, running everything."""
    if getattr(validator, "runs_everything", False):
        return 2
    return int(proves(validator))


def _joined(found: Sequence[Verdict]) -> Verdict:
    """Return what several have found. A refusal ends them, and is told first."""
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
