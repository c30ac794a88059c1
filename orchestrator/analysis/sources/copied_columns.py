"""A copy of a store's records in columns, from which DuckDB answers: Parquet files, made by several processes.

DuckDB reads a SQLite file with one thread, and takes ten times as long for a JSON body in it as for a column in Parquet. So
processes (`column_process.py`) each copy a range of `seq`: the steps with the parts of their bodies that the questions need,
and all other records whole. `store_summary.py` keeps copies for the next time.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from subprocess import DEVNULL

import msgspec
from attrs import asdict, frozen

from harnesses.processes.cores import usable_cores
from harnesses.processes.helper_process import helper_command
from orchestrator.analysis.sources.duckdb_session import named, quoted
from orchestrator.analysis.sources.source_reading import RECORD, among, from_body, is_text, listed, structure_of
from orchestrator.errors import StoreError

LEAST = 20_000
"""Minimum number of records for a copy: for fewer, starting a process takes longer than reading them as they are."""
SHARE = 25_000
"""Minimum number of records for a process."""
FEW = 5_000
"""Number of records up to which no process is started."""
_MOST_PROCESSES = 8
STEP_FIELDS = frozenset({"input", "output", "delta", "summary", "ticks", "governance", "took_us", "consumed"})
"""All fields that the body of a step can have; others are not searched for."""
_HELD = frozenset({"took_us", "consumed"})
"""Those that the columns have whole."""
_STEP = "'step' AS kind"


@frozen
class Range:
    """The copy of the records `first` to `last`: a file of steps, and one of the others."""

    first: int
    last: int
    steps: str
    others: str


@frozen
class Columns:
    """A copy of all records that a run has."""

    ranges: tuple[Range, ...]
    last_seq: int
    """Later records are not read."""

    def holds(self, kinds: Sequence[str], fields: Mapping[str, str]) -> bool:
        """Return whether it has these fields of the bodies of records whole."""
        return "step" not in kinds or (fields.keys() & STEP_FIELDS) <= _HELD

    def own(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        """Return a query for `RECORD` and fields of the bodies."""
        read: list[str] = []
        if "step" in kinds:
            columns = ", ".join(f"{_column(name, type)} AS {named(name)}" for name, type in fields.items())
            read.append(f"SELECT {self._head}{', ' * bool(columns)}{columns} FROM {self._steps}")
        read.append(self._others(f"kind IN ({among(kinds)})", fields))
        return " UNION ALL ".join(read)

    def results(self, fields: Mapping[str, str], which: str = "true") -> str:
        """Return a query for `RECORD` and fields of the steps, as `Source.results`.

        Args:
            which: condition on the columns; steps that have none are all among the result.
        """
        columns = ", ".join(
            f"{named(name) if name in ('input', 'output', 'delta') else _column(name, type)} AS {named(name)}"
            for name, type in fields.items()
        )
        rest = self._others("kind = 'step'", fields, as_text=True)
        return f"SELECT {self._head}, {columns} FROM {self._steps} WHERE {which} UNION ALL {rest}"

    def typed(self, columns: str, which: str) -> str:
        """Return a query for columns of steps, see `step_columns`."""
        return f"SELECT {self._head}, {columns} FROM {self._steps} WHERE {which}"

    def bodies(self, which: str) -> str:
        """Return a query for `RECORD` and the body of records other than steps."""
        body = "json(coalesce(clean, body)) AS body"
        return f"SELECT {listed(RECORD)}, {body} FROM {self._rest} WHERE kind <> 'step' AND {which}"

    def loops(self) -> str:
        """Return a query for the fingerprints of steps, and whether a step has changed nothing."""
        marks = "same, is_unchanged"
        return f"""
            SELECT {self._head}, {marks} FROM {self._steps}
            UNION ALL SELECT {listed(RECORD)}, {marks} FROM {self._rest} WHERE kind = 'step'
        """

    @property
    def _head(self) -> str:
        return ", ".join(_STEP if name == "kind" else named(name) for name in RECORD)

    @property
    def _steps(self) -> str:
        return self._read([one.steps for one in self.ranges])

    @property
    def _rest(self) -> str:
        return self._read([one.others for one in self.ranges])

    def _read(self, files: Sequence[str]) -> str:
        read = f"read_parquet([{', '.join(map(quoted, files))}])"
        has_later = any(one.last > self.last_seq for one in self.ranges)
        return f"(SELECT * FROM {read} WHERE seq <= {self.last_seq})" if has_later else read

    def _others(self, which: str, fields: Mapping[str, str], *, as_text: bool = False) -> str:
        text = "coalesce(clean, body) AS text" if any(map(is_text, fields.values())) else "NULL::VARCHAR AS text"
        read = from_body(fields, numbers="body", texts="text")
        casts = ", ".join(
            f"{named(name)}::VARCHAR AS {named(name)}" if as_text and type == "JSON" else named(name)
            for name, type in fields.items()
        )
        rows = f"SELECT *{read} FROM (SELECT * EXCLUDE (clean), {text} FROM {self._rest} WHERE {which})"
        return f"SELECT {listed(RECORD)}{', ' * bool(casts)}{casts} FROM ({rows})"


def _column(name: str, type: str) -> str:
    """Return the SQL for a field of a step, of this type."""
    if name == "took_us":
        parts = msgspec.json.decode(structure_of(type), type=dict[str, str])
        made = ", ".join(f"{quoted(part)}: {named(part)}" for part in parts)
        return f"CASE WHEN is_timed THEN {{{made}}} END"
    return name if name == "consumed" else f"NULL::{type}"


def copy_records(path: Path, first: int, last: int, folder: Path, name: str) -> tuple[Range, ...] | None:
    """Copy the records of a store, `first` to `last`, into new files; return None if a process has failed.

    Args:
        name: what the names of the files begin with.
    """
    count = last - first + 1
    processes = max(1, min(usable_cores(), _MOST_PROCESSES, count // SHARE))
    bounds = [first + count * place // processes for place in range(processes + 1)]
    ranges = tuple(
        Range(begin, end - 1, *(str(folder / f"{name}-{begin}-{kind}.parquet") for kind in ("steps", "others")))
        for begin, end in pairwise(bounds)
    )
    if count <= FEW:
        return ranges if _is_copied(path, ranges) else None
    running: list[subprocess.Popen[bytes]] = []
    try:
        for one in ranges:
            asked = msgspec.json.encode({"store": str(path), **asdict(one)}).decode()
            words = helper_command("orchestrator.analysis.sources.column_process:copy_alone", asked)
            running.append(subprocess.Popen(words, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL))
        is_whole = not any(process.wait() for process in running)
    except OSError:
        is_whole = False
    finally:
        for process in running:
            process.kill()
            process.wait()
    return ranges if is_whole else None


def _is_copied(path: Path, ranges: Sequence[Range]) -> bool:
    from orchestrator.analysis.sources.column_process import copy

    try:
        for one in ranges:
            copy(path, one.first, one.last, one.steps, one.others)
    except (StoreError, OSError, ValueError):
        return False
    return True
