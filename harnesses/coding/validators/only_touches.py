"""A commit touches only these paths."""

from __future__ import annotations

import re

from harnesses.coding.candidate import LINK, Candidate
from harnesses.coding.validators.candidate_validator import CandidateValidator, list_findings
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature


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
