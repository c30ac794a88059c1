"""Values as lines: JSON for programs, columns for people. What agents wrote is inert in both. Pure.

Invariant: a line holds no secret, and no character that a terminal acts upon. In JSON such characters are written as escapes,
so nothing else is lost; in lines for people they are written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from orchestrator.records import StepRecord
from orchestrator.text.json_text import escape
from orchestrator.text.json_text import json_line as json_line
from orchestrator.text.json_text import json_text as json_text
from orchestrator.text.json_text import stamp as stamp
from orchestrator.text.json_text import stamp_us as stamp_us
from orchestrator.text.terminal_text import one_line

_ENCODED_MOST = 4000
"""Characters of a value that are looked at for a line which will show a tenth of them."""


def json_pretty(value: object) -> str:
    """Return `value` as JSON for people: indented by two."""
    return escape(msgspec.json.format(json_text(value), indent=2))


def step_fields(record: StepRecord) -> dict[str, Any]:
    """Return a step as the command shows it everywhere: the fields of `Step`, then where it stands."""
    delta = record.state_delta
    return {
        "step_number": record.step_number,
        "timestamp": stamp(record.timestamp),
        "input": record.input,
        "output": record.output,
        "state_delta": {"modified": delta.modified, "summary": delta.summary},
        "harness": record.harness,
        "attempt": record.attempt,
        "seq": record.seq,
    }


def brief(value: object, width: int) -> str:
    """Return any value on one line of at most `width` characters: text as it is, the rest as JSON."""
    text = value if isinstance(value, str) else json_text(value)
    return one_line(text[:_ENCODED_MOST], width)


def columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table line by line, each column as wide as it needs to be. The cells must be inert."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20\u2212")
"""What a spreadsheet takes for a formula at the beginning of a cell, in any width. Source: OWASP, CSV Injection."""


def harmless(text: str) -> str:
    """Return text for a cell: on one line, inert, and no formula."""
    flat = one_line(text, 32_000)
    return f"'{flat}" if flat.startswith(_FORMULA) else flat
