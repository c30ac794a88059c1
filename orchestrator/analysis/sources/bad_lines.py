"""The lines of a log that could not be used: which they are, and what is wrong with them.

The engine counts them, in one fast pass. Only if there are any, a second pass looks at each line for itself.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import msgspec
from attrs import frozen

from orchestrator.analysis.sources.source_survey import COMPRESSED, LONGEST, Group, Survey
from orchestrator.log import record_of
from orchestrator.text.terminal_text import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST = 100
"""Bad lines that are named."""
_WIDTH = 160
_PREFIX = "harness."
_CHUNK = 1 << 20
_CUT = (EOFError, zlib.error, OSError)
"""What is raised where a packed file ends before its end, or is damaged."""


@frozen
class BadLine:
    """A line that could not be used."""

    file: str
    line: int
    """From 1."""
    problem: str
    """On one line, without secrets."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}"


def find_bad_lines(db: DuckDBPyConnection, survey: Survey) -> tuple[BadLine, ...]:
    """Return the first `MOST` bad lines."""
    cut = {path for group in survey.groups for path in group.paths if path.endswith(COMPRESSED) and _is_cut(path)}
    if count_bad_lines(db, survey) <= survey.torn and not survey.is_doubled and not cut:
        return ()
    doubled = _told_twice(db, survey) if survey.is_doubled else set[int]()
    found: list[BadLine] = []
    seen: dict[int, tuple[str, int, bytes]] = {}
    for path, number, line, is_last in _lines(survey):
        problem = _problem(line)
        if problem is None and doubled:
            problem = _contradiction(line, doubled, seen, path, number)
        torn = is_last and not line.endswith(b"\n")
        if is_last and path in cut:
            problem, torn = "is where the packed file is torn: what comes after it is lost", False
        if problem is not None and not torn:
            found.append(BadLine(path, number, one_line(problem, _WIDTH)))
            if len(found) >= MOST:
                break
    return tuple(found)


def count_bad_lines(db: DuckDBPyConnection, survey: Survey) -> int:
    """Return how many lines are none of ours, those included that are not written to their end."""
    parts = " UNION ALL ".join(map(_unreadable, survey.groups))
    return int((db.execute(f"SELECT coalesce(sum(bad), 0) FROM ({parts})").fetchone() or (0,))[0])


def _unreadable(group: Group) -> str:
    return f"""
        SELECT count(*) FILTER (seq IS NULL OR event IS NULL OR NOT starts_with(event, '{_PREFIX}')) AS bad
        FROM read_json({group.files}, format = 'newline_delimited', records = true,
                       columns = {{'seq': 'BIGINT', 'event': 'VARCHAR'}})
    """


def _told_twice(db: DuckDBPyConnection, survey: Survey) -> set[int]:
    """Return the first `seq`s of which lines tell different things."""
    parts = " UNION ALL ".join(
        f"SELECT TRY_CAST(TRY(json_extract_string(json, '$.seq')) AS BIGINT) AS seq, hash(json) AS told "
        f"FROM read_ndjson_objects({group.files})"
        for group in survey.groups
    )
    rows = db.execute(
        f"SELECT seq FROM ({parts}) WHERE seq IS NOT NULL GROUP BY seq "
        f"HAVING count(DISTINCT told) > 1 ORDER BY seq LIMIT {MOST}"
    ).fetchall()
    return {seq for (seq,) in rows}


def _problem(line: bytes) -> str | None:
    """Return what is wrong with a line, None if nothing is, or nothing is on it."""
    if not line.strip():
        return None
    try:
        fields: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"is not JSON: {error}"
    if not isinstance(fields, dict):
        return f"is no object, but {line.decode(errors='replace')[:40]}"
    fields = cast("dict[str, Any]", fields)
    event: Any = fields.get("event")
    if not isinstance(event, str) or not event.startswith(_PREFIX):
        return f"is not ours: its event is {event!r:.60}"
    try:
        record_of(fields)
    except ValueError as error:
        return f"is {error}"
    return None


def _contradiction(
    line: bytes, doubled: set[int], seen: dict[int, tuple[str, int, bytes]], path: str, number: int
) -> str | None:
    """Return what is wrong with a line that tells otherwise of what another has told of."""
    seq = msgspec.json.decode(line)["seq"] if line.strip() else None
    if seq not in doubled:
        return None
    other = seen.setdefault(seq, (path, number, line.rstrip()))
    if other[2] == line.rstrip():
        return None
    return f"tells of seq {seq} otherwise than {other[0]}:{other[1]}"


def _lines(survey: Survey) -> Iterator[tuple[str, int, bytes, bool]]:
    """Yield file, number and text of every line, and whether it is the last of its file."""
    for path in (path for group in survey.groups for path in group.paths):
        with closing(_opened(path)) as file:
            number, line = 0, b""
            while after := _next(file):
                if number:
                    yield path, number, line, False
                number, line = number + 1, after
            if line or path.endswith(COMPRESSED):
                yield path, max(number, 1), line, True


def _next(file: BinaryIO) -> bytes:
    """Return the next line, nothing where a packed file is torn."""
    try:
        return file.readline(LONGEST)
    except _CUT:
        return b""


def _is_cut(path: str) -> bool:
    """Return whether a packed file ends before its end, or is damaged."""
    with closing(_opened(path)) as file:
        try:
            while file.read(_CHUNK):
                pass
        except _CUT:
            return True
    return False


def _opened(path: str) -> BinaryIO:
    if path.endswith(".gz"):
        return gzip.open(path)  # type: ignore[return-value]
    if path.endswith(".zst"):
        arrow: Any = import_module("pyarrow")
        return io.BufferedReader(arrow.input_stream(path, compression="zstd"))
    return open(path, "rb")
