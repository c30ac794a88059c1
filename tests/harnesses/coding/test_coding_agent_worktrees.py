"""Agents may do in their worktrees and in the workshop as they like: it reaches neither the judge nor the next worktree."""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from harnesses.coding.agent_worktrees import AgentWorktrees, Worktree
from harnesses.coding.git import GitError
from harnesses.coding.judge_repository import JudgeRepository, Uncommittable
from tests.harnesses.coding.git_repositories import ENV, fingerprint, git, judging, make_repository

Deed = Callable[[Path], object]


class Place:
    """A repository, and what a try in it is made with."""

    def __init__(self, folder: Path, repository: Path) -> None:
        self.folder, self.repository = folder, repository
        self.judge: JudgeRepository
        self.workshop: AgentWorktrees
        self.base = ""

    async def prepare(self) -> None:
        origin, self.judge, self.workshop = await judging(self.folder / "workspace", self.repository)
        self.base = await origin.ensure("work", self.judge)

    async def attempt(self, deed: Deed) -> dict[str, str]:
        """Have an agent do something, and return the content of the commit that it comes to."""
        worktree = await self.workshop.open("try", self.base, "harness/x/1")
        try:
            deed(worktree.path)
            return await self.content(worktree)
        finally:
            await self.workshop.close(worktree)

    async def content(self, worktree: Worktree) -> dict[str, str]:
        tree = await self.judge.snapshot(worktree.path, worktree.index, self.base)
        commit = await self.judge.commit(tree, self.base, message="try")
        return {path: ((await self.judge.read(commit, path)) or b"").decode() for path in await self.judge.files(commit)}


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    made = Place(tmp_path, make_repository(tmp_path / "user", {"a.txt": "a\n", "sub/b.txt": "b\n", ".gitignore": "*.tmp\n"}))
    await made.prepare()
    return made


BEFORE = {"a.txt": "a\n", "sub/b.txt": "b\n", ".gitignore": "*.tmp\n"}


def agent_git(worktree: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=worktree, env=ENV, check=True, capture_output=True)


def common(worktree: Path) -> Path:
    return Path(git(worktree, "rev-parse", "--path-format=absolute", "--git-common-dir"))


async def test_a_worktree_is_on_its_branch_clean_and_at_the_commit(place: Place) -> None:
    worktree = await place.workshop.open("try", place.base, "harness/x/1")

    assert git(worktree.path, "status", "--short", "--branch") == "## harness/x/1"
    assert git(worktree.path, "rev-parse", "HEAD") == place.base
    assert (worktree.path / "sub" / "b.txt").read_text() == "b\n"


async def test_what_is_changed_added_and_removed_is_taken_and_what_is_ignored_is_not(place: Place) -> None:
    def deed(tree: Path) -> None:
        (tree / "a.txt").write_text("other\n")
        (tree / "sub" / "b.txt").unlink()
        (tree / "new file\nwith a newline.txt").write_text("new\n")
        (tree / "x.tmp").write_text("ignored")
        (tree / "__pycache__").mkdir()
        (tree / "__pycache__" / "m.pyc").write_text("left behind")

    content = await place.attempt(deed)

    assert content == {"a.txt": "other\n", ".gitignore": "*.tmp\n", "new file\nwith a newline.txt": "new\n"}


def _commits(tree: Path) -> None:
    (tree / "a.txt").write_text("mine\n")
    agent_git(tree, "commit", "-qam", "mine")


def _rewrites_history(tree: Path) -> None:
    (tree / "a.txt").write_text("mine\n")
    agent_git(tree, "checkout", "-q", "--orphan", "other")
    agent_git(tree, "add", "-A")
    agent_git(tree, "commit", "-qm", "all new")


def _amends(tree: Path) -> None:
    (tree / "a.txt").write_text("mine\n")
    agent_git(tree, "commit", "-qa", "--amend", "-m", "rewritten")
    agent_git(tree, "branch", "-f", "main", "HEAD")


def _deletes_git(tree: Path) -> None:
    (tree / "a.txt").write_text("mine\n")
    (tree / ".git").unlink()


def _makes_its_own_git(tree: Path) -> None:
    _deletes_git(tree)
    agent_git(tree, "init", "-q")


def _leaves_locks(tree: Path) -> None:
    (tree / "a.txt").write_text("mine\n")
    for name in ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock"):
        (common(tree) / name).touch()
    (Path(git(tree, "rev-parse", "--absolute-git-dir")) / "index.lock").touch()


def _locks_up(tree: Path) -> None:
    (tree / "a.txt").write_text("mine\n")
    for path in (tree / "a.txt", tree / "sub" / "b.txt", tree / "sub", common(tree) / "objects", tree):
        path.chmod(0)


def _hides_changes(tree: Path) -> None:
    (tree / "a.txt").write_text("mine\n")
    agent_git(tree, "update-index", "--assume-unchanged", "a.txt")
    agent_git(tree, "update-index", "--skip-worktree", "sub/b.txt")


def _plants_a_filter(tree: Path) -> None:
    (tree / "a.txt").write_text("mine\n")
    planted = f"touch {tree.parent.parent / 'PLANTED'}; cat"
    for key in ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "core.fsmonitor", "diff.external"):
        agent_git(tree, "config", key, planted)
    (common(tree) / "info" / "attributes").write_text("* filter=evil\n")
    hooks = common(tree) / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\n{planted} </dev/null\n")
        (hooks / name).chmod(0o755)


def _replaces_objects(tree: Path) -> None:
    (tree / "a.txt").write_text("mine\n")
    blob = git(tree, "hash-object", "-w", "a.txt")
    agent_git(tree, "replace", "-f", git(tree, "rev-parse", "HEAD:sub/b.txt"), blob)


def _breaks_objects(tree: Path) -> None:
    (tree / "a.txt").write_text("mine\n")
    shutil.rmtree(common(tree) / "objects")


def _deletes_the_workshop(tree: Path) -> None:
    (tree / "a.txt").write_text("mine\n")
    shutil.rmtree(common(tree))


def _switches_branch(tree: Path) -> None:
    agent_git(tree, "checkout", "-q", "-b", "elsewhere")
    (tree / "a.txt").write_text("mine\n")
    agent_git(tree, "commit", "-qam", "mine")
    agent_git(tree, "worktree", "lock", ".")


def _makes_a_fifo(tree: Path) -> None:
    (tree / "a.txt").write_text("mine\n")
    os.mkfifo(tree / "pipe")


DEEDS: list[Deed] = [
    _commits,
    _rewrites_history,
    _amends,
    _deletes_git,
    _makes_its_own_git,
    _leaves_locks,
    _locks_up,
    _hides_changes,
    _plants_a_filter,
    _replaces_objects,
    _breaks_objects,
    _deletes_the_workshop,
    _switches_branch,
    _makes_a_fifo,
]


@pytest.mark.parametrize("deed", DEEDS)
async def test_whatever_an_agent_does_its_work_is_what_its_worktree_holds(place: Place, deed: Deed) -> None:
    assert await place.attempt(deed) == BEFORE | {"a.txt": "mine\n"}


@pytest.mark.parametrize("deed", DEEDS)
async def test_whatever_an_agent_does_the_next_worktree_is_clean(place: Place, deed: Deed) -> None:
    before = fingerprint(place.repository)
    await place.attempt(deed)

    worktree = await place.workshop.open("try", place.base, "harness/x/2")

    assert git(worktree.path, "status", "--short", "--branch") == "## harness/x/2"
    assert await place.content(worktree) == BEFORE
    assert not list(place.folder.rglob("PLANTED"))
    assert fingerprint(place.repository) == before


async def test_nothing_is_left_of_a_worktree(place: Place) -> None:
    await place.attempt(_locks_up)

    assert list((place.folder / "workspace" / "trees").iterdir()) == []
    assert list((place.folder / "workspace" / "judging").iterdir()) == []
    assert list((place.folder / "workspace" / "desks").iterdir()) == []


def _nests_a_repository(tree: Path) -> None:
    (tree / "inner").mkdir()
    agent_git(tree / "inner", "init", "-q")


def _removes_its_worktree(tree: Path) -> None:
    shutil.rmtree(tree)


def _points_elsewhere(tree: Path) -> None:
    shutil.rmtree(tree)
    tree.symlink_to("/usr")


def _makes_a_file_a_fifo(tree: Path) -> None:
    (tree / "a.txt").unlink()
    os.mkfifo(tree / "a.txt")


@pytest.mark.parametrize("deed", [_nests_a_repository, _removes_its_worktree, _points_elsewhere, _makes_a_file_a_fifo])
async def test_what_can_not_be_committed_is_said_to_be_so(place: Place, deed: Deed) -> None:
    with pytest.raises(Uncommittable, match="the worktree"):
        await place.attempt(deed)

    assert await place.attempt(_commits) == BEFORE | {"a.txt": "mine\n"}


async def test_links_and_executable_bits_are_kept(place: Place) -> None:
    worktree = await place.workshop.open("try", place.base, "harness/x/1")
    (worktree.path / "link").symlink_to("a.txt")
    (worktree.path / "folder-link").symlink_to("/usr")
    (worktree.path / "a.txt").chmod(0o755)

    tree = await place.judge.snapshot(worktree.path, worktree.index, place.base)

    commit = await place.judge.commit(tree, place.base, message="try")
    changes = [(change.status, change.path, change.mode) for change in await place.judge.changes(place.base, commit)]
    assert changes == [("M", "a.txt", "100755"), ("A", "folder-link", "120000"), ("A", "link", "120000")]


ATTRIBUTES = [
    "* text=auto eol=crlf",
    "* text eol=lf",
    "* crlf",
    "* ident",
    "* working-tree-encoding=UTF-16",
    "* working-tree-encoding=NO-SUCH",
    "* filter=lfs",
    "[attr]odd working-tree-encoding=UTF-16 text\n* odd",
]
ODD_BYTES = b"one\r\ntwo\n$Id: made up $\n\xff\xfe\n"


@pytest.mark.parametrize("attributes", ATTRIBUTES)
async def test_files_are_taken_and_laid_out_byte_for_byte_whatever_attributes_say(place: Place, attributes: str) -> None:
    worktree = await place.workshop.open("try", place.base, "harness/x/1")
    for name, content in ((".gitattributes", attributes.encode()), ("odd.bin", ODD_BYTES), ("sub/odd.bin", ODD_BYTES)):
        (worktree.path / name).write_bytes(content)

    tree = await place.judge.snapshot(worktree.path, worktree.index, place.base)
    commit = await place.judge.commit(tree, place.base, message="try")

    assert await place.judge.read(commit, "odd.bin") == await place.judge.read(commit, "sub/odd.bin") == ODD_BYTES
    async with place.judge.at(commit) as checkout:
        assert (checkout / "odd.bin").read_bytes() == (checkout / "sub" / "odd.bin").read_bytes() == ODD_BYTES
    again = await place.workshop.open("again", commit, "harness/x/2")
    assert (again.path / "odd.bin").read_bytes() == ODD_BYTES
    assert git(again.path, "status", "--short") == ""


async def test_worktrees_may_be_opened_at_once(place: Place) -> None:
    opened: list[Path] = []

    async def open_one(number: int) -> None:
        opened.append((await place.workshop.open(f"try-{number}", place.base, f"harness/x/{number}")).path)

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(open_one, number)

    assert sorted(path.name for path in opened if (path / "a.txt").exists()) == ["try-0", "try-1", "try-2", "try-3"]


async def test_a_file_of_100_megabytes_is_taken(place: Place) -> None:
    def deed(tree: Path) -> None:
        with (tree / "big.bin").open("wb") as file:
            file.truncate(100_000_000)

    worktree = await place.workshop.open("try", place.base, "harness/x/1")
    deed(worktree.path)
    tree = await place.judge.snapshot(worktree.path, worktree.index, place.base)

    assert (await place.judge.git.line("cat-file", "-s", f"{tree}:big.bin")) == "100000000"


async def test_the_content_of_a_submodule_is_not_looked_at(tmp_path: Path) -> None:
    inner = make_repository(tmp_path / "inner")
    user = make_repository(tmp_path / "user")
    git(user, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "mod")
    git(user, "commit", "-qm", "submodule")
    place = Place(tmp_path, user)
    await place.prepare()
    worktree = await place.workshop.open("try", place.base, "harness/x/1")
    assert list((worktree.path / "mod").iterdir()) == []
    agent_git(worktree.path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
    (worktree.path / "mod" / "a.txt").write_text("changed")

    tree = await place.judge.snapshot(worktree.path, worktree.index, place.base)

    assert tree == await place.judge.tree_of(place.base)


async def test_the_next_worktree_of_a_name_is_where_the_last_one_was_and_fresh(place: Place) -> None:
    first = await place.workshop.open("feature", place.base, "harness/x/1")
    (first.path / "left.txt").write_text("by the first try")
    await place.workshop.close(first)

    second = await place.workshop.open("feature", place.base, "harness/x/2")

    assert second.path == first.path
    assert not (second.path / "left.txt").exists()


async def test_a_commit_is_asked_about_once_and_its_name_alone_counts(place: Place) -> None:
    worktree = await place.workshop.open("try", place.base, "harness/x/1")
    (worktree.path / "new.txt").write_text("new")
    tree = await place.judge.snapshot(worktree.path, worktree.index, place.base)
    commits = [await place.judge.commit(tree, place.base, message=f"{number}") for number in range(5)]

    listed = [await place.judge.files(commit) for commit in [place.base, *commits, place.base]]

    assert listed[0] == listed[-1] == (".gitignore", "a.txt", "sub/b.txt")
    assert set(listed[1:-1]) == {(".gitignore", "a.txt", "new.txt", "sub/b.txt")}
    assert await place.judge.changes(commits[0], commits[0]) == ()
    assert {await place.judge.tree_of(commit) for commit in commits} == {tree}


async def test_a_file_is_read_once_and_never_with_other_bytes_than_its_name_says(place: Place) -> None:
    read = place.judge.read
    assert await read(place.base, "a.txt") == await read(place.base, "a.txt") is not None
    assert [await read(place.base, path) for path in ("sub", "none.txt")] == [None, None]
    worktree = await place.workshop.open("try", place.base, "harness/x/1")
    (worktree.path / "new.txt").write_text("new")
    tree = await place.judge.snapshot(worktree.path, worktree.index, place.base)
    commit = await place.judge.commit(tree, place.base, message="new")
    name = git(place.judge.git.directory, "rev-parse", f"{commit}:new.txt")
    forged = place.judge.git.directory / "objects" / name[:2] / name[2:]
    forged.chmod(0o644)
    forged.write_bytes(zlib.compress(b"blob 7\0exit 0\n"))

    with pytest.raises(GitError, match="do not match their names"):
        await read(commit, "new.txt")

    assert not place.judge.git.directory.exists()
