"""A survey of the files of a log before any query, without parsing their lines.

Invariant: in a regular log each record has one line, in order; the number of lines and the first and last `seq` show that, at
the speed of reading. Only where it does not hold, every line is examined. Before a query over the whole of a long log, a
glance at the ends of the files is enough, and the result of the query shows whether the log was regular.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

import msgspec
from attrs import evolve, frozen

from orchestrator.analysis.sources.duckdb_session import USUAL, make_room, quoted
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COMPRESSED = (".gz", ".zst")
LONGEST = 256 << 20
"""Limit on the length of a line, bytes."""
AT_ONCE = 16 << 20
"""Total size in bytes up to which files are read completely on opening."""
_CHUNK = 1 << 20
_TAIL = 1 << 20


class _Seq(msgspec.Struct):
    seq: int


_SEQ = msgspec.json.Decoder(_Seq)


@frozen
class File:
    """An uncompressed file."""

    path: str
    lines: int | None
    """Number of line feeds; None if they were not counted."""
    first: int | None
    """The `seq` of the first line, None if it has none."""
    last: int | None
    """The `seq` of the last complete line that has one; later lines are not included."""
    longest: int
    """Upper bound on the length of a line, bytes; 0 if unknown."""
    size: int
    """Size in bytes; later data is not included."""
    is_torn: bool
    """Whether it does not end with a line feed."""

    @property
    def is_plain(self) -> bool:
        """Whether `seq` grows by one from line to line."""
        return self.first is not None and self.last is not None and self.lines in (None, self.last - self.first + 1)


@frozen
class Group:
    """Files that are read in one call."""

    paths: tuple[str, ...]
    last_seq: int | None = None
    """Later records are left out."""
    longest: int = USUAL

    @property
    def files(self) -> str:
        """Arguments for DuckDB's readers."""
        listed = ", ".join(map(quoted, self.paths))
        return f"[{listed}], ignore_errors = true, maximum_object_size = {self.longest}"

    @property
    def bound(self) -> str:
        """SQL condition for a line to count."""
        return "seq IS NOT NULL" if self.last_seq is None else f"seq <= {self.last_seq}"


@frozen
class Survey:
    """What is known of the files of a log."""

    groups: tuple[Group, ...]
    torn: int = 0
    """Number of files that do not end with a line feed."""
    is_doubled: bool = False
    """Whether there are lines with the same `seq`."""
    expected: tuple[int, int] | None = None
    """Number of records and the sum of their `seq`, if only the ends of the files were read; the survey is then valid only for
    a sweep with the same result.
    """


def glance(paths: Sequence[str]) -> tuple[Survey | None, dict[str, int]]:
    """Read the ends of the files; return the likely survey, None if they must be read completely, and their sizes by path.

    Raises:
        UsageError: one cannot be read.
    """
    files = [_look(path, _looked_at_ends) for path in paths if not path.endswith(COMPRESSED)]
    sizes = {file.path: file.size for file in files}
    spans = [(file.first, file.last) for file in files if file.size]
    if len(files) < len(paths) or sum(sizes.values()) <= AT_ONCE or not _in_turn(files):
        return None, sizes
    counts = [(last - first + 1, first + last) for first, last in spans if first is not None and last is not None]
    expected = sum(count for count, _ in counts), sum(count * ends // 2 for count, ends in counts)
    group = Group(tuple(file.path for file in files), max(last for _, last in spans if last is not None))
    return Survey((group,), sum(file.is_torn for file in files), expected=expected), sizes


def survey(db: DuckDBPyConnection, paths: Sequence[str], sizes: Mapping[str, int], *, is_doubtful: bool = False) -> Survey:
    """Survey the files, up to their sizes at the time of the glance.

    Args:
        is_doubtful: whether to examine each line even if their number is right.

    Raises:
        UsageError: one cannot be read, has a line that is too long, or they belong to several stores.
    """
    files = [look(path, sizes[path]) for path in paths if not path.endswith(COMPRESSED)]
    packed = tuple(path for path in paths if path.endswith(COMPRESSED))
    groups: list[Group] = []
    if files:
        last = max((file.last for file in files if file.last is not None), default=None)
        longest = max(USUAL, *(file.longest for file in files))
        make_room(db, longest)
        groups.append(Group(tuple(file.path for file in files), last, longest))
    if packed:
        groups.append(Group(packed, longest=_longest_of(db, packed)))
    told = Survey(tuple(groups), sum(file.is_torn for file in files))
    if not packed and not is_doubtful and _in_turn(files):
        return told
    count, distinct = db.execute(f"SELECT count(*), count(DISTINCT seq) FROM ({_seqs(groups)})").fetchone() or (0, 0)
    if count == distinct:
        return told
    _check_one_store(db, groups)
    return Survey(tuple(groups), told.torn, is_doubled=True)


def look(path: str, size: int) -> File:
    """Read a file up to a size: count its lines, and parse only the first and the last.

    Raises:
        UsageError: it cannot be read, or has a line that is too long.
    """
    return _look(path, lambda path, file: _looked_at(path, file, size))


def _look(path: str, how: Callable[[str, BinaryIO], File]) -> File:
    try:
        with open(path, "rb", buffering=0) as file:
            return how(path, file)
    except OSError as error:
        raise UsageError(f"log {path} cannot be read: {error.strerror}; check its name and permissions") from error


def _looked_at(path: str, file: BinaryIO, upto: int) -> File:
    lines = size = longest = since = 0
    while size < upto and (chunk := file.read(min(_CHUNK, upto - size))):
        found = chunk.count(b"\n")
        if not found:
            since += len(chunk)
        else:
            longest = max(longest, since + len(chunk))
            since = len(chunk)
        if max(since, longest) > LONGEST:
            raise UsageError(
                f"log {path} has a line of more than {LONGEST:,} bytes near byte {size:,}: expected lines of a log; remove it"
            )
        lines += found
        size += len(chunk)
    ends = _looked_at_ends(path, file, size)
    return evolve(ends, lines=lines, longest=max(longest, since))


def _looked_at_ends(path: str, file: BinaryIO, upto: int | None = None) -> File:
    """Parse the first and the last line of a file, up to a size or its end."""
    size = file.seek(0, os.SEEK_END) if upto is None else upto
    if not size:
        return File(path, 0, None, None, 0, 0, is_torn=False)
    file.seek(0)
    first = _seq_of((file.read(min(size, _TAIL)) or b"").partition(b"\n")[0])
    file.seek(max(0, size - _TAIL))
    tail = file.read(min(size, _TAIL)) or b""
    whole = tail[: tail.rfind(b"\n") + 1].splitlines()
    last = next((seq for line in reversed(whole) if (seq := _seq_of(line)) is not None), None)
    # If the first line is too long to be parsed here, every line is examined.
    return File(path, None, first, last, 0, size, is_torn=not tail.endswith(b"\n"))


def _seq_of(line: bytes) -> int | None:
    try:
        return _SEQ.decode(line).seq
    except msgspec.DecodeError:
        return None


def _in_turn(files: Iterable[File]) -> bool:
    """Return whether the files together hold every record once."""
    reached: int | None = None
    for file in sorted((file for file in files if file.lines != 0), key=lambda file: file.first or 0):
        if not file.is_plain or (reached is not None and (file.first or 0) <= reached):
            return False
        reached = file.last
    return True


def _seqs(groups: Iterable[Group], more: str = "") -> str:
    columns = "{'seq': 'BIGINT', 'run': 'VARCHAR'}" if more else "{'seq': 'BIGINT'}"
    read = f"format = 'newline_delimited', records = true, columns = {columns}"
    return " UNION ALL ".join(f"SELECT seq{more} FROM read_json({of.files}, {read}) WHERE {of.bound}" for of in groups)


def _check_one_store(db: DuckDBPyConnection, groups: Sequence[Group]) -> None:
    found = db.execute(
        f"SELECT seq, min(run), max(run) FROM ({_seqs(groups, ', run')}) WHERE run <> '' GROUP BY seq "
        "HAVING min(run) <> max(run) ORDER BY seq LIMIT 1"
    ).fetchone()
    if found is not None:
        seq, one, other = found
        where = ", ".join(path for group in groups for path in group.paths[:3])
        raise UsageError(
            f"{where:.300} hold the logs of two stores: seq {seq} was written by run {one!r} and by run {other!r}; "
            "expected the log of one; put the lines of each into a file of its own"
        )


def _longest_of(db: DuckDBPyConnection, paths: Sequence[str]) -> int:
    """Return an upper bound on the length of lines in compressed files, which must be read for that."""
    import duckdb

    longest = USUAL
    while True:
        try:
            db.execute(f"SELECT count(*) FROM ({_seqs([Group(tuple(paths), longest=longest)])})").fetchone()
        except duckdb.InvalidInputException as error:
            if "maximum_object_size" not in str(error) or longest >= LONGEST:
                raise UsageError(f"log {', '.join(paths):.300} cannot be read: {error}") from error
            longest *= 4
            make_room(db, longest)
        else:
            return longest
