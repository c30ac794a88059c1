"""Text that is being typed, split into queries at each `;` that stands for an end. Pure."""

from __future__ import annotations

import re

_PART = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|(?P<tag>\$\w*\$).*?(?P=tag)|(?P<open>'|"|/\*|\$\w*\$)|(?P<end>;)|.""",
    re.DOTALL,
)


def split(text: str) -> tuple[list[str], str]:
    """Return the whole queries of a text, without their `;`, and what is left of it: a query that has not ended yet."""
    queries, begin = list[str](), 0
    for part in _PART.finditer(text):
        if part["open"]:
            break
        if part["end"]:
            queries.append(text[begin : part.start()].strip())
            begin = part.end()
    return [query for query in queries if query], text[begin:].lstrip()
