"""A program that works features and is killed at any moment comes to the same end as one that is not.

At every commit, and around every git process of ten features: `python -m tests.kill.coding`, and the same with `--git`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .coding_lives import World, killed_around, killed_each_life, uninterrupted

FEATURES = 3
"""One right at once, one wrong at first, one whose agent fails at first."""


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> World:
    world, _, _ = uninterrupted(tmp_path_factory.mktemp("coding") / "whole", FEATURES)
    return world


def test_the_end_is_what_was_worked_for(wanted: World) -> None:
    assert wanted.features.count('"passes":true') == FEATURES
    assert wanted.failed == ("f01", "f02")
    assert wanted.merges == FEATURES


def test_killed_again_and_again_at_commits_it_comes_to_the_same_end(tmp_path: Path, wanted: World) -> None:
    world, kills = killed_each_life(tmp_path / "case", FEATURES, ("before:13", "after:11"))

    assert world == wanted
    assert kills > 2


def test_killed_around_git_processes_it_comes_to_the_same_end(tmp_path: Path, wanted: World) -> None:
    assert killed_around(tmp_path / "case", FEATURES, ("before", 31), ("during", 40), ("after", 22)) == wanted
