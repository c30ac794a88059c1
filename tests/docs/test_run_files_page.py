"""The page about run files names every key that the parser knows, and no other."""

from __future__ import annotations

import tomllib

from orchestrator.cli.run.run_file import parse_run_file
from tests.docs.run_files_page import PAGE, page


def test_the_page_has_exactly_the_keys_that_the_parser_knows() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it anew: python -m tests.docs.run_files_page"


def test_the_file_that_the_page_shows_is_one() -> None:
    shown = PAGE.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]

    assert len(parse_run_file(shown, PAGE).harnesses) == len(tomllib.loads(shown)["harness"])


def test_the_run_file_of_the_main_job_is_one() -> None:
    path = PAGE.parents[2] / "examples" / "side_by_side.toml"

    names = [table.config.name for table in parse_run_file(path.read_text(encoding="utf-8"), path).harnesses]

    assert names == ["trading", "coding", "flaky"]
