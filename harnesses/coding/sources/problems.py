"""Collects all problems in a file, and reports them together, each with its place.

Invariant: one error message is enough to correct the whole file.
"""

from __future__ import annotations

from attrs import field, frozen

from harnesses.features.agent_text import cut_list
from harnesses.features.errors import InvalidRequest

MAX_TOLD = 20
"""Maximum problems in a message; the number of the others is added."""


class NothingToDo(InvalidRequest):
    """There is nothing to work on: everything is done, or the list is empty. This is not a mistake in the list."""

    def __str__(self) -> str:
        return str(self.args[0])


@frozen
class Problems:
    """The problems found so far."""

    where: str
    """The file or other source of the data."""
    found: list[str] = field(factory=list[str])

    def add(self, place: str, problem: str) -> None:
        """Add a problem; `place` is a place within `where`, and may be empty."""
        self.found.append(f"{place}: {problem}" if place else problem)

    def check(self, *, nothing: str = "") -> None:
        """Raise an error if problems were found.

        Args:
            nothing: why there is nothing to do; empty if there is something.

        Raises:
            InvalidRequest: with one problem on each line.
            NothingToDo: there are no other problems, and `nothing` is set.
        """
        if nothing and not self.found:
            raise NothingToDo(f"{self.where}: there is nothing to do: {nothing}")
        if len(self.found) == 1:
            raise InvalidRequest(f"{self.where}: {self.found[0]}")
        if self.found:
            told = cut_list(self.found, MAX_TOLD)
            raise InvalidRequest("\n  ".join([f"{self.where} has {len(self.found)} mistakes:", *told]))
