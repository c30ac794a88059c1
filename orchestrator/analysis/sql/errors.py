"""What DuckDB says is wrong with a query, as one line with its place. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, cast

_MEMORY = re.compile(r"\s*Possible solutions:.*", re.DOTALL)
_CANDIDATES = re.compile(r"\s*Candidate functions:.*", re.DOTALL)
_HINT = {
    "Out of Memory": "ask for less at once, with WHERE, LIMIT or fewer columns",
    "Permission": "a query reads the views of the run, and nothing else",
}


def in_words(text: str, query: str) -> str:
    """Return the message of an error of DuckDB's, which has it as JSON or as text."""
    kind, _, rest = text.partition(" Error: ")
    said = _fields(rest)
    message = str(said.get("exception_message", rest or text))
    message = _CANDIDATES.sub("", _MEMORY.sub("", message))
    message = " ".join(message.split()).rstrip(";")
    where = place(query, _position(said))
    return "; ".join(filter(None, (f"{message}{where}", _HINT.get(kind))))


def place(query: str, at: int | None) -> str:
    """Return where in a query something is, as ` (line 1, column 8)`; nothing if that is not known.

    Args:
        at: bytes of UTF-8 from its beginning.
    """
    if at is None:
        return ""
    before = query.encode("utf-8", "surrogatepass")[:at].decode("utf-8", "replace")
    line = before.count("\n") + 1
    return f" (line {line}, column {len(before) - before.rfind(chr(10))})"


def _fields(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except ValueError:
        return {}
    return cast("dict[str, Any]", said) if isinstance(said, dict) else {}


def _position(said: dict[str, Any]) -> int | None:
    try:
        return int(said["position"])
    except (KeyError, TypeError, ValueError):
        return None
