"""Retraction and compaction: removes retracted episodes with everything derived from them, and limits the size of a memory.

Invariant of a compaction: afterwards there are at most `keep_episodes` episodes, the `keep_recent` newest among them; the
others are the best by importance, quality and use. Of duplicates the newest is kept. Retracted and unreadable episodes do not
count. All of it is one transaction.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import unicodedata
from math import log

from attrs import frozen

from harnesses.memory.episode_rows import COLUMNS, FACT_COLUMNS, Dropped, Rows, StoredEpisode, time_of
from harnesses.memory.episode_search import ACCESS
from harnesses.memory.episodes import Episode, Fact, words_of
from harnesses.memory.memory_model import Affected, MemorySettings, Use

MOST_FACTS = 10_000
"""Maximum number of facts reached by one retraction."""
TEXT = "text:"
"""Prefix of the id of a text's retraction, which applies to that text under any episode id."""
MOST_USES = 10_000
"""Maximum number of uses reported for one episode, latest first."""


def find_derived(db: sqlite3.Connection, id: str) -> list[str]:
    """Return the ids of the facts derived from an episode or fact, directly or indirectly."""
    found: dict[str, None] = {}
    waiting = [id]
    while waiting and len(found) < MOST_FACTS:
        source = waiting.pop()
        for (fact,) in db.execute("SELECT fact FROM derivations WHERE source = ?", (source,)):
            if fact not in found and fact != id:
                found[fact] = None
                waiting.append(fact)
    return list(found)


def is_known(db: sqlite3.Connection, id: str) -> bool:
    """Return whether this id exists, or existed."""
    asked = "SELECT 1 FROM {} WHERE id = ?"
    tables = ("episodes", "facts", "retractions")
    if any(db.execute(asked.format(table), (id,)).fetchone() for table in tables):
        return True
    return db.execute("SELECT 1 FROM retrieved WHERE episode = ?", (id,)).fetchone() is not None


def retract(db: sqlite3.Connection, rows: Rows, id: str, reason: str, by: str, at_us: int) -> list[str]:
    """Retract an episode or fact and everything derived from it; return the ids that were not retracted before."""
    new: list[str] = []
    for each in (id, *find_derived(db, id)):
        row = rows.of_retraction(each, reason, by, at_us, "" if each == id else id)
        added = db.execute("INSERT OR IGNORE INTO retractions VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        new += [each] if added.rowcount else []
        _close_episode(db, rows, each, (reason, by, at_us))
        _close_fact(db, rows, each)
    return new


def says_what_was_retracted(db: sqlite3.Connection, episode: Episode) -> bool:
    """Return whether an episode has the same text as a retracted one, even if that was deleted."""
    return db.execute("SELECT 1 FROM retractions WHERE id = ?", (text_id(episode),)).fetchone() is not None


def text_id(episode: Episode) -> str:
    """Return the id of a text's retraction; it ignores case, spaces and punctuation."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", words_of(episode)).casefold())
    return TEXT + hashlib.sha256(" ".join(words).encode("utf-8", "replace")).hexdigest()


def _close_episode(db: sqlite3.Connection, rows: Rows, id: str, said: tuple[str, str, int]) -> None:
    """Remove an episode from the search index. Its row stays, signed as retracted."""
    row = db.execute(f"SELECT {COLUMNS} FROM episodes WHERE id = ?", (id,)).fetchone()
    if row is None:
        return
    db.execute("DELETE FROM episode_words WHERE rowid = ?", row[:1])
    db.execute("DELETE FROM vectors WHERE number = ?", row[:1])
    kept = rows.episode(row)
    if isinstance(kept, StoredEpisode):
        of_text = rows.of_retraction(text_id(kept.episode), *said, id)
        db.execute("INSERT OR IGNORE INTO retractions VALUES (?, ?, ?, ?, ?, ?, ?)", of_text)
        signed = rows.of_episode(kept.episode, kept.trusted, retracted=True)
        db.execute(
            "UPDATE episodes SET retracted = 1, body = ?, key_id = ?, signature = ? WHERE number = ?",
            (signed[6], signed[8], signed[9], kept.number),
        )


def _close_fact(db: sqlite3.Connection, rows: Rows, id: str) -> None:
    row = db.execute(f"SELECT {FACT_COLUMNS} FROM facts WHERE id = ?", (id,)).fetchone()
    fact = rows.fact(row) if row is not None else None
    if isinstance(fact, Fact):
        _, retracted, body, key_id, signature = rows.of_fact(fact, retracted=True)
        db.execute(
            "UPDATE facts SET retracted = ?, body = ?, key_id = ?, signature = ? WHERE id = ?",
            (retracted, body, key_id, signature, id),
        )
    elif isinstance(fact, Dropped):
        db.execute("UPDATE facts SET retracted = 1 WHERE id = ?", (id,))


def find_affected(db: sqlite3.Connection, id: str) -> Affected:
    """Return who has used an episode or fact, and the resulting episodes and facts."""
    found = db.execute(
        "SELECT r.id, r.at_us, r.harness, r.run_id, r.task_id FROM retrieved JOIN retrievals r ON r.id = retrieval "
        "WHERE episode = ? ORDER BY r.id DESC LIMIT ?",
        (id, MOST_USES),
    ).fetchall()
    uses = tuple(Use(id=row[0], at=time_of(row[1]), harness=row[2], run_id=row[3], task_id=row[4]) for row in reversed(found))
    tasks = tuple(dict.fromkeys((use.run_id, use.task_id) for use in uses if use.task_id))
    episodes = [
        other
        for task in tasks
        for (other,) in db.execute("SELECT id FROM episodes WHERE run_id = ? AND task_id = ? ORDER BY number", task)
        if other != id
    ]
    return Affected(
        uses=uses,
        tasks=tasks,
        harnesses=tuple(dict.fromkeys(use.harness for use in uses if use.harness)),
        facts=tuple(find_derived(db, id)),
        episodes=tuple(dict.fromkeys(episodes)),
    )


MOST_EMPTY = 10_000
"""Retrievals without a result that are kept for the hit rate."""


@frozen
class WeighedEpisode:
    """The fields of an episode that decide whether it is kept."""

    number: int
    id: str
    content: str
    created_us: int
    value: float


def is_due(db: sqlite3.Connection, settings: MemorySettings) -> bool:
    """Return whether there are more episodes than the settings allow."""
    if not settings.compaction:
        return False
    count: int = db.execute("SELECT count(*) FROM episodes WHERE retracted = 0").fetchone()[0]
    return count > settings.compaction_episodes


def select_kept(episodes: list[WeighedEpisode], settings: MemorySettings) -> list[WeighedEpisode]:
    """Return the episodes to keep. Pure."""
    newest = sorted(episodes, key=lambda one: (-one.created_us, -one.number))
    single = list({one.content: one for one in reversed(newest)}.values())
    single.sort(key=lambda one: (-one.created_us, -one.number))
    recent, others = single[: settings.keep_recent], single[settings.keep_recent :]
    others.sort(key=lambda one: (-one.value, -one.created_us, -one.number))
    return recent + others[: settings.keep_episodes - len(recent)]


def compact(db: sqlite3.Connection, rows: Rows, settings: MemorySettings, at_us: int) -> int:
    """Compact the memory; return how many episodes were deleted."""
    read = [rows.episode(row) for row in db.execute(f"SELECT {COLUMNS} FROM episodes")]
    contents: dict[int, str] = dict(db.execute("SELECT number, content FROM episodes"))
    uses: dict[str, int] = dict(db.execute("SELECT id, count FROM uses"))
    open_ones = [one for one in read if isinstance(one, StoredEpisode) and not one.retracted]
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


def _weigh(kept: StoredEpisode, content: str, uses: int) -> WeighedEpisode:
    episode = kept.episode
    value = episode.importance + episode.quality + ACCESS * log(1 + uses)
    return WeighedEpisode(kept.number, episode.id, content, int(episode.created_at.timestamp() * 1e6), value)
