"""Working files as git trees: every byte comes back, the agent's repository is not touched, a turn goes on after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
import trio

from harnesses.agents.model.messages import ToolCall
from harnesses.agents.tools.function_tool import function_tool
from harnesses.agents.tools.tool import ToolEffect
from harnesses.agents.tools.working_tree import NoTree, WorkingTree
from tests import ROOT
from tests.harnesses.agents.tools.turn_tools import opened
from tests.zygote import run_python

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost"]


def git(*words: object) -> None:
    subprocess.run([*GIT, *map(str, words)], check=True)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    git("init", "--quiet", root)
    (root / "base.txt").write_text("base\n")
    (root / ".gitignore").write_text("*.log\n")
    git("-C", root, "add", ".")
    git("-C", root, "commit", "--quiet", "-m", "base")
    return root


def contents(root: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in root.rglob("*") if ".git" not in path.parts and not path.is_dir())
    kept: dict[str, tuple[bytes, int]] = {}
    for path in files:
        what = (os.readlink(path).encode(), 0) if path.is_symlink() else (path.read_bytes(), path.stat().st_mode)
        kept[str(path.relative_to(root))] = what
    return kept


async def tree_of(root: Path) -> WorkingTree:
    tree = await WorkingTree.of(root, pytest.fail)
    assert isinstance(tree, WorkingTree)
    return tree


async def test_every_byte_link_and_permission_comes_back_and_what_was_added_goes(place):
    (place / ".gitattributes").write_text("* text=auto eol=lf\n*.bin filter=evil ident\n")
    (place / "odd.bin").write_bytes(b"a\r\n\0$Id$\xff\n")
    (place / "dos.txt").write_bytes(b"a\r\nb\r\n")
    (place / "tool.sh").write_text("#!/bin/sh\n")
    (place / "tool.sh").chmod(0o755)
    (place / "link").symlink_to("base.txt")
    (place / "deep" / "er").mkdir(parents=True)
    (place / "deep" / "er" / "a b\n.txt").write_text("x")
    before = contents(place)
    async with await tree_of(place) as tree:
        saved = await tree.save()
        for name in ("odd.bin", "link", "deep/er/a b\n.txt"):
            (place / name).unlink()
        (place / "base.txt").write_text("changed\n")
        (place / "dos.txt").write_text("a\nb\n")
        (place / "deep" / "new.txt").write_text("new")
        (place / "kept.log").write_text("ignored")
        await tree.save()
        await tree.restore(saved)

    after = contents(place)
    assert after.pop("kept.log")[0] == b"ignored"
    assert after == before


async def test_the_repository_of_the_agent_is_neither_changed_nor_obeyed(place):
    evil = place.parent / "evil"
    for name, value in {
        "core.fsmonitor": f"touch {evil}",
        "filter.evil.clean": f"touch {evil}; cat",
        "core.hooksPath": str(place / "hooks"),
    }.items():
        git("-C", place, "config", name, value)
    (place / ".gitattributes").write_text("* filter=evil\n")
    before = {path: path.read_bytes() for path in (place / ".git").rglob("*") if path.is_file()}
    async with await tree_of(place) as tree:
        saved = await tree.save()
        (place / "base.txt").write_text("changed\n")
        await tree.save()
        await tree.restore(saved)

    assert not evil.exists()
    assert {path: path.read_bytes() for path in (place / ".git").rglob("*") if path.is_file()} == before


async def test_a_tree_is_kept_from_a_prune_and_found_by_the_next_program(place, state_folder):
    async with await tree_of(place) as tree:
        saved = await tree.save()
    (place / "base.txt").write_text("changed\n")
    repository = state_folder / "durable-harnesses" / "tool-trees.git"
    git(f"--git-dir={repository}", "prune", "--expire=now")
    async with await tree_of(place) as tree:
        await tree.restore(saved)

    assert (place / "base.txt").read_text() == "base\n"


async def test_files_outside_of_a_repository_are_not_kept(tmp_path):
    assert isinstance(await WorkingTree.of(tmp_path, pytest.fail), NoTree)


async def test_files_that_cannot_be_kept_are_logged_and_the_call_is_made(place):
    lines: list[str] = []
    nested = place / "nested"
    nested.mkdir()
    git("init", "--quiet", nested)
    tree = await WorkingTree.of(place, lines.append)
    async with tree:
        assert await tree.save() == ""

    assert len(lines) == 1
    assert "are not kept" in lines[0]


def live(place: Path, effect: ToolEffect, dies_at: str) -> int:
    folder = place.parent
    words = [folder / "run.db", place, folder / "tree", folder / "world", dies_at, effect.value]
    program = ("-m", "tests.harnesses.agents.tools.tree_child", *words)
    ended = run_python(*program, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr[-3_000:]
    return ended.returncode


@pytest.mark.parametrize("dies_at", ["one", "three"])
def test_after_a_kill_within_an_edit_the_turn_goes_on_with_the_edits_before_it(place, dies_at):
    lives = [live(place, ToolEffect.CHANGES_FILES, dies_at) for _ in range(2)]

    tree = place.parent / "tree"
    assert lives == [-signal.SIGKILL, 0]
    assert (tree / "base.txt").read_text() == "base\none\ntwo\nthree\n"
    assert [(tree / f"{word}.txt").read_text() for word in ("one", "two", "three")] == ["one\n", "two\n", "three\n"]
    begun = (place.parent / "world").read_text().split()
    assert sorted(begun) == sorted(["one", "two", "three", dies_at])


def test_a_tool_that_acts_is_not_repeated_after_a_kill_and_its_files_are_put_back(place):
    lives = [live(place, ToolEffect.ACTS, "two") for _ in range(2)]

    tree = place.parent / "tree"
    assert lives == [-signal.SIGKILL, 0]
    assert (place.parent / "world").read_text().split() == ["one", "two", "three"]
    assert (tree / "base.txt").read_text() == "base\none\nthree\n"
    assert not (tree / "two.txt").exists()


async def test_files_of_a_recorded_call_are_restored_at_the_end_if_no_call_follows(place):
    def edit() -> None:
        (place / "base.txt").write_text("edited\n")

    tools = [function_tool(edit, effect=ToolEffect.CHANGES_FILES)]
    async with opened(*tools, directory=place) as call:
        await call("edit")
        run = call.box._setting.run
    git("-C", place, "checkout", "--quiet", ".")
    async with opened(*tools, directory=place, run=run) as call:
        await call("edit")
        assert (place / "base.txt").read_text() == "base\n"

    assert (place / "base.txt").read_text() == "edited\n"


async def test_no_program_of_a_nested_repository_is_run(place, tmp_path):
    sub, sign = place / "sub", tmp_path / "ran"
    git("init", "--quiet", sub)
    (sub / "file").write_text("1")
    git("-C", sub, "add", ".")
    git("-C", sub, "commit", "--quiet", "-m", "nested")
    (sub / ".gitattributes").write_text("* filter=x\n")
    with (sub / ".git" / "config").open("a") as config:
        config.write(f'[filter "x"]\n\tclean = "touch {sign}; cat"\n')
    (sub / "file").write_text("2")
    git("-C", sub, "status", "--short")
    assert sign.exists(), "git of the nested repository itself runs it"
    sign.unlink()
    async with await tree_of(place) as tree:
        for text in ("3", "4", "5"):
            (sub / "file").write_text(text)
            (place / "base.txt").write_text(text)
            saved = await tree.save()
        await tree.restore(saved)
    assert not sign.exists()


async def test_calls_side_by_side_restore_the_files_once(place):
    async with await tree_of(place) as tree:
        (place / "base.txt").write_text("edited\n")
        edited = await tree.save()
        (place / "base.txt").write_text("base\n")
    read = function_tool(lambda: (place / "base.txt").read_text(), name="read", effect=ToolEffect.READS)
    async with opened(read, directory=place) as caller:
        caller.box._wanted[:] = [edited]
        results: list[str] = []

        async def call(number: int) -> None:
            results.append((await caller.box.run(ToolCall(id=str(number), name="read"), f"round/2/tool/{number}")).text)

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(call, number)
    assert results == ["edited\n"] * 4


async def test_an_unknown_tree_is_an_error(place):
    async with await tree_of(place) as tree:
        with pytest.raises(Exception, match="read-tree"):
            await tree.restore("0123456789012345678901234567890123456789")


@pytest.mark.parametrize(("name", "most"), [("MAX_TREE_BYTES", 1_000), ("MAX_TREE_FILES", 3)])
async def test_files_beyond_the_limit_are_not_kept_and_the_model_is_told(place, monkeypatch, name, most):
    monkeypatch.setattr(f"harnesses.agents.tools.working_tree.{name}", most)

    def grow() -> None:
        for number in range(4):
            (place / f"{number}.txt").write_text("x" * 400)

    async with opened(function_tool(grow, effect=ToolEffect.CHANGES_FILES), directory=place) as call:
        result = await call("grow")

    assert (result.is_error, result.text.split("\n")[0]) == (False, "done")
    assert f"expected at most {most if name == 'MAX_TREE_FILES' else 100_000} new or changed files" in result.text
