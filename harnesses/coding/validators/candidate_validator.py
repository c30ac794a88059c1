"""What the validators of the coding harness have in common: they compose with `&`, and say where they looked."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from harnesses.coding.candidate import Candidate
from harnesses.features.agent_text import cut_list
from harnesses.features.feature import Feature, Verdict
from harnesses.features.feature_validators import AllOf, OutcomeValidator

MAX_FINDINGS = 20
"""Findings that are told at once; an agent that has made more mistakes is told of the others the next time."""


class CandidateValidator(ABC):
    """Something that judges a commit: it finds something, or nothing. `a & b` accepts what both accept."""

    @property
    @abstractmethod
    def proves(self) -> bool:
        """Whether it runs something; if not, it only guards, and what it accepts is not proven."""

    def beside(self, others: Sequence[object]) -> CandidateValidator:
        """Return what is asked in its place where others are asked too, itself among them."""
        return self

    def __and__(self, other: OutcomeValidator[Candidate]) -> AllOf:
        return AllOf([self, other])

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


def list_findings(findings: Sequence[str]) -> str:
    """Return findings as text, one a line, not more than can be read."""
    return "\n".join(cut_list(findings, MAX_FINDINGS))
