"""A run read from exported records: a Parquet file, or a folder of parts."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from orchestrator.analysis.sources.duckdb_session import named, quoted
from orchestrator.analysis.sources.source_reading import RECORD, TYPES, among, from_body, kind_of
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

STATE = "_export.json"
"""File in a folder of parts that describes it, written by `orchestrator export`."""


class ParquetSource:
    """Exported records.

    Args:
        files: paths of the Parquet files.
        last_seq: later records are not completely exported yet and are left out; None if all count.
    """

    def __init__(self, files: Sequence[str], last_seq: int | None = None) -> None:
        self._files, self._last_seq = tuple(files), last_seq

    @classmethod
    def of_folder(cls, folder: Path) -> ParquetSource:
        """Return a source for the parts in a folder and its subfolders.

        Raises:
            UsageError: there is none.
        """
        files = sorted(glob.glob(f"{glob.escape(str(folder))}/**/*.parquet", recursive=True))
        state = folder / STATE
        if not files and not state.exists():
            raise UsageError(f"{folder} holds no Parquet files: expected what `orchestrator export` writes; check its name")
        last_seq = None
        with suppress(OSError, msgspec.DecodeError, KeyError, TypeError, ValueError):
            last_seq = int(msgspec.json.decode(state.read_bytes())["last_seq"])
        return cls(files, last_seq)

    def prepare(self, db: DuckDBPyConnection) -> None:
        """Attach the files to the connection.

        Raises:
            UsageError: they are not exported records.
        """
        db.execute(f"CREATE VIEW exported AS {self._every(db) if self._files else _NOTHING}")

    def _every(self, db: DuckDBPyConnection) -> str:
        """Return a query for all records, each once."""
        import duckdb

        read = f"read_parquet([{', '.join(map(quoted, self._files))}], union_by_name = true, hive_partitioning = false)"
        try:
            found = {name for name, *_ in db.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()}
        except duckdb.Error as error:
            raise UsageError(f"{self._files[0]} cannot be read: {error}; expected Parquet; export it anew") from error
        lacking = [name for name in (*RECORD, "body") if name not in found]
        if lacking:
            raise UsageError(
                f"{self._files[0]} has no column {lacking[0]!r}: expected exported records; "
                "use `orchestrator export --what records --format parquet`"
            )
        which = "true" if self._last_seq is None else f"seq <= {self._last_seq}"
        listed = ", ".join(
            f"{kind_of(named(name)) if name == 'kind' else named(name)}::{TYPES[name]} AS {named(name)}" for name in RECORD
        )
        every = f"SELECT {listed}, body::VARCHAR AS body FROM {read} WHERE {which}"
        count, distinct = db.execute(f"SELECT count(seq), count(DISTINCT seq) FROM ({every})").fetchone() or (0, 0)
        if count == distinct:
            return every
        newest = 'row_number() OVER (PARTITION BY seq ORDER BY "timestamp" DESC, run DESC) = 1'
        return f"SELECT * FROM ({every}) QUALIFY {newest}"

    def own(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        return f"SELECT {_HEADER}{from_body(fields)} FROM exported WHERE kind IN ({among(kinds)})"

    def results(self, fields: Mapping[str, str]) -> str:
        return self.own(("step",), fields)

    def sweep(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        return self.own(kinds, fields)

    def stands(self, swept: tuple[int, int] | None) -> bool:
        return swept is not None

    def but(self, kinds: Sequence[str]) -> str:
        which = f"kind NOT IN ({among(kinds)})" if kinds else "true"
        return f"SELECT {_HEADER}, json(body) AS body FROM exported WHERE {which}"

    def close(self) -> None:
        """Do nothing: the files hold no resources."""


_HEADER = ", ".join(map(named, RECORD))
_NOTHING = f"""
    SELECT {", ".join(f"NULL::{TYPES[name]} AS {named(name)}" for name in RECORD)}, NULL::VARCHAR AS body WHERE false
"""
