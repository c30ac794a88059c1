"""An opened run: its frames as lazy relations of DuckDB, views of the same names for SQL, and pandas or Polars on request.

Which source a path, or several, stand for is found out when it is opened.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, finalize

from harnesses.diagnostics.extras import install_command
from orchestrator.analysis.frames.frame_queries import FRAMES, KEPT, MADE_OF, PARTS
from orchestrator.analysis.sources import LogSource, Source
from orchestrator.analysis.sources.duckdb_session import FUNCTIONS, MORE_MEMORY, add_functions, asked, connect
from orchestrator.analysis.sources.flattening import flattened
from orchestrator.analysis.sources.log_source import BadLine, find_bad_lines
from orchestrator.analysis.sources.parquet_source import ParquetSource
from orchestrator.analysis.sources.store_source import StoreSource
from orchestrator.errors import UsageError
from orchestrator.store.file.open_files import is_beside_store, is_written
from orchestrator.store.sqlite.sqlite_file import is_database

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
        self._remove = finalize(self, shutil.rmtree, temporary, ignore_errors=True)
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


def once_a_run(make: Callable[[Run], None]) -> Callable[[Run], None]:
    """Have what makes temporary tables of a run do so only when it is first called for that run."""
    made: WeakSet[Run] = WeakSet()

    @wraps(make)
    def make_once(run: Run) -> None:
        if run not in made:
            make(run)
            made.add(run)

    return make_once


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
            f"{install_command('analysis')}"
        ) from None


_UNREAD = (".bz2", ".xz", ".lzma", ".zip", ".7z", ".lz4", ".br", ".tar", ".tgz", ".csv")
_PARQUET = b"PAR1"
"""What a file of Parquet begins with, whatever its name."""
_PATTERN = frozenset("*?[")


def source_of(paths: Sequence[str]) -> Source:
    """Return the source for what was recorded.

    Raises:
        UsageError: there is nothing there that could be read, or it is of several kinds.
    """
    found = [file for path in paths for file in _files(path)]
    if not found:
        raise UsageError("analysis: nothing to open: expected a store, a log, or a folder of Parquet files; name one")
    for file in found:
        if is_beside_store(Path(file)):
            raise UsageError(f"{file} belongs to the store beside it: expected the store itself; give its path alone")
    kinds = {file: _kind(file) for file in found}
    if len(set(kinds.values())) > 1:
        one, *others = found
        other = next(file for file in others if kinds[file] != kinds[one])
        raise UsageError(
            f"{one} is {_WORDS[kinds[one]]} and {other} is {_WORDS[kinds[other]]}: "
            "expected files of one kind; open them one by one"
        )
    kind = kinds[found[0]]
    if kind == "store" and len(found) > 1:
        raise UsageError(f"{found[0]} and {found[1]} are two stores: expected one; open them one by one")
    if kind == "store":
        return StoreSource(Path(found[0]))
    if kind == "folder":
        if len(found) > 1:
            raise UsageError(f"{found[0]} and {found[1]} are two folders: expected one; open them one by one")
        return ParquetSource.of_folder(Path(found[0]))
    return ParquetSource(found) if kind == "parquet" else LogSource(found)


_WORDS = {"store": "a store", "log": "a log", "parquet": "Parquet", "folder": "a folder"}


def _files(path: str) -> list[str]:
    """Return what a path stands for: itself, or all that a pattern fits."""
    if Path(path).exists() or not _PATTERN & set(path):
        return [path]
    files = sorted(glob.glob(path, recursive=True))
    if not files:
        raise UsageError(f"{path} fits no file: expected a pattern of files that are there; check it")
    return files


def _kind(path: str) -> str:
    place = Path(path)
    if place.is_dir():
        return "folder"
    if not place.exists():
        raise UsageError(f"{path} is not there: expected a store, a log or a folder of Parquet files; check its name")
    if is_written(place):
        if not is_database(place):
            raise UsageError(f"{path} is a store that is just being made: expected one with something in it; open it later")
        return "store"
    if path.endswith(".parquet"):
        return "parquet"
    if path.endswith(_UNREAD):
        raise UsageError(f"{path} is packed in a way that is not read: expected .jsonl, .jsonl.gz or .jsonl.zst; unpack it")
    if is_database(place):
        return "store"
    return "parquet" if _is_parquet(place) else "log"


def _is_parquet(place: Path) -> bool:
    """Return whether a file begins like one of Parquet."""
    if not place.is_file():
        return False
    try:
        with place.open("rb") as file:
            return file.read(len(_PARQUET)) == _PARQUET
    except OSError as error:
        raise UsageError(f"{place} cannot be read: {error.strerror}; check its name and permissions") from error
