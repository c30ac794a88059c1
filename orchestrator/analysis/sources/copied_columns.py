"""A copy of a large store's records in columns, from which DuckDB answers: Parquet files in the temporary folder of a run.

DuckDB reads a SQLite file with one thread, and takes ten times as long for a JSON body in it as for one in Parquet. So several
processes (`column_process.py`) each copy a range of `seq`, with the parts of the steps' bodies that the questions need:

(none)      who made each step, and when
work        `took_us` and `consumed`
results     what ready-made harnesses record, in `input`, `output` and `delta`
loops       checksums of the outputs

The bodies of all other records are copied whole. Invariants: the copy is made anew for each run that is opened, so it is never
older than the run; it holds what the store holds, in a folder that only its owner can read, and is removed with the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL

import msgspec
from attrs import frozen

from orchestrator.analysis.sources.duckdb_session import quoted
from orchestrator.analysis.sources.source_reading import RECORD, among, from_body, is_text, listed

LEAST = 20_000
"""Minimum number of records for a copy: for fewer, starting a process takes longer than reading them as they are."""
SHARE = 25_000
"""Minimum number of records for a process."""
_MOST_PROCESSES = 8
STEP_FIELDS = frozenset({"input", "output", "delta", "summary", "ticks", "governance", "took_us", "consumed"})
"""All fields that the body of a step can have; others are not searched for."""
_BOOT = """
import json, sys
boot = json.loads(sys.argv[1])
sys.path[:] = boot["path"]
from orchestrator.analysis.sources.column_process import copy
copy(boot)
"""


@frozen
class Columns:
    """A finished copy."""

    files: tuple[str, ...]
    parts: frozenset[str]

    def records(self, which: str) -> str:
        """Return a query for `RECORD` of some records."""
        return f"SELECT {listed(RECORD)} FROM {self._files} WHERE {which}"

    def holds(self, kinds: Sequence[str], fields: Mapping[str, str]) -> bool:
        """Return whether it has these fields of the bodies of records whole."""
        held = frozenset(("took_us", "consumed")) if "work" in self.parts else frozenset[str]()
        return "step" not in kinds or (fields.keys() & STEP_FIELDS) <= held

    def own(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        """Return a query for `RECORD` and fields of the bodies."""
        return f"SELECT {listed((*RECORD, *fields))} FROM ({self._read(kinds, fields)})"

    def bodies(self, which: str) -> str:
        """Return a query for `RECORD` and the body of records other than steps."""
        return (
            f"SELECT {listed(RECORD)}, json(coalesce(clean, body)) AS body FROM {self._files} WHERE kind <> 'step' AND {which}"
        )

    def loops(self) -> str:
        """Return a query for the checksums of outputs, and whether a step has changed nothing."""
        return f"SELECT {listed(RECORD)}, same, \"similar\", is_unchanged FROM {self._files} WHERE kind = 'step'"

    @property
    def _files(self) -> str:
        return f"read_parquet([{', '.join(map(quoted, self.files))}])"

    def _read(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        has_text = any(map(is_text, fields.values()))
        text = "coalesce(clean, body) AS text" if has_text else "NULL::VARCHAR AS text"
        rows = f"SELECT *, {text} FROM {self._files} WHERE kind IN ({among(kinds)})"
        return f"SELECT *{from_body(fields, numbers='body', texts='text')} FROM ({rows})"


def copy_records(path: Path, first: int, last: int, parts: frozenset[str], folder: Path) -> Columns | None:
    """Copy the records of a store, `first` to `last`; return None if a process has failed, and everything is read as it is."""
    if "results" in parts:
        parts |= {"work"}
    processes = max(1, min(len(os.sched_getaffinity(0)), _MOST_PROCESSES, (last - first + 1) // SHARE))
    bounds = [first + (last - first + 1) * place // processes for place in range(processes + 1)]
    name = "-".join(("columns", *sorted(parts)))
    files = tuple(str(folder / f"{name}-{place}.parquet") for place in range(processes))
    boots = [
        {"path": sys.path, "store": str(path), "first": begin, "last": end - 1, "parts": sorted(parts), "file": file}
        for begin, end, file in zip(bounds, bounds[1:], files, strict=False)
    ]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for boot in boots:
            words = [sys.executable, "-I", "-c", _BOOT, msgspec.json.encode(boot).decode()]
            running.append(subprocess.Popen(words, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL))
        is_whole = not any(process.wait() for process in running)
    except OSError:
        is_whole = False
    finally:
        for process in running:
            process.kill()
            process.wait()
    return Columns(files, parts) if is_whole else None
