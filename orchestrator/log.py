"""Committed records as lines for people and tools: JSON lines in a file, coloured lines on a terminal.

The law: a line is written for every record and only for records. The follower reads the store from where the file ends, so
lines that a crash kept out of the file are written at the next start, and a torn last line is written anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

import structlog
import trio

from orchestrator.codec import decode, encode
from orchestrator.errors import UsageError
from orchestrator.recorder import Recorder
from orchestrator.records import Record
from orchestrator.store.protocol import Store
from orchestrator.text import one_line

_PAGE = 1000
_TAIL_BYTES = 1 << 20
_LEVELS = {"failed": "error", "gave_up": "error", "blocked": "error", "restarting": "warning", "budget_spent": "warning"}


class LogFollower:
    """Writes a line for every record of a store, past and to come.

    Args:
        target: a path, to which lines are appended, or an open text file. A terminal gets lines for people.
    """

    def __init__(self, store: Store, target: str | Path | TextIO) -> None:
        self._store = store
        self._ended = trio.Event()
        if isinstance(target, str | Path):
            self._after = _resume_point(Path(target), store)
            self._file: TextIO = _open(Path(target))
            self._ours = True
        else:
            self._after, self._file, self._ours = _last_seq(store), target, False
        self._logger = _logger(self._file)

    async def run(self, recorder: Recorder, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until the recorder has ended and its last record is written. Shielded: the log is whole."""
        task_status.started()
        with trio.CancelScope(shield=True):
            try:
                while True:
                    ended = recorder.ended
                    while await self._write_page():
                        pass
                    if ended:
                        return
                    await recorder.wait_news(self._after)
            finally:
                if self._ours:
                    self._file.close()
                self._ended.set()

    async def wait_ended(self) -> None:
        """Return when the last line is written."""
        await self._ended.wait()

    async def _write_page(self) -> bool:
        if self._store.blocking:
            return await trio.to_thread.run_sync(self._write)
        await trio.lowlevel.checkpoint()
        return self._write()

    def _write(self) -> bool:
        records = self._store.records(after=self._after, limit=_PAGE)
        for record in records:
            fields = line(record)
            getattr(self._logger, fields.pop("level"))(**fields)
        if records:
            self._after = records[-1].seq
            self._file.flush()
        return len(records) == _PAGE


def line(record: Record) -> dict[str, Any]:
    """Return the fields of a record's line, in their order; `level` is the name of the logger's method."""
    own = decode(record.body)
    return {
        "timestamp": record.timestamp.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "level": _LEVELS.get(record.kind, "info"),
        "event": f"harness.{record.kind}",
        "run": record.run,
        "harness": record.harness,
        "attempt": record.attempt,
        "step": record.step,
        "seq": record.seq,
        **{name: value for name, value in own.items() if name not in ("level", "event")},
    }


def _logger(file: TextIO) -> Any:
    """Return a structlog logger of our own: the application's configuration of structlog is not touched."""
    render = _console if file.isatty() else _json
    processors: list[Any] = [structlog.processors.add_log_level, render]
    return structlog.wrap_logger(
        structlog.WriteLogger(file), processors=processors, wrapper_class=structlog.stdlib.BoundLogger, context_class=dict
    )


def _json(logger: Any, method: str, fields: dict[str, Any]) -> str:
    first = {name: fields.pop(name) for name in ("timestamp", "level", "event")}
    return encode({**first, **fields})


def _console(logger: Any, method: str, fields: dict[str, Any]) -> str:
    stamp, level, event = fields.pop("timestamp"), fields.pop("level"), fields.pop("event")
    for name in ("run", "traceback", "seq"):
        fields.pop(name, None)
    rest = " ".join(f"{name}={one_line(json.dumps(value, ensure_ascii=False), 60)}" for name, value in fields.items())
    return f"{stamp} {level:<7} {event:<20} {rest}"


def _open(path: Path) -> TextIO:
    try:
        return path.open("a", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"log {path} can not be written: {error.strerror}; check its folder and permissions") from error


def _resume_point(path: Path, store: Store) -> int:
    """Return the `seq` of the last whole line, having cut off a torn one; 0 if the file is not a log of this store."""
    try:
        with path.open("rb+") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            tail = file.read()
            whole = tail.rfind(b"\n") + 1
            if whole < len(tail) and (whole or size <= _TAIL_BYTES):
                file.truncate(size - len(tail) + whole)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise UsageError(f"log {path} can not be written: {error.strerror}; check its folder and permissions") from error
    return _matching(tail[:whole].splitlines()[-1:], store)


def _matching(last: Iterable[bytes], store: Store) -> int:
    for text in last:
        try:
            fields = json.loads(text)
            seq = fields["seq"]
            records = store.records(after=seq - 1, limit=1)
        except (ValueError, KeyError, TypeError):
            return 0
        if records and records[0].seq == seq and line(records[0])["timestamp"] == fields["timestamp"]:
            return int(seq)
    return 0


def _last_seq(store: Store) -> int:
    """Return the newest `seq`: an open stream gets only what happens from now on."""
    after = 0
    while records := store.records(after=after, limit=100_000):
        after = records[-1].seq
    return after
