"""Which pages there are, and where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from orchestrator.analysis.sql.sql_room import Room
from tests import ROOT
from tests.docs import questions_page, views_page

DOCS = ROOT / "docs"
LOG = DOCS / "reference" / "run.jsonl"
PAGES: dict[str, Callable[[Room], str]] = {
    "reference/views.md": views_page.page,
    "reference/questions.md": questions_page.page,
}


def write() -> list[Path]:
    """Write every page, and return their paths."""
    with Room(str(LOG)) as room:
        for name, page in PAGES.items():
            (DOCS / name).write_text(page(room), encoding="utf-8")
    return [DOCS / name for name in PAGES]
