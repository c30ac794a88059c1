"""An opened run: its frames as lazy relations of DuckDB, views of the same names for SQL, and pandas or Polars on request."""

from __future__ import annotations

import os
import re
import shutil
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import TYPE_CHECKING, Any

from orchestrator.analysis.frames.frame_queries import FRAMES, KEPT, MADE_OF, PARTS
from orchestrator.analysis.sources import LogSource, Source
from orchestrator.analysis.sources.bad_lines import BadLine, find_bad_lines
from orchestrator.analysis.sources.duckdb_session import MORE_MEMORY, asked, connect
from orchestrator.analysis.sources.flattening import flattened
from orchestrator.analysis.sources.log_cleaning import FUNCTIONS, add_functions
from orchestrator.analysis.sources.source_opening import source_of
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    import polars
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


_READ_FROM = re.compile(r"\b(?:FROM|JOIN)\s+\"?(\w+)", re.IGNORECASE)
"""What a query reads from. Columns are called like frames, too: `steps`."""


class Run:
    """What was recorded, to be asked.

    Args:
        source: where it is read from.
        location: how the user calls it.
    """

    def __init__(self, source: Source, location: str) -> None:
        self.location, self.source = location, source
        temporary = mkdtemp(prefix="orchestrator-analysis-")
        self._remove = weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)
        self._db: DuckDBPyConnection = connect(Path(temporary))
        self._bad: tuple[BadLine, ...] | None = None
        self._unmade: dict[str, Callable[[Source], str]] = {"records": _records, **FRAMES, **PARTS}
        self._has_functions = False
        self._more_memory = list(MORE_MEMORY)
        try:
            source.prepare(self._db)
        except BaseException:
            self.close()
            raise

    @property
    def db(self) -> DuckDBPyConnection:
        """DuckDB's own connection, with a view for each frame."""
        self._make(tuple(self._unmade), is_lazy=True)
        return self._db

    def _make(self, names: Iterable[str], *, is_lazy: bool = False) -> None:
        """Make views, and what they are made of. All take a tenth of a second; any of a long log, a look at all of it."""
        for name in names:
            for one in (*MADE_OF.get(name, ()), name):
                if one in self._unmade:
                    text = self._unmade.pop(one)(self.source)
                    self._need_functions(text)
                    kind = "TEMP TABLE" if one in KEPT and not is_lazy else "VIEW"
                    statement = f"CREATE {kind} {one} AS {text}"
                    self._within_memory(partial(self._db.execute, statement))

    def _need_functions(self, query: str) -> None:
        """Make our functions known where a query needs them: to have any, DuckDB loads modules for a tenth of a second."""
        if not self._has_functions and any(f"{name}(" in query for name in FUNCTIONS):
            add_functions(self._db)
            self._has_functions = True

    def __getattr__(self, name: str) -> DuckDBPyRelation:
        if name not in FRAMES and name != "records":
            raise AttributeError(f"run has no {name!r}: expected one of records, {', '.join(FRAMES)}")
        return self.frame(name)

    def frame(self, name: str, *, flatten: bool = False) -> DuckDBPyRelation:
        """Return a frame as a lazy relation: `.filter()`, `.aggregate()`, `.df()`, `.pl()`, `.fetchall()`.

        Args:
            flatten: whether what is in the JSON gets columns, such as `input.price`; to know which, all of it is read.

        Raises:
            UsageError: there is no such frame.
        """
        if name not in FRAMES and name != "records":
            raise UsageError(f"no frame {name!r}: expected one of records, {', '.join(FRAMES)}")
        self._make([name])
        return flattened(self._db, name) if flatten else self._db.view(name)

    def polars(self, name: str, *, flatten: bool = False) -> polars.DataFrame:
        """Return a frame as one of Polars. Times are UTC, without a zone."""
        _need("polars", "Polars")
        return self.frame(name, flatten=flatten).pl()

    def pandas(self, name: str, *, flatten: bool = False) -> Any:
        """Return a frame as one of pandas. Times are UTC, without a zone."""
        _need("pandas", "pandas")
        return self.frame(name, flatten=flatten).df()

    def rows(self, query: str, parameters: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what a query over the frames gives."""
        return self.execute(query, list(parameters)).fetchall()

    def execute(self, query: str, values: list[Any] | dict[str, Any]) -> DuckDBPyConnection:
        """Carry out a query over the frames; what it gives is to be fetched before the next one.

        Args:
            values: for its question marks, or by the names that it has for them.

        Raises:
            UsageError: the records are too large for the memory that analysis may take.
        """
        from duckdb import CatalogException

        self._need_functions(query)
        self._make(name.lower() for name in _READ_FROM.findall(query))
        try:
            return self._within_memory(
                lambda: self._db.execute(query, values) if isinstance(values, dict) else asked(self._db, query, values)
            )
        except CatalogException:
            if not self._unmade:
                raise
            # A frame is named in another way than ours: `FROM a, b`.
            self._make(tuple(self._unmade))
            return self.execute(query, values)

    def _within_memory(self, work: Callable[[], DuckDBPyConnection]) -> DuckDBPyConnection:
        """Return what work of the engine gives, with more memory where it needs that."""
        from duckdb import OutOfMemoryException

        while True:
            try:
                return work()
            except OutOfMemoryException as error:
                if not self._more_memory:
                    raise UsageError(
                        f"{self.location} has records too large to be analysed within {MORE_MEMORY[-1]} of memory: expected "
                        "smaller ones; keep large data in files and record where it is"
                    ) from error
                self._db.execute(f"SET threads = 1; SET memory_limit = '{self._more_memory.pop(0)}'")

    def carry_out(self, statement: str) -> None:
        """Carry out a statement over what the source itself gives; no frame is in it, whatever words are."""
        self._need_functions(statement)
        self._within_memory(lambda: self._db.execute(statement))

    @property
    def bad_lines(self) -> tuple[BadLine, ...]:
        """The lines of a log that could not be used, the first hundred of them; to know them, all of it is read."""
        if self._bad is None:
            self._bad = find_bad_lines(self._db, self.source.survey) if isinstance(self.source, LogSource) else ()
        return self._bad

    def close(self) -> None:
        """Let go of the files."""
        self._db.close()
        self.source.close()
        self._remove()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def open(path: str | Path | Iterable[str | Path]) -> Run:
    """Open what was recorded: a store, a log (one file, several, or a pattern), or exported Parquet (a file, or a folder).

    A store that this very process writes is copied first, which takes a second for some hundred megabytes: within a program
    of Trio, call this in a thread.

    Raises:
        UsageError: there is nothing there that could be read, or it is of several kinds.
    """
    paths = [os.fspath(path)] if isinstance(path, str | os.PathLike) else [os.fspath(one) for one in path]
    return Run(source_of([str(one) for one in paths]), ", ".join(map(str, paths)))


def _records(source: Source) -> str:
    return source.but(())


def _need(module: str, name: str) -> None:
    try:
        __import__(module)
    except ImportError:
        raise UsageError(
            f"a frame of {name} needs {name}, which is not installed: expected the extra `analysis`; "
            "pip install 'harness-orchestrator[analysis]'"
        ) from None
