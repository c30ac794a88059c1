"""Everything that is in a memory, for people and programs that look at it. Reading changes nothing, and makes no file.

A row that is not what was written is listed by its id and the reason, as it is everywhere.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

from attrs import frozen

from harnesses.memory.episode_rows import COLUMNS, Dropped, Kept, Rows, time_of
from harnesses.memory.episodes import Fact
from harnesses.memory.errors import MemoryUnusable
from harnesses.memory.memory_file import check_schema, connect_read_only, unusable
from harnesses.memory.row_signing import signer_of

FACT_COLUMNS = "number, id, retracted, body, key_id, signature"


@frozen
class Retraction:
    """What is not to be believed any more."""

    id: str
    reason: str
    by: str
    at: datetime
    because_of: str
    """Id of what it was derived from, if that was retracted; empty otherwise."""


@frozen(kw_only=True)
class Contents:
    """What is in a memory, oldest first."""

    path: Path
    project: str
    episodes: tuple[Kept, ...]
    facts: tuple[Fact, ...]
    retractions: tuple[Retraction, ...]
    dropped: tuple[Dropped, ...]
    """Rows that cannot be trusted, and so are not read."""

    def retraction_of(self, id: str) -> Retraction | None:
        """Return the retraction of an episode or a fact; None if it was not retracted."""
        return next((one for one in self.retractions if one.id == id), None)


def read_contents(path: str | Path) -> Contents:
    """Return everything that is in the memory at `path`.

    Raises:
        MemoryUnusable: there is no file, or it is not a memory.
    """
    place = Path(path)
    if not place.is_file():
        raise MemoryUnusable(f"memory {place}: expected a file, there is none; correct the path or the project")
    try:
        with closing(connect_read_only(place)) as db:
            check_schema(db, place)
            db.execute("BEGIN")
            project = str(db.execute("SELECT value FROM meta WHERE name = 'project'").fetchone()[0])
            episodes, facts, dropped = read_rows(db, Rows(project, signer_of(place)))
            retractions = db.execute(
                "SELECT id, reason, by, at_us, because_of FROM retractions WHERE id NOT LIKE 'text:%' ORDER BY at_us, id"
            ).fetchall()
    except (sqlite3.Error, OSError) as error:
        raise unusable(place, error) from error
    return Contents(
        path=place,
        project=project,
        episodes=tuple(episodes),
        facts=tuple(facts),
        retractions=tuple(Retraction(id, reason, by, time_of(at), cause) for id, reason, by, at, cause in retractions),
        dropped=tuple(dropped),
    )


def read_rows(db: sqlite3.Connection, rows: Rows) -> tuple[list[Kept], list[Fact], list[Dropped]]:
    """Return episodes, facts, and what is not read of both."""
    episodes = [rows.episode(row) for row in db.execute(f"SELECT {COLUMNS} FROM episodes ORDER BY number")]
    facts = [rows.fact(row) for row in db.execute(f"SELECT {FACT_COLUMNS} FROM facts ORDER BY number")]
    return (
        [one for one in episodes if isinstance(one, Kept)],
        [one for one in facts if isinstance(one, Fact)],
        [one for one in (*episodes, *facts) if isinstance(one, Dropped)],
    )
