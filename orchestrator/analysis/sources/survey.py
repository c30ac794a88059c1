"""What is found out about the files of a log before anything is asked of it, without taking their lines apart.

The law: of a log as it is written, each record has its line, once and in order; that is seen from the number of lines and the
first and the last `seq`, at the speed of reading. Only where it does not hold, every line is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, BinaryIO

import msgspec
from attrs import frozen

from orchestrator.analysis.duck import USUAL, make_room, quoted
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COMPRESSED = (".gz", ".zst")
LONGEST = 256 << 20
"""Bytes of a line that is read."""
_CHUNK = 1 << 20
_TAIL = 1 << 20


class _Seq(msgspec.Struct):
    seq: int


_SEQ = msgspec.json.Decoder(_Seq)


@frozen
class File:
    """A file that is not compressed."""

    path: str
    lines: int
    """Line feeds."""
    first: int | None
    """The `seq` of the first line, None if it has none."""
    last: int | None
    """Of the last whole line that has one: what comes after it was written later."""
    longest: int
    """Bytes: no line is longer."""
    is_torn: bool
    """Whether it does not end with a line feed."""

    @property
    def is_plain(self) -> bool:
        """Whether each line has the next `seq`."""
        return self.first is not None and self.last is not None and self.lines == self.last - self.first + 1


@frozen
class Group:
    """Files that are read in one go."""

    paths: tuple[str, ...]
    last_seq: int | None = None
    """What is newer is left out."""
    longest: int = USUAL

    @property
    def files(self) -> str:
        """What to call DuckDB's readers with."""
        listed = ", ".join(map(quoted, self.paths))
        return f"[{listed}], ignore_errors = true, maximum_object_size = {self.longest}"

    @property
    def bound(self) -> str:
        """The condition that a line counts."""
        return "seq IS NOT NULL" if self.last_seq is None else f"seq <= {self.last_seq}"


@frozen
class Survey:
    """What is known of the files of a log."""

    groups: tuple[Group, ...]
    torn: int = 0
    """Files that do not end with a line feed."""
    is_doubled: bool = False
    """Whether there are lines with the same `seq`."""


def survey(db: DuckDBPyConnection, paths: Sequence[str]) -> Survey:
    """Look at the files.

    Raises:
        UsageError: one can not be read, has a line that is too long, or they tell of several stores.
    """
    files = [look(path) for path in paths if not path.endswith(COMPRESSED)]
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
    if not packed and _in_turn(files):
        return told
    count, distinct = db.execute(f"SELECT count(*), count(DISTINCT seq) FROM ({_seqs(groups)})").fetchone() or (0, 0)
    if count == distinct:
        return told
    _check_one_store(db, groups)
    return Survey(tuple(groups), told.torn, is_doubled=True)


def look(path: str) -> File:
    """Read a file as fast as that goes: its bytes are counted, and only its first and its last line are looked at.

    Raises:
        UsageError: it can not be read, or has a line that is too long.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            return _looked_at(path, file)
    except OSError as error:
        raise UsageError(f"log {path} can not be read: {error.strerror}; check its name and permissions") from error


def _looked_at(path: str, file: BinaryIO) -> File:
    lines = size = longest = since = 0
    chunk = b""
    while chunk := file.read(_CHUNK):
        found = chunk.count(b"\n")
        if not found:
            since += len(chunk)
        else:
            longest = max(longest, since + len(chunk))
            since = len(chunk)
        if max(since, longest) > LONGEST:
            raise UsageError(
                f"log {path} has a line of more than {LONGEST:,} bytes near byte {size:,}: "
                "expected lines of a log; take it out"
            )
        lines += found
        size += len(chunk)
        ends = chunk
    if not size:
        return File(path, 0, None, None, 0, is_torn=False)
    file.seek(0)
    first = _seq_of(file.readline(_TAIL))
    file.seek(max(0, size - _TAIL))
    tail = file.read(min(size, _TAIL))
    whole = tail[: tail.rfind(b"\n") + 1].splitlines()
    last = next((seq for line in reversed(whole) if (seq := _seq_of(line)) is not None), None)
    # A first line that is too long to look at makes every line be looked at.
    return File(path, lines, first, last, max(longest, since), is_torn=not ends.endswith(b"\n"))


def _seq_of(line: bytes) -> int | None:
    try:
        return _SEQ.decode(line).seq
    except msgspec.DecodeError:
        return None


def _in_turn(files: Iterable[File]) -> bool:
    """Return whether the files together hold every record once."""
    reached: int | None = None
    for file in sorted((file for file in files if file.lines), key=lambda file: file.first or 0):
        if not file.is_plain or (reached is not None and (file.first or 0) <= reached):
            return False
        reached = file.last
    return True


def _seqs(groups: Iterable[Group], more: str = "") -> str:
    columns = "{'seq': 'BIGINT', 'run': 'VARCHAR'}" if more else "{'seq': 'BIGINT'}"
    read = f"format = 'newline_delimited', columns = {columns}"
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
    """Return how long the lines of compressed files are at most, rounded up: only reading them tells."""
    import duckdb

    longest = USUAL
    while True:
        try:
            db.execute(f"SELECT count(*) FROM ({_seqs([Group(tuple(paths), longest=longest)])})").fetchone()
        except duckdb.InvalidInputException as error:
            if "maximum_object_size" not in str(error) or longest >= LONGEST:
                raise UsageError(f"log {', '.join(paths):.300} can not be read: {error}") from error
            longest *= 4
            make_room(db, longest)
        else:
            return longest
