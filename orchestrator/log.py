"""The log: committed records as JSON lines in a file, or as coloured lines on a terminal.

Invariant: one line for every record, and none for anything else. The follower continues from the end of the file, so lines
that a crash kept out of the file are written at the next start, and a truncated last line is written again.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TextIO

import trio

from harnesses.diagnostics.control_characters import inert_json
from harnesses.diagnostics.program_log import Processor
from harnesses.files.safe_files import open_own
from harnesses.redaction.prefilter import suspects
from harnesses.redaction.redactor import may_hold_secret, redact
from orchestrator.codec import decode, encode
from orchestrator.errors import UsageError
from orchestrator.log_file import is_stream, open_target
from orchestrator.records import HEADER as HEADER
from orchestrator.records import Record
from orchestrator.store.store_capabilities import path_of
from orchestrator.store.store_protocol import Store
from orchestrator.text.log_line import line as line
from orchestrator.text.log_line import record_line
from orchestrator.text.log_line import record_of as record_of
from orchestrator.text.terminal_text import one_line

_PAGE = 1000
_TAIL_BYTES = 1 << 20


class News(Protocol):
    """Whoever knows when there are new records: the recorder, in a program that writes them itself."""

    @property
    def ended(self) -> bool:
        """Whether nothing more is written."""
        ...

    async def wait_news(self, after: int) -> None:
        """Wait until there is a record after this one, or nothing more is written."""
        ...


class LogFollower:
    """Writes a line for every record of a store, past and future.

    Args:
        target: a path to append lines to, or an open text file. A terminal gets coloured lines. An open file, a pipe, a device
            and `/dev/stdout` get only records from now on.
        processors: structlog processors for each line.
    """

    def __init__(self, store: Store, target: str | Path | TextIO, processors: Sequence[Processor] = ()) -> None:
        self._store = store
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self._scope = trio.CancelScope(shield=True)
        if not isinstance(target, str | Path) and not hasattr(target, "write"):
            raise UsageError(f"log: expected a path or an open text file, was {target!r:.200}")
        _refuse_store(store, target)
        if isinstance(target, str | Path):
            path = Path(target)
            self._after = store.last_seq() if is_stream(path) else _resume_point(path, store)
            self._file: TextIO = open_target(path)
            self._ours, self._may_block = True, is_stream(path)
            self._path = None if is_stream(path) else path.absolute()
        else:
            self._after, self._file = store.last_seq(), target
            self._ours, self._may_block, self._path = False, True, None
        self._processors = processors
        self._put = line_writer(self._file, processors)

    async def run(self, recorder: News) -> None:
        """Write until the recorder has ended and its last record is written. Shielded, so that the log is complete.

        If the log can no longer be written, a message goes to stderr and it stops. The run is unaffected; the next run writes
        the missing lines.
        """
        with self._scope:
            try:
                await self._follow(recorder)
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                print(f"log: writing failed, no more lines: {said}; the run goes on", file=sys.stderr, flush=True)
            finally:
                if self._ours:
                    with suppress(OSError):
                        self._file.close()
                self._ended.set()

    async def _follow(self, recorder: News) -> None:
        while True:
            ended = recorder.ended
            while await self._write_page():
                pass
            if ended:
                return
            await recorder.wait_news(self._after)

    async def finish(self, seconds: float) -> None:
        """Wait until the last line is written, at most `seconds` of real time, whatever Trio's clock."""
        # Its own limiter: harnesses may hold all threads of the default one, and this wait is shielded.
        own = trio.CapacityLimiter(1)
        if not self._ended.is_set() and not await trio.to_thread.run_sync(self._ended.wait, seconds, limiter=own):
            print("log: nobody reads it; the next run writes the missing lines", file=sys.stderr, flush=True)
            self._scope.cancel()

    async def _write_page(self) -> bool:
        if self._store.blocking or self._may_block:
            # In a thread, so that a pipe which nobody reads blocks the log and nothing else.
            return await trio.to_thread.run_sync(self._write, abandon_on_cancel=True)
        await trio.lowlevel.checkpoint()
        return self._write()

    @property
    def is_file(self) -> bool:
        """Whether it writes to a file that can be opened anew."""
        return self._path is not None

    def reopen(self) -> None:
        """Continue in the file that has the log's name now, after the one so far was renamed or deleted.

        No line is lost: if it cannot be opened, a message goes to stderr, and the lines go on in the old file.
        """
        with self._writing:
            if self._path is None or self._file.closed:
                return
            try:
                new = open_target(self._path)
            except UsageError as error:
                print(f"{error}; the lines go on in the old file", file=sys.stderr, flush=True)
                return
            self._file.close()
            self._file, self._put = new, line_writer(new, self._processors)

    def _write(self) -> bool:
        with self._writing:
            return self._write_some()

    def _write_some(self) -> bool:
        records = self._store.records(after=self._after, limit=_PAGE)
        for record in records:
            self._put(record)
        if records:
            self._after = records[-1].seq
            self._file.flush()
        return len(records) == _PAGE


def line_writer(file: TextIO, processors: Sequence[Processor] = ()) -> Callable[[Record], None]:
    """Return a function that writes a record's line to an open text file, coloured if that is a terminal.

    It uses a structlog logger of its own; the application's structlog configuration is unchanged. Where no processor needs the
    fields of a line, its text is taken from the record's JSON without decoding it.

    Args:
        processors: structlog processors, called with the fields of each line before rendering. `DropEvent` drops the line.
    """
    is_terminal = file.isatty()
    if not is_terminal and not processors:
        return lambda record: _print(file, json_line_of(record))
    import structlog  # The import takes 0.1 s, with rich and asyncio: too much for programs and commands that write no log.

    logger: Any = structlog.wrap_logger(
        structlog.WriteLogger(file),
        processors=[structlog.processors.add_log_level, *processors, _console if is_terminal else _json],
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
    )

    def write(record: Record) -> None:
        fields = line(record)
        getattr(logger, fields.pop("level"))(**fields)

    return write


def _print(file: TextIO, text: str) -> None:
    file.write(f"{text}\n")


def json_line_of(record: Record) -> str:
    """Return the JSON of a line."""
    return _safe(record_line(record))


def json_lines_of(records: Sequence[Record]) -> list[str]:
    """Return `json_line_of` for each of many records, in less time."""
    texts = [record_line(record) for record in records]
    for place in set(suspects(texts)):
        texts[place] = encode(redact(decode(texts[place])))
    return [*map(inert_json, texts)]


def _json(logger: Any, method: str, fields: MutableMapping[str, Any]) -> str:
    first: dict[str, Any] = {name: fields.pop(name) for name in ("timestamp", "level", "event") if name in fields}
    return _safe(encode({**first, **fields}))


def _safe(text: str) -> str:
    """Return the JSON of a line without secrets, and without characters that could control a terminal."""
    # A record's text is redacted already; states, messages and arguments of effects are not.
    return inert_json(encode(redact(decode(text))) if may_hold_secret(text) else text)


def _console(logger: Any, method: str, fields: MutableMapping[str, Any]) -> str:
    stamp, level, event = fields.pop("timestamp"), fields.pop("level"), fields.pop("event")
    for name in ("run", "traceback", "seq", "schema", "service", "host", "message"):
        fields.pop(name, None)
    rest = " ".join(f"{name}={one_line(json.dumps(value, ensure_ascii=False), 60)}" for name, value in fields.items())
    return f"{stamp} {level:<7} {event:<20} {rest}"


def _refuse_store(store: Store, target: str | Path | TextIO) -> None:
    """Raise if the log would be written to the store's file or to a file that belongs to it."""
    place = path_of(store)
    if place is None:
        return
    for file in (place.with_name(f"{place.name}{end}") for end in ("", "-wal", "-shm", "-journal", "-head", "-latch")):
        if _is_same(target, file):
            raise UsageError(
                f"log {target if isinstance(target, str | Path) else file} is the store, or a file that belongs to it: "
                "expected a file of its own; name another"
            )


def _is_same(target: str | Path | TextIO, file: Path) -> bool:
    if isinstance(target, str | Path) and Path(target).resolve() == file.resolve():
        return True
    try:
        return os.path.samestat(os.stat(target if isinstance(target, str | Path) else target.fileno()), file.stat())
    except (OSError, ValueError, AttributeError):  # It does not exist yet, or is not a file.
        return False


def _resume_point(path: Path, store: Store) -> int:
    """Truncate the file after its last complete line and return the `seq` in it; 0 if the file is not a log of this store."""
    try:
        with open(open_own(path, os.O_RDWR), "rb+") as file:
            last = _cut_torn_line(file)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise UsageError(f"log {path} cannot be written: {error.strerror}; check its folder and permissions") from error
    return _matching(last, store)


def _cut_torn_line(file: BinaryIO) -> bytes:
    """Truncate the file after its last line feed; return the last line."""
    size = file.seek(0, 2)
    span = _TAIL_BYTES
    while True:
        start = max(0, size - span)
        file.seek(start)
        tail = file.read()
        whole = tail.rfind(b"\n") + 1
        before = tail.rfind(b"\n", 0, max(0, whole - 1)) + 1
        if before or start == 0:
            break
        span *= 8
    if whole < len(tail):
        file.truncate(start + whole)
    return tail[before:whole]


def _matching(last: bytes, store: Store) -> int:
    try:
        fields = json.loads(last)
        seq = fields["seq"]
        records = store.records(after=seq - 1, limit=1)
        same = bool(records) and records[0].seq == seq and line(records[0])["timestamp"] == fields["timestamp"]
        # Missing between existing records means pruned since; the harness is then still known to the store.
        gone = 0 < seq < store.last_seq() and bool(records) and records[0].seq > seq
        same = same or (gone and fields["harness"] in {"", *(harness.name for harness in store.harnesses())})
    except (ValueError, KeyError, TypeError, OverflowError):
        return 0
    return int(seq) if same else 0
