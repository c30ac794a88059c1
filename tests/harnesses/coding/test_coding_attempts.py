"""What an agent leaves in its worktree becomes a commit on a branch, also if it fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from harnesses.coding.repositories import Repositories, open_repositories
from harnesses.coding.workplace.coding_attempts import CodingAttempts
from harnesses.features.feature import TurnResult
from harnesses.features.feature_record import Assignment
from tests.harnesses.coding.coding_parts import features
from tests.harnesses.coding.git_repositories import git, make_repository


async def opened(tmp_path: Path) -> tuple[Repositories, str]:
    user = make_repository(tmp_path / "user")
    place = await open_repositories(user, "x", into=None, agreed=None, root=tmp_path / "work", identity=None)
    return place, await place.begin()


def assignment() -> Assignment:
    [feature] = features("a")
    return Assignment(feature=feature, turn=1, prompt="Do a.", objective="a")


async def test_the_work_is_a_commit_that_knows_what_it_is_based_on(tmp_path: Path) -> None:
    place, base = await opened(tmp_path)

    async def ask(given: Assignment) -> TurnResult:
        assert (given.base, given.branch) == (base, "harness/x/a/1")
        Path(given.directory, "a.txt").write_text("right\n")  # noqa: ASYNC240
        return TurnResult(message="done")

    result = await CodingAttempts(place).work(ask, assignment(), base)

    assert (result.base, result.branch, result.touched) == (base, "harness/x/a/1", ("a.txt",))
    assert await place.judge.read(result.commit, "a.txt") == b"right\n"
    assert list(place.workspace.trees.iterdir()) == []
    await place.close()


async def test_nothing_changed_is_the_commit_that_it_began_with(tmp_path: Path) -> None:
    place, base = await opened(tmp_path)

    async def ask(given: Assignment) -> TurnResult:
        return TurnResult(message="nothing to do")

    result = await CodingAttempts(place).work(ask, assignment(), base)

    assert (result.commit, result.branch) == (base, None)
    await place.close()


async def test_what_an_agent_that_fails_has_left_is_kept_on_its_branch(tmp_path: Path) -> None:
    place, base = await opened(tmp_path)

    async def ask(given: Assignment) -> TurnResult:
        Path(given.directory, "a.txt").write_text("half\n")  # noqa: ASYNC240
        raise ConnectionError("no route")

    with pytest.raises(ConnectionError):
        await CodingAttempts(place).work(ask, evolve(assignment(), turn=2), base)

    assert git(tmp_path / "user", "show", "harness/x/a/2:a.txt") == "half"
    await place.close()
