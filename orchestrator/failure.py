"""Errors of a harness, made into events, without the secrets in them. Whatever a harness put there, this does not fail."""

from __future__ import annotations

import traceback
from typing import cast

import trio

from harnesses.secrets import redact_text
from orchestrator import events
from orchestrator.errors import GaveUp, HarnessFailed, OwnershipError, StoreLost, UsageError
from orchestrator.outcome import Outcome, OutcomeKind

_MOST = 2000
_MOST_TRACE = 8000
_LOOKED_AT = 8
"""Times as much is searched for secrets: what is cut off later may be what tells that the rest is one."""


def failed(error: BaseException, *, redacted: bool = True) -> events.Failed:
    """Return the event for an attempt that ended with `error`."""
    try:
        trace = _end_of("".join(traceback.format_exception(error)), _MOST_TRACE * _LOOKED_AT)
        trace = (redact_text(trace) if redacted else trace)[-_MOST_TRACE:]
    except Exception:
        trace = ""
    return events.Failed(type(error).__name__, sentence(error, redacted=redacted), _storable(trace))


def sentence(error: BaseException, *, redacted: bool = True) -> str:
    """Return an error in one line; of a group, what is in it."""
    if isinstance(error, BaseExceptionGroup):
        inside = cast(BaseExceptionGroup[BaseException], error).exceptions
        return "; ".join(sentence(inner, redacted=redacted) for inner in inside[:20])[:_MOST]
    try:
        text = str(error)
    except Exception:
        text = "its message can not be read"
    text = f"{type(error).__name__}: {text}"[: _MOST * _LOOKED_AT]
    return _storable((redact_text(text) if redacted else text)[:_MOST])


def _end_of(text: str, most: int) -> str:
    """Return the last lines of a text, whole ones."""
    return text if len(text) <= most else text[-most:].partition("\n")[2]


def parted(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return the part of an error that is Trio's `Cancelled`, and the rest; either may be None."""
    if isinstance(error, trio.Cancelled):
        return error, None
    if isinstance(error, BaseExceptionGroup):
        return cast(BaseExceptionGroup[BaseException], error).split(trio.Cancelled)
    return None, error


def as_error(name: str, outcome: Outcome) -> Exception | None:
    """Return the error that the outcome of a harness is raised as at the end; None if it did not fail."""
    if outcome.ok or isinstance(outcome.error, StoreLost):
        # The loss of the store is raised once, for all.
        return None
    if isinstance(outcome.error, OwnershipError) or (isinstance(outcome.error, UsageError) and not outcome.attempt):
        return outcome.error
    cls = GaveUp if outcome.kind is OutcomeKind.GAVE_UP else HarnessFailed
    error = cls(f"harness {name!r} {outcome.kind.replace('_', ' ')} at step {outcome.step + 1}: {outcome.cause}")
    error.__cause__ = outcome.error
    return error


def _storable(text: str) -> str:
    return text.encode(errors="replace").decode()


def found(error: BaseException, *kinds: type[Exception]) -> BaseException | None:
    """Return the first error of the first of these kinds that `error` is or, being a group, holds."""
    for kind in kinds:
        if isinstance(error, kind):
            return error
        if isinstance(error, BaseExceptionGroup):
            inside: BaseException | None = cast(BaseExceptionGroup[BaseException], error).subgroup(kind)
            while isinstance(inside, BaseExceptionGroup):
                inside = cast(BaseExceptionGroup[BaseException], inside).exceptions[0]
            if inside is not None:
                return inside
    return None
