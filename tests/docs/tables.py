"""What a query gives, as it stands in a page."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orchestrator.analysis.sql.sql_room import Room
from orchestrator.cli.query.answer_tables import Tally, text_rows


def answer(room: Room, query: str) -> str:
    """Return what the command shows for a query."""
    return "\n".join(text_rows(room.ask(query), Tally()))


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yield each query of a page, and what the page says that it gives."""
    yield from re.findall(r"```sql\n(.*?)\n```\n\n```text\n(.*?)\n```", page, re.DOTALL)


def rows(head: tuple[str, ...], lines: Iterator[tuple[str, ...]]) -> Iterator[str]:
    """Yield a table of Markdown."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for line in lines:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |"
