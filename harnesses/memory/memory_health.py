"""Where memories are, and whether one is in order.

The law: to ask changes nothing, and never fails: a memory that is not there yet is in order, one that cannot be read is a
problem like any other.
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

from harnesses.memory.episode_rows import Dropped, Kept, Rows, time_of, us
from harnesses.memory.errors import MemoryUnusable
from harnesses.memory.memory_contents import read_rows
from harnesses.memory.memory_file import check_schema, connect_read_only
from harnesses.memory.memory_settings import MemorySettings
from harnesses.memory.row_signing import signer_of
from harnesses.timing.clock import utc_now

_SLUG = re.compile(r"[^a-z0-9._-]+")
_ERRORS = ("unusable", "signature_failure", "invalid_signature", "signing_key_drift", "unreadable")
_SHOWN = 5


@frozen
class Problem:
    """Something that is not in order with a memory."""

    kind: str
    """unusable, signature_failure, invalid_signature, signing_key_drift, unreadable; duplicate, stale, oversized."""
    count: int
    detail: str

    @property
    def is_error(self) -> bool:
        """Whether it is more than untidiness."""
        return self.kind in _ERRORS


@frozen(kw_only=True)
class Diagnostics:
    """What is in a memory, and what is not in order."""

    path: Path
    exists: bool = False
    episodes: int = 0
    """That are read: neither retracted nor dropped."""
    trusted: int = 0
    retracted: int = 0
    dropped: int = 0
    facts: int = 0
    retrievals: int = 0
    hits: int = 0
    """Retrievals that found something."""
    compactions: int = 0
    bytes: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def hit_rate(self) -> float | None:
        """Share of the retrievals that found something; None if there was none."""
        return self.hits / self.retrievals if self.retrievals else None

    @property
    def healthy(self) -> bool:
        """Whether there is no error; a memory that is stale or large still works."""
        return not any(problem.is_error for problem in self.problems)


def memory_root() -> Path:
    """Return the folder for the memories of all projects: `$ORCHESTRATOR_MEMORY_DIR`, else below the user's data folder."""
    if (chosen := os.environ.get("ORCHESTRATOR_MEMORY_DIR", "").strip()) != "":
        return Path(chosen)
    data = os.environ.get("XDG_DATA_HOME", "").strip()
    return (Path(data) if data else Path.home() / ".local" / "share") / "orchestrator"


def memory_path(project: str, root: str | Path | None = None) -> Path:
    """Return where the memory of a project is, below a folder for all of them; the default is `memory_root()`."""
    slug = _SLUG.sub("-", project.lower()).strip("-.")[:80] or "project"
    return Path(memory_root() if root is None else root) / "projects" / slug / "memory" / "memory.db"


def known_memories(root: str | Path | None = None) -> tuple[Path, ...]:
    """Return the memories that there are below a folder for all of them, by name."""
    return tuple(sorted(Path(memory_root() if root is None else root).glob("projects/*/memory/memory.db")))


def diagnose(
    path: str | Path, *, project: str, settings: MemorySettings | None = None, now: datetime | None = None
) -> Diagnostics:
    """Return what is in the memory at `path`, and what is not in order."""
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


def _untidy(db: sqlite3.Connection, read: list[Kept], size: int, settings: MemorySettings, now: datetime) -> list[Problem]:
    problems: list[Problem] = []
    double = db.execute(
        "SELECT coalesce(sum(n - 1), 0) FROM "
        "(SELECT count(*) n FROM episodes WHERE retracted = 0 GROUP BY content HAVING n > 1)"
    ).fetchone()[0]
    if double:
        problems.append(Problem("duplicate", double, "episodes say the same; a compaction keeps the newest"))
    before = us(now - timedelta(days=settings.stale_after_days))
    old = sum(us(one.episode.created_at) < before for one in read)
    if old:
        problems.append(Problem("stale", old, f"older than {settings.stale_after_days:g} days, {time_of(before):%Y-%m-%d}"))
    if size > settings.max_kilobytes * 1024:
        problems.append(Problem("oversized", size // 1024, f"expected at most {settings.max_kilobytes} kilobytes"))
    return problems
