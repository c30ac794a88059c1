"""Which episodes are relevant to a query, and in which order they are recalled. Pure.

    lexical    Σ rarity of the query's words that are in the episode / Σ rarity of all its words        0 to 1
    entity     share of the things the query names that the episode names                               0 to 1
    semantic   cosine of their meanings, if there is an embedder                                        0 to 1
    relevance  their weighted mean; what a part that can say nothing weighs is spread over the others

    recalled   relevance ≥ min_relevance, and relevance · freshness ≥ min_decayed
    score      relevance and scope, times 1 + 0.2 importance + 0.2 quality + 0.15 freshness

The law: relevance alone decides whether an episode is recalled. It is 0 to 1 by itself, whatever else is in the memory;
importance, quality, freshness and scope only order what is relevant, and scope (0.2 the same agent, 0.2 the same stage, 0.1
the same branch) counts once: agents and stages are no words of the query, nor of what is searched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from math import log, log2, sqrt

from attrs import frozen

from harnesses.memory.episodes import Episode
from harnesses.memory.memory_model import MemorySettings, Query

SAME_AGENT, SAME_STAGE, SAME_BRANCH = 0.2, 0.2, 0.1
IMPORTANCE, QUALITY, FRESHNESS = 0.2, 0.2, 0.15
ACCESS = 0.2
_DAY_S = 86_400.0


@frozen(kw_only=True)
class Parts:
    """What speaks for an episode; None where nothing can be said."""

    lexical: float
    entity: float | None = None
    semantic: float | None = None


def rarity(holding: int, all: int) -> float:
    """Return how much a word says that so many of all episodes hold. At least 1: what all are about still counts."""
    return log2(1 + all / holding)


def lexical(asked: Mapping[str, float], held: Collection[str]) -> float:
    """Return how much of what is asked, by the rarity of its words, is held."""
    whole = sum(asked.values())
    return sum(weight for word, weight in asked.items() if word in held) / whole if whole else 0.0


def entity(asked: Collection[str], held: Collection[str]) -> float | None:
    """Return the share of the things asked for that are held; None if nothing is asked for."""
    return sum(thing in held for thing in asked) / len(asked) if asked else None


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Return how near two meanings are; those that point away from each other are as far as those that do not meet."""
    lengths = sqrt(sum(x * x for x in one)) * sqrt(sum(x * x for x in other))
    return min(1.0, max(0.0, sum(x * y for x, y in zip(one, other, strict=True)) / lengths)) if lengths else 0.0


def relevance(parts: Parts, settings: MemorySettings) -> float:
    """Return the weighted mean of what can be said."""
    weighed = (
        (parts.lexical, settings.lexical_weight),
        (parts.entity, settings.entity_weight),
        (parts.semantic, settings.semantic_weight),
    )
    said = [(value, weight) for value, weight in weighed if value is not None]
    return sum(value * weight for value, weight in said) / sum(weight for _, weight in said)


def scope(query: Query, episode: Episode) -> float:
    """Return what it counts that the same agent, stage or branch was at work."""
    agent = SAME_AGENT if set(query.agents) & set(episode.agents) else 0.0
    stage = SAME_STAGE if set(query.stages) & set(episode.stages) else 0.0
    return agent + stage + (SAME_BRANCH if query.branch and query.branch == episode.branch != "unknown" else 0.0)


def freshness(created_at: datetime, accesses: int, now: datetime, settings: MemorySettings) -> float:
    """Return how much of an episode is left: half after each half-life; what was of use before fades more slowly. 0 to 1."""
    if not settings.decay:
        return 1.0
    days = max(0.0, (now - created_at).total_seconds() / _DAY_S)
    return min(1.0, float(2.0 ** (-days / settings.half_life_days)) * (1 + ACCESS * log(1 + max(0, accesses))))


def is_recalled(relevant: float, fresh: float, settings: MemorySettings) -> bool:
    """Return whether an episode is relevant, and not faded."""
    return relevant > 0 and relevant >= settings.min_relevance and relevant * fresh >= settings.min_decayed


def score(relevant: float, within: float, episode: Episode, fresh: float) -> float:
    """Return what the recalled episodes are ordered by."""
    return min(1.0, relevant + within) * (1 + IMPORTANCE * episode.importance + QUALITY * episode.quality + FRESHNESS * fresh)
