"""Spans of an agent call, such as a round or a model call: handed to telemetry as they end.

    with run.span("chat", {"gen_ai.request.model": model}) as span:
        …
        span.set(**{"gen_ai.usage.input_tokens": 12})

Invariant: without telemetry a span costs one call and records nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TypeAlias

from harnesses.timing.clock import now_us

SpanValue: TypeAlias = str | int | float | bool
_current: ContextVar[AgentSpan | None] = ContextVar("harnesses.agent_spans", default=None)


class AgentSpan:
    """A part of an agent call. A context manager: it begins on entering, ends on leaving, and is then passed to `send`.

    Args:
        scope: prefix of the keys of the call's effects, such as `coder#1/`.
        send: called when the span has ended, children before their parent; must neither wait nor raise.
    """

    __slots__ = ("_send", "_token", "attributes", "end_us", "error", "name", "parent", "scope", "start_us")

    def __init__(self, name: str, attributes: dict[str, SpanValue], scope: str, send: SpanSink) -> None:
        self.name = name
        self.attributes = attributes
        self.scope = scope
        self.parent: AgentSpan | None = None
        """The span in which it began, in this task or in the one that started it."""
        self.start_us = self.end_us = 0
        """Wall-clock times, microseconds since 1970."""
        self.error: str | None = None
        """Type of the exception that ended it; None if none did."""
        self._send = send
        self._token: Token[AgentSpan | None] | None = None

    def set(self, **attributes: SpanValue) -> None:
        """Add attributes; those known already are replaced."""
        self.attributes |= attributes

    def __enter__(self) -> AgentSpan:
        self.parent = _current.get()
        self._token = _current.set(self)
        self.start_us = now_us()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end_us = now_us()
        self.error = None if kind is None else kind.__name__
        if self._token is not None:
            _current.reset(self._token)
        self._send(self)


SpanSink: TypeAlias = Callable[[AgentSpan], None]


class NoSpan:
    """The span of a run without telemetry."""

    __slots__ = ()

    def set(self, **attributes: SpanValue) -> None:
        """Do nothing."""

    def __enter__(self) -> NoSpan:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None


NO_SPAN = NoSpan()
