"""Locates an event in the author's code: picks the frame to report from a traceback or a running stack.

Invariant: a frame in the author's own files is preferred to one in an installed package, and that to one in Python's library,
Trio or this project.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType

import attrs
import outcome
import trio
from attrs import frozen

_MOST = 2_000
"""Maximum number of frames examined."""


def _folder(file: str | None) -> str:
    return os.path.join(os.path.dirname(os.path.realpath(file or "")), "")


_HERE = _folder(os.path.dirname(os.path.realpath(__file__)))
_OURS = (_HERE, os.path.join(os.path.dirname(_HERE.rstrip(os.sep)), "orchestrator", ""))
_MACHINERY = (*_OURS, *map(_folder, (trio.__file__, outcome.__file__, attrs.__file__)))
_PATHS = sysconfig.get_paths()
_INSTALLED = tuple({os.path.join(os.path.realpath(_PATHS[name]), "") for name in ("purelib", "platlib")})
_LIBRARY = tuple({os.path.join(os.path.realpath(_PATHS[name]), "") for name in ("stdlib", "platstdlib")})


@frozen
class Place:
    """A line of code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{near(self.file)}:{self.line}"


def place_of(error: BaseException) -> Place | None:
    """Return the line of the author's code that an error came from; None if its traceback is empty."""
    return innermost(_of_traceback(error.__traceback__))


def innermost(frames: Iterable[tuple[FrameType, int]]) -> Place | None:
    """Return the line to report, given frames and their line numbers, outermost first."""
    best: tuple[int, FrameType, int] | None = None
    for frame, line in frames:
        rank = rank_of(frame.f_code.co_filename)
        if best is None or rank <= best[0]:
            best = rank, frame, line
    return None if best is None else Place(best[1].f_code.co_filename, best[2], best[1].f_code.co_name)


@cache
def rank_of(file: str) -> int:
    """Return 0 for a file of the author, 1 for an installed package, 2 for Python, Trio and this project."""
    path = os.path.realpath(file)
    if file.startswith("<frozen") or path.startswith(_MACHINERY):
        return 2
    if path.startswith(_INSTALLED):
        return 1
    return 2 if path.startswith(_LIBRARY) else 0


def near(file: str) -> str:
    """Return a path relative to the working directory if it is inside it, else unchanged."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file


def _of_traceback(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    left = _MOST
    while trace is not None and left:
        yield trace.tb_frame, trace.tb_lineno
        trace, left = trace.tb_next, left - 1
