"""What the validators of the coding harness have in common: they compose with `&`, and say where they looked."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from harnesses.coding.candidate import Candidate
from harnesses.features.feature import Feature, Verdict
from harnesses.features.protocols import OutcomeValidator

MAX_FINDINGS = 20
"""Findings that are told at once; an agent that has made more mistakes is told of the others the next time."""


class Composable(ABC):
    """Something that judges a commit. `a & b` accepts what both accept."""

    @property
    @abstractmethod
    def proves(self) -> bool:
        """Whether it runs something; if not, it only guards, and what it accepts is not proven."""

    @abstractmethod
    async def validate(self, feature: Feature, work: Candidate) -> Verdict:
        """Judge a commit."""

    def __and__(self, other: OutcomeValidator[Candidate]) -> Together:
        return Together(self, other)


class CandidateValidator(Composable):
    """A validator of its own, which finds something or nothing."""

    def unguarded(self) -> CandidateValidator:
        """Return what to ask beside a validator that guards the tests already."""
        return self

    @abstractmethod
    async def find(self, feature: Feature, candidate: Candidate) -> tuple[bool, str]:
        """Return whether a commit passes, and the evidence."""

    async def validate(self, feature: Feature, work: Candidate) -> Verdict:
        """Judge a commit, and take the time."""
        began = time.monotonic()
        passed, evidence = await self.find(feature, work)
        return Verdict(
            passed=passed,
            evidence=evidence,
            validator=type(self).__name__,
            commit=work.commit,
            duration_s=time.monotonic() - began,
        )


class Together(Composable):
    """Accepts what all of its validators accept; those that cost least are asked first, and the first no ends it."""

    def __init__(self, *validators: OutcomeValidator[Candidate]) -> None:
        parts = [
            part
            for validator in validators
            for part in (validator.validators if isinstance(validator, Together) else (validator,))
        ]
        if any(getattr(part, "guards_tests", False) for part in parts):
            parts = [part.unguarded() if isinstance(part, CandidateValidator) else part for part in parts]
        self.validators: tuple[OutcomeValidator[Candidate], ...] = tuple(sorted(parts, key=_cost))

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.validators))

    @property
    def proves(self) -> bool:
        """Whether one of them runs something."""
        return any(bool(getattr(validator, "proves", True)) for validator in self.validators)

    @property
    def depends_on_feature(self) -> bool:
        """Whether one of those that run something can say one thing of one feature and another of another."""
        return any(map(depends_on_feature, self.validators))

    async def validate(self, feature: Feature, work: Candidate) -> Verdict:
        """Return what the first that refuses has found, or else what all have."""
        found: list[Verdict] = []
        for validator in self.validators:
            found.append(await validator.validate(feature, work))
            if not found[-1].passed:
                break
        return Verdict(
            passed=found[-1].passed,
            evidence="\n".join(f"{verdict.validator}: {verdict.evidence}" for verdict in _said(found)),
            validator=" & ".join(verdict.validator for verdict in found),
            commit=work.commit,
            duration_s=sum(verdict.duration_s for verdict in found),
        )


def _said(found: list[Verdict]) -> list[Verdict]:
    """Return verdicts in the order in which they are told: the one that decides first."""
    return [*found[-1:], *found[:-1]]


def depends_on_feature(validator: object) -> bool:
    """Return whether a validator runs something that is about the feature; one that does not say is taken to."""
    return bool(getattr(validator, "proves", True)) and bool(getattr(validator, "depends_on_feature", True))


def _cost(validator: object) -> int:
    """Return what comes before what: looking, running what the feature asks for, running everything."""
    if getattr(validator, "runs_everything", False):
        return 2
    return 1 if getattr(validator, "proves", True) else 0


def told(findings: Sequence[str]) -> str:
    """Return findings as text, one a line, not more than can be read."""
    more = len(findings) - MAX_FINDINGS
    return "\n".join([*findings[:MAX_FINDINGS], *([f"and {more} more"] if more > 0 else [])])
