"""The walls around a connection that strangers may ask. All but one hold even if a query got past the judge.

files       none can be opened but those of the run; none at all be written but in the room's own temporary folder.
            `sqlite_scan` and its like open SQLite files past this setting: those the judge alone refuses
extensions  none can be loaded or installed; there is no network without one
settings    locked, these walls among them
memory      of the engine as `ENGINE` says; of the whole process as `PROCESS_BYTES` says: lists and texts that a
            function makes are not counted by the engine
disk        what does not fit into memory takes at most `TEMPORARY` there
"""

from __future__ import annotations

import glob
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.sources.duckdb_session import quoted
from orchestrator.analysis.sql.sql_columns import about

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PROCESS_BYTES = 1 << 30
"""A query whose functions need more is ended."""
ENGINE = "512MB"
"""Measured: enough to sort a log of 1,000,000 steps, 500 MB, by what is in it."""
TEMPORARY = "2GB"


def wall_in(run: Run, paths: Sequence[str], temporary: str) -> DuckDBPyConnection:
    """Put the walls up around the connection of a run, for good, and return it.

    Args:
        paths: what was opened: files, folders, patterns.
        temporary: a folder that is there, and nobody else's.
    """
    db = run.db
    db.execute(f"CREATE VIEW views AS {about()}")
    files, folders = _readable(paths)
    db.execute("SET errors_as_json = true")
    db.execute(f"SET memory_limit = {quoted(ENGINE)}")
    db.execute(f"SET temp_directory = {quoted(temporary)}")
    db.execute(f"SET max_temp_directory_size = {quoted(TEMPORARY)}")
    db.execute(f"SET allowed_paths = [{', '.join(map(quoted, files))}]")
    db.execute(f"SET allowed_directories = [{', '.join(map(quoted, folders))}]")
    for setting in _OFF:
        db.execute(f"SET {setting} = false")
    db.execute("SET enable_external_access = false")
    db.execute("SET lock_configuration = true")
    return db


_OFF = ("python_enable_replacements", "python_scan_all_frames", "allow_community_extensions", "allow_persistent_secrets")


def _readable(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files and the folders that the views of a run read."""
    files: list[str] = []
    folders: list[str] = []
    for path in paths:
        if Path(path).is_dir():
            folders.append(path)
        else:
            files += [path] if Path(path).exists() else glob.glob(path, recursive=True)
    return files, folders


def bound_this_process() -> None:
    """Bound the memory of this process, and have it leave no picture of it behind. Only Linux keeps to the first."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = PROCESS_BYTES if hard == resource.RLIM_INFINITY else min(PROCESS_BYTES, hard)
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
