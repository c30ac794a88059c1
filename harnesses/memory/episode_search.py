"""Episode search: selects, filters and ranks the episodes for a query.

FTS5 yields candidates, by BM25 over the rarest words of the query; each is then read, verified and scored. The index is not
signed, so matched words are checked again in the episode's own text.

    lexical    Σ rarity of the query's words that are in the episode / Σ rarity of all its words        0 to 1
    entity     share of the things the query names that the episode names                               0 to 1
    semantic   cosine of their embeddings, if there is an embedder                                      0 to 1
    relevance  their weighted mean; the weight of a missing part is distributed over the others

    recalled   relevance ≥ min_relevance, and relevance · freshness ≥ min_decayed
    score      relevance and scope, times 1 + 0.2 importance + 0.2 quality + 0.15 freshness

Invariant: only relevance and freshness decide whether an episode is recalled, independent of what else is in the memory.
Importance, quality and scope only order the recalled ones. Scope (0.2 the same agent, 0.2 the same stage, 0.1 the same branch)
counts once: agents and stages are not among the searched words.
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
    """The partial scores of an episode; None where one cannot be computed."""

    lexical: float
    entity: float | None = None
    semantic: float | None = None


def rarity(holding: int, all: int) -> float:
    """Return the weight of a word that `holding` of `all` episodes contain. At least 1, so that common words still count."""
    return log2(1 + all / holding)


def lexical(asked: Mapping[str, float], held: Collection[str]) -> float:
    """Return the share of the asked words that are held, weighted by rarity."""
    whole = sum(asked.values())
    return sum(weight for word, weight in asked.items() if word in held) / whole if whole else 0.0


def entity(asked: Collection[str], held: Collection[str]) -> float | None:
    """Return the share of the asked things that are held; None if none are asked for."""
    return sum(thing in held for thing in asked) / len(asked) if asked else None


def relevance(parts: Parts, settings: MemorySettings) -> float:
    """Return the weighted mean of the available parts."""
    weighed = (
        (parts.lexical, settings.lexical_weight),
        (parts.entity, settings.entity_weight),
        (parts.semantic, settings.semantic_weight),
    )
    said = [(value, weight) for value, weight in weighed if value is not None]
    return sum(value * weight for value, weight in said) / sum(weight for _, weight in said)


def scope(query: Query, episode: Episode) -> float:
    """Return the bonus for the same agent, stage or branch."""
    agent = SAME_AGENT if set(query.agents) & set(episode.agents) else 0.0
    stage = SAME_STAGE if set(query.stages) & set(episode.stages) else 0.0
    return agent + stage + (SAME_BRANCH if query.branch and query.branch == episode.branch != "unknown" else 0.0)


def freshness(created_at: datetime, accesses: int, now: datetime, settings: MemorySettings) -> float:
    """Return the freshness of an episode, 0 to 1: it halves per half-life, more slowly for episodes used before."""
    if not settings.decay:
        return 1.0
    days = max(0.0, (now - created_at).total_seconds() / _DAY_S)
    return min(1.0, float(2.0 ** (-days / settings.half_life_days)) * (1 + ACCESS * log(1 + max(0, accesses))))


def is_recalled(relevant: float, fresh: float, settings: MemorySettings) -> bool:
    """Return whether an episode is relevant and fresh enough to be recalled."""
    return relevant > 0 and relevant >= settings.min_relevance and relevant * fresh >= settings.min_decayed


def score(relevant: float, within: float, episode: Episode, fresh: float) -> float:
    """Return the score by which recalled episodes are ordered."""
    return min(1.0, relevant + within) * (1 + IMPORTANCE * episode.importance + QUALITY * episode.quality + FRESHNESS * fresh)


CANDIDATES = 48
"""Maximum number of episodes scored for one query."""
_NEAR = 32
_SEARCHED = 24
"""Maximum number of words searched in the index, rarest first. The others count in the score only."""


@frozen
class Search:
    """A prepared query: its words, things and embedding."""

    query: Query
    words: dict[str, float]
    """Weight by word."""
    things: frozenset[str]
    meaning: Sequence[float] | None = None
    model: str = ""

    def is_in(self, recalled: Recalled) -> bool:
        """Return whether an episode's text really contains the searched words that the index claims."""
        held = frozenset(words(words_of(recalled.episode)))
        return lexical(self.words, held) >= recalled.lexical


def search_for(
    query: Query, db: sqlite3.Connection, settings: MemorySettings, meaning: Sequence[float] | None = None, model: str = ""
) -> Search:
    """Prepare a query; word weights depend on how many episodes contain the word.

    Args:
        meaning: embedding of the query, by the embedder called `model`.
    """
    asked = words(query.text[:MAX_QUERY])[:MOST]
    count = db.execute("SELECT count(*) FROM episode_words").fetchone()[0]
    held = {word: _count_documents(db, word) for word in asked}
    # A word that no episode contains lowers all scores, as much as one that a single episode contains would.
    weights = {word: rarity(max(1, number), max(1, count)) for word, number in held.items()}
    if settings.retrieval is Retrieval.LEXICAL:
        return Search(query, weights, frozenset())
    return Search(query, weights, frozenset(words("\n".join(query.things))), meaning, model)


def find(
    search: Search, db: sqlite3.Connection, rows: Rows, settings: MemorySettings, now: datetime
) -> tuple[list[Recalled], list[Dropped]]:
    """Return the recalled episodes, best first, and the rows that were dropped."""
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
    """Return the rows of these numbers with their unsigned fields: words, use count, and whether retracted."""
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
    """Return the numbers of the episodes that match the query's words best, by BM25."""
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
    """Return the numbers and similarities of the episodes with the nearest embeddings."""
    if search.meaning is None:
        return {}
    stored = db.execute("SELECT number, vector FROM vectors WHERE embedder = ?", (search.model,)).fetchall()
    return nearest(search.meaning, stored, _NEAR)
