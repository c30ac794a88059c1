"""What the page about run files shows."""

from __future__ import annotations

import tomllib

from orchestrator.cli.run.run_file import parse_run_file
from tests.docs.run_files_page import PAGE


def test_the_file_that_the_page_shows_is_one() -> None:
    shown = PAGE.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]

    assert len(parse_run_file(shown, PAGE).harnesses) == len(tomllib.loads(shown)["harness"])


def test_the_run_file_of_the_main_job_is_one() -> None:
    path = PAGE.parents[2] / "examples" / "side_by_side.toml"

    names = [table.config.name for table in parse_run_file(path.read_text(encoding="utf-8"), path).harnesses]

    assert names == ["trading", "coding", "flaky"]
