"""Which generated pages there are, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from orchestrator.analysis.sql.sql_room import Room
from tests import ROOT
from tests.docs import (
    api_pages,
    cli_page,
    errors_page,
    exit_codes_page,
    log_page,
    metrics_page,
    openapi_document,
    questions_page,
    run_file_schema,
    run_files_page,
    views_page,
)

DOCS = ROOT / "docs"
LOG = DOCS / "reference" / "run.jsonl"
OF_THE_RUN: dict[str, Callable[[Room], str]] = {
    "reference/views.md": views_page.page,
    "reference/questions.md": questions_page.page,
}
"""Pages that show a recorded run."""
OF_THE_CODE: dict[str, Callable[[], str]] = {
    "reference/cli.md": cli_page.page,
    "reference/run-file.md": run_files_page.page,
    "../orchestrator/cli/run/run_file_schema.json": run_file_schema.text,
    "reference/log.md": log_page.page,
    "reference/metrics.md": metrics_page.page,
    "reference/exit-codes.md": exit_codes_page.page,
    "reference/errors.md": errors_page.page,
    "reference/openapi.json": openapi_document.document,
    **{f"reference/api/{name}.md": partial(api_pages.markdown, page) for name, page in api_pages.PAGES.items()},
}
"""Pages that say what is in the code."""
NAMES = (*OF_THE_RUN, *OF_THE_CODE)


def generated(room: Room, name: str) -> str:
    """Return a page as it is to be."""
    return OF_THE_RUN[name](room) if name in OF_THE_RUN else OF_THE_CODE[name]()


def write() -> Iterator[Path]:
    """Write every page, and yield their paths."""
    with Room(str(LOG)) as room:
        for name in NAMES:
            (DOCS / name).write_text(generated(room, name), encoding="utf-8")
            yield DOCS / name
