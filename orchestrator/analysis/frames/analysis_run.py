"""An opened run: its frames as lazy DuckDB relations, SQL views of the same names, and pandas or Polars frames on request.

The kind of source is detected when a path is opened.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial, wraps
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol
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
from orchestrator.store.places.store_location import local_path
from orchestrator.store.sqlite.sqlite_file import is_database
from orchestrator.text.terminal_text import inert

if TYPE_CHECKING:
    import polars
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


_FEW = 5
"""Rows that are shown of a relation that is too large to be shown."""
_READ_FROM = re.compile(r"\b(?:FROM|JOIN)\s+\"?(\w+)", re.IGNORECASE)
"""Matches what a query reads from; columns may have the names of frames, such as `steps`."""


class Run:
    """A recorded run that can be queried.

    Args:
        source: what it is read from.
        location: its path as the user gave it.
    """

    def __init__(self, source: Source, location: str) -> None:
        self.location, self.source = location, source
        self._temporary = mkdtemp(prefix="orchestrator-analysis-")
        self._remove = finalize(self, shutil.rmtree, self._temporary, ignore_errors=True)
        self._db: DuckDBPyConnection = connect(Path(self._temporary))
        self._bad: tuple[BadLine, ...] | None = None
        self._unmade: dict[str, Callable[[Source], str]] = {"records": _records, **FRAMES, **PARTS}
        self._viewed: dict[str, Callable[[Source], str]] = {}
        self._has_functions = False
        self._more_memory = list(MORE_MEMORY)
        try:
            source.prepare(self._db)
        except BaseException:
            self.close()
            raise

    @property
    def db(self) -> DuckDBPyConnection:
        """The DuckDB connection, with a view for each frame."""
        self._make(tuple(self._unmade), is_lazy=True)
        return self._db

    def expect(self, *, once: bool = False) -> None:
        """Prepare for questions that need all records of a store: a large one is read from a copy in columns.

        Args:
            once: whether the records are read once only, so that a copy is worth it only if it is kept for the next time.
        """
        if isinstance(self.source, StoreSource) and self.source.copy_columns(Path(self._temporary), is_kept=once):
            for name, text in self._viewed.items():
                self._within_memory(partial(self._db.execute, f"CREATE OR REPLACE VIEW {name} AS {text(self.source)}"))

    def _make(self, names: Iterable[str], *, is_lazy: bool = False) -> None:
        """Create views and their inputs. All of them take 0.1 s; some, for a long log, a pass over it."""
        for name in names:
            for one in (*MADE_OF.get(name, ()), name):
                if one in self._unmade:
                    made_of = self._unmade.pop(one)
                    text = made_of(self.source)
                    self._need_functions(text)
                    kind = "TEMP TABLE" if one in KEPT and not is_lazy else "VIEW"
                    if kind == "VIEW":
                        self._viewed[one] = made_of
                    statement = f"CREATE {kind} {one} AS {text}"
                    self._within_memory(partial(self._db.execute, statement))

    def _need_functions(self, query: str) -> None:
        """Register the functions that a query needs; registering any makes DuckDB load modules for 0.1 s."""
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
            flatten: whether JSON fields become columns, such as `input.price`; to determine them, everything is read.

        Raises:
            UsageError: there is no such frame.
        """
        if name not in FRAMES and name != "records":
            raise UsageError(f"no frame {name!r}: expected one of records, {', '.join(FRAMES)}")
        self._make([name])
        # It is read where nothing tries again with more memory: in a notebook, when it is displayed.
        self._more_memory = [MORE_MEMORY[-1]]
        self._db.execute(f"SET memory_limit = '{MORE_MEMORY[-1]}'")
        _display_inert()
        return flattened(self._db, name) if flatten else self._db.view(name)

    def polars(self, name: str, *, flatten: bool = False) -> polars.DataFrame:
        """Return a frame as a Polars frame. Times are UTC, without a zone."""
        _need("polars", "Polars")
        return self.frame(name, flatten=flatten).pl()

    def pandas(self, name: str, *, flatten: bool = False) -> Any:
        """Return a frame as a pandas frame. Times are UTC, without a zone."""
        _need("pandas", "pandas")
        return self.frame(name, flatten=flatten).df()

    def rows(self, query: str, parameters: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query over the frames."""
        return self.execute(query, list(parameters)).fetchall()

    def near(self, frame: str, harness: str, first: int, last: int) -> str:
        """Return what to read the rows of `steps` or `effects` about some steps of one harness from, and maybe other rows."""
        return f"({FRAMES[frame](self.source.near(harness, first, last))})" if isinstance(self.source, StoreSource) else frame

    def execute(self, query: str, values: list[Any] | dict[str, Any]) -> DuckDBPyConnection:
        """Execute a query over the frames; its result must be fetched before the next one.

        Args:
            values: values of its question marks, or of its named parameters.

        Raises:
            UsageError: the records are too large for the memory limit of analysis.
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
            # The query names a frame in a way that is not recognised: `FROM a, b`.
            self._make(tuple(self._unmade))
            return self.execute(query, values)

    def _within_memory(self, work: Callable[[], DuckDBPyConnection]) -> DuckDBPyConnection:
        """Return the result of work by the engine, retried with more memory if it needs that."""
        from duckdb import OutOfMemoryException

        while True:
            try:
                return work()
            except OutOfMemoryException as error:
                if not self._more_memory:
                    raise UsageError(
                        f"{self.location} has records too large to be analysed within {MORE_MEMORY[-1]} of memory: expected "
                        "smaller ones; keep large data in files and record their paths"
                    ) from error
                self._db.execute(f"SET threads = 1; SET memory_limit = '{self._more_memory.pop(0)}'")

    def carry_out(self, statement: str) -> None:
        """Execute a statement over what the source itself provides, without looking for frames in it."""
        self._need_functions(statement)
        self._within_memory(lambda: self._db.execute(statement))

    @property
    def bad_lines(self) -> tuple[BadLine, ...]:
        """The lines of a log that could not be used, at most the first hundred; finding them reads everything."""
        if self._bad is None:
            self._bad = find_bad_lines(self._db, self.source.survey) if isinstance(self.source, LogSource) else ()
        return self._bad

    def close(self) -> None:
        """Close the files."""
        self._db.close()
        self.source.close()
        self._remove()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def once_a_run(make: Callable[[Run], None]) -> Callable[[Run], None]:
    """Return a function that creates temporary tables only when it is first called for a run."""
    made: WeakSet[Run] = WeakSet()

    @wraps(make)
    def make_once(run: Run) -> None:
        if run not in made:
            make(run)
            made.add(run)

    return make_once


def open(path: str | Path | Iterable[str | Path]) -> Run:
    """Open a recorded run: a store, a log (one file, several, or a pattern), or exported Parquet (a file, or a folder).

    A store may be the address of a server, whose local copy is read.

    A store that this process itself writes is copied first, which takes a second for some hundred megabytes: in a Trio
    program, call this in a thread.

    Raises:
        UsageError: nothing readable was found, or files of several kinds.
    """
    paths = [os.fspath(path)] if isinstance(path, str | os.PathLike) else [os.fspath(one) for one in path]
    places = [str(local_path(one)) for one in paths]
    return Run(source_of(places), ", ".join(places))


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
"""The first bytes of a Parquet file."""
_PATTERN = frozenset("*?[")


def source_of(paths: Sequence[str]) -> Source:
    """Return the source for some paths.

    Raises:
        UsageError: nothing readable was found, or files of several kinds.
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
    """Return the files that a path or pattern stands for."""
    if Path(path).exists() or not _PATTERN & set(path):
        return [path]
    files = sorted(glob.glob(path, recursive=True))
    if not files:
        raise UsageError(f"{path} matches no file: expected a pattern of existing files; check it")
    return files


def _kind(path: str) -> str:
    place = Path(path)
    if place.is_dir():
        return "folder"
    if not place.exists():
        raise UsageError(f"{path} is not there: expected a store, a log or a folder of Parquet files; check its name")
    if is_written(place):
        if not is_database(place):
            raise UsageError(f"{path} is a store that is just being created: expected one with records; open it later")
        return "store"
    if path.endswith(".parquet"):
        return "parquet"
    if path.endswith(_UNREAD):
        raise UsageError(f"{path} has an unknown compression: expected .jsonl, .jsonl.gz or .jsonl.zst; decompress it")
    if is_database(place):
        return "store"
    return "parquet" if _is_parquet(place) else "log"


def _is_parquet(place: Path) -> bool:
    """Return whether a file starts like a Parquet file."""
    if not place.is_file():
        return False
    try:
        with place.open("rb") as file:
            return file.read(len(_PARQUET)) == _PARQUET
    except OSError as error:
        raise UsageError(f"{place} cannot be read: {error.strerror}; check its name and permissions") from error


class _Rows(Protocol):
    def limit(self, rows: int, /) -> object: ...


def shown(relation: _Rows) -> str:
    """Return a relation as text; only its first rows, or none, if all of them need too much memory."""
    from duckdb import OutOfMemoryException

    rest = f"all rows need more than {MORE_MEMORY[-1]} of memory; select some columns with `.project()`\n"
    for part in (relation, relation.limit(_FEW), relation.limit(1)):
        with suppress(OutOfMemoryException):
            return str(part) if part is relation else f"{part}\nonly the first rows are shown: {rest}"
    return f"no row is shown: {rest}"


def _display_inert() -> None:
    """Have IPython and notebooks display relations without characters that act on a terminal, hide or turn the line."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    if shell is not None:
        from duckdb import DuckDBPyRelation

        def display(relation: _Rows, printer: Any, cycle: bool) -> None:
            printer.text(inert(shown(relation)))

        shell.display_formatter.formatters["text/plain"].for_type(DuckDBPyRelation, display)
