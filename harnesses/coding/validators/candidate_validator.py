"""The base class of the coding harness's validators, which compose with `&`; and `OnlyTouches`, the simplest of them."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from harnesses.coding.candidate import LINK, Candidate
from harnesses.features.agent_text import cut_list
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature, Verdict
from harnesses.features.feature_validators import AllOf, OutcomeValidator

MAX_FINDINGS = 20
"""Maximum findings in a verdict; the others are reported next time."""


class CandidateValidator(ABC):
    """Validates a commit, and reports findings. `a & b` accepts what both accept."""

    @property
    @abstractmethod
    def proves(self) -> bool:
        """Whether it runs something; otherwise it only guards, and accepting proves nothing."""

    def beside(self, others: Sequence[object]) -> CandidateValidator:
        """Return the validator to use in its place when it is combined with `others`, which include itself."""
        return self

    def __and__(self, other: OutcomeValidator[Candidate]) -> AllOf:
        return AllOf([self, other])

    @abstractmethod
    async def find(self, feature: Feature, candidate: Candidate) -> tuple[bool, str]:
        """Return whether a commit passes, and the evidence."""

    async def validate(self, feature: Feature, work: Candidate) -> Verdict:
        """Return the verdict on a commit, with the duration."""
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
    """Return findings as text, one on each line, at most `MAX_FINDINGS`."""
    return "\n".join(cut_list(findings, MAX_FINDINGS))


class OnlyTouches(CandidateValidator):
    """Accepts commits that change only paths matching the patterns.

    `*` and `?` match within one name, `**` matches any number of directories; a pattern that ends with `/` matches everything
    in a directory. A rename is a deletion and an addition, so both paths must match. Adding a symbolic link is refused,
    because writing through it would change another path.
    """

    side_by_side = True

    def __init__(self, *globs: str) -> None:
        if not globs:
            raise InvalidRequest("OnlyTouches: expected one glob pattern or more, was none")
        self._globs = globs
        self._patterns = tuple(glob_pattern(glob) for glob in globs)

    def __repr__(self) -> str:
        return f"OnlyTouches({', '.join(map(repr, self._globs))})"

    @property
    def proves(self) -> bool:
        """Always false: it only inspects."""
        return False

    async def find(self, feature: Feature, candidate: Candidate) -> tuple[bool, str]:
        """Check every path that the commit changes."""
        base, commit = candidate.base, candidate.commit
        changes = await candidate.checkouts.changes(base, commit) if commit != base else ()
        allowed = ", ".join(self._globs)
        findings = [
            f"{change.path}: was {_WORDS.get(change.status, 'changed')}, but only {allowed} may be changed: restore it"
            for change in changes
            if not any(pattern.fullmatch(change.path) for pattern in self._patterns)
        ]
        findings += [
            f"{change.path}: is a symbolic link, which may lead elsewhere: replace it by a file"
            for change in changes
            if change.mode == LINK and change.status != "D"
        ]
        if findings:
            return False, list_findings(findings)
        return True, f"every changed path ({len(changes)}) is within {allowed}"


_WORDS = {"A": "added", "M": "changed", "D": "deleted", "T": "given another type"}


def glob_pattern(glob: str) -> re.Pattern[str]:
    """Return a regular expression that matches whole paths."""
    text = glob + "**" if glob.endswith("/") else glob
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", text)
    words = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(words.get(part, re.escape(part)) for part in parts), re.DOTALL)
