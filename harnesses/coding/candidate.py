"""Values: a commit to be validated, and the protocol for reading it.

Invariant: a commit is validated in a new worktree that no agent has seen, so files that an agent left elsewhere are not there.
"""

from __future__ import annotations

import posixpath
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from attrs import field, frozen

from harnesses.features.feature import TurnResult

LINK, SUBMODULE, EXECUTABLE = "120000", "160000", "100755"
"""Git's modes of a symbolic link, a submodule and an executable file."""


def leads_out(path: str, target: str) -> bool:
    """Return whether a symbolic link at `path` points outside the repository."""
    to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return posixpath.isabs(to) or to.split("/")[0] in ("..", ".git")


@frozen
class Change:
    """One path that differs between two commits."""

    status: str
    """`A` added, `M` modified, `D` deleted, `T` type changed. A rename is a deletion and an addition."""
    path: str
    """Relative to the root of the repository, with `/`."""
    mode: str = "100644"
    """Git mode after the change, or before a deletion: `120000` is a symbolic link, `160000` a submodule."""


class Checkouts(Protocol):
    """A repository in which commits can be read and checked out, out of reach of agents."""

    def at(self, commit: str) -> AbstractAsyncContextManager[Path]:
        """Provide a new worktree of `commit`, at a path never used before, and remove it afterwards."""
        ...

    async def tree_of(self, commit: str) -> str:
        """Return the id of a commit's tree; commits with the same files have the same."""
        ...

    async def files(self, commit: str) -> tuple[str, ...]:
        """Return the paths of all files in a commit."""
        ...

    async def read(self, commit: str, path: str) -> bytes | None:
        """Return the content of a file in a commit; None if there is no such file."""
        ...

    async def changes(self, base: str, commit: str) -> tuple[Change, ...]:
        """Return the differences between two commits."""
        ...


@frozen(kw_only=True)
class Candidate:
    """The input of a validator of the coding harness."""

    commit: str
    base: str
    """The last known good commit, an ancestor of `commit`; equal to it in a recheck."""
    checkouts: Checkouts = field(repr=False)
    result: TurnResult | None = None
    """The agent's result. It is not evidence."""
    confirmation: int = 1
    """Number of this run among the required consecutive passes, from 1; use it to vary random seeds."""
    before_work: bool = False
    """Whether the answer only decides if the agent is asked: a failure that was seen in an earlier run is enough."""
