"""Within bubblewrap a command can write where it works, and nowhere else. Real walls."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from attrs import evolve

from harnesses.agents import AgentMissing, Bubblewrap, CommandAgent, codex
from tests.harnesses.agents.turns import assigned, marked, take_turn

bubblewrap = pytest.mark.skipif(not Bubblewrap().works(), reason="bubblewrap is not installed, or may not run")


@pytest.fixture
def work(tmp_path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    return place


def exists(path: str) -> bool:
    return os.path.lexists(path)


def git(place: Path, *words: str) -> str:
    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **identity}
    command = ["git", "-C", str(place), *words]
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    ).stdout


def script(text: str, **arguments: object) -> CommandAgent:
    return CommandAgent(["sh", "-c", text], sandbox=Bubblewrap(**arguments))  # type: ignore[arg-type]


@bubblewrap
@pytest.mark.parametrize("command", ["no-such-agent", "./missing", "/etc/hostname"])
async def test_a_program_that_is_not_there_in_the_sandbox_is_missing_and_did_not_fail(work, command):
    with pytest.raises(AgentMissing, match=command):
        await take_turn(CommandAgent([command], sandbox="bwrap"), assigned(work))


@bubblewrap
async def test_a_program_that_the_sandbox_hides_is_told_apart_from_one_that_is_not_installed(work):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        program = Path(folder) / "agent"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)

        with pytest.raises(AgentMissing, match="a file below /tmp or /run is hidden in it"):
            await take_turn(CommandAgent([str(program)], sandbox="bwrap"), assigned(work))


@bubblewrap
async def test_words_of_a_command_reach_it_in_the_sandbox_as_they_are(work):
    words = ["a b", "$HOME", "'", "", "-x", "*"]

    result = await take_turn(CommandAgent(["printf", "[%s]\\n", *words], sandbox="bwrap"), assigned(work))

    assert result.message.splitlines() == [f"[{word}]" for word in words]


@bubblewrap
async def test_it_writes_where_it_works_and_nowhere_else(work):
    outside = f"{work.parent}/outside"

    result = await take_turn(
        script(f"echo in > in; echo out > {outside} || echo no; echo x > /etc/x || echo no"), assigned(work)
    )

    assert result.message.splitlines()[-1] == "no"
    assert (work / "in").read_text() == "in\n"
    assert not exists(outside)
    assert not exists("/etc/x")


@bubblewrap
async def test_it_has_a_temporary_directory_of_its_own(work):
    result = await take_turn(script('f=$(mktemp); echo "$f"'), assigned(work))

    assert result.message.startswith("/tmp/")
    assert not exists(result.message)


@bubblewrap
async def test_more_places_can_be_opened_and_others_hidden(work):
    cache, secret = work.parent / "cache", work.parent / "secret"
    for place in (cache, secret):
        place.mkdir()
        (place / "there").write_text("seen")

    await take_turn(
        script(f"cat {secret}/there; echo x > {cache}/new; true", writable=[cache], hidden=[secret]), assigned(work)
    )

    assert (cache / "new").read_text() == "x\n"


@bubblewrap
async def test_git_works_in_a_worktree_whose_repository_it_was_told_of(work):
    git(work.parent, "init", "-q", "--bare", "hub.git")
    hub, tree = work.parent / "hub.git", work.parent / "tree"
    first = git(hub, "commit-tree", "-m", "First", git(hub, "mktree").strip()).strip()
    git(hub, "worktree", "add", "-q", "-b", "branch", str(tree), first)
    commits = "echo x > a; git add a; git -c user.name=a -c user.email=a@b commit -qm Second"

    await take_turn(script(commits, writable=[hub]), assigned(tree))

    assert git(hub, "log", "--format=%s", "branch").splitlines() == ["Second", "First"]


@bubblewrap
async def test_the_prompt_can_be_read_from_its_file(work):
    agent = CommandAgent(["cat"], prompt="file", sandbox="bwrap")

    assert (await take_turn(agent, assigned(work, "do it"))).message == "do it"


@bubblewrap
async def test_processes_end_with_it_though_they_have_left_everything(work):
    agent = CommandAgent(
        ["sh", "-c", "setsid setsid sleep 300 & kill -9 $PPID; sleep 0.1"], sandbox="bwrap", env={"MARK": str(work)}
    )

    await take_turn(agent, assigned(work))

    assert marked(f"MARK={work}") == []


@bubblewrap
async def test_it_has_no_privileges_within_to_tear_the_walls_down(work):
    result = await take_turn(
        script("mount -o remount,rw / 2>/dev/null || echo no; umount /proc 2>/dev/null || echo no"), assigned(work)
    )

    assert result.message.split() == ["no", "no"]


async def test_no_turn_begins_where_it_is_not_installed(work, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(AgentMissing, match="expected the package bubblewrap"):
        await take_turn(CommandAgent(["true"], sandbox="bwrap"), assigned(work))


OUTSIDE = "echo x > {outside}; echo in > in; echo $GITHUB_TOKEN $UV_CACHE_DIR"


@bubblewrap
async def test_in_a_worktree_of_its_own_it_works_in_a_sandbox_unless_that_is_turned_off(work, monkeypatch, caplog):
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_0123456789")
    hook, command = work.parent / "hooks", ["sh", "-c", OUTSIDE.format(outside=work.parent / "hooks")]
    own = evolve(assigned(work), base="a" * 40)

    result = await take_turn(CommandAgent(command), own)

    assert (result.sandbox, (work / "in").read_text()) == ("bubblewrap, network", "in\n")
    assert result.message.splitlines()[-1] == "ghp_0123456789 /tmp/uv"
    assert not hook.exists()
    assert caplog.text == ""

    result = await take_turn(CommandAgent(command, sandbox=False), own)
    assert (result.sandbox, hook.exists(), caplog.text) == ("", True, "")
    result = await take_turn(CommandAgent(command), assigned(work))
    assert result.sandbox == ""


@bubblewrap
async def test_its_program_is_readable_and_its_folders_are_writable_in_the_sandbox_that_it_gets_by_default(work):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        program, home = Path(folder) / "claude", work.parent / "home"
        program.write_text('#!/bin/sh\necho x > "$HOME/.claude/kept"; echo x > "$HOME/else" || echo no\n')
        program.chmod(0o755)
        home.mkdir()

        agent = CommandAgent([str(program)], env={"HOME": str(home)})
        result = await take_turn(agent, evolve(assigned(work), base="a" * 40))

    assert (result.message.splitlines()[-1], (home / ".claude" / "kept").exists()) == ("no", True)


@pytest.mark.parametrize(
    ("arguments", "path", "said"),
    [
        ({}, "/nowhere", "install bubblewrap, or write sandbox=False"),
        ({"may_gain_privileges": True}, None, "may_gain_privileges needs it"),
        ({"dialect": codex(sandbox="workspace-write")}, None, "it has one of its own"),
    ],
)
async def test_a_turn_without_a_sandbox_that_nobody_has_turned_off_is_told_once(
    work, monkeypatch, caplog, arguments, path, said
):
    if path is not None:
        monkeypatch.setenv("PATH", path)
    agent = CommandAgent(["/bin/echo", '{"type": "turn.completed"}'], **arguments)

    for _ in range(2):
        await take_turn(agent, evolve(assigned(work), base="a" * 40))

    assert caplog.text.count("works without a sandbox: it can change every file of yours") == 1
    assert said in caplog.text
