"""Errors of a harness turned into events, without secrets. This code does not fail, whatever error a harness raises.

Invariant: an error that leaves an attempt is bounded in size and can be printed. `contained` replaces any other error by one
that names it and says how much was left out.
"""

from __future__ import annotations

import traceback
from contextlib import suppress
from itertools import islice
from math import inf
from typing import Any, cast

import trio

from harnesses.base import BaseHarness
from harnesses.diagnostics.error_groups import count, is_one, leaves, members, of_kind, split
from harnesses.diagnostics.program_log import get_logger
from harnesses.errors import DeadlineExceeded, HarnessError, NoRestart, UnknownHarness
from harnesses.redaction.redactor import redact_text
from orchestrator import events
from orchestrator.errors import GaveUp, HarnessFailed, OwnershipError, StateChanged, StoreLost, UsageError
from orchestrator.outcome import Outcome, OutcomeKind

_MOST = 2000
_MOST_TRACE = 8000
_MOST_LEAVES = 20
_MOST_NODES, _MOST_DEPTH = 200, 20
"""Limits on the number of errors in a group or chain, and on its depth."""
_UNREADABLE = "its message cannot be read"
_CAUSE, _CONTEXT, _TRACEBACK = (BaseException.__dict__[name].__get__ for name in ("__cause__", "__context__", "__traceback__"))
_NAME = type.__dict__["__name__"].__get__
_LOOKED_AT = 8
"""How many times the visible length is searched for secrets, since the part that is cut off may show that the rest is one."""


def failed(error: BaseException, *, redacted: bool = True) -> events.Failed:
    """Return the event for an attempt that ended with `error`."""
    try:
        trace, most = "".join(traceback.format_exception(error)), _MOST_TRACE * _LOOKED_AT
        if len(trace) > most:
            trace = trace[-most:].partition("\n")[2]  # whole lines
        trace = (redact_text(trace) if redacted else trace)[-_MOST_TRACE:]
    except Exception:
        trace = ""
    return events.Failed(_name(error), sentence(error, redacted=redacted), _storable(trace))


def sentence(error: BaseException, *, redacted: bool = True) -> str:
    """Return an error as one line; of a group, its contents."""
    if is_one(error, BaseExceptionGroup):
        inside = list(islice(leaves(error), _MOST_LEAVES))
        return "; ".join(sentence(inner, redacted=redacted) for inner in inside)[:_MOST]
    text = f"{_name(error)}: {_message(error)}"
    return _storable((redact_text(text) if redacted else text)[:_MOST])


def conclusion_of(harness: BaseHarness[Any, Any, Any], *, redacted: bool = True) -> str:
    """Return what a harness says of its work as one line; empty if it raises, which changes nothing about its end."""
    try:
        text = str(harness.conclusion())
    except Exception:
        get_logger(__name__).warning("harness %r: conclusion() failed", harness.name, exc_info=True)
        return ""
    line = " ".join(text.split())
    return _storable((redact_text(line) if redacted else line)[:_MOST])


def parted(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Split an error into the part that is Trio's `Cancelled` and the rest; either may be None."""
    return split(error, trio.Cancelled)


class OddError(Exception):
    """Replaces an error of a harness that is too large, or cannot be printed."""


def contained(error: BaseException) -> BaseException:
    """Return an error unchanged, or a replacement if it is too large or its message cannot be read."""
    nodes, is_whole = _survey(error)
    if is_whole and all(_is_ordinary(node) for node in nodes):
        return error
    if not is_one(error, BaseExceptionGroup):
        return _odd(error)
    # First those that decide what becomes of the harness.
    ours = list(islice(of_kind(error, HarnessError), _MOST_LEAVES))
    others = [contained(leaf) for leaf in islice(leaves(error), _MOST_LEAVES) if not is_one(leaf, HarnessError)]
    total, inside = count(error), [*ours, *others][:_MOST_LEAVES]
    if left := total - len(inside):
        inside[-1:] = [OddError(f"and {left + 1:,} more in a group of {total:,}")]
    return BaseExceptionGroup(f"{_name(error)}: {total:,} errors", inside)


def _survey(error: BaseException) -> tuple[list[BaseException], bool]:
    """Return the errors in and behind an error, and whether these are all of them."""
    found: list[BaseException] = []
    seen: set[int] = set()
    waiting = [(error, 0)]
    while waiting:
        one, depth = waiting.pop()
        if id(one) in seen:
            continue
        if len(found) >= _MOST_NODES or depth > _MOST_DEPTH:
            return found, False
        seen.add(id(one))
        found.append(one)
        behind = [_CAUSE(one), _CONTEXT(one), *members(one)[:_MOST_NODES]]
        waiting.extend((other, depth + 1) for other in behind if other is not None)
    return found, True


def _is_ordinary(error: BaseException) -> bool:
    text = _message(error)
    return text is not _UNREADABLE and len(text) + _weight_of_notes(error) <= _MOST * _LOOKED_AT


def _weight_of_notes(error: BaseException) -> float:
    try:
        return sum(len(note) for note in getattr(error, "__notes__", ()))
    except Exception:
        return inf


def _odd(error: BaseException) -> Exception:
    """Return the replacement for an error; for one of ours, of the same class, which decides what becomes of the harness."""
    text = _message(error)[:_MOST]
    stand_in: Exception = OddError(f"{_name(error)}: {text}")
    if is_one(error, HarnessError):
        with suppress(Exception):
            stand_in = cast(type[HarnessError], type(error))(text)
    stand_in.__traceback__ = _TRACEBACK(error)
    return stand_in


def _name(error: BaseException) -> str:
    return str(_NAME(type(error)))[:200]


def _message(error: BaseException) -> str:
    """Return the message of an error, cut to the limit."""
    try:
        # An error class may return a subclass of `str` that overrides any method.
        return str.__getitem__(str(error), slice(0, _MOST * _LOOKED_AT + 1))
    except BaseException:
        return _UNREADABLE


def as_error(name: str, outcome: Outcome) -> Exception | None:
    """Return the error that represents the outcome of a harness at the end; None if it did not fail."""
    if outcome.ok or isinstance(outcome.error, StoreLost):
        # Loss of the store is raised once for all harnesses.
        return None
    if isinstance(outcome.error, OwnershipError | StateChanged) or (
        isinstance(outcome.error, UsageError) and not outcome.attempt
    ):
        return outcome.error
    cls = GaveUp if outcome.kind is OutcomeKind.GAVE_UP else HarnessFailed
    error = cls(f"harness {name!r} {outcome.kind.replace('_', ' ')} at step {outcome.step + 1}: {outcome.cause}")
    error.__cause__ = outcome.error
    return error


def _storable(text: str) -> str:
    return text.encode(errors="replace").decode()


def found(error: BaseException, *kinds: type[Exception]) -> BaseException | None:
    """Return the error itself, or the first in its group, that is of the first matching kind."""
    for kind in kinds:
        one = next(of_kind(error, kind), None)
        if one is not None:
            return one
    return None


def is_lasting(error: BaseException) -> bool:
    """Return whether no restart can help, since an error (or one in a group) is permanent. `UnknownHarness` is not."""
    lasting = (one for kind in (DeadlineExceeded, NoRestart, UsageError) for one in of_kind(error, kind))
    return any(not is_one(one, UnknownHarness) for one in lasting)
