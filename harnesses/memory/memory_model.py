"""Queries, results, errors and settings of a memory. Pure.

Settings are validated strictly: an unknown name is an error, since a misspelt limit would have no effect.
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
    """A memory's file or key cannot be used: not a memory, damaged, locked, or not writable."""


class EmbedderMissing(MemoryUnusable, NotReady):
    """The package that computes embeddings is not installed."""


MAX_QUERY = 20_000
"""Characters of a query that are searched."""


def _texts(items: Sequence[str]) -> tuple[str, ...]:
    if isinstance(items, str):
        raise HarnessMisuse(f"query: expected several names, got the text {items!r:.100}; put it in a tuple")
    return tuple(items)


@frozen
class Query:
    """A query: the task, its agents and stages, and who receives the answer."""

    text: str
    """Title, description and acceptance criteria of the task."""
    agents: tuple[str, ...] = field(default=(), converter=_texts, kw_only=True)
    stages: tuple[str, ...] = field(default=(), converter=_texts, kw_only=True)
    branch: str = field(default="", kw_only=True)
    run_id: str = field(default="", kw_only=True)
    task_id: str = field(default="", kw_only=True)
    harness: str = field(default="", kw_only=True)
    """Name of the harness that uses the result; a retraction reports it."""
    things: tuple[str, ...] = field(default=(), converter=_texts, kw_only=True)
    """Files and other names in the task, for fused retrieval."""
    untrusted: bool = field(default=False, kw_only=True)
    """Whether to recall episodes that no validator has approved, too."""


@frozen(kw_only=True)
class Written:
    """The episode is in the memory."""

    id: str
    trusted: bool
    new: bool = True
    """False if it already existed."""


@frozen(kw_only=True)
class Skipped:
    """The episode was not stored, and why."""

    id: str
    reason: str


@frozen(kw_only=True)
class Recalled:
    """A recalled episode with its scores."""

    episode: Episode
    relevance: float
    score: float
    trusted: bool
    accesses: int = 0
    lexical: float = 0.0
    """The lexical score alone."""


@frozen(kw_only=True)
class Recall:
    """The result of a query."""

    id: int = 0
    """Id of the recorded retrieval; 0 if none was recorded."""
    episodes: tuple[Recalled, ...] = ()
    text: str = ""
    """For an agent: labelled as history, bounded; empty if there is nothing."""
    at: datetime | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the episodes."""
        return tuple(one.episode.id for one in self.episodes)


@frozen(kw_only=True)
class Use:
    """A retrieval that returned a given episode."""

    id: int
    at: datetime
    harness: str
    run_id: str
    task_id: str


@frozen(kw_only=True)
class Affected:
    """Who has used an episode or a fact, and the resulting episodes and facts."""

    uses: tuple[Use, ...] = ()
    tasks: tuple[tuple[str, str], ...] = ()
    """Run and task of each use, without duplicates."""
    harnesses: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    """Ids of the facts derived from it, directly or indirectly: they are retracted with it."""
    episodes: tuple[str, ...] = ()
    """Ids of the episodes of tasks that used it, for human review: whether they depend on it is unknown."""


class Retrieval(StrEnum):
    """How episodes are found."""

    LEXICAL = "lexical"
    """By words."""
    FUSED = "fused"
    """By words, by the things they name, and by embeddings if there is an embedder."""


class WritePolicy(StrEnum):
    """Which episodes are stored."""

    APPROVED_ONLY = "validator-approved-only"
    ATTEMPTS = "validation-attempts"
    """Failures too, as untrusted: they are recalled only on request."""


def _number(least: float, most: float, *, whole: bool = False) -> Any:
    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        kind = int if whole else int | float
        if isinstance(value, bool) or not isinstance(value, kind) or not isfinite(value) or not least <= value <= most:
            what = "a whole number" if whole else "a number"
            raise HarnessMisuse(
                f"memory: {attribute.name}: expected {what} from {least:g} to {most:g}, got {value!r:.100}; correct it"
            )

    return check


def _retrieval(value: Retrieval | str) -> Retrieval:
    if value not in tuple(Retrieval):
        raise HarnessMisuse(f"memory: retrieval: expected one of {', '.join(Retrieval)}, got {value!r:.100}; choose one")
    return Retrieval(value)


def _policy(value: WritePolicy | str) -> WritePolicy:
    if value not in tuple(WritePolicy):
        raise HarnessMisuse(f"memory: write_policy: expected one of {', '.join(WritePolicy)}, got {value!r:.100}; choose one")
    return WritePolicy(value)


def _flag(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, bool):
        raise HarnessMisuse(f"memory: {attribute.name}: expected true or false, got {value!r:.100}; correct it")


@frozen(kw_only=True)
class MemorySettings:
    """Settings of a memory. Every number has bounds; one outside of them is an error."""

    retrieval: Retrieval = field(default=Retrieval.LEXICAL, converter=_retrieval)
    write_policy: WritePolicy = field(default=WritePolicy.APPROVED_ONLY, converter=_policy)
    top: int = field(default=3, validator=_number(1, 10, whole=True))
    """Maximum number of episodes recalled per query."""
    max_characters: int = field(default=1800, validator=_number(400, 8000, whole=True))
    """Maximum number of characters of the recalled text, including its heading."""
    min_relevance: float = field(default=0.2, validator=_number(0, 1))
    """Minimum relevance of a recalled episode: the share of the query that it matches; see `episode_search`. With 0, one
    common word is enough."""
    decay: bool = field(default=True, validator=_flag)
    """Whether the weight of old episodes decays."""
    half_life_days: float = field(default=30.0, validator=_number(1, 100_000))
    min_decayed: float = field(default=0.05, validator=_number(0, 1))
    """Minimum product of relevance and freshness of a recalled episode."""
    soft_trim_characters: int = field(default=600, validator=_number(100, 100_000, whole=True))
    """Length in characters above which a recalled episode keeps only its start and end. Failures are never trimmed."""
    hard_clear_characters: int = field(default=1200, validator=_number(200, 100_000, whole=True))
    """Length in characters above which only the first line of a recalled episode is kept."""
    head_characters: int = field(default=200, validator=_number(10, 10_000, whole=True))
    tail_characters: int = field(default=100, validator=_number(10, 10_000, whole=True))
    lexical_weight: float = field(default=0.35, validator=_number(0, 1))
    entity_weight: float = field(default=0.35, validator=_number(0, 1))
    semantic_weight: float = field(default=0.30, validator=_number(0, 1))
    """Weight of embeddings in fused retrieval. The weight of a missing part is distributed over the others."""
    compaction: bool = field(default=True, validator=_flag)
    compaction_episodes: int = field(default=5000, validator=_number(5, 10_000_000, whole=True))
    """Number of episodes above which the memory is compacted."""
    keep_episodes: int = field(default=4000, validator=_number(1, 10_000_000, whole=True))
    """Number of episodes after a compaction: the newest, and the best of the others."""
    keep_recent: int = field(default=20, validator=_number(1, 10_000_000, whole=True))
    """How many of the kept episodes are the newest."""
    stale_after_days: float = field(default=90.0, validator=_number(1, 100_000))
    max_kilobytes: int = field(default=65_536, validator=_number(64, 10_000_000, whole=True))
    """File size above which diagnostics report the memory as oversized."""

    def __attrs_post_init__(self) -> None:
        if self.hard_clear_characters < self.soft_trim_characters:
            raise HarnessMisuse(
                f"memory: hard_clear_characters: expected at least soft_trim_characters, {self.soft_trim_characters}, "
                f"got {self.hard_clear_characters}; correct one"
            )
        if not self.keep_recent <= self.keep_episodes <= self.compaction_episodes:
            raise HarnessMisuse(
                "memory: expected keep_recent <= keep_episodes <= compaction_episodes, "
                f"got {self.keep_recent}, {self.keep_episodes}, {self.compaction_episodes}; correct them"
            )
        if not self.lexical_weight:
            raise HarnessMisuse(
                "memory: lexical_weight: expected more than 0, since words are the only part that is always available"
            )


def read_settings(table: Mapping[str, object]) -> MemorySettings:
    """Read the settings from a table of a run file.

    Raises:
        HarnessMisuse: a key is unknown, or a value invalid.
    """
    known = [each.name for each in attrs.fields(MemorySettings)]
    for name in table:
        if name not in known:
            raise HarnessMisuse(f"memory: {name!r:.100} is not known: expected one of {', '.join(known)}; correct it")
    return MemorySettings(**cast(Any, dict(table)))
