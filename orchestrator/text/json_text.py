"""Values as JSON that can be shown anywhere: on one line, without secrets, inert. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from harnesses.diagnostics.control_characters import inert_json
from harnesses.redaction.redactor import may_hold_secret, redact
from orchestrator.codec import decode, encode

_LINE_ENDS = str.maketrans({"\u2028": r"\u2028", "\u2029": r"\u2029"})
"""Where some readers end a line, though JSON does not."""


def json_line(value: object) -> str:
    """Return `value` as one line of JSON."""
    return escape(json_text(value))


def json_text(value: object) -> str:
    """Return `value` as JSON, without the secrets in it."""
    text = encode(value)
    return encode(redact(decode(text))) if may_hold_secret(text) else text


def escape(text: str) -> str:
    """Return JSON with the same meaning and nothing in it that a terminal acts upon, or that ends a line."""
    return inert_json(text).translate(_LINE_ENDS)


def object_of(text: str) -> dict[str, Any]:
    """Return a JSON object; an empty one for any other text."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def stamp(time: datetime) -> str:
    """Return an aware time as ISO 8601 in UTC, always with microseconds."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def stamp_us(time_us: int) -> str | None:
    """Return microseconds since 1970 as `stamp` does; None for 0, which stands for never."""
    return stamp(datetime.fromtimestamp(time_us / 1e6, UTC)) if time_us else None
