"""What the validators of the coding harness have in common: they compose with `&`, and say where they looked.

`OnlyTouches` is the shortest of them: a commit touches only these paths.
"""

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


class OnlyTouches(CandidateValidator):
    """Guards all paths that match none of the patterns: they must be as they are at the base.

    `*` and `?` stand for what is in one name, `**` for any number of directories; a pattern that ends with `/` stands for
    all that is in a directory. A rename is a deletion and an addition, so both paths have to match; a symbolic link must not
    be added at all, since what is written through it is elsewhere.
    """

    def __init__(self, *globs: str) -> None:
        if not globs:
            raise InvalidRequest("OnlyTouches: expected one glob pattern or more, was none")
        self._globs = globs
        self._patterns = tuple(glob_pattern(glob) for glob in globs)

    def __repr__(self) -> str:
        return f"OnlyTouches({', '.join(map(repr, self._globs))})"

    @property
    def proves(self) -> bool:
        """It only looks."""
        return False

    async def find(self, feature: Feature, candidate: Candidate) -> tuple[bool, str]:
        """Look at every path that the commit changes."""
        base, commit = candidate.base, candidate.commit
        changes = await candidate.checkouts.changes(base, commit) if commit != base else ()
        allowed = ", ".join(self._globs)
        findings = [
            f"{change.path}: was {_WORDS.get(change.status, 'changed')}, and is not of {allowed}: put it back as it was"
            for change in changes
            if not any(pattern.fullmatch(change.path) for pattern in self._patterns)
        ]
        findings += [
            f"{change.path}: is a symbolic link, and leads elsewhere: put a file there"
            for change in changes
            if change.mode == LINK and change.status != "D"
        ]
        return not findings, list_findings(findings) if findings else f"{len(changes)} changed paths, all of {allowed}"


_WORDS = {"A": "added", "M": "changed", "D": "deleted", "T": "given another type"}


def glob_pattern(glob: str) -> re.Pattern[str]:
    """Return a regular expression for whole paths."""
    text = glob + "**" if glob.endswith("/") else glob
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", text)
    words = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(words.get(part, re.escape(part)) for part in parts), re.DOTALL)
