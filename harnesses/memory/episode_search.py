"""The search: which episodes a query may be about, and which of them are recalled.

FTS5 gives the candidates, by BM25 over the rarest words of the query; each is then read, verified, and weighed by `relevance`.
The index is not signed: what an episode is recalled for is looked up once more in its own text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from attrs import frozen

from harnesses.memory import relevance as scoring
from harnesses.memory.embedding import nearest
from harnesses.memory.episode_rows import COLUMNS, Dropped, Rows, StoredEpisode
from harnesses.memory.episodes import things_of, words_of
from harnesses.memory.memory_model import MAX_QUERY, MemorySettings, Query, Recalled, Retrieval
from harnesses.memory.search_words import MOST, words

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
        return scoring.lexical(self.words, held) >= recalled.lexical


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
    weights = {word: scoring.rarity(max(1, number), max(1, count)) for word, number in held.items()}
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
    parts = scoring.Parts(
        lexical=scoring.lexical(search.words, held),
        entity=scoring.entity(search.things, frozenset(words(things_of(episode)))) if search.things else None,
        semantic=meaning,
    )
    relevant = scoring.relevance(parts, settings)
    fresh = scoring.freshness(episode.created_at, accesses, now, settings)
    if not scoring.is_recalled(relevant, fresh, settings):
        return None
    score = scoring.score(relevant, scoring.scope(search.query, episode), episode, fresh)
    return Recalled(
        episode=episode, relevance=relevant, score=score, trusted=kept.trusted, accesses=accesses, lexical=parts.lexical
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
