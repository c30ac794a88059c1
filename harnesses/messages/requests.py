"""Requests and replies, and the message types that a harness accepts. Pure.

    accepts = (Order, Cancel)      of a harness class: `receive` returns values of these types, `send` refuses others
    receive(Order)                 the oldest plain message of that type
    receive(Request)               the oldest message whose sender waits for a reply

Invariant: every message a harness receives has one of the types it accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any, TypeVar, cast

import msgspec
from attrs import frozen

from harnesses.data.values import fields_of
from harnesses.errors import AskTimeout, HarnessMisuse

ASK_TIMEOUT_S = 30.0
"""Default timeout of `ask`, in seconds: longer than a usual step, short enough for a waiting person."""
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_QUERY = "__orchestrator_query__"


@frozen
class Request:
    """A message whose sender waits for a reply: `await self.reply(request, answer)`."""

    message: Any
    """What was asked, of the type that the harness declares for its messages."""
    sender: str
    """Name of the asking harness; `@operator` for a person or a program outside."""
    id: str
    """Id of the request; the same at every delivery, also if its sender crashes and asks again."""
    deadline: datetime
    """When the sender stops waiting."""


class WrongMessage(HarnessMisuse):
    """The recipient accepts no message of this type. It was not sent."""


def sealed(message: object, accepts: Sequence[type], to: str) -> tuple[object, str]:
    """Convert a message to the form it is sent in; return it with the name of its type.

    Plain data is converted to an accepted type that fits it. If the recipient is unknown, any class with fields is accepted.

    Raises:
        WrongMessage: it fits none of the accepted types.
    """
    cls: Any = type(message)
    if not accepts:
        return message, cls.__name__ if fields_of(cls) is not None else ""
    for accepted in accepts:
        if isinstance(message, accepted):
            return message, accepted.__name__
    if fields_of(cls) is None:
        for accepted in accepts:
            try:
                return _convert(message, accepted), accepted.__name__
            except (msgspec.ValidationError, ValueError, TypeError):
                continue
    raise WrongMessage(f"message to {to!r}: expected {_names(accepts)}, got {message!r:.200}; send one of these")


def opened(data: Any, name: str, accepts: Sequence[type]) -> tuple[object, type | None]:
    """Decode a received message from plain data and the type name given by its sender; return it with its type.

    Raises:
        WrongMessage: it has none of the accepted types.
    """
    if not accepts:
        return data, None
    named = [accepted for accepted in accepts if accepted.__name__ == name]
    for accepted in named or accepts:
        try:
            return _convert(data, accepted), accepted
        except (msgspec.ValidationError, ValueError, TypeError):
            continue
    raise WrongMessage(f"expected {_names(accepts)}, got {f'{name} ' if name else ''}{data!r:.200}")


def types_of(harness: type) -> tuple[type, ...]:
    """Return the message types that a harness class accepts; empty for any.

    Raises:
        HarnessMisuse: `accepts` is not a tuple of classes. A callable `accepts` is taken for a method of the author's.
    """
    accepts: Any = getattr(harness, "accepts", ())
    if callable(accepts) or isinstance(accepts, property):
        return ()
    if not isinstance(accepts, tuple) or not all(isinstance(one, type) for one in cast(tuple[object, ...], accepts)):
        raise HarnessMisuse(f"{harness.__name__}.accepts: expected a tuple of classes, got {accepts!r:.200}")
    return cast(tuple[type, ...], accepts)


def limit_of(harness: type) -> int | None:
    """Return how many messages may wait for harnesses of a class; None for no limit.

    Raises:
        HarnessMisuse: `mailbox_limit` is not a whole number from 1 up.
    """
    limit: Any = getattr(harness, "mailbox_limit", None)
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise HarnessMisuse(
            f"{harness.__name__}.mailbox_limit: expected a whole number from 1 up, or None, got {limit!r:.100}"
        )
    return limit


def check_sent(unsent: Sequence[str]) -> None:
    """Raise `HarnessMisuse` if there are messages, to these recipients, that no step has sent."""
    if unsent:
        raise HarnessMisuse(
            f"execute() returned with {len(unsent)} messages that no step has sent, the first to {unsent[0]!r}: "
            "expected a `yield` after `send` and `reply`; none of them was sent"
        )


def check_kinds(kinds: Sequence[type], accepts: Sequence[type]) -> None:
    """Raise `HarnessMisuse` unless all of these types can be received by a harness that accepts `accepts`."""
    for kind in kinds:
        if kind is not Request and kind not in accepts:
            names = ", ".join(accepted.__name__ for accepted in accepts) or "none: set `accepts`"
            raise HarnessMisuse(f"receive: expected Request or a type of `accepts` ({names}), got {kind!r:.100}")


def check_waiting(unsent: Sequence[str]) -> None:
    """Raise `HarnessMisuse` if `execute()` would wait for a message while its own messages to these recipients are unsent."""
    if unsent:
        raise HarnessMisuse(
            f"receive: execute() would wait with {len(unsent)} messages unsent, the first to {unsent[0]!r}: "
            "expected a `yield` after `send` and `reply`; yield before you wait, or use ask()"
        )


def check_timeout(timeout_s: float) -> None:
    """Raise `HarnessMisuse` unless the timeout is a finite number of seconds from 0 up."""
    if isinstance(timeout_s, bool) or not isinstance(cast(object, timeout_s), int | float) or not isfinite(timeout_s):
        raise HarnessMisuse(f"ask: expected a finite timeout_s, got {timeout_s!r:.100}")
    if timeout_s < 0:
        raise HarnessMisuse(f"ask: expected a timeout_s from 0 up, got {timeout_s!r}")


def timed_out(to: str, timeout_s: float) -> AskTimeout:
    """Return the error for a request without a reply in time."""
    return AskTimeout(
        f"ask {to!r}: expected a reply within {timeout_s:g} s, got none; the request stays queued, its reply will be dropped"
    )


def moment_of(time_us: int) -> datetime:
    """Convert wall time in microseconds to a datetime."""
    return datetime.fromtimestamp(time_us / 1e6, UTC)


def query(function: FunctionT) -> FunctionT:
    """Make a method of a harness callable through `handle.query`; it sees the state of the last recorded step.

    It must be synchronous. It is called on a copy of the harness, so its changes to the state have no effect.
    """
    setattr(function, _QUERY, True)
    return function


def queries_of(harness: type) -> dict[str, Callable[..., Any]]:
    """Return the query methods of a harness class, by name."""
    found = ((name, getattr(harness, name, None)) for name in dir(harness))
    return {name: cast(Callable[..., Any], method) for name, method in found if getattr(method, _QUERY, False)}


def _convert(data: object, cls: Any) -> Any:
    return msgspec.convert(data, cls, str_keys=True)


def _names(accepts: Sequence[type]) -> str:
    return " or ".join(map(_described, accepts))


def _described(accepted: type) -> str:
    """Return the name of a type, with its fields if it has any."""
    names = fields_of(accepted)
    return accepted.__name__ if names is None else f"{accepted.__name__}({', '.join(names)})"
