"""What a memory is asked, and what it says. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import field, frozen

from harnesses.errors import HarnessMisuse
from harnesses.memory.episodes import Episode

MAX_QUERY = 20_000
"""Characters of a query that are looked at."""


def _texts(items: Sequence[str]) -> tuple[str, ...]:
    if isinstance(items, str):
        raise HarnessMisuse(f"query: expected several names, was the text {items!r:.100}; put it in a tuple")
    return tuple(items)


@frozen
class Query:
    """What is to be done, for whom, and where the answer goes."""

    text: str
    """Title, description and acceptance criteria of the task."""
    agents: tuple[str, ...] = field(default=(), converter=_texts, kw_only=True)
    stages: tuple[str, ...] = field(default=(), converter=_texts, kw_only=True)
    branch: str = field(default="", kw_only=True)
    run_id: str = field(default="", kw_only=True)
    task_id: str = field(default="", kw_only=True)
    harness: str = field(default="", kw_only=True)
    """Who uses what is recalled; a retraction names them."""
    things: tuple[str, ...] = field(default=(), converter=_texts, kw_only=True)
    """Files and other names that the task speaks of, for fused retrieval."""
    untrusted: bool = field(default=False, kw_only=True)
    """Whether what no validator has approved is recalled too."""


@frozen(kw_only=True)
class Written:
    """An episode that is in the memory."""

    id: str
    trusted: bool
    new: bool = True
    """False if it was there already."""


@frozen(kw_only=True)
class Skipped:
    """An episode that is not in the memory, and why."""

    id: str
    reason: str


@frozen(kw_only=True)
class Recalled:
    """An episode that was found."""

    episode: Episode
    relevance: float
    score: float
    trusted: bool
    accesses: int = 0
    lexical: float = 0.0
    """What its words speak for it, alone."""


@frozen(kw_only=True)
class Recall:
    """What a memory says to a query."""

    id: int = 0
    """Of the retrieval, which is recorded; 0 if nothing was."""
    episodes: tuple[Recalled, ...] = ()
    text: str = ""
    """For an agent: labelled as history, bounded; empty if there is nothing."""
    at: datetime | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """Of the episodes."""
        return tuple(one.episode.id for one in self.episodes)


@frozen(kw_only=True)
class Use:
    """A retrieval that gave somebody an episode."""

    id: int
    at: datetime
    harness: str
    run_id: str
    task_id: str


@frozen(kw_only=True)
class Affected:
    """Who has used an episode or a fact, and what came of it."""

    uses: tuple[Use, ...] = ()
    tasks: tuple[tuple[str, str], ...] = ()
    """Run and task of each use, each once."""
    harnesses: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    """Ids of the facts derived from it, at first hand or further: they are retracted with it."""
    episodes: tuple[str, ...] = ()
    """Ids of the episodes of tasks that have used it: for a person to look at, since nobody knows what they owe to it."""
