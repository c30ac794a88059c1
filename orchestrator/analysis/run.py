"""An opened run: its frames as lazy relations of DuckDB, views of the same names for SQL, and pandas or Polars on request."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from orchestrator.analysis.duck import connect
from orchestrator.analysis.frames import FRAMES
from orchestrator.analysis.sources import LogSource, ParquetSource, Source, StoreSource
from orchestrator.errors import UsageError
from orchestrator.store.sqlite_reader import SqliteReader

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


class Run:
    """What was recorded, to be asked.

    Args:
        source: where it is read from.
        location: how the user calls it.
    """

    def __init__(self, source: Source, location: str) -> None:
        self.location, self.source = location, source
        self.db: DuckDBPyConnection = connect()
        source.prepare(self.db)
        for name, query in FRAMES.items():
            self.db.execute(f"CREATE VIEW {name} AS {query(source)}")

    def __getattr__(self, name: str) -> DuckDBPyRelation:
        if name not in FRAMES and name != "records":
            raise AttributeError(f"run has no {name!r}: expected one of records, {', '.join(FRAMES)}")
        return self.frame(name)

    def frame(self, name: str) -> DuckDBPyRelation:
        """Return a frame as a lazy relation: `.filter()`, `.aggregate()`, `.df()`, `.pl()`, `.fetchall()`."""
        return self.db.view(name)

    def rows(self, query: str, parameters: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what a query over the frames gives."""
        return self.db.execute(query, list(parameters)).fetchall()

    def close(self) -> None:
        """Let go of the files."""
        self.db.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def open(path: str | Path) -> Run:
    """Open what was recorded: a store, a log (one file, or many by a pattern), or a folder or file of exported Parquet.

    Raises:
        UsageError: there is nothing there that could be read.
    """
    return Run(_source(str(path)), str(path))


def _source(path: str) -> Source:
    if path.endswith(".parquet") or Path(path).is_dir():
        return ParquetSource([path if path.endswith(".parquet") else f"{path}/**/*.parquet"])
    if not Path(path).is_file():
        raise UsageError(f"{path} is not there: expected a store, a log or a folder of Parquet files; check its name")
    with Path(path).open("rb") as file:
        if file.read(16) == b"SQLite format 3\0":
            return StoreSource(Path(path), SqliteReader(path).last_seq())
    return LogSource([path])
