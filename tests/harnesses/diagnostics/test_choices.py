"""What was expected is named, and where there is nothing to choose from that is said, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesses.errors import one_of
from harnesses.run_file_harnesses.table_arguments import TableProblems, read_arguments
from orchestrator import MemoryStore, SqliteStore
from orchestrator.errors import UnknownHarness


def nothing() -> None:
    """Take no arguments."""


def test_choices_are_named_and_their_absence_is_said() -> None:
    assert one_of(["a", 2], "there is none") == "expected one of a, 2"
    assert one_of([], "there is none") == "there is none"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_harness_of_an_empty_store_is_told_to_be_started_first(kind: str, tmp_path: Path) -> None:
    store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "run.db")

    with pytest.raises(UnknownHarness, match=r"no harness 'a' in .*: there is none yet; start one first$"):
        store.steps("a")

    store.close()


def test_a_key_for_something_without_arguments_is_told_so() -> None:
    problems = TableProblems("tool")

    read_arguments(nothing, {"speed": 1}, "tool", problems)

    assert "unknown key 'speed': none can be given; correct or remove it" in str(problems.found)
