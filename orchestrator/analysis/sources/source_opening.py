"""Which source a path, or several, stand for."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from orchestrator.analysis.sources.log_source import LogSource
from orchestrator.analysis.sources.parquet_source import ParquetSource
from orchestrator.analysis.sources.source_reading import Source
from orchestrator.analysis.sources.store_source import StoreSource
from orchestrator.errors import UsageError
from orchestrator.store.file.open_files import is_beside_store, is_written
from orchestrator.store.sqlite.sqlite_file import is_database

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
            raise UsageError(f"{file} belongs to a store that lies beside it: expected the store itself; name that alone")
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
