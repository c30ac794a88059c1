"""The book of alerts, a file beside the store: what was so, since when, and who was told of it.

    run.db                the store
    run.db-alerts         the book, a SQLite file of its own, so that telling never waits for a step, nor a step for it
    run.db-alerts.lock    held by the one process that tells

Invariants: what is to be told is in the book before it is sent, and is marked only after it was taken, so that it is told at
least once, and twice only if the process is killed in between. What lasts is told once. It is readable by its owner only.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from attrs import define, field, frozen

from harnesses.redaction.redactor import redact_text
from harnesses.timing.clock import now_us
from orchestrator.alerts.alert_facts import Fact
from orchestrator.errors import UsageError

QUIET_S = 300.0
"""Seconds within which something that comes back in the same attempt is the same alert."""
LONGEST_WAIT_S = 600.0
"""The most that a target which does not take an alert is left alone."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS alerts(
    id INTEGER PRIMARY KEY, condition TEXT NOT NULL, kind TEXT NOT NULL, harness TEXT NOT NULL, identity TEXT NOT NULL,
    what TEXT NOT NULL, cause TEXT NOT NULL, since_us INTEGER NOT NULL, cleared_us INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS alerts_open ON alerts(condition, harness, identity);
CREATE TABLE IF NOT EXISTS deliveries(
    alert INTEGER NOT NULL REFERENCES alerts(id), target TEXT NOT NULL, shown TEXT NOT NULL, wanted_us INTEGER NOT NULL,
    sent_us INTEGER, tries INTEGER NOT NULL DEFAULT 0, due_us INTEGER NOT NULL, error TEXT NOT NULL DEFAULT '',
    PRIMARY KEY(alert, target, wanted_us)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS deliveries_pending ON deliveries(target, due_us) WHERE sent_us IS NULL;
"""


@frozen(kw_only=True)
class Alert:
    """Something that was found."""

    id: int
    condition: str
    kind: str
    harness: str
    what: str
    cause: str
    since_us: int
    cleared_us: int | None = None


@frozen(kw_only=True)
class Told:
    """An alert, and how far it has got at one target."""

    alert: Alert
    shown: str
    """The target, without its credentials; empty if there is none."""
    sent_us: int | None
    tries: int
    error: str


_PENDING = "alert = ? AND target = ? AND sent_us IS NULL"
_ALERT = "id, condition, kind, harness, what, cause, since_us, cleared_us"


def book_path(store: Path) -> Path:
    return store.with_name(f"{store.name}-alerts")


@contextmanager
def the_only_one(store: Path) -> Generator[bool]:
    """Hold the lock of who tells; yields whether it was free."""
    path = store.with_name(f"{store.name}-alerts.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


@define(eq=False)
class Book:
    """The book of one store. Use it from one thread.

    Raises:
        UsageError: the file cannot be opened, or is none of ours.
    """

    path: Path
    _db: sqlite3.Connection = field(init=False)

    def __attrs_post_init__(self) -> None:
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = sqlite3.connect(self.path, isolation_level=None, timeout=10)
            self._db.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; {_SCHEMA}")
        except (OSError, sqlite3.Error) as error:
            raise UsageError(
                f"{self.path} cannot be used as the book of alerts: {error}; check the folder, or move the file away"
            ) from error

    def close(self) -> None:
        self._db.close()

    def note(self, found: Iterable[Fact], at_us: int) -> Mapping[Fact, int]:
        """Note what is so now, and return its numbers; what is in the book and is not so any more has come to its end."""
        with self._transaction():
            noted = {fact: self._note(fact, at_us) for fact in found}
            held = {*noted.values()}
            open_ones = self._db.execute("SELECT id FROM alerts WHERE cleared_us IS NULL").fetchall()
            over = [(at_us, number) for (number,) in open_ones if number not in held]
            self._db.executemany("UPDATE alerts SET cleared_us = ? WHERE id = ?", over)
        return noted

    def _note(self, fact: Fact, at_us: int) -> int:
        known = self._db.execute(
            "SELECT id FROM alerts WHERE condition = ? AND harness = ? AND identity = ? AND kind = ?"
            " AND (cleared_us IS NULL OR cleared_us > ?) ORDER BY id DESC LIMIT 1",
            (fact.condition, fact.harness, fact.identity, fact.kind, at_us - round(QUIET_S * 1e6)),
        ).fetchone()
        if known is not None:
            self._db.execute("UPDATE alerts SET cleared_us = NULL WHERE id = ? AND cleared_us IS NOT NULL", known)
            return int(known[0])
        texts = (redact_text(text) for text in (fact.what, fact.cause))
        values = (fact.condition, fact.kind, fact.harness, fact.identity, *texts, at_us)
        row = self._db.execute(
            "INSERT INTO alerts(condition, kind, harness, identity, what, cause, since_us) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " RETURNING id",
            values,
        ).fetchone()
        return int(row[0])

    def want(self, alert: int, targets: Mapping[str, str], at_us: int, again_s: float | None) -> None:
        """Have an alert told to targets that do not know it yet, or have known it for `again_s` seconds.

        Args:
            targets: by their identity, how each is shown.
        """
        for target, shown in targets.items():
            last = self._db.execute(
                "SELECT sent_us FROM deliveries WHERE alert = ? AND target = ? ORDER BY wanted_us DESC LIMIT 1",
                (alert, target),
            ).fetchone()
            if last is None or (again_s is not None and last[0] is not None and at_us - last[0] >= again_s * 1e6):
                self._db.execute(
                    "INSERT INTO deliveries(alert, target, shown, wanted_us, due_us) VALUES (?, ?, ?, ?, ?)",
                    (alert, target, shown, at_us, at_us),
                )

    def due(self, target: str, at_us: int, most: int) -> list[Alert]:
        """Return what a target is to be told now, oldest first."""
        rows = self._db.execute(
            f"SELECT {_ALERT} FROM alerts WHERE id IN"
            " (SELECT alert FROM deliveries WHERE target = ? AND sent_us IS NULL AND due_us <= ?) ORDER BY id LIMIT ?",
            (target, at_us, most),
        ).fetchall()
        return [_alert(row) for row in rows]

    def pending(self, targets: Collection[str]) -> int:
        """Return how much has not been told yet to these targets."""
        marks = ", ".join("?" * len(targets))
        query = f"SELECT count(*) FROM deliveries WHERE sent_us IS NULL AND target IN ({marks})"
        return int(self._db.execute(query, tuple(targets)).fetchone()[0])

    def sent(self, target: str, alerts: Sequence[Alert]) -> None:
        """Mark alerts as taken by a target."""
        self._db.executemany(
            f"UPDATE deliveries SET sent_us = ?, tries = tries + 1, error = '' WHERE {_PENDING}",
            [(now_us(), alert.id, target) for alert in alerts],
        )

    def failed(self, target: str, alerts: Sequence[Alert], error: str) -> None:
        """Note that a target did not take alerts; they are due again after a pause that doubles each time."""
        with self._transaction():
            for alert in alerts:
                (tries,) = self._db.execute(
                    f"SELECT max(tries) + 1 FROM deliveries WHERE {_PENDING}",
                    (alert.id, target),
                ).fetchone()
                pause_s = min(LONGEST_WAIT_S, 5.0 * 2 ** min(tries - 1, 20))
                self._db.execute(
                    f"UPDATE deliveries SET tries = ?, due_us = ?, error = ? WHERE {_PENDING}",
                    (tries, now_us() + round(pause_s * 1e6), error, alert.id, target),
                )

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def read_book(store: Path) -> list[Told]:
    """Return what is in the book of a store, oldest first; nothing if there is none.

    Raises:
        UsageError: the file cannot be read.
    """
    path = book_path(store)
    if not path.exists():
        return []
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            columns = ", ".join(f"a.{name}" for name in _ALERT.split(", "))
            rows = db.execute(
                f"SELECT {columns}, d.shown, d.sent_us, d.tries, d.error"
                " FROM alerts a LEFT JOIN deliveries d ON d.alert = a.id ORDER BY a.id, d.wanted_us, d.target"
            ).fetchall()
    except sqlite3.Error as error:
        raise UsageError(f"{path} cannot be read as the book of alerts: {error}; move it away to begin a new one") from error
    return [
        Told(alert=_alert(row[:8]), shown=row[8] or "", sent_us=row[9], tries=row[10] or 0, error=row[11] or "")
        for row in rows
    ]


def _alert(row: Sequence[object]) -> Alert:
    return Alert(**dict(zip(_ALERT.split(", "), row, strict=True)))  # type: ignore[arg-type]
