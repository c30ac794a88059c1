"""Locates an event in the author's code: picks the frame to report from a traceback or a running stack.

Invariant: a frame in the author's own files is preferred to one in an installed package, and that to one in Python's library,
Trio or this project.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, TracebackType

from attrs import frozen

_TRACEBACK = BaseException.__dict__["__traceback__"].__get__
"""Of an error whose class may have redefined it."""
_MOST = 2_000
"""Maximum number of frames examined."""


def _folder(file: str | None) -> str:
    return os.path.join(os.path.dirname(os.path.realpath(file or "")), "")


_HERE = _folder(os.path.dirname(os.path.realpath(__file__)))
_OURS = (_HERE, os.path.join(os.path.dirname(_HERE.rstrip(os.sep)), "orchestrator", ""))
# Found without being imported: commands that only read need this module, and importing Trio takes longer than they do.
_LIBRARIES = [spec.origin for name in ("trio", "outcome", "attrs", "attr") if (spec := find_spec(name)) is not None]
_MACHINERY = (*_OURS, *map(_folder, _LIBRARIES))
_PATHS = sysconfig.get_paths()
_INSTALLED = tuple({os.path.join(os.path.realpath(_PATHS[name]), "") for name in ("purelib", "platlib")})
_PACKAGES = tuple(os.path.join(os.sep, name, "") for name in ("site-packages", "dist-packages"))
"""Of any environment: a `.pth` file may lead into another one."""
_ANY_LIBRARY = re.compile(r"/lib(?:64)?/python3\.\d+/")
"""Python's library, of the interpreter of another machine as well."""
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
    return innermost(_of_traceback(_TRACEBACK(error)))


def author_line(error: BaseException) -> str:
    """Return the line of the author's own files that an error came from, as `file:line`; empty if there is none."""
    return _of_author(place_of(error))


def calling_line() -> str:
    """Return the line of the author's own files that has called this project, as `file:line`; empty if there is none."""
    frames: list[tuple[FrameType, int]] = []
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and len(frames) < _MOST:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return _of_author(innermost(reversed(frames)))


def yield_line(generator: object) -> str:
    """Return the line at which an async generator is suspended, as `file:line`; empty if it is not, or is no generator."""
    frame = getattr(generator, "ag_frame", None)
    return "" if frame is None else f"{near(frame.f_code.co_filename)}:{frame.f_lineno}"


def definition_line(function: object) -> str:
    """Return the line at which the author has defined a function, as `file:line`; empty if that is not known."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return "" if code is None else _of_author(Place(code.co_filename, code.co_firstlineno, code.co_name))


def without_machinery(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the author's first line on; all of it if there is none."""
    first = trace
    while first is not None and rank_of(first.tb_frame.f_code.co_filename) == 2:
        first = first.tb_next
    return first or trace


def _of_author(place: Place | None) -> str:
    return "" if place is None or rank_of(place.file) else str(place)


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
    if path.startswith(_INSTALLED) or any(folder in path for folder in _PACKAGES):
        return 1
    return 2 if path.startswith(_LIBRARY) or _ANY_LIBRARY.search(path) else 0


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
