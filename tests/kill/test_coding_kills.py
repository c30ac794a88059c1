"""A program that works ten features and is killed at any moment comes to the same end as one that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from .coding_lives import World, killed_each_life, killed_once, uninterrupted, wait_until_gone


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> World:
    world, _, _ = uninterrupted(tmp_path_factory.mktemp("coding") / "whole")
    return world


def test_the_end_is_what_was_worked_for(wanted: World) -> None:
    assert wanted.features.count('"passes":true') == 10
    assert wanted.failed == ("f01", "f04", "f07", "f08")
    assert wanted.merges == 10


@pytest.mark.parametrize(("every", "moment"), [(13, "before"), (11, "after")])
def test_killed_again_and_again_at_commits_it_comes_to_the_same_end(
    tmp_path: Path, wanted: World, every: int, moment: str
) -> None:
    world, kills = killed_each_life(tmp_path / "case", every, moment)

    assert world == wanted
    assert kills > 5


@pytest.mark.parametrize(("moment", "number"), [("before", 31), ("during", 44), ("after", 60)])
def test_killed_around_a_git_process_it_comes_to_the_same_end(tmp_path: Path, wanted: World, moment: str, number: int) -> None:
    assert killed_once(tmp_path / "case", git=(moment, number)) == wanted
    wait_until_gone(tmp_path)
