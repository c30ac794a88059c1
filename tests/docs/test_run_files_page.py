"""What the page about run files shows."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest

from harnesses.errors import OrchestratorError, UsageError
from orchestrator.cli.run.ready_made import READY_MADE
from orchestrator.cli.run.run_file import parse_run_file
from tests.docs.run_file_keys import described
from tests.docs.run_files_page import KEYS, PAGE


def test_the_file_that_the_page_shows_is_one() -> None:
    shown = PAGE.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]

    assert len(parse_run_file(shown, PAGE).harnesses) == len(tomllib.loads(shown)["harness"])


def test_the_run_file_of_the_main_job_is_one() -> None:
    path = PAGE.parents[2] / "examples" / "side_by_side.toml"

    names = [table.config.name for table in parse_run_file(path.read_text(encoding="utf-8"), path).harnesses]

    assert names == ["trading", "coding", "flaky"]


def _refused(text: str, tmp_path: Path) -> str:
    with pytest.raises(UsageError) as refusal:
        parse_run_file(text, tmp_path / "run.toml")
    return str(refusal.value)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("the file", 'zz = 1\n[[harness]]\nname = "a"\nharness = "a:b"'),
        ("[[harness]]", '[[harness]]\nname = "a"\nharness = "a:b"\nzz = 1'),
        ("[[supervisor]]", '[[supervisor]]\nname = "s"\nzz = 1\n[[harness]]\nname = "a"\nharness = "a:b"'),
    ],
)
def test_the_page_has_exactly_the_keys_that_the_parser_accepts(where: str, text: str, tmp_path: Path) -> None:
    accepted = re.search(r"expected one of ([\w, ]+)", _refused(text, tmp_path))

    assert accepted is not None
    assert set(accepted[1].split(", ")) == set(KEYS[where])


@pytest.mark.parametrize("word", READY_MADE)
def test_the_page_has_exactly_the_keys_that_a_ready_made_harness_accepts(word: str) -> None:
    module = importlib.import_module(f"harnesses.run_file_harnesses.{word}_table")

    with pytest.raises(OrchestratorError) as refusal:
        module.read_harness(zz=1)

    accepted = re.search(r"unknown key 'zz': expected one of ([\w, ]+)", str(refusal.value))
    assert accepted is not None
    assert set(KEYS[word]) == set(accepted[1].split(", ")) - {"max_context_steps", "constraints"}


def test_every_key_has_a_meaning() -> None:
    assert [f"{where}.{key}" for where, keys in KEYS.items() for key in keys if not described(where, key).meaning] == []
