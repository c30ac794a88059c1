"""What a validator knows of the base and of what a commit changes, before it looks at anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from attrs import field, frozen

from harnesses.coding.candidate import Candidate, Change
from harnesses.coding.validators.judging_files import PYTHON_FILES, JudgingFiles, find_judging_files
from harnesses.coding.validators.pytest_config import NAMES, SHARED, changed_keys, pytest_part, words


@frozen(kw_only=True)
class JudgingContext:
    """What there is to know."""

    files: tuple[str, ...]
    """All paths at the base."""
    side: JudgingFiles
    """Which of them judge."""
    config: str | None
    """The file at the base that configures pytest."""
    settings: Mapping[str, Any] = field(factory=dict[str, Any])
    """What it says."""
    changes: tuple[Change, ...] = ()
    """What the commit changes."""
    reconfigured: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Files shared with other tools in which the commit changes what they say to pytest, with the settings."""

    def judges(self, path: str) -> bool:
        """Return whether a path is to be as it is at the base when the commit is judged."""
        return self.side.covers(path) or any(path == changed for changed, _ in self.reconfigured)

    @property
    def product(self) -> tuple[str, ...]:
        """Return the files that the commit adds or changes and that do not judge: any may hold code."""
        return tuple(change.path for change in self.changes if change.status != "D" and not self.side.covers(change.path))


async def read_context(candidate: Candidate, *, named: Iterable[str] = ()) -> JudgingContext:
    """Look at the base, and at what a commit changes.

    Args:
        named: files that judge because they are asked for.
    """
    base, commit = candidate.base, candidate.commit
    files = await candidate.checkouts.files(base)
    changes = await candidate.checkouts.changes(base, commit) if commit != base else ()
    config, settings = await _configuration(candidate, files, named)
    patterns = tuple(words(settings.get("python_files"))) or PYTHON_FILES
    side = find_judging_files(files, patterns=patterns, named=named)
    return JudgingContext(
        files=files,
        side=side,
        config=config,
        settings=settings,
        changes=changes,
        reconfigured=await _reconfigured(candidate, changes),
    )


async def _configuration(
    candidate: Candidate, files: Iterable[str], named: Iterable[str]
) -> tuple[str | None, dict[str, Any]]:
    """Return the file that pytest would take at the base, and what it says; looked for from the tests upward."""
    there = set(files)
    for directory in _upward(named):
        for name in NAMES:
            path = str(PurePosixPath(directory) / name)
            if path in there:
                part = pytest_part(path, await candidate.checkouts.read(candidate.base, path))
                if part is not None:
                    return path, part
    return None, {}


def _upward(named: Iterable[str]) -> list[str]:
    """Return the directory that holds all files, and those above it."""
    parents = [[str(parent) for parent in PurePosixPath(path).parents] for path in named]
    if not parents:
        return ["."]
    return [directory for directory in parents[0] if all(directory in others for others in parents)]


async def _reconfigured(candidate: Candidate, changes: Iterable[Change]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: list[tuple[str, tuple[str, ...]]] = []
    for change in changes:
        if PurePosixPath(change.path).name in SHARED:
            before = pytest_part(change.path, await candidate.checkouts.read(candidate.base, change.path))
            after = pytest_part(change.path, await candidate.checkouts.read(candidate.commit, change.path))
            keys = changed_keys(before, after)
            if keys or (before is None) != (after is None):
                found.append((change.path, tuple(keys)))
    return tuple(found)
