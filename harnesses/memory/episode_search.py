"""The search: which episodes a query may be about, which of them are recalled, and in which order.

FTS5 gives the candidates, by BM25 over the rarest words of the query; each is then read, verified, and weighed. The index is
not signed: what an episode is recalled for is looked up once more in its own text.

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

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import islice
from math import log, log2
from typing import Any

from attrs import frozen

from harnesses.memory.embedding import nearest
from harnesses.memory.episode_rows import COLUMNS, Dropped, Rows, StoredEpisode
from harnesses.memory.episodes import Episode, things_of, words_of
from harnesses.memory.memory_model import MAX_QUERY, MemorySettings, Query, Recalled, Retrieval
from harnesses.memory.search_words import MOST, words

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


CANDIDATES = 48
"""Episodes that are weighed for one query."""
_NEAR = 32
_SEARCHED = 24
"""Words that are searched for; the rarest. The others count, but find nothing by themselves."""


@frozen
class Search:
    """What is looked for, in words, things and meaning."""

    query: Query
    words: dict[str, float]
    """How much each says."""
    things: frozenset[str]
    meaning: Sequence[float] | None = None
    model: str = ""

    def is_in(self, recalled: Recalled) -> bool:
        """Return whether an episode has the words that the index says it has, as far as they are looked for."""
        held = frozenset(words(words_of(recalled.episode)))
        return lexical(self.words, held) >= recalled.lexical


def search_for(
    query: Query, db: sqlite3.Connection, settings: MemorySettings, meaning: Sequence[float] | None = None, model: str = ""
) -> Search:
    """Return what is looked for; how much a word says follows from how many episodes have it.

    Args:
        meaning: of the query, as the embedder called `model` has it.
    """
    asked = words(query.text[:MAX_QUERY])[:MOST]
    count = db.execute("SELECT count(*) FROM episode_words").fetchone()[0]
    held = {word: _count_documents(db, word) for word in asked}
    # A word that no episode has counts against them all, as much as one that a single episode has would.
    weights = {word: rarity(max(1, number), max(1, count)) for word, number in held.items()}
    if settings.retrieval is Retrieval.LEXICAL:
        return Search(query, weights, frozenset())
    return Search(query, weights, frozenset(words("\n".join(query.things))), meaning, model)


def find(
    search: Search, db: sqlite3.Connection, rows: Rows, settings: MemorySettings, now: datetime
) -> tuple[list[Recalled], list[Dropped]]:
    """Return the episodes that are recalled, best first, and the rows that were not read."""
    meanings = _meanings(search, db)
    numbers = list(dict.fromkeys((*_by_words(search, db), *meanings)))
    found: list[Recalled] = []
    dropped: list[Dropped] = []
    for *row, indexed, accesses, retracted in _read(numbers, db):
        kept = rows.episode(tuple(row))
        if isinstance(kept, Dropped):
            dropped.append(kept)
        elif not (retracted or kept.retracted) and (kept.trusted or search.query.untrusted):
            held = frozenset(str(indexed).split())
            one = _weigh(kept, search, held, meanings.get(kept.number), accesses, settings, now)
            found += [one] if one is not None else []
    found.sort(key=lambda one: (-one.score, -one.episode.created_at.timestamp(), one.episode.id))
    return list(islice(filter(search.is_in, found), settings.top)), dropped


def _read(numbers: list[int], db: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Return the rows of these numbers, with what is not signed: their words, how often they were used, and if retracted."""
    marks = ", ".join("?" * len(numbers))
    columns = ", ".join(f"e.{name}" for name in COLUMNS.split(", "))
    return db.execute(
        f"SELECT {columns}, w.words, coalesce(u.count, 0), r.id IS NOT NULL FROM episodes e "
        "JOIN episode_words w ON w.rowid = e.number LEFT JOIN uses u ON u.id = e.id LEFT JOIN retractions r ON r.id = e.id "
        f"WHERE e.number IN ({marks})",
        numbers,
    ).fetchall()


def _weigh(
    kept: StoredEpisode,
    search: Search,
    held: frozenset[str],
    meaning: float | None,
    accesses: int,
    settings: MemorySettings,
    now: datetime,
) -> Recalled | None:
    episode = kept.episode
    parts = Parts(
        lexical=lexical(search.words, held),
        entity=entity(search.things, frozenset(words(things_of(episode)))) if search.things else None,
        semantic=meaning,
    )
    relevant = relevance(parts, settings)
    fresh = freshness(episode.created_at, accesses, now, settings)
    if not is_recalled(relevant, fresh, settings):
        return None
    return Recalled(
        episode=episode,
        relevance=relevant,
        score=score(relevant, scope(search.query, episode), episode, fresh),
        trusted=kept.trusted,
        accesses=accesses,
        lexical=parts.lexical,
    )


def _by_words(search: Search, db: sqlite3.Connection) -> list[int]:
    """Return the numbers of the episodes that have most of the query's words, by BM25."""
    rarest = sorted(search.words, key=lambda word: -search.words[word])[:_SEARCHED]
    if not rarest:
        return []
    wanted = " OR ".join(f'"{word}"' for word in rarest)
    found = db.execute(
        "SELECT rowid FROM episode_words WHERE episode_words MATCH ? ORDER BY rank LIMIT ?", (wanted, CANDIDATES)
    )
    return [number for (number,) in found]


def _count_documents(db: sqlite3.Connection, word: str) -> int:
    found = db.execute("SELECT doc FROM episode_terms WHERE term = ?", (word,)).fetchone()
    return int(found[0]) if found else 0


def _meanings(search: Search, db: sqlite3.Connection) -> dict[int, float]:
    """Return the numbers of the episodes that mean most nearly the same, and how near they are."""
    if search.meaning is None:
        return {}
    stored = db.execute("SELECT number, vector FROM vectors WHERE embedder = ?", (search.model,)).fetchall()
    return nearest(search.meaning, stored, _NEAR)
