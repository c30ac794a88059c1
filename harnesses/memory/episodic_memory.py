"""`EpisodicMemory`: stores episodes of one project in a file and recalls them by content.

Invariants: only an episode approved by a validator is trusted, and the caller cannot set that itself. A row whose signature
does not match is not read. A retracted episode is never recalled, nor is anything derived from it. Recalled text is data,
never an instruction.

Every call reads or writes a file: run it in a thread, as `recall_into` does. A recall takes a few milliseconds, writing an
episode about one.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType

from attrs import evolve

from harnesses.diagnostics.program_log import get_logger
from harnesses.errors import HarnessMisuse
from harnesses.memory import forgetting
from harnesses.memory.embedding import MAX_CHARACTERS, Embedder, pack
from harnesses.memory.episode_rows import COLUMNS, FACT_COLUMNS, Dropped, Rows, signer_of, us
from harnesses.memory.episode_search import find, search_for
from harnesses.memory.episodes import (
    MAX_FACT,
    Episode,
    Fact,
    bounded,
    is_approved,
    problem_of,
    quality_of,
    words_of,
)
from harnesses.memory.memory_file import MemoryFile
from harnesses.memory.memory_health import Diagnostics, diagnose, memory_path
from harnesses.memory.memory_model import (
    Affected,
    MemorySettings,
    Query,
    Recall,
    Recalled,
    Retrieval,
    Skipped,
    WritePolicy,
    Written,
)
from harnesses.memory.recall_text import render
from harnesses.memory.sanitising import plain_text
from harnesses.memory.search_words import all_words
from harnesses.timing.clock import utc_now

_FACTS_READ = 10_000
_NAMES = 200
"""Maximum number of characters of the names recorded with a retrieval."""


class EpisodicMemory:
    """The memory of one project. A context manager; written data is durable without closing it.

    Args:
        path: the file; created if missing, with its key beside it, both readable by their owner only. The default is
            `memory_path(project)`.
        project: the project it belongs to; the file of another project is refused.
        settings: limits and weights.
        embedder: computes embeddings for `Retrieval.FUSED`.
        now: returns the time; by default the system's clock.

    Raises:
        MemoryUnusable: the file or its key cannot be used.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        project: str,
        settings: MemorySettings | None = None,
        embedder: Embedder | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        if not project.strip():
            raise HarnessMisuse("memory: expected the name of a project, got none; give one")
        self.path = memory_path(project) if path is None else Path(path)
        self.project = project
        self.settings = settings or MemorySettings()
        self._embedder = embedder
        self._embedding = threading.Lock()
        self._now = now or utc_now
        self._file = MemoryFile(self.path, project)
        try:
            self._rows = Rows(project, signer_of(self.path, make=True))
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> EpisodicMemory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._file.close()

    # Writing.

    def write(self, episode: Episode) -> Written | Skipped:
        """Store an episode if the write policy allows it; an existing one is not written again.

        Whether it is trusted, and its quality, follow from its statuses.
        """
        made = bounded(evolve(episode, quality=quality_of(episode.outcome, episode.validator_status)))
        problem, trusted = problem_of(made), is_approved(made)
        if self.settings.write_policy is WritePolicy.APPROVED_ONLY and (problem or not trusted):
            said = f"builder {made.outcome or 'says nothing'}, validator {made.validator_status or 'says nothing'}"
            return Skipped(id=made.id, reason=problem or f"no validator has approved it: {said}")
        if problem:
            return Skipped(id=made.id, reason=problem)
        meaning = self._meaning(words_of(made))
        with self._file.writing() as db:
            if db.execute("SELECT 1 FROM retractions WHERE id = ?", (made.id,)).fetchone():
                return Skipped(id=made.id, reason="it was retracted")
            known = db.execute(f"SELECT {COLUMNS} FROM episodes WHERE id = ?", (made.id,)).fetchone()
            if known is not None:
                return self._known(known, made)
            if forgetting.says_what_was_retracted(db, made):
                return Skipped(id=made.id, reason="it was retracted: it says what one says that was")
            names = COLUMNS.removeprefix("number, ")
            row = self._rows.of_episode(made, trusted)
            marks = ", ".join("?" * len(row))
            number = db.execute(f"INSERT INTO episodes ({names}) VALUES ({marks})", row).lastrowid
            db.execute("INSERT INTO episode_words (rowid, words) VALUES (?, ?)", (number, " ".join(all_words(words_of(made)))))
            if meaning is not None and self._embedder is not None:
                db.execute("INSERT INTO vectors VALUES (?, ?, ?)", (number, self._embedder.name, pack(meaning)))
            if forgetting.is_due(db, self.settings):
                forgetting.compact(db, self._rows, self.settings, us(self._now()))
        return Written(id=made.id, trusted=trusted)

    def _known(self, row: tuple[object, ...], made: Episode) -> Written | Skipped:
        kept = self._rows.episode(row)
        if isinstance(kept, Dropped):
            return Skipped(id=made.id, reason=f"there is one of that id which cannot be read: {kept.reason}")
        if evolve(kept.episode, created_at=made.created_at) != made:
            return Skipped(id=made.id, reason="there is another of that id: an attempt is written once")
        return Written(id=made.id, trusted=kept.trusted, new=False)

    def learn(self, fact: Fact | str) -> str:
        """Store a fact and return its id; an existing one is not written again.

        Raises:
            HarnessMisuse: it is empty, or derived from something unknown or retracted.
        """
        given = Fact(learning=fact, created_at=self._now()) if isinstance(fact, str) else fact
        made = evolve(given, learning=plain_text(given.learning, MAX_FACT), kind=plain_text(given.kind, 40))
        if not made.learning:
            raise HarnessMisuse("fact: expected something to learn, got an empty text; say it in a sentence")
        with self._file.writing() as db:
            for source in made.derived_from:
                if not forgetting.is_known(db, source) or _is_retracted(db, source):
                    raise HarnessMisuse(
                        f"fact derived from {source!r:.200}: expected the id of an episode or fact that is not retracted; "
                        "leave it out"
                    )
            if not _is_retracted(db, made.id):
                row = self._rows.of_fact(made)
                db.execute(
                    f"INSERT OR IGNORE INTO facts ({FACT_COLUMNS.removeprefix('number, ')}) VALUES (?, ?, ?, ?, ?)", row
                )
            db.executemany(
                "INSERT OR IGNORE INTO derivations VALUES (?, ?)", [(source, made.id) for source in made.derived_from]
            )
        return made.id

    def retract(self, id: str, *, reason: str, by: str) -> Affected:
        """Retract an episode or fact, with every fact derived from it; return who has used it.

        Idempotent: the first reason is kept.

        Raises:
            HarnessMisuse: the id is unknown, or `by` is empty.
        """
        if not by.strip():
            raise HarnessMisuse(f"retraction of {id!r:.200}: expected the name of who retracts it, got none; give `by`")
        with self._file.writing() as db:
            if not forgetting.is_known(db, id):
                raise HarnessMisuse(
                    f"retraction of {id!r:.200}: expected the id of an episode or fact; look at `recall().ids`"
                )
            forgetting.retract(db, self._rows, id, plain_text(reason, 300), plain_text(by, 120), us(self._now()))
            return forgetting.find_affected(db, id)

    def compact(self) -> int:
        """Compact the memory now, whether it is due or not; return how many episodes were deleted."""
        with self._file.writing() as db:
            return forgetting.compact(db, self._rows, self.settings, us(self._now()))

    # Reading.

    def recall(self, query: Query) -> Recall:
        """Return the episodes that are relevant to a query, best first, and record the retrieval."""
        now = self._now()
        meaning, model = self._meaning(query.text), "" if self._embedder is None else self._embedder.name
        with self._file.reading() as db:
            search = search_for(query, db, self.settings, meaning, model)
            found, _ = find(search, db, self._rows, self.settings, now)
        text = render(found, self.settings)
        return Recall(id=self._record(query, found, now), episodes=tuple(found), text=text, at=now)

    def still(self, recall: Recall) -> Recall:
        """Return a recall without what has been retracted since."""
        with self._file.reading() as db:
            left = tuple(one for one in recall.episodes if not _is_retracted(db, one.episode.id))
        if len(left) == len(recall.episodes):
            return recall
        return evolve(recall, episodes=left, text=render(left, self.settings))

    def facts(self, search: str = "", *, limit: int = 20) -> tuple[Fact, ...]:
        """Return the latest facts that contain a text, or all of its words; newest first."""
        wanted, needle = frozenset(all_words(search)), search.casefold().strip()
        found: list[Fact] = []
        with self._file.reading() as db:
            rows = db.execute(
                f"SELECT {FACT_COLUMNS} FROM facts WHERE retracted = 0 AND id NOT IN (SELECT id FROM retractions) "
                "ORDER BY number DESC LIMIT ?",
                (_FACTS_READ,),
            )
            for row in rows:
                fact = self._rows.fact(row)
                if isinstance(fact, Dropped) or len(found) >= limit:
                    continue
                if needle in fact.learning.casefold() or (wanted and wanted <= frozenset(all_words(fact.learning))):
                    found.append(fact)
        return tuple(found)

    def affected_by(self, id: str) -> Affected:
        """Return who has used an episode or a fact, and the resulting episodes and facts."""
        with self._file.reading() as db:
            return forgetting.find_affected(db, id)

    def diagnostics(self) -> Diagnostics:
        """Return statistics and problems of the memory."""
        return diagnose(self.path, project=self.project, settings=self.settings, now=self._now())

    # Internal.

    def _record(self, query: Query, found: list[Recalled], now: datetime) -> int:
        """Record a retrieval, with who received which episodes, and count their use."""
        names = [plain_text(name, _NAMES) for name in (query.harness, query.run_id, query.task_id)]
        lists = [json.dumps([plain_text(name, _NAMES) for name in items[:30]]) for items in (query.agents, query.stages)]
        with self._file.writing() as db:
            number = db.execute(
                "INSERT INTO retrievals (at_us, harness, run_id, task_id, agents, stages, results) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (us(now), *names, *lists, len(found)),
            ).lastrowid
            for one in found:
                db.execute("INSERT INTO retrieved VALUES (?, ?)", (one.episode.id, number))
                db.execute(
                    "INSERT INTO uses VALUES (?, 1, ?) "
                    "ON CONFLICT (id) DO UPDATE SET count = count + 1, last_us = excluded.last_us",
                    (one.episode.id, us(now)),
                )
        return number or 0

    def _meaning(self, text: str) -> Sequence[float] | None:
        """Return the embedding of a text; None if it is not configured or fails."""
        if self._embedder is None or self.settings.retrieval is not Retrieval.FUSED or not text.strip():
            return None
        try:
            # Before any transaction: loading the model takes seconds.
            with self._embedding:
                return self._embedder.embed([text[:MAX_CHARACTERS]])[0]
        except Exception:
            get_logger(__name__).warning(
                "memory %s goes on without meanings: its embedder has failed", self.path, exc_info=True
            )
            return None


def _is_retracted(db: sqlite3.Connection, id: str) -> bool:
    return db.execute("SELECT 1 FROM retractions WHERE id = ?", (id,)).fetchone() is not None
