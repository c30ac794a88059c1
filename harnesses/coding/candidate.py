"""A commit that is to be judged, and the ways to look at it. Nouns.

The law: what is judged is a commit, in a fresh worktree that no agent has seen. What an agent left lying about is not there.
"""

from __future__ import annotations

import posixpath
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from attrs import field, frozen

from harnesses.features.feature import TurnResult

LINK, SUBMODULE, EXECUTABLE = "120000", "160000", "100755"
"""Git's modes of a symbolic link, a submodule and a file that can be run."""


def leads_out(path: str, target: str) -> bool:
    """Return whether a symbolic link at `path` leads out of the repository."""
    to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return posixpath.isabs(to) or to.split("/")[0] in ("..", ".git")


@frozen
class Change:
    """One path that differs between two commits."""

    status: str
    """`A` added, `M` modified, `D` deleted, `T` of another type. A rename is a deletion and an addition."""
    path: str
    """From the root of the repository, with `/`."""
    mode: str = "100644"
    """The git mode after the change: `120000` is a symbolic link, `160000` a submodule; before it, if it is deleted."""


class Checkouts(Protocol):
    """A repository in which commits can be looked at, out of reach of agents."""

    def at(self, commit: str) -> AbstractAsyncContextManager[Path]:
        """Give a fresh worktree of `commit`, at a path never used before, and remove it afterwards."""
        ...

    async def tree_of(self, commit: str) -> str:
        """Return what stands for all files of a commit: two that hold the same have the same."""
        ...

    async def files(self, commit: str) -> tuple[str, ...]:
        """Return the paths of all files in a commit."""
        ...

    async def read(self, commit: str, path: str) -> bytes | None:
        """Return the content of a file in a commit; None if it is not there."""
        ...

    async def changes(self, base: str, commit: str) -> tuple[Change, ...]:
        """Return what differs between two commits."""
        ...


@frozen(kw_only=True)
class Candidate:
    """What a validator of the coding harness judges."""

    commit: str
    base: str
    """The last known good commit, which `commit` builds on; equal to it when a feature is judged anew."""
    checkouts: Checkouts = field(repr=False)
    result: TurnResult | None = None
    """What the agent says. Evidence of nothing."""
    confirmation: int = 1
    """Which of the passes in a row that are asked for, from 1: what is left to chance should differ from one to the next."""
