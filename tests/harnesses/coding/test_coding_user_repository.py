"""Branches of the user's repository move as expected or not at all, and nothing else of it is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from harnesses.coding.git import find_git
from harnesses.coding.judge_repository import JudgeRepository
from harnesses.coding.user_repository import UserRepository, find_user_repository
from harnesses.features.errors import InvalidRequest, NotReady
from tests.harnesses.coding.git_repositories import commit_files, fingerprint, git, judging, make_repository


async def origin_of(repository: Path) -> UserRepository:
    return await find_user_repository(await find_git(repository), repository)


async def new_commit(judge: JudgeRepository, base: str, message: str = "new") -> str:
    return await judge.commit(await judge.tree_of(base), base, message=message)


async def test_in_a_bare_repository_work_goes_to_its_branch(tmp_path: Path) -> None:
    origin = await origin_of(make_repository(tmp_path / "user.git", bare=True))

    assert await origin.target("runner", None) == "main"


async def test_what_is_checked_out_is_left_alone(tmp_path: Path) -> None:
    origin = await origin_of(make_repository(tmp_path / "user"))

    assert await origin.target("runner", None) == "harness/runner/main"


async def test_a_branch_that_is_checked_out_somewhere_can_not_be_chosen(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)
    git(user, "worktree", "add", "--quiet", "-b", "side", tmp_path / "linked")
    origin = await origin_of(user)

    with pytest.raises(InvalidRequest, match="'side' is checked out: expected one that is not"):
        await origin.target("runner", "side")


@pytest.mark.parametrize("into", ["a..b", "a b", "-x", "", "x.lock", "a\nb"])
async def test_a_name_that_can_not_be_a_branch_is_refused(tmp_path: Path, into: str) -> None:
    origin = await origin_of(make_repository(tmp_path / "user"))

    with pytest.raises(InvalidRequest, match="expected the name of a branch"):
        await origin.target("runner", into)


async def test_a_symbolic_ref_is_no_branch_to_work_on(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user")
    git(user, "symbolic-ref", "refs/heads/alias", "refs/heads/main")

    with pytest.raises(InvalidRequest, match="symbolic ref"):
        await (await origin_of(user)).target("runner", "alias")


@pytest.mark.parametrize("odd", ["feature/x", "ünïcödé", "a@b", "no'quotes\"here", "#1"])
async def test_odd_names_of_branches_are_fine(tmp_path: Path, odd: str) -> None:
    user = make_repository(tmp_path / "user")
    git(user, "branch", "-m", odd)
    origin, judge, _ = await judging(tmp_path, user)
    into = await origin.target("runner", None)

    tip = await origin.ensure(into, judge)

    assert into == f"harness/runner/{odd}"
    assert git(user, "rev-parse", into) == tip == git(user, "rev-parse", "HEAD")


async def test_a_detached_head_is_where_the_work_begins(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user")
    first = git(user, "rev-parse", "HEAD")
    commit_files(user, {"b.txt": "b"})
    git(user, "checkout", "--quiet", "--detach", first)
    origin, judge, _ = await judging(tmp_path, user)

    assert await origin.target("runner", None) == "harness/runner/head"
    assert await origin.ensure("harness/runner/head", judge) == first


@pytest.mark.parametrize("bare", [True, False])
async def test_an_empty_repository_gets_a_first_commit(tmp_path: Path, bare: bool) -> None:
    user = tmp_path / "user"
    user.mkdir()
    git(user, "init", "--quiet", "--initial-branch=main", *(["--bare"] if bare else []))
    origin, judge, _ = await judging(tmp_path, user)
    into = await origin.target("runner", None)

    tip = await origin.ensure(into, judge)

    assert into == ("main" if bare else "harness/runner/main")
    assert await origin.ensure(into, judge) == tip == await judge.empty_commit()
    assert await judge.files(tip) == ()


async def test_a_linked_worktree_stands_for_its_own_head(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user")
    git(user, "worktree", "add", "--quiet", "-b", "side", tmp_path / "linked")
    side = commit_files(tmp_path / "linked", {"b.txt": "b"})
    origin, judge, _ = await judging(tmp_path, tmp_path / "linked")

    assert await origin.target("runner", None) == "harness/runner/side"
    assert await origin.ensure("harness/runner/side", judge) == side


@pytest.mark.parametrize("name", ["with space", "new\nline", "quote'\"", "ünï", ":colon", "-dash"])
async def test_a_repository_may_be_anywhere(tmp_path: Path, name: str) -> None:
    user = make_repository(tmp_path / name / "user")
    origin, judge, workshop = await judging(tmp_path / name / "space", user)
    tip = await origin.ensure("into", judge)

    worktree = await workshop.open("try", tip, "harness/x/1")

    assert (worktree.path / "a.txt").read_text() == "a\n"


async def test_a_directory_below_the_top_stands_for_its_repository(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user", {"sub/a.txt": "a"})

    origin = await origin_of(user / "sub")

    assert origin.git.directory == user / ".git"


@pytest.mark.parametrize("name", ["nothing", "empty"])
async def test_what_is_no_repository_is_said_to_be_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(InvalidRequest, match=r"expected .*git repository, was n"):
        await origin_of(tmp_path / name)


async def test_a_branch_moves_from_where_it_is_expected_and_the_checkout_does_not(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user")
    (user / "a.txt").write_text("not committed")
    (user / "new.txt").write_text("not known")
    origin, judge, _ = await judging(tmp_path / "space", user)
    before = fingerprint(user)
    tip = await origin.ensure("into", judge)
    new = await new_commit(judge, tip)
    await origin.receive(judge, new)

    assert await origin.move("into", new, tip)

    assert git(user, "rev-parse", "into") == new
    assert fingerprint(user) == before


async def test_a_branch_that_is_elsewhere_stays_there(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user")
    origin, judge, _ = await judging(tmp_path / "space", user)
    tip = await origin.ensure("into", judge)
    mine, theirs = await new_commit(judge, tip), await new_commit(judge, tip, "theirs")
    for commit in (mine, theirs):
        await origin.receive(judge, commit)
    assert await origin.move("into", theirs, tip)

    assert not await origin.move("into", mine, tip)

    assert await origin.tip("into") == theirs


async def test_of_many_that_move_a_branch_at_once_one_does(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user")
    origin, judge, _ = await judging(tmp_path / "space", user)
    tip = await origin.ensure("into", judge)
    commits = [await new_commit(judge, tip, f"{number}") for number in range(6)]
    moved: list[str] = []

    async def move(commit: str) -> None:
        await origin.receive(judge, commit)
        if await origin.move("into", commit, tip):
            moved.append(commit)

    async with trio.open_nursery() as nursery:
        for commit in commits:
            nursery.start_soon(move, commit)

    assert moved == [await origin.tip("into")]


async def test_what_has_become_a_symbolic_ref_does_not_move_what_it_stands_for(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user")
    origin, judge, _ = await judging(tmp_path / "space", user)
    tip = await origin.ensure("into", judge)
    new = await new_commit(judge, tip)
    await origin.receive(judge, new)
    git(user, "symbolic-ref", "refs/heads/into", "refs/heads/main")

    await origin.move("into", new, tip)

    assert git(user, "rev-parse", "main") == tip


async def test_a_user_s_hooks_and_settings_are_not_obeyed(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user")
    for name in ("reference-transaction", "post-update", "update", "pre-auto-gc"):
        (user / ".git" / "hooks" / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/RAN\n")
        (user / ".git" / "hooks" / name).chmod(0o755)
    git(user, "config", "core.hooksPath", str(user / ".git" / "hooks"))
    git(user, "config", "core.fsmonitor", f"touch {tmp_path}/RAN")
    git(user, "config", "uploadpack.packObjectsHook", f"touch {tmp_path}/RAN; true")
    origin, judge, _ = await judging(tmp_path / "space", user)
    tip = await origin.ensure("into", judge)
    new = await new_commit(judge, tip)
    await origin.receive(judge, new)

    assert await origin.move("into", new, tip)

    assert not (tmp_path / "RAN").exists()


async def test_a_shallow_repository_is_given_commits_too(tmp_path: Path) -> None:
    whole = make_repository(tmp_path / "whole")
    commit_files(whole, {"b.txt": "b"})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{whole}", tmp_path / "user")
    origin, judge, workshop = await judging(tmp_path / "space", tmp_path / "user")
    tip = await origin.ensure("into", judge)
    worktree = await workshop.open("try", tip, "harness/x/1")
    (worktree.path / "c.txt").write_text("c")
    tree = await judge.snapshot(worktree.path, worktree.index, tip)
    new = await judge.commit(tree, tip, message="new")
    await origin.receive(judge, new)

    assert await origin.move("into", new, tip)

    assert git(tmp_path / "user", "log", "--format=%s", "into") == "new\nwork"


async def test_names_of_objects_may_be_long(tmp_path: Path) -> None:
    user = tmp_path / "user"
    user.mkdir()
    git(user, "init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    commit_files(user, {"a.txt": "a"})
    origin, judge, workshop = await judging(tmp_path / "space", user)
    tip = await origin.ensure("into", judge)
    worktree = await workshop.open("try", tip, "harness/x/1")
    new = await new_commit(judge, await judge.commit(await judge.tree_of(tip), tip, message="one"))
    await origin.receive(judge, new)

    assert len(tip) == 64
    assert await origin.move("into", new, tip)
    assert (worktree.path / "a.txt").read_text() == "a"


async def test_a_branch_is_dropped_only_if_it_is_where_it_was_left(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user")
    origin, judge, _ = await judging(tmp_path / "space", user)
    tip = await origin.ensure("into", judge)

    await origin.drop("into", "0" * 40)
    kept = await origin.tip("into")
    await origin.drop("into", tip)

    assert (kept, await origin.tip("into")) == (tip, None)


async def test_a_git_that_is_missing_or_too_old_is_said_to_be(tmp_path: Path) -> None:
    old = tmp_path / "git"
    old.write_text("#!/bin/sh\necho git version 2.11.0\n")
    old.chmod(0o755)

    with pytest.raises(NotReady, match=r"expected git 2\.32 or newer, was .git version 2\.11\.0."):
        await find_git(tmp_path, program=str(old))
    with pytest.raises(NotReady, match="'no-such-git' was not found"):
        await find_git(tmp_path, program="no-such-git")
