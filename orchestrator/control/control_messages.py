"""What is asked over HTTP, and what is answered. Values; no I/O."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from attrs import field, frozen

from orchestrator.text.json_text import json_line
from orchestrator.text.terminal_text import one_line

JSON = "application/json"
JSON_LINES = "application/x-ndjson"


@frozen
class Request:
    """What is asked."""

    method: str
    parts: tuple[str, ...]
    """Of the path, decoded."""
    options: Mapping[str, str] = field(factory=dict[str, str])
    """What stands behind the question mark."""
    body: bytes = b""


@frozen
class Response:
    """What is answered."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = field(factory=dict[str, str])


Answer: TypeAlias = Callable[[Request], Awaitable[Response]]


def request_of(method: str, target: str) -> Request:
    """Return what a request line asks.

    Raises:
        ValueError: the target is none.
    """
    split = urlsplit(target)
    parts = tuple(unquote(part, errors="strict") for part in split.path.strip("/").split("/"))
    return Request(method, parts, dict(parse_qsl(split.query, max_num_fields=10)))


def refusal(status: int, text: str, **headers: str) -> Response:
    """Return an answer that says what is wrong."""
    return answered(status, {"error": one_line(text, 2000)}, **headers)


def answered(status: int, value: object, **headers: str) -> Response:
    """Return a value as JSON."""
    return Response(status, f"{json_line(value)}\n".encode(), JSON, headers)
