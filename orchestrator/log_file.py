"""Targets of a log: a file to append to, or a stream that cannot be read back."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import threading
from pathlib import Path
from typing import TextIO, cast

from harnesses.files.safe_files import open_own
from orchestrator.errors import UsageError

_DESCRIPTOR = re.compile(r"/dev/(?P<name>stdin|stdout|stderr)|/(?:dev|proc/self)/fd/(?P<number>\d{1,9})")
_NUMBERS = {"stdin": 0, "stdout": 1, "stderr": 2}
_ADVICE = "check its folder and permissions"


def is_stream(path: Path) -> bool:
    """Return whether a path refers to a descriptor of this process, a pipe or a device, which cannot be read back."""
    if _DESCRIPTOR.fullmatch(str(path)):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def open_target(path: Path) -> TextIO:
    """Open a path for appending lines.

    Raises:
        UsageError: it cannot be written, or is a pipe without a reader.
    """
    try:
        if not is_stream(path):
            return open(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "a", encoding="utf-8")
        return cast(TextIO, Stream(_descriptor(path)))
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise UsageError(f"log {path} cannot be written: nobody reads it; start its reader first") from error
        raise UsageError(f"log {path} cannot be written: {error.strerror}; {_ADVICE}") from error


def _descriptor(path: Path) -> int:
    found = _DESCRIPTOR.fullmatch(str(path))
    if found is not None:
        # Opening by name may be refused for a pipe or socket, and would write a file from its beginning.
        return os.dup(int(found["number"]) if found["name"] is None else _NUMBERS[found["name"]])
    descriptor = open_own(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    os.set_blocking(descriptor, True)
    return descriptor


class Stream(io.TextIOBase):
    """An unbuffered text stream on a descriptor. Closing it never blocks, even while another thread is blocked writing.

    The last user closes the descriptor, so nothing is ever written to an unrelated file that reuses its number.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._writes = 0

    def write(self, text: str, /) -> int:
        """Write the whole text.

        Raises:
            ValueError: the stream is closed, or was closed meanwhile.
        """
        with self._lock:
            self._check_open()
            self._writes += 1
        try:
            rest = memoryview(text.encode())
            while rest:
                self._check_open()
                rest = rest[os.write(self._descriptor, rest) :]
        finally:
            with self._lock:
                self._writes -= 1
                self._release()
        return len(text)

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        with self._lock:
            if not self.closed:
                super().close()
                self._release()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the stream is closed")

    def _release(self) -> None:
        """Close the descriptor if no write still uses it."""
        if self.closed and not self._writes:
            os.close(self._descriptor)
