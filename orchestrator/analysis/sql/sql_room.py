"""A query process: it holds one run, sandboxed, and executes queries. Whatever a query does, it does it there.

Invariant: a query can neither write, nor read anything but the run, nor use more memory than the process may; it can be
stopped at any moment by killing the process, and the next query starts a new one. Results go through a pipe as plain data:

DuckDB              in the pipe                          in Python
whole numbers       numbers                              int
DOUBLE, FLOAT       numbers; NaN, Infinity as text       float
DECIMAL             text                                 Decimal
TIMESTAMP, DATE     text, ISO 8601                       datetime, date
JSON                text                                 str
LIST, STRUCT, MAP   lists and objects                    list, dict; items as in the pipe
anything else       text                                 str
"""

from __future__ import annotations

import math
import os
import select
import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TypeAlias, cast

import msgspec
from attrs import field, frozen

from harnesses.processes.helper_process import helper_command
from orchestrator.analysis.answers.answer import money
from orchestrator.errors import OrchestratorError, UsageError

_TURN_S = 0.1
_CHUNK_BYTES = 1 << 18
_DIED = "the query has ended its process: it needs more memory than a query gets; ask for less at once, with WHERE or LIMIT"


class QueryFailed(UsageError):
    """A query was refused, or is wrong."""


class QueryStopped(OrchestratorError):
    """A query exceeded a limit, or was stopped."""


@frozen
class Head:
    """The columns of a result, and DuckDB's names of their types."""

    columns: tuple[str, ...] = field(converter=tuple)
    types: tuple[str, ...] = field(converter=tuple)


@frozen
class Page:
    """Some of the rows, as plain data."""

    rows: Sequence[Sequence[Any]]


@frozen
class End:
    """The end of a result."""

    rows: int
    more: bool
    """Whether there are more rows than the limit."""


class Room:
    """The parent's side of a query process. Use it from one thread at a time; `stop` may be called from any other.

    Args:
        paths: a store, a log, a pattern, or exported Parquet; or several logs.
    """

    def __init__(self, *paths: str) -> None:
        self.paths = paths
        self.location = ", ".join(paths)
        self._process: subprocess.Popen[bytes] | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._stopped = ""
        self._heard = bytearray()
        """Output of the process that was not read yet."""

    def ask(
        self, query: str, *, limit: int | None = None, timeout_s: float | None = None
    ) -> Generator[Head | Page | End, None, None]:
        """Yield the head, the pages and the end of a query's result. Closing the generator early stops the query.

        Raises:
            QueryFailed: the query is refused, or wrong.
            QueryStopped: it took longer than `timeout_s`, or exceeded the memory limit.
            UsageError: there is no such run.
        """
        process = self._started()
        self._stopped = ""
        timer = threading.Timer(timeout_s, self.stop, [f"the query took longer than {timeout_s:g} s"]) if timeout_s else None
        whole = False
        try:
            if timer is not None:
                timer.start()
            self._tell(process, {"query": query, "limit": limit})
            while True:
                said = self._hear(process)
                if "error" in said:
                    # After a query that exhausted its memory, the process has too little left for another one.
                    whole = not said.get("spent")
                    raise (QueryFailed if whole else QueryStopped)(f"sql: {said['error']}")
                if "end" in said:
                    whole = True
                    yield End(said["end"], said["more"])
                    return
                yield Page(said["rows"]) if "rows" in said else Head(said["columns"], said["types"])
        finally:
            if timer is not None:
                timer.cancel()
            if not whole:
                self.close()

    def stop(self, why: str = "the query was stopped") -> None:
        """Stop the current query; `ask` then raises `QueryStopped` with the reason."""
        self._stopped = why
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Kill the process. A later query starts another."""
        process, self._process = self._process, None
        self._heard.clear()
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                with suppress(OSError):
                    stream.close()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def __enter__(self) -> Room:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        self._temporary = tempfile.TemporaryDirectory(prefix="orchestrator-sql-")
        self._process = process = subprocess.Popen(
            # In a session of its own, so that Ctrl-C reaches the caller and not the query process.
            helper_command("orchestrator.analysis.sql.query_process:serve"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._tell(process, {"paths": self.paths, "temporary": self._temporary.name})
        said = self._hear(process)
        if "error" in said:
            self.close()
            raise UsageError(said["error"])
        return process

    def _tell(self, process: subprocess.Popen[bytes], what: dict[str, Any]) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(what) + b"\n")
            process.stdin.flush()

    def _hear(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert process.stdout is not None
        said: dict[str, Any] = msgspec.json.decode(self._line(process.stdout.fileno()))
        return said

    def _line(self, descriptor: int) -> bytes:
        """Return the next line. Waits in short turns: a signal just before a blocking read would be noticed only after it."""
        heard = self._heard
        turns = select.poll()
        turns.register(descriptor, select.POLLIN)
        searched = 0
        while (end := heard.find(b"\n", searched)) < 0:
            searched = len(heard)
            while not turns.poll(_TURN_S * 1000):
                pass
            chunk = os.read(descriptor, _CHUNK_BYTES)
            if not chunk:
                raise QueryStopped(f"sql: {self._stopped or _DIED}")
            heard += chunk
        line = bytes(heard[:end])
        del heard[: end + 1]
        return line


Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"

_MADE: dict[str, Callable[[str], Any]] = {
    "TIMESTAMP": datetime.fromisoformat,
    "DATE": date.fromisoformat,
    "TIME": time.fromisoformat,
    "DOUBLE": float,
    "FLOAT": float,
}


def is_said_in_words(type: str) -> bool:
    """Return whether DuckDB itself must convert a column of this type to text, because Python cannot represent it."""
    return any(word in type for word in ("TIME ZONE", "INTERVAL", "TIMESTAMP_", "BIT", "UNION", "VARIANT", "BIGNUM"))


def plain(value: Any) -> Plain:
    """Return a value as it is sent through the pipe."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [plain(part) for part in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in cast("dict[object, Any]", value).items()}
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, Decimal):
        # `str` makes 0E-18 of nothing in a column of 18 places.
        return money(value) if "E" in str(value) else str(value)
    return str(value)


def made(value: Plain, type: str) -> Any:
    """Return a value from the pipe as a Python value."""
    if not isinstance(value, str):
        return value
    if type.startswith("DECIMAL"):
        return Decimal(value)
    make = _MADE.get(type)
    try:
        return make(value) if make is not None else value
    except ValueError:
        # A date of the year 290000, which SQL has and Python has not.
        return value
