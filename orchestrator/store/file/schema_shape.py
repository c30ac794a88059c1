"""Whether the schema of a file is exactly the one that the migrations make.

Invariant: nothing that somebody added to a schema is ever executed. Before any statement that could read a view, fire a
trigger or use an index, every row of `sqlite_master` is compared with the result of the migrations: type, name, table and
text; no extra and no duplicate rows; rows of one type in their order, each on a page of its own. `VACUUM` preserves all of
that.

`orchestrator/verify_alone.py` has the hashes of the same rows.
"""

from __future__ import annotations

import shlex
import sqlite3
import sys
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from attrs import frozen

from orchestrator.errors import StoreCorrupt
from orchestrator.store.file.schema import APPLICATION_ID, MIGRATIONS, statements

Object: TypeAlias = tuple[Any, ...]
"""Type, name, table and text."""

_ROWS = "SELECT type, name, tbl_name, sql, rootpage FROM main.sqlite_master ORDER BY rowid"
_HARMLESS = ("view", "trigger")
"""Types that have no effect while tables are only read."""


@frozen
class Fault:
    """A difference between a schema and the expected one."""

    what: str
    """`edited`, `dropped`, `inserted` or `reordered`."""
    type: str
    name: str

    @property
    def is_harmless(self) -> bool:
        """Whether tables can still be read without executing it."""
        return self.type in _HARMLESS

    def __str__(self) -> str:
        return f"{self.type} {self.name!a} was {self.what}"

    def mend(self, store: Path) -> str:
        """Return the remedy."""
        if self.what != "inserted" or self.type not in ("table", "index", "view", "trigger"):
            return "restore the store from a copy"
        name = '"' + self.name.replace('"', '""') + '"'
        order = shlex.quote(f"DROP {self.type.upper()} {name}")
        return f"if it is yours, keep it in a file of its own and remove it with: sqlite3 {shlex.quote(str(store))} {order}"


class Connection(sqlite3.Connection):
    """A connection to a store that remembers the last schema version that was checked."""

    held = -1
    """`schema_version` of the last schema that was checked."""

    def hold_schema(self, store: Path) -> None:
        """Check the schema, if it has changed since the last check; inside a transaction, if it must not change afterwards.

        Raises:
            StoreCorrupt: it is not the expected one.
        """
        (version,) = self.execute("PRAGMA main.schema_version").fetchone()
        if version == self.held:
            return
        found = faults(self)
        if found:
            more = f", and {len(found) - 1} more" if len(found) > 1 else ""
            raise StoreCorrupt(
                f"{store} has another schema than this program makes: {found[0]}{more}: expected only what the program "
                f"makes, and nothing of it was executed; {found[0].mend(store)}"
            )
        self.held = version

    @contextmanager
    def writing(self) -> Generator[None]:
        """Take the write lock, and commit what the block writes; roll back if it raises."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self.in_transaction:
                self.execute("ROLLBACK")
            raise


def harden(db: sqlite3.Connection) -> None:
    """Forbid unsafe functions in the schema, and direct writes to the schema table."""
    db.execute("PRAGMA trusted_schema = OFF")
    if sys.version_info >= (3, 12):
        db.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)


def faults(db: sqlite3.Connection) -> list[Fault]:
    """Return the differences between a file's schema and the expected one of its version."""
    (version,) = db.execute("PRAGMA main.user_version").fetchone()
    (application,) = db.execute("PRAGMA main.application_id").fetchone()
    rows = db.execute(_ROWS).fetchall()
    expected = shape(version) if 0 <= version <= len(MIGRATIONS) else ()
    found = compare([row[:4] for row in rows], expected)
    if found and not compare([row[:4] for row in rows], shape(len(MIGRATIONS))):
        found = [Fault("edited", "pragma", "user_version")]
    if application != APPLICATION_ID and rows:
        found.append(Fault("edited", "pragma", "application_id"))
    pages = [row[4] for row in rows if row[0] not in _HARMLESS]
    if len({*pages}) < len(pages) or any(not isinstance(page, int) or page < 2 for page in pages):
        found.append(Fault("edited", "page", "of a table or index"))
    if any(row[4] != 0 for row in rows if row[0] in _HARMLESS):
        found.append(Fault("edited", "page", "of a view"))
    return found


def compare(rows: Sequence[Object], expected: Sequence[Object]) -> list[Fault]:
    """Return the differences between two schemas. Pure."""
    missing = {row[:2] for row in expected if row not in rows}
    found: list[Fault] = []
    for place, row in enumerate(rows):
        if row not in expected or row in rows[:place]:
            found.append(Fault("edited" if row[:2] in missing else "inserted", str(row[0]), str(row[1])))
    there = {row[:2] for row in rows}
    found += [Fault("dropped", *key) for key in (row[:2] for row in expected) if key in missing - there]
    if not found:
        for kind in dict.fromkeys(row[0] for row in expected):
            ours = [[row for row in some if row[0] == kind and row[3] is not None] for some in (rows, expected)]
            if ours[0] != ours[1]:
                found.append(Fault("reordered", kind, "s"))
    return found


@cache
def shape(version: int) -> tuple[Object, ...]:
    """Return the schema objects that the migrations make, in order."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for script in MIGRATIONS[:version]:
            for statement in statements(script):
                db.execute(statement)
        return tuple(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid"))
