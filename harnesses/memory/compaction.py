"""What a memory throws away when it has grown too large.

The law: afterwards there are at most `keep_episodes` episodes, the `keep_recent` newest among them; the others are the best:
by importance, quality and use. Of those that say the same the newest is kept. What is retracted or cannot be read is no
episode: it neither counts nor takes a place. All of it is one transaction.
"""

from __future__ import annotations

import sqlite3
from math import log

from attrs import frozen

from harnesses.memory.episode_rows import COLUMNS, Kept, Rows
from harnesses.memory.memory_settings import MemorySettings
from harnesses.memory.relevance import ACCESS

MOST_EMPTY = 10_000
"""Retrievals that found nothing, which are kept for the hit rate."""


@frozen
class Weighed:
    """An episode, as far as it counts for what is kept."""

    number: int
    id: str
    content: str
    created_us: int
    value: float


def is_due(db: sqlite3.Connection, settings: MemorySettings) -> bool:
    """Return whether there are more episodes than there may be."""
    if not settings.compaction:
        return False
    count: int = db.execute("SELECT count(*) FROM episodes WHERE retracted = 0").fetchone()[0]
    return count > settings.compaction_episodes


def select_kept(episodes: list[Weighed], settings: MemorySettings) -> list[Weighed]:
    """Return the episodes that are kept. Pure."""
    newest = sorted(episodes, key=lambda one: (-one.created_us, -one.number))
    single = list({one.content: one for one in reversed(newest)}.values())
    single.sort(key=lambda one: (-one.created_us, -one.number))
    recent, others = single[: settings.keep_recent], single[settings.keep_recent :]
    others.sort(key=lambda one: (-one.value, -one.created_us, -one.number))
    return recent + others[: settings.keep_episodes - len(recent)]


def compact(db: sqlite3.Connection, rows: Rows, settings: MemorySettings, at_us: int) -> int:
    """Throw away what is not to be kept; return how many episodes that were."""
    read = [rows.episode(row) for row in db.execute(f"SELECT {COLUMNS} FROM episodes")]
    contents: dict[int, str] = dict(db.execute("SELECT number, content FROM episodes"))
    uses: dict[str, int] = dict(db.execute("SELECT id, count FROM uses"))
    open_ones = [one for one in read if isinstance(one, Kept) and not one.retracted]
    kept = select_kept([_weigh(one, contents[one.number], uses.get(one.episode.id, 0)) for one in open_ones], settings)
    keep = {one.number for one in kept}
    gone = [(one.number, one.episode.id) for one in open_ones if one.number not in keep]
    for number, id in gone:
        db.execute("DELETE FROM episodes WHERE number = ?", (number,))
        db.execute("DELETE FROM episode_words WHERE rowid = ?", (number,))
        db.execute("DELETE FROM vectors WHERE number = ?", (number,))
        db.execute("DELETE FROM uses WHERE id = ?", (id,))
    db.execute("DELETE FROM episodes WHERE retracted = 1")
    db.execute(
        "DELETE FROM retrievals WHERE results = 0 AND id NOT IN "
        "(SELECT id FROM retrievals WHERE results = 0 ORDER BY id DESC LIMIT ?)",
        (MOST_EMPTY,),
    )
    db.execute("INSERT INTO compactions (at_us, kept, dropped) VALUES (?, ?, ?)", (at_us, len(keep), len(gone)))
    return len(gone)


def _weigh(kept: Kept, content: str, uses: int) -> Weighed:
    episode = kept.episode
    value = episode.importance + episode.quality + ACCESS * log(1 + uses)
    return Weighed(kept.number, episode.id, content, int(episode.created_at.timestamp() * 1e6), value)
