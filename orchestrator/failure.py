"""Errors of a harness, made into events. Whatever a harness put into its error, this does not fail."""

from __future__ import annotations

import traceback

import trio

from orchestrator import events

_MOST = 2000
_MOST_TRACE = 8000


def failed(error: BaseException) -> events.Failed:
    """Return the event for an attempt that ended with `error`."""
    try:
        trace = "".join(traceback.format_exception(error))[-_MOST_TRACE:]
    except Exception:
        trace = ""
    return events.Failed(type(error).__name__, sentence(error), _storable(trace))


def sentence(error: BaseException) -> str:
    """Return an error in one line; of a group, what is in it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(sentence(inner) for inner in error.exceptions[:20])[:_MOST]
    try:
        text = str(error)
    except Exception:
        text = "its message can not be read"
    return _storable(f"{type(error).__name__}: {text}"[:_MOST])


def parted(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return the part of an error that is Trio's `Cancelled`, and the rest; either may be None."""
    if isinstance(error, trio.Cancelled):
        return error, None
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)
    return None, error


def _storable(text: str) -> str:
    return text.encode(errors="replace").decode()
