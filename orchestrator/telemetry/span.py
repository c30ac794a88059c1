"""Spans and the values they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, TypeAlias, cast

from attrs import field, frozen
from msgspec import Struct

from orchestrator.text.terminal_text import inert

Value: TypeAlias = str | int | float | bool | tuple[str, ...]
_MOST_TEXT = 4_000


@frozen
class Moment:
    """An event within a span."""

    name: str
    time_us: int
    attributes: Mapping[str, Value] = field(factory=dict[str, Value])


class Span(Struct, frozen=True, kw_only=True):
    """A time span; ids are hexadecimal. A struct, as millions are made in an export."""

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
    is_client: bool = False
    """Whether it is a request to another service, such as a model."""


def text_of(value: object) -> str:
    """Return text without secrets or control characters, cut to a limit."""
    if value == "":
        return ""
    return inert(str(value)[: 2 * _MOST_TEXT])[:_MOST_TEXT]


def id_of(size: int, *what: object) -> str:
    """Return an id of `size` bytes in hexadecimal, determined by the arguments."""
    return hash_of(size, *what).hexdigest()


def hash_of(size: int, *what: object) -> blake2b:
    """Return the hash of which `id_of` returns the digest."""
    return blake2b("\0".join(map(str, what)).encode(errors="backslashreplace"), digest_size=size)


def object_in(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the JSON object under a name; an empty one if there is none."""
    value: object = fields.get(name)
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}
