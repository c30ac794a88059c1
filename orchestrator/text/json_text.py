"""Values as JSON that is safe to show: on one line, without secrets or control characters. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from harnesses.diagnostics.control_characters import inert_json
from harnesses.redaction.redactor import may_hold_secret, redact
from orchestrator.codec import decode, encode

_LINE_ENDS = str.maketrans({"\u2028": r"\u2028", "\u2029": r"\u2029"})
"""Characters that some readers take for a line end, although JSON does not."""


def json_line(value: object) -> str:
    """Return `value` as one line of JSON."""
    return escape(json_text(value))


def json_text(value: object) -> str:
    """Return `value` as JSON without its secrets."""
    text = encode(value)
    return encode(redact(decode(text))) if may_hold_secret(text) else text


def escape(text: str) -> str:
    """Return equivalent JSON without characters that control a terminal or end a line."""
    inert = inert_json(text)
    return inert if inert.isascii() else inert.translate(_LINE_ENDS)


def object_of(text: str) -> dict[str, Any]:
    """Parse a JSON object; return an empty dict for any other text."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def stamp(time: datetime) -> str:
    """Return an aware time as ISO 8601 in UTC, always with microseconds."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def stamp_us(time_us: int) -> str | None:
    """Return microseconds since 1970 as `stamp` does; None for 0, which means never."""
    return stamp(datetime.fromtimestamp(time_us / 1e6, UTC)) if time_us else None
