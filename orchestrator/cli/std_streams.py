"""Standard output for data, standard error for talk, and what to do when nobody reads them any more."""

from __future__ import annotations

import io
import os
import sys
import threading
from contextlib import suppress
from typing import IO, Any, TextIO


def prepare() -> None:
    """Have data in UTF-8 whatever the locale says, and talk that never fails for a character.

    A stream that was closed before the program began goes nowhere.
    """
    if sys.stdout is None:
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()
    for stream, errors in ((sys.stdout, "strict"), (sys.stderr, "backslashreplace")):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors=errors)


def _nowhere() -> TextIO:
    """Open the null device at the lowest free file descriptor, so that no other file gets that of a closed stream."""
    return open(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8", closefd=False)


def say(text: str) -> None:
    """Print to standard error. A closed standard error is ignored."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        abandon(sys.stderr)


class _Talk(io.TextIOWrapper):
    """Standard error for a long run. When nobody reads it any more, what is written goes nowhere, and nothing fails.

    A line is written at once, so that the lines of two threads do not run into each other: `print` writes its end by itself.
    """

    def __init__(self, buffer: Any) -> None:
        super().__init__(buffer, encoding="utf-8", errors="backslashreplace", write_through=True)
        self._begun = threading.local()

    def write(self, text: str, /) -> int:
        whole = getattr(self._begun, "text", "") + text
        end = whole.rfind("\n") + 1
        self._begun.text = whole[end:]
        if end:
            self._put(whole[:end])
        return len(text)

    def flush(self) -> None:
        begun, self._begun.text = getattr(self._begun, "text", ""), ""
        self._put(begun)

    def _put(self, text: str) -> None:
        try:
            super().write(text)
            super().flush()
        except OSError:
            abandon(self)


def keep_talking() -> None:
    """Have no write to standard error fail from now on."""
    buffer = getattr(sys.stderr, "buffer", None)
    if buffer is not None:
        # The stream that it replaces lives on as `sys.__stderr__`; were it collected, it would close the file.
        sys.stderr = _Talk(buffer)


def abandon(stream: IO[str]) -> None:
    """Have all that is written to a stream, and what is still in its buffer, go nowhere: it would fail again and again."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
