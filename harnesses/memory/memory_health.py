"""Locates memories, lists their contents and diagnoses problems, for commands and reports.

Invariant: reading changes nothing and creates no file. `diagnose` never fails: a memory that does not exist yet is healthy,
and an unreadable one is a reported problem. A row with an invalid signature is listed by its id and the reason.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

from attrs import frozen

from harnesses.memory.episode_rows import COLUMNS, FACT_COLUMNS, Dropped, Rows, StoredEpisode, signer_of, time_of, us
from harnesses.memory.episodes import Fact
from harnesses.memory.memory_file import check_schema, connect_read_only, unusable
from harnesses.memory.memory_model import MemorySettings, MemoryUnusable
from harnesses.timing.clock import utc_now


@frozen
class Retraction:
    """The retraction of an episode or fact."""

    id: str
    reason: str
    by: str
    at: datetime
    because_of: str
    """Id of the retracted source it was derived from; empty if it was retracted directly."""


@frozen(kw_only=True)
class Contents:
    """The contents of a memory, oldest first."""

    path: Path
    project: str
    episodes: tuple[StoredEpisode, ...]
    facts: tuple[Fact, ...]
    retractions: tuple[Retraction, ...]
    dropped: tuple[Dropped, ...]
    """Rows that were not read, because they cannot be trusted."""

    def retraction_of(self, id: str) -> Retraction | None:
        """Return the retraction of an episode or a fact; None if it was not retracted."""
        return next((one for one in self.retractions if one.id == id), None)


def read_contents(path: str | Path) -> Contents:
    """Return the contents of the memory at `path`.

    Raises:
        MemoryUnusable: there is no file, or it is not a memory.
    """
    place = Path(path)
    if not place.is_file():
        raise MemoryUnusable(f"memory {place}: expected a file, got none; correct the path or the project")
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


def read_rows(db: sqlite3.Connection, rows: Rows) -> tuple[list[StoredEpisode], list[Fact], list[Dropped]]:
    """Return episodes, facts, and the dropped rows of both."""
    episodes = [rows.episode(row) for row in db.execute(f"SELECT {COLUMNS} FROM episodes ORDER BY number")]
    facts = [rows.fact(row) for row in db.execute(f"SELECT {FACT_COLUMNS} FROM facts ORDER BY number")]
    return (
        [one for one in episodes if isinstance(one, StoredEpisode)],
        [one for one in facts if isinstance(one, Fact)],
        [one for one in (*episodes, *facts) if isinstance(one, Dropped)],
    )


_SLUG = re.compile(r"[^a-z0-9._-]+")
_ERRORS = ("unusable", "signature_failure", "invalid_signature", "signing_key_drift", "unreadable")
_SHOWN = 5


@frozen
class Problem:
    """A problem of a memory."""

    kind: str
    """Kind of problem: unusable, signature_failure, invalid_signature, signing_key_drift, unreadable; duplicate, stale,
    oversized."""
    count: int
    detail: str

    @property
    def is_error(self) -> bool:
        """Whether it affects correctness, and not only tidiness."""
        return self.kind in _ERRORS


@frozen(kw_only=True)
class Diagnostics:
    """Statistics and problems of a memory."""

    path: Path
    exists: bool = False
    episodes: int = 0
    """Readable episodes: neither retracted nor dropped."""
    trusted: int = 0
    retracted: int = 0
    dropped: int = 0
    facts: int = 0
    retrievals: int = 0
    hits: int = 0
    """Retrievals with a result."""
    compactions: int = 0
    bytes: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def hit_rate(self) -> float | None:
        """Share of retrievals with a result; None if there were no retrievals."""
        return self.hits / self.retrievals if self.retrievals else None

    @property
    def healthy(self) -> bool:
        """Whether there is no error; a stale or large memory still works."""
        return not any(problem.is_error for problem in self.problems)


def memory_root() -> Path:
    """Return the folder for the memories of all projects: `$ORCHESTRATOR_MEMORY_DIR`, else below the user's data folder."""
    if (chosen := os.environ.get("ORCHESTRATOR_MEMORY_DIR", "").strip()) != "":
        return Path(chosen)
    data = os.environ.get("XDG_DATA_HOME", "").strip()
    return (Path(data) if data else Path.home() / ".local" / "share") / "orchestrator"


def memory_path(project: str, root: str | Path | None = None) -> Path:
    """Return the path of a project's memory; the default root is `memory_root()`."""
    slug = _SLUG.sub("-", project.lower()).strip("-.")[:80] or "project"
    return Path(memory_root() if root is None else root) / "projects" / slug / "memory" / "memory.db"


def known_memories(root: str | Path | None = None) -> tuple[Path, ...]:
    """Return the existing memories below a root folder, by name."""
    return tuple(sorted(Path(memory_root() if root is None else root).glob("projects/*/memory/memory.db")))


def diagnose(
    path: str | Path, *, project: str, settings: MemorySettings | None = None, now: datetime | None = None
) -> Diagnostics:
    """Return statistics and problems of the memory at `path`."""
    place, settings = Path(path), settings or MemorySettings()
    if not place.exists():
        return Diagnostics(path=place)
    try:
        rows = Rows(project, signer_of(place))
        with closing(connect_read_only(place)) as db:
            check_schema(db, place)
            db.execute("BEGIN")
            return _diagnose(db, rows, place, settings, now or utc_now())
    except (sqlite3.Error, OSError, MemoryUnusable) as error:
        return Diagnostics(path=place, exists=True, problems=(Problem("unusable", 1, str(error)[:500]),))


def _diagnose(db: sqlite3.Connection, rows: Rows, path: Path, settings: MemorySettings, now: datetime) -> Diagnostics:
    kept, facts, dropped = read_rows(db, rows)
    retrievals, hits = db.execute("SELECT count(*), coalesce(sum(results > 0), 0) FROM retrievals").fetchone()
    read = [one for one in kept if not one.retracted]
    size = sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())
    return Diagnostics(
        path=path,
        exists=True,
        episodes=len(read),
        trusted=sum(one.trusted for one in read),
        retracted=db.execute("SELECT count(*) FROM retractions WHERE id NOT LIKE 'text:%'").fetchone()[0],
        dropped=len(dropped),
        facts=len(facts),
        retrievals=retrievals,
        hits=hits,
        compactions=db.execute("SELECT count(*) FROM compactions").fetchone()[0],
        bytes=size,
        problems=(*_broken(dropped, len(kept)), *_untidy(db, read, size, settings, now)),
    )


def _broken(dropped: list[Dropped], read: int) -> list[Problem]:
    counts = Counter(one.reason for one in dropped)
    problems = [
        Problem(kind, count, ", ".join([one.id[:60] for one in dropped if one.reason == kind][:_SHOWN]))
        for kind, count in sorted(counts.items())
    ]
    if dropped and not read:
        problems.append(Problem("signature_failure", len(dropped), "nothing in it can be read: is its key the right one?"))
    return problems


def _untidy(
    db: sqlite3.Connection, read: list[StoredEpisode], size: int, settings: MemorySettings, now: datetime
) -> list[Problem]:
    problems: list[Problem] = []
    double = db.execute(
        "SELECT coalesce(sum(n - 1), 0) FROM "
        "(SELECT count(*) n FROM episodes WHERE retracted = 0 GROUP BY content HAVING n > 1)"
    ).fetchone()[0]
    if double:
        problems.append(Problem("duplicate", double, "duplicate episodes; a compaction keeps the newest"))
    before = us(now - timedelta(days=settings.stale_after_days))
    old = sum(us(one.episode.created_at) < before for one in read)
    if old:
        problems.append(Problem("stale", old, f"older than {settings.stale_after_days:g} days, {time_of(before):%Y-%m-%d}"))
    if size > settings.max_kilobytes * 1024:
        problems.append(Problem("oversized", size // 1024, f"expected at most {settings.max_kilobytes} kilobytes"))
    return problems
