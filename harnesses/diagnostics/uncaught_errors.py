"""How an uncaught error of this project is printed: one line with place, cause and remedy, without a traceback.

Invariant: a crash of the author's code keeps its traceback, from the author's first line on. Python's own hook is replaced
only once an error of this project leaves a harness or an orchestrator, only if nobody else has replaced it, and not at all
with `ORCHESTRATOR_TRACEBACK=1`. Whatever is not entirely of this project is handed to Python's own hook.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from itertools import islice
from types import TracebackType
from typing import cast

from harnesses.diagnostics.author_frames import author_line, without_machinery
from harnesses.diagnostics.error_groups import is_one, leaves
from harnesses.errors import OrchestratorError, has_place

VARIABLE = "ORCHESTRATOR_TRACEBACK"
"""Of the environment: `1` shows every traceback."""
_PACKAGES = ("harnesses", "orchestrator")
_MOST = 100
"""Errors of a group that are looked at, and links of a chain."""


class told_in_a_line:  # noqa: N801 - used as a function
    """A context manager: what of ours leaves the block is printed in one line if nothing catches it."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        note(error)


def note(error: BaseException | None) -> None:
    """Have an error printed in one line if it is of ours and nothing catches it.

    Replaces Python's own `sys.excepthook`, unless somebody has replaced it already or wants to see every traceback.
    """
    if error is None or not all(map(is_ours, islice(leaves(error), _MOST))):
        return
    if sys.excepthook is sys.__excepthook__ and not wants_tracebacks():
        sys.excepthook = _print


def wants_tracebacks() -> bool:
    """Return whether the environment asks for every traceback."""
    return os.environ.get(VARIABLE) == "1"


def is_ours(error: BaseException) -> bool:
    """Return whether an error was raised by this project on purpose: its class is one of this project's."""
    return is_one(error, OrchestratorError) and type(error).__module__.partition(".")[0] in _PACKAGES


def line_of(error: BaseException) -> str:
    """Return the message of an error, with the author's line it came from unless it names one."""
    text = " ".join(str(error).split())
    # What happened inside a harness has its place already, or none: the last line of the author may be `trio.run(…)`.
    line = "" if has_place(text) or text.startswith("harness ") else author_line(error)
    return f"{text} ({line})" if line else text


def crash_behind(error: BaseException) -> BaseException | None:
    """Return the error whose traceback is needed; None if the message of `error`, or of one it stands for, says it all."""
    link = _behind(error)
    return None if _is_explained(link) else link


def _behind(error: BaseException) -> BaseException:
    """Return the error that one stands for: the first of its causes that says it all, or is not of ours."""
    for _ in range(_MOST):
        if _is_explained(error) or not is_ours(error) or error.__cause__ is None:
            break
        error = error.__cause__
    return error


def _is_explained(error: BaseException) -> bool:
    return is_ours(error) and cast(OrchestratorError, error).is_explained


def crash_text(error: BaseException) -> str:
    """Return a traceback without the frames of this project and of Trio above the author's first line."""
    inner = error.with_traceback(without_machinery(error.__traceback__))
    return "".join(traceback.format_exception(inner)).rstrip()


def told(error: BaseException) -> list[str] | None:
    """Return what is printed of an error of ours, or of a group of such errors; None if anything else is in it."""
    inside = list(islice(leaves(error), _MOST + 1))
    if len(inside) > _MOST or not all(map(is_ours, inside)):
        return None
    return [text for one in inside for text in _told(one)]


def _told(error: BaseException) -> Iterator[str]:
    link = _behind(error)
    text = line_of(error)
    if _is_explained(link) and str(link).startswith("harness "):
        text = line_of(link)  # which names the harness and its step, as well
    yield f"orchestrator: {text}"
    yield from getattr(error, "__notes__", ())
    if not _is_explained(link):
        yield crash_text(link)


def _print(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    try:
        lines = told(error)
    except Exception:  # an error may be of any shape: Python's own hook copes with all
        lines = None
    if lines is None:
        sys.__excepthook__(kind, error, trace)
    else:
        print("\n".join(lines), file=sys.stderr)
