"""A program that works a pipeline and is killed at any commit comes to the same end as one that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pipeline_lives import World, killed_each_life, killed_once, uninterrupted


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> World:
    return uninterrupted(tmp_path_factory.mktemp("pipeline") / "whole")[0]


def test_the_end_is_what_was_worked_for(wanted: World) -> None:
    assert wanted.statuses == (("a", "PASS"), ("b", "PASS"), ("c", "PASS"), ("d", "PASS"))
    assert wanted.deeds == 1
    assert wanted.manifest == ("DONE", "four stages")


@pytest.mark.parametrize("fault", ["after:2", "after:16", "after:17", "before:21"])
def test_killed_at_a_commit_it_comes_to_the_same_end(tmp_path: Path, wanted: World, fault: str) -> None:
    assert killed_once(tmp_path / "case", f"--fault={fault}") == wanted


def test_killed_again_and_again_it_comes_to_the_same_end(tmp_path: Path, wanted: World) -> None:
    world, kills = killed_each_life(tmp_path / "case", 7, "after")

    assert world == wanted
    assert kills > 2
