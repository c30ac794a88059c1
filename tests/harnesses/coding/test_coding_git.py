"""Git is run so that its arguments alone decide, within bounds, and leaves no process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from harnesses.coding.git import Git, GitError, Identity, find_git
from tests.harnesses.coding.git_repositories import git, make_repository


@pytest.fixture
async def here(tmp_path: Path) -> Git:
    make_repository(tmp_path / "user", {f"{number}.txt": "text\n" for number in range(50)})
    return await find_git(tmp_path / "user" / ".git")


async def test_an_error_says_what_was_run_where_and_what_git_said(here: Git) -> None:
    with pytest.raises(GitError) as caught:
        await here.run("rev-parse", "--verify", "nothing")

    assert str(caught.value).startswith(
        f"Memory: repository {here.directory}: `git rev-parse --verify nothing` ended with code 128"
    )
    assert (caught.value.code, caught.value.tail) == (128, "fatal: Needed a single revision")


async def test_output_is_bounded(here: Git) -> None:
    with pytest.raises(GitError, match="wrote more than 100 bytes"):
        await here.run("ls-tree", "-r", "HEAD", most=100)


async def test_time_is_bounded_and_nothing_is_left(here: Git, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(GitError, match=r"took longer than 0\.2 s"):
        await here.run("hash-object", tmp_path / "pipe", limit_s=0.2)

    os.close(os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK))


async def test_a_cancelled_command_is_ended(here: Git, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with trio.move_on_after(0.2) as scope:
        await here.run("hash-object", tmp_path / "pipe")

    assert scope.cancelled_caught
    with pytest.raises(OSError, match="No such device"):
        os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK)


async def test_the_machine_s_environment_and_configuration_count_for_nothing(
    here: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("[user]\n\tname = machine\n[core]\n\tabbrev = 4\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "machine")

    made = await here.run("commit-tree", "HEAD^{tree}", "-m", "x")

    assert git(here.directory, "show", "-s", "--format=%an %cn", made.decode().strip()) == (
        "durable-harnesses durable-harnesses"
    )


async def test_who_commits_can_be_named(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user")
    here = await find_git(user / ".git", identity=Identity(name="Ann", email="ann@example.org"))

    made = await here.run("commit-tree", "HEAD^{tree}", "-m", "x")

    assert git(user, "show", "-s", "--format=%an <%ae>", made.decode().strip()) == "Ann <ann@example.org>"


async def test_what_is_held_stays_open_in_a_git_that_outlives_its_program(here: Git, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read, write = os.pipe()
    os.set_blocking(read, False)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(here.holding(write).run, "hash-object", tmp_path / "pipe")
        feed = await trio.to_thread.run_sync(os.open, tmp_path / "pipe", os.O_WRONLY)
        os.close(write)
        with pytest.raises(BlockingIOError):
            os.read(read, 1)
        os.close(feed)

    assert os.read(read, 1) == b""
    os.close(read)
