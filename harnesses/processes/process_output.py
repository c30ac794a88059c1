"""What a command writes, taken in as it comes: its end is kept, its lines are handed on, and a flood costs no memory."""

from __future__ import annotations

from collections.abc import Callable

MAX_LINE = 1_000_000
"""Bytes of a line that are handed on; the rest of it is dropped."""


class Tail:
    """The last of some output.

    Args:
        limit: bytes that are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.cut_bytes = 0
        """How much came before what is kept."""

    def __str__(self) -> str:
        return self._kept.decode(errors="replace")

    def add(self, chunk: bytes | bytearray) -> None:
        """Take in what comes next."""
        self._kept += chunk
        cut = max(0, len(self._kept) - self._limit)
        self.cut_bytes += cut
        del self._kept[:cut]


class Lines:
    r"""Cuts output into lines, and hands each to `on_line` without its `\n`, or `\r\n`.

    Args:
        on_line: gets every line, also an empty one, and at the end one that is not terminated.
        limit: bytes of a line that are handed on.
    """

    def __init__(self, on_line: Callable[[str], object], *, limit: int = MAX_LINE) -> None:
        self._on_line = on_line
        self._limit = limit
        self._line = bytearray()

    def add(self, chunk: bytes | bytearray) -> None:
        """Take in what comes next, and hand on the lines that it completes."""
        *complete, rest = bytes(chunk).split(b"\n")
        for part in complete:
            self._keep(part)
            self._hand_on()
        self._keep(rest)

    def close(self) -> None:
        """Hand on the line that has begun, if one has."""
        if self._line:
            self._hand_on()

    def _keep(self, part: bytes) -> None:
        self._line += part[: self._limit - len(self._line)]

    def _hand_on(self) -> None:
        line = self._line.decode(errors="replace").removesuffix("\r")
        self._line.clear()
        self._on_line(line)
