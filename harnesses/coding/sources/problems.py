"""All that is wrong with what a person wrote, told at once, each with its place.

The law: one look at the message is enough to correct the whole file.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from attrs import field, frozen

from harnesses.features.agent_text import cut_list
from harnesses.features.errors import InvalidRequest

MAX_TOLD = 20
"""Problems that are told; of more, the number."""


class NothingToDo(InvalidRequest):
    """Nothing is open: all is done, or there is nothing at all. It can be told from a mistake."""


@frozen
class Problems:
    """What was found wrong so far."""

    where: str
    """The file, or whatever it was read from."""
    found: list[str] = field(factory=list[str])

    def add(self, place: str, problem: str) -> None:
        """Keep a problem; `place` is within `where`, and may be empty."""
        self.found.append(f"{place}: {problem}" if place else problem)

    def check(self, *, nothing: str = "") -> None:
        """Raise all that was found, if anything was.

        Args:
            nothing: why there is nothing to do, if there is not.

        Raises:
            InvalidRequest: with one problem a line.
            NothingToDo: there is no problem but that.
        """
        if nothing and not self.found:
            raise NothingToDo(f"{self.where}: there is nothing to do: {nothing}")
        if len(self.found) == 1:
            raise InvalidRequest(f"{self.where}: {self.found[0]}")
        if self.found:
            told = cut_list(self.found, MAX_TOLD)
            raise InvalidRequest("\n  ".join([f"{self.where} has {len(self.found)} mistakes:", *told]))


def meant(word: str, known: Iterable[str], synonyms: dict[str, str] | None = None) -> str:
    """Return `; did you mean …?` with the nearest of the known words, or nothing."""
    plain = word.lower().replace("-", "_").replace(" ", "_")
    choice = (synonyms or {}).get(plain)
    near = [choice] if choice else get_close_matches(plain, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
