"""What a memory is asked, what it says, what it raises, and how it behaves. Pure.

Settings are read strictly, since a limit that is misspelt is no limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from math import isfinite
from typing import Any, cast

import attrs
from attrs import field, frozen

from harnesses.errors import HarnessError, HarnessMisuse, NotReady
from harnesses.memory.episodes import Episode


class MemoryUnusable(HarnessError):
    """The file of a memory, or its key, cannot be used: it is no memory, torn, locked, or not to be written."""


class EmbedderMissing(MemoryUnusable, NotReady):
    """The package that says what texts mean is not installed."""


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


class Retrieval(StrEnum):
    """By what an episode is found."""

    LEXICAL = "lexical"
    """By its words."""
    FUSED = "fused"
    """By its words, the things it names, and its meaning, if there is an embedder."""


class WritePolicy(StrEnum):
    """What is stored."""

    APPROVED_ONLY = "validator-approved-only"
    ATTEMPTS = "validation-attempts"
    """Failures too, untrusted: they are recalled only by who asks for them."""


def _number(least: float, most: float, *, whole: bool = False) -> Any:
    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        kind = int if whole else int | float
        if isinstance(value, bool) or not isinstance(value, kind) or not isfinite(value) or not least <= value <= most:
            what = "a whole number" if whole else "a number"
            raise HarnessMisuse(
                f"memory: {attribute.name}: expected {what} from {least:g} to {most:g}, was {value!r:.100}; correct it"
            )

    return check


def _retrieval(value: Retrieval | str) -> Retrieval:
    if value not in tuple(Retrieval):
        raise HarnessMisuse(f"memory: retrieval: expected one of {', '.join(Retrieval)}, was {value!r:.100}; choose one")
    return Retrieval(value)


def _policy(value: WritePolicy | str) -> WritePolicy:
    if value not in tuple(WritePolicy):
        raise HarnessMisuse(f"memory: write_policy: expected one of {', '.join(WritePolicy)}, was {value!r:.100}; choose one")
    return WritePolicy(value)


def _flag(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, bool):
        raise HarnessMisuse(f"memory: {attribute.name}: expected true or false, was {value!r:.100}; correct it")


@frozen(kw_only=True)
class MemorySettings:
    """How a memory behaves. Every number has bounds; one outside of them is an error."""

    retrieval: Retrieval = field(default=Retrieval.LEXICAL, converter=_retrieval)
    write_policy: WritePolicy = field(default=WritePolicy.APPROVED_ONLY, converter=_policy)
    top: int = field(default=3, validator=_number(1, 10, whole=True))
    """Episodes that are recalled at most."""
    max_characters: int = field(default=1800, validator=_number(400, 8000, whole=True))
    """Of the whole text that is recalled, its heading included."""
    min_relevance: float = field(default=0.2, validator=_number(0, 1))
    """Share of what a query asks for that an episode must answer; see `episode_search`. With 0 one common word is enough."""
    decay: bool = field(default=True, validator=_flag)
    """Whether old episodes fade."""
    half_life_days: float = field(default=30.0, validator=_number(1, 100_000))
    min_decayed: float = field(default=0.05, validator=_number(0, 1))
    """What an episode must still weigh: relevance times freshness."""
    soft_trim_characters: int = field(default=600, validator=_number(100, 100_000, whole=True))
    """Of one recalled episode; a longer one keeps its head and tail. Failures are never trimmed: they are read to the end."""
    hard_clear_characters: int = field(default=1200, validator=_number(200, 100_000, whole=True))
    """Of one recalled episode; of a longer one only the first line is left."""
    head_characters: int = field(default=200, validator=_number(10, 10_000, whole=True))
    tail_characters: int = field(default=100, validator=_number(10, 10_000, whole=True))
    lexical_weight: float = field(default=0.35, validator=_number(0, 1))
    entity_weight: float = field(default=0.35, validator=_number(0, 1))
    semantic_weight: float = field(default=0.30, validator=_number(0, 1))
    """Of fused retrieval. What a part that can say nothing weighs is spread over the others."""
    compaction: bool = field(default=True, validator=_flag)
    compaction_episodes: int = field(default=5000, validator=_number(5, 10_000_000, whole=True))
    """With more, the memory is compacted."""
    keep_episodes: int = field(default=4000, validator=_number(1, 10_000_000, whole=True))
    """What is left then: the newest, and the best of the others."""
    keep_recent: int = field(default=20, validator=_number(1, 10_000_000, whole=True))
    """How many of those are the newest."""
    stale_after_days: float = field(default=90.0, validator=_number(1, 100_000))
    max_kilobytes: int = field(default=65_536, validator=_number(64, 10_000_000, whole=True))
    """For diagnostics: with more, the file is said to be oversized."""

    def __attrs_post_init__(self) -> None:
        if self.hard_clear_characters < self.soft_trim_characters:
            raise HarnessMisuse(
                f"memory: hard_clear_characters: expected at least soft_trim_characters, {self.soft_trim_characters}, "
                f"was {self.hard_clear_characters}; correct one"
            )
        if not self.keep_recent <= self.keep_episodes <= self.compaction_episodes:
            raise HarnessMisuse(
                "memory: expected keep_recent <= keep_episodes <= compaction_episodes, "
                f"was {self.keep_recent}, {self.keep_episodes}, {self.compaction_episodes}; correct them"
            )
        if not self.lexical_weight:
            raise HarnessMisuse("memory: lexical_weight: expected more than 0; words are what is always there")


def read_settings(table: Mapping[str, object]) -> MemorySettings:
    """Return what a table of a run file says.

    Raises:
        HarnessMisuse: a key is not known, or a value not as expected.
    """
    known = [each.name for each in attrs.fields(MemorySettings)]
    for name in table:
        if name not in known:
            raise HarnessMisuse(f"memory: {name!r:.100} is not known: expected one of {', '.join(known)}; correct it")
    return MemorySettings(**cast(Any, dict(table)))
