"""A run read from its store, by DuckDB's extension for SQLite.

Invariants: a file that this process writes is not opened by the extension but copied first (`open_files.py`); records after
the last `seq` at the time of opening are not read; text is redacted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from harnesses.processes.cores import usable_cores
from harnesses.redaction.redactor import redact_text
from orchestrator.analysis.sources.copied_columns import LEAST, STEP_FIELDS, Columns
from orchestrator.analysis.sources.duckdb_session import cleaned, load_sqlite, named, quoted
from orchestrator.analysis.sources.source_reading import RECORD, among, from_body, is_text, kind_of, listed
from orchestrator.analysis.sources.store_summary import Summary
from orchestrator.events import stored_kinds
from orchestrator.store.file.open_files import read_no_more, reading_beside
from orchestrator.store.sqlite.sqlite_file import open_reader, translated

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Names of harnesses and runs are looked up row by row: DuckDB underestimates the size of a SQLite query, and would choose the
# wrong side for a join.
_COLUMNS = """seq, time_us, attempt, step, kind, body, (SELECT name FROM harnesses h WHERE h.id = r.harness) AS name,
    (SELECT run FROM claims c WHERE c.harness = r.harness AND c.epoch = r.epoch) AS run"""


class StoreSource:
    """A store in a SQLite file.

    Raises:
        StoreUnusable: it is not a store, or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.location = path.resolve(), str(path)
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._db: DuckDBPyConnection | None = None
        with closing(open_reader(self._path)) as db, translated(self.location):
            db.execute("BEGIN")
            # One at a time: each is a lookup, both together would be a scan of all records.
            (self._first_seq,) = db.execute("SELECT coalesce(min(seq), 1) FROM records").fetchone()
            (self._last_seq,) = db.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()
            self._names = [name for (name,) in db.execute("SELECT name FROM harnesses")]
        self._records = "records"
        self._columns: Columns | None = None
        self._kept: Summary | None = None

    @cached_property
    def _secret_names(self) -> list[tuple[str, str]]:
        return [(name, shown) for name in self._names if (shown := redact_text(name)) != name]

    def prepare(self, db: DuckDBPyConnection) -> None:
        load_sqlite(db)
        self._db = db
        self._read_alone()
        file = self._path if reading_beside(self._path, self._move) else self._copied()
        db.execute(f"ATTACH {quoted(str(file))} AS store (TYPE sqlite, READ_ONLY)")

    @property
    def copied(self) -> Columns | None:
        """The copy that queries read, if there is one."""
        return self._columns

    def copy_columns(self, folder: Path, *, is_kept: bool = False) -> bool:
        """Copy a large store into columns, or use a copy that was kept; return whether queries have changed.

        Args:
            folder: where a copy is that cannot be kept; whoever calls this removes it.
            is_kept: whether to copy only if the copy can be kept beside the store.
        """
        if self._columns is not None or self._db is None or self._last_seq - self._first_seq + 1 < LEAST:
            return False
        self._kept = Summary(self._path, folder)
        self._columns = self._kept.columns(self._first_seq, self._last_seq, is_kept=is_kept)
        if self._columns is None:
            return False
        self._db.execute(f"SET threads = {usable_cores()}")
        return True

    def own(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        if self._columns is not None and self._columns.holds(kinds, fields):
            return self._columns.own(kinds, fields)
        return self._of(kinds, fields, self._rows)

    def results(self, fields: Mapping[str, str]) -> str:
        if self._columns is not None:
            return self._columns.results(fields)
        return self.own(("step",), fields)

    def sweep(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        if self._columns is not None and self._columns.holds(kinds, fields):
            return self._columns.own(kinds, fields)
        return self._of(kinds, fields, self._all_rows)

    def stands(self, swept: tuple[int, int] | None) -> bool:
        return swept is not None

    def but(self, kinds: Sequence[str]) -> str:
        if self._columns is not None and "step" in kinds:
            return self._columns.bodies(f"kind NOT IN ({among(kinds)})")
        self._read_alone()
        which = f"kind NOT IN ({among(stored_kinds(kinds))})" if kinds else "true"
        return f"SELECT {listed(RECORD)}, json({cleaned('body')}) AS body FROM ({self._rows(which)})"

    def loops(self) -> str | None:
        """Return a query for the fingerprints of steps; None if there is no copy that has them."""
        return self._columns.loops() if self._columns is not None else None

    def near(self, harness: str, first: int, last: int) -> StoreSource:
        """Return a source of the steps and effects of some steps of one harness alone, found by the store's indexes."""
        names = [name for name, shown in self._secret_names if shown == harness] or [harness]
        which = f"harness IN (SELECT id FROM harnesses WHERE name IN ({among(names)})) AND step BETWEEN {first} AND {last}"
        found = " UNION ".join(f"SELECT seq FROM {index} WHERE {which}" for index in ("step_index", "effect_index"))
        tail = f"SELECT seq FROM records WHERE seq > (SELECT indexed_seq FROM meta) AND {which}"
        near = copy(self)
        near._columns = None
        near._records = f"(SELECT * FROM records WHERE seq IN ({found} UNION {tail}))"
        return near

    def _read_alone(self) -> None:
        """Have the engine use one thread: with more, the extension sometimes crashes, or returns part of a value.

        Source: https://github.com/duckdb/duckdb-sqlite/issues/176
        """
        if self._db is not None:
            self._db.execute("SET threads = 1")

    def close(self) -> None:
        read_no_more(self._path, self._move)
        self._db = None
        if self._kept is not None:
            self._kept.close()
        if self._copy is not None:
            self._copy.cleanup()

    def _of(self, kinds: Sequence[str], fields: Mapping[str, str], rows: Callable[[str], str]) -> str:
        self._read_alone()
        if not fields:
            return f"SELECT {listed(RECORD)} FROM ({rows(f'kind IN ({among(stored_kinds(kinds))})')})"
        parts: list[str] = []
        others = [kind for kind in kinds if kind != "step"]
        if others:
            parts.append(self._picked(self._rows(f"kind IN ({among(stored_kinds(others))})"), fields, fields))
        if "step" in kinds:
            held = {name: type for name, type in fields.items() if name in STEP_FIELDS}
            parts.append(self._picked(rows("kind = 'step'"), fields, held))
        return " UNION ALL ".join(parts)

    def _picked(self, rows: str, fields: Mapping[str, str], held: Mapping[str, str]) -> str:
        """Return a query for all `fields`; those not in `held` are NULL."""
        lacking = {name: type for name, type in fields.items() if name not in held}
        read = from_body(held, numbers="raw", texts="body")
        nulls = "".join(f", NULL::{type} AS {named(name)}" for name, type in lacking.items())
        wanted = listed((*RECORD, *fields))
        return f"""
            SELECT {wanted} FROM (SELECT *{read}{nulls} FROM (
                SELECT * EXCLUDE (body), body AS raw, {_cleaned(held)} AS body FROM ({rows})
            ))
        """

    def _rows(self, which: str) -> str:
        """Return a query executed by SQLite: it starts at once, is in order, and reads only the requested rows."""
        inner = f"SELECT {_COLUMNS} FROM {self._records} r WHERE seq <= {self._last_seq} AND {which}"
        return f"""
            SELECT seq::BIGINT AS seq, make_timestamp(time_us::BIGINT) AS "timestamp", coalesce(run, '') AS run,
                   {self._shown("coalesce(name, '')")} AS harness, attempt::INTEGER AS attempt, step::BIGINT AS step,
                   {kind_of("kind")} AS kind, body
            FROM sqlite_query('store', {quoted(inner)})
        """

    def _all_rows(self, which: str) -> str:
        """Return a query executed by DuckDB; it starts by counting the rows."""
        return f"""
            SELECT r.seq AS seq, make_timestamp(r.time_us) AS "timestamp", coalesce(l.run, '') AS run,
                   {self._shown("coalesce(n.name, '')")} AS harness, r.attempt::INTEGER AS attempt, r.step AS step,
                   {kind_of("r.kind")} AS kind, r.body AS body
            FROM store.records r LEFT JOIN store.harnesses n ON n.id = r.harness
            LEFT JOIN store.claims l ON l.harness = r.harness AND l.epoch = r.epoch
            WHERE r.seq <= {self._last_seq} AND r.{which}
        """

    def _shown(self, name: str) -> str:
        """Return the SQL for a name as it is shown; few names contain secrets."""
        cases = "".join(f" WHEN {quoted(one)} THEN {quoted(shown)}" for one, shown in self._secret_names)
        return f"CASE {name}{cases} ELSE {name} END" if cases else name

    def _copied(self) -> Path:
        """Return a copy of the current file, made by the SQLite library that writes it."""
        self._copy = tempfile.TemporaryDirectory(prefix="orchestrator-analysis-")
        file = Path(self._copy.name) / "store.db"
        with closing(open_reader(self._path)) as db, translated(self.location):
            db.execute("VACUUM INTO ?", (str(file),))
        return file

    def _move(self) -> None:
        """Switch to a copy, since this process is about to write the file. A running query continues, and keeps it open."""
        if self._db is None:
            return
        from duckdb import ConnectionException

        try:
            cursor = self._db.cursor()
        except ConnectionException:  # The user has closed it.
            return
        file = self._copied()
        with cursor as db:
            db.execute("DETACH store")
            db.execute(f"ATTACH {quoted(str(file))} AS store (TYPE sqlite, READ_ONLY)")


def _cleaned(fields: Mapping[str, str]) -> str:
    """Return the SQL that redacts bodies for reading these fields; bodies are not searched for secrets unnecessarily."""
    texts = {name for name, type in fields.items() if is_text(type)}
    if texts == {"summary"}:
        return f"""CASE WHEN contains(body, '"summary":') THEN {cleaned("body")} END"""
    return cleaned("body") if texts else "NULL::VARCHAR"
