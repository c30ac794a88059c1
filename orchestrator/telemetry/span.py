"""Spans and what happens within them: values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import TypeAlias

from attrs import field, frozen

from orchestrator.text.terminal_text import inert

Value: TypeAlias = str | int | float | bool
_MOST_TEXT = 4_000


@frozen
class Moment:
    """Something that happened within a span."""

    name: str
    time_us: int
    attributes: Mapping[str, Value] = field(factory=dict[str, Value])


@frozen(kw_only=True)
class Span:
    """A stretch of time; the ids in hexadecimal."""

    trace_id: str
    span_id: str
    parent_id: str = ""
    name: str
    start_us: int
    end_us: int
    attributes: Mapping[str, Value]
    moments: tuple[Moment, ...] = ()
    error: str | None = None
    """What went wrong; None if nothing did."""


def text_of(value: object) -> str:
    """Return text as it may be shown: inert, without secrets, and not too long."""
    return inert(str(value)[: 2 * _MOST_TEXT])[:_MOST_TEXT]


def id_of(size: int, *what: object) -> str:
    """Return an id of so many bytes, in hexadecimal: the same for the same."""
    return blake2b("\0".join(map(str, what)).encode(errors="backslashreplace"), digest_size=size).hexdigest()
