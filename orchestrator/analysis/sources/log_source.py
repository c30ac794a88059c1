"""A run read from its log: JSON lines written by `orchestrator.log`, in one file or many, plain or compressed.

Invariants: a record counts once, by its `seq`; invalid lines are left out and named by `bad_lines`; lines appended after
opening are not read. The engine counts invalid lines in one fast pass; only if there are any, a second pass examines each
line.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import msgspec
from attrs import frozen

from orchestrator.analysis.sources.duckdb_session import named, quoted
from orchestrator.analysis.sources.source_reading import RECORD, TYPES, among, kind_of
from orchestrator.analysis.sources.source_survey import COMPRESSED, LONGEST, Group, Survey, glance, survey
from orchestrator.events import stored_kinds
from orchestrator.records import FIRST_HEADER, HEADER
from orchestrator.text.log_line import ATTACHED, PREFIX, RENAMED, SCHEMA, record_of
from orchestrator.text.terminal_text import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


_PREFIX = PREFIX
_KIND = kind_of(f"substr(event, {len(_PREFIX) + 1})")
_HEAD = {name: TYPES[name] for name in RECORD if name != "kind"} | {"event": "VARCHAR"}
_CLASHING = '"(' + "|".join(HEADER) + ')_+":'
"""Matches JSON with field names to which an underscore may have been appended."""
_OTHER_NAMES = among([f"{PREFIX}{kind}" for kind in (*ATTACHED, *RENAMED)])
"""Events whose lines are not the bodies of their records with a header."""
_WRITER = ',"service":"[^"]*","host":"[^"]*"'
"""Matches the name of the program that wrote a line, and its machine: of one record they may differ."""
_IS_CURRENT = f"coalesce(json_extract(json, '$.schema')::VARCHAR = '{SCHEMA}' AND json_exists(json, '$.service'), false)"


def _without(header: Sequence[str]) -> str:
    return "json_merge_patch(json, json_object(" + ", ".join(f"'{name}', NULL" for name in header) + "))"


_NO_HEAD = f"CASE WHEN {_IS_CURRENT} THEN {_without(HEADER)} ELSE {_without(FIRST_HEADER)} END"
_HEAD_OF = quoted("{" + ", ".join(f'"{name}": "{type}"' for name, type in _HEAD.items()) + "}")


class LogSource:
    """JSON lines.

    Args:
        paths: paths of the files.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._db: DuckDBPyConnection | None = None
        self._sizes: dict[str, int] = {}
        self._likely: Survey | None = None
        self._known: Survey | None = None
        self._swept = Survey(())

    def prepare(self, db: DuckDBPyConnection) -> None:
        """Determine what the files contain; see `survey`.

        Raises:
            UsageError: see `survey`.
        """
        self._db = db
        self._likely, self._sizes = glance(self._paths)
        if self._likely is None:
            self._look()

    @property
    def survey(self) -> Survey:
        """What is known of the files; they are read if necessary.

        Raises:
            UsageError: see `survey`.
        """
        return self._known or self._look()

    def _look(self, *, is_doubtful: bool = False) -> Survey:
        assert self._db is not None
        self._known = survey(self._db, self._paths, self._sizes, is_doubtful=is_doubtful)
        return self._known

    def own(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        return self._own(self.survey, kinds, fields)

    def results(self, fields: Mapping[str, str]) -> str:
        return self.own(("step",), fields)

    def sweep(self, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        self._swept = self._known or self._likely or self.survey
        return self._own(self._swept, kinds, fields)

    def stands(self, swept: tuple[int, int] | None) -> bool:
        if swept is not None and self._swept.expected in (None, swept):
            return True
        if self._swept.expected is not None:
            self._look(is_doubtful=swept is not None)
        return False

    def _own(self, survey: Survey, kinds: Sequence[str], fields: Mapping[str, str]) -> str:
        kinds = stored_kinds(kinds)
        read, values = _HEAD | dict(fields), dict[str, str]()
        for name, type in fields.items():
            values[name] = _value_of(name, type, kinds, read)
        columns = ", ".join(f"{quoted(name)}: {quoted(type)}" for name, type in read.items())
        one, others = f"{_PREFIX}{kinds[0]}", among([f"{_PREFIX}{kind}" for kind in kinds[1:]])
        # Nearly all lines are of one kind; comparing each with a list of many would take a tenth of the total time.
        which = f"(event = '{one}' OR event IN ({others}))" if others else f"event = '{one}'"
        listed = "".join(f", {value} AS {named(name)}" for name, value in values.items())
        return _once(
            survey,
            lambda group: (
                f"""
                SELECT seq, "timestamp", run, harness, attempt, step, {_KIND} AS kind{listed}
                FROM read_json({group.files}, format = 'newline_delimited', records = true, columns = {{{columns}}})
                WHERE {which} AND {group.bound}
            """
            ),
        )

    def but(self, kinds: Sequence[str]) -> str:
        kinds = stored_kinds(kinds)
        head = ", ".join(f"head.{named(name)} AS {named(name)}" for name in _HEAD)
        # The beginning of lines of these kinds as this program writes them, so that they are skipped without parsing.
        begin = f'^{{"timestamp":"[^"]*","level":"[^"]*","event":"{_PREFIX}({"|".join(kinds)})"'
        which = f"NOT regexp_matches(json, {quoted(begin)})" if kinds else "true"
        left_out = f"AND event NOT IN ({among([f'{_PREFIX}{kind}' for kind in kinds])})" if kinds else ""
        return _once(
            self.survey,
            lambda group: (
                f"""
                SELECT seq, "timestamp", run, harness, attempt, step, {_KIND} AS kind,
                       CASE WHEN regexp_matches(own, {quoted(_CLASHING)}) OR (event IN ({_OTHER_NAMES}) AND is_current)
                            THEN json(line_bodies(json)) ELSE own END AS body
                FROM (SELECT {head}, own, json, is_current FROM (
                    SELECT json, {_valid(_IS_CURRENT)} AS is_current,
                           {_valid(f"json_transform(json, {_HEAD_OF})")} AS head, {_valid(_NO_HEAD)} AS own
                    FROM read_ndjson_objects({group.files}) WHERE {which}
                )) WHERE starts_with(event, '{_PREFIX}') AND {group.bound} {left_out}
            """
            ),
        )

    def close(self) -> None:
        """Do nothing: a log holds no resources."""


def _value_of(name: str, type: str, kinds: Sequence[str], read: dict[str, str]) -> str:
    """Return the SQL for a field of a record, whichever version wrote the line; add the columns that it needs to `read`."""
    if name in HEADER and name not in FIRST_HEADER:
        read |= {name: "JSON", f"{name}_": type, "schema": "JSON"}
        return f"CASE WHEN \"schema\"::VARCHAR = '{SCHEMA}' THEN {named(f'{name}_')} ELSE {named(name)}::{type} END"
    names = dict.fromkeys(RENAMED[kind][name] for kind in kinds if name in RENAMED.get(kind, {}))
    read |= dict.fromkeys(names, type)
    return f"coalesce({', '.join(map(named, (*names, name)))})" if names else named(name)


def _once(survey: Survey, query: Callable[[Group], str]) -> str:
    """Return a query over all files that has each record once: the one written last."""
    every = " UNION ALL ".join(map(query, survey.groups))
    if not survey.is_doubled:
        return every
    return f"""
        SELECT * FROM ({every})
        QUALIFY row_number() OVER (PARTITION BY seq ORDER BY "timestamp" DESC, run DESC, kind DESC, harness DESC) = 1
    """


def _valid(expression: str) -> str:
    """Return an expression over a line that is NULL for invalid JSON, which would otherwise fail the whole query."""
    return f"CASE WHEN json_valid(json) THEN {expression} END"


MOST = 100
"""Limit on the bad lines that are named."""
_WIDTH = 160
_CHUNK = 1 << 20
_CUT = (EOFError, zlib.error, OSError)
"""Errors raised where a compressed file is truncated or damaged."""


@frozen
class BadLine:
    """A line that could not be used."""

    file: str
    line: int
    """Number of the line, from 1."""
    problem: str
    """Description on one line, without secrets."""

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
            problem, torn = "is where the compressed file is truncated: everything after it is lost", False
        if problem is not None and not torn:
            found.append(BadLine(path, number, one_line(problem, _WIDTH)))
            if len(found) >= MOST:
                break
    return tuple(found)


def count_bad_lines(db: DuckDBPyConnection, survey: Survey) -> int:
    """Return the number of invalid lines, including incomplete ones."""
    parts = " UNION ALL ".join(map(_unreadable, survey.groups))
    return int((db.execute(f"SELECT coalesce(sum(bad), 0) FROM ({parts})").fetchone() or (0,))[0])


def _unreadable(group: Group) -> str:
    return f"""
        SELECT count(*) FILTER (seq IS NULL OR event IS NULL OR NOT starts_with(event, '{_PREFIX}')) AS bad
        FROM read_json({group.files}, format = 'newline_delimited', records = true,
                       columns = {{'seq': 'BIGINT', 'event': 'VARCHAR'}})
    """


def _told_twice(db: DuckDBPyConnection, survey: Survey) -> set[int]:
    """Return the first `seq`s that several lines describe differently."""
    parts = " UNION ALL ".join(
        f"SELECT TRY_CAST(TRY(json_extract_string(json, '$.seq')) AS BIGINT) AS seq, "
        f"hash(regexp_replace(json, '{_WRITER}', '')) AS told "
        f"FROM read_ndjson_objects({group.files})"
        for group in survey.groups
    )
    rows = db.execute(
        f"SELECT seq FROM ({parts}) WHERE seq IS NOT NULL GROUP BY seq "
        f"HAVING count(DISTINCT told) > 1 ORDER BY seq LIMIT {MOST}"
    ).fetchall()
    return {seq for (seq,) in rows}


def _problem(line: bytes) -> str | None:
    """Return what is wrong with a line; None for a valid or empty one."""
    if not line.strip():
        return None
    try:
        fields: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"is not JSON: {error}"
    if not isinstance(fields, dict):
        return f"is not an object, but {line.decode(errors='replace')[:40]}"
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
    """Return what is wrong with a line that contradicts an earlier line of the same `seq`."""
    seq = msgspec.json.decode(line)["seq"] if line.strip() else None
    if seq not in doubled:
        return None
    told = re.sub(_WRITER.encode(), b"", line.rstrip())
    other = seen.setdefault(seq, (path, number, told))
    if other[2] == told:
        return None
    return f"describes seq {seq} differently than {other[0]}:{other[1]}"


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
    """Return the next line, empty where a compressed file is truncated."""
    try:
        return file.readline(LONGEST)
    except _CUT:
        return b""


def _is_cut(path: str) -> bool:
    """Return whether a compressed file is truncated or damaged."""
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
