"""What is too large is not merged, and neither is the work of an agent that touched what git runs in the user's repository."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from threading import Thread

import pytest

from harnesses.agent import Agent, AgentRun
from harnesses.agents import CommandAgent, Sandbox
from harnesses.coding import CodingHarness, MergeLimits
from harnesses.coding.guarded_settings import changed_settings, fingerprint
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import TurnResult
from harnesses.features.feature_record import Assignment, FeatureState
from harnesses.features.health_checks import NoHealthCheck
from orchestrator.testing import run_to_end
from tests.harnesses.coding.coding_parts import ShellCheck, agent, features, writes_right
from tests.harnesses.coding.git_repositories import git, make_repository


@pytest.mark.parametrize(
    ("content", "limits", "why"),
    [
        (os.urandom(30_000_000), None, "blob: a file of 30,000,000 bytes: expected at most 5,000,000"),
        (bytes(1_500_000), None, "blob: a file that is not text of 1,500,000 bytes: expected at most 1,000,000"),
        (b"text\n" * 300_000, None, ""),
        (b"text\n" * 300_000, MergeLimits(total_bytes=1_000_000), "2 files have 1,500,006 bytes: expected at most 1,000,000"),
        (bytes(1_500_000), MergeLimits(binary_bytes=None), ""),
    ],
)
async def test_what_is_too_large_is_refused_with_its_size(
    tmp_path: Path, content: bytes, limits: MergeLimits | None, why: str
) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)

    def deed(asked: Assignment, tree: Path) -> None:
        writes_right(asked, tree)
        (tree / "blob").write_bytes(content)

    place, health = tmp_path / "space", NoHealthCheck()
    harness = CodingHarness(
        user, agent(deed), features("one"), ShellCheck(), workspace=place, health_check=health, confirmations=1, limits=limits
    )
    await run_to_end(harness)

    standing = harness.state.standings[0]
    assert (standing.last_failure or "")[: len(why)] == why
    assert harness.state.features[0].passes == (not why)
    assert ("blob" in git(user, "ls-tree", "--name-only", "main")) == (not why)


def test_limits_are_bytes() -> None:
    with pytest.raises(InvalidRequest, match="file_bytes: expected bytes from 0 up"):
        MergeLimits(file_bytes=-1)


@pytest.mark.skipif(not Sandbox().works(), reason="bubblewrap does not work on this machine")
async def test_a_command_reaches_no_hook_of_the_user_unless_its_sandbox_is_turned_off(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)
    hook = user / "hooks" / "post-commit"
    command = ["sh", "-c", f"echo right > one.txt; mkdir -p {hook.parent}; echo evil > {hook} || true"]

    def made(agent: CommandAgent, place: str) -> CodingHarness:
        check, health = ShellCheck(), NoHealthCheck()
        return CodingHarness(user, agent, features("one"), check, workspace=tmp_path / place, health_check=health, into=place)

    await run_to_end(harness := made(CommandAgent(command), "walled"))
    assert (harness.state.standings[0].tries, hook.exists()) == (1, False)
    assert harness.state.standings[0].accepted is not None
    assert harness.state.standings[0].accepted.sandbox == "bubblewrap, network"

    await run_to_end(harness := made(CommandAgent(command, sandbox=False), "open"))
    assert (harness.state.standings[0].tries, hook.exists()) == (2, True)


@pytest.mark.parametrize("confined", [False, True])
async def test_a_hook_or_setting_that_appears_during_a_turn_has_the_work_refused_unless_its_agent_cannot_write_there(
    tmp_path: Path, confined: bool
) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)

    async def run(turn: AgentRun[FeatureState, Assignment]) -> TurnResult:
        asked = turn.input
        writes_right(asked, Path(asked.directory or ""))
        if asked.turn == 1:
            (user / "hooks").mkdir(exist_ok=True)
            (user / "hooks" / "post-commit").write_text("#!/bin/sh\ncurl evil\n")
            git(user, "config", "core.fsmonitor", "evil")
        return TurnResult(message="done", confined=confined)

    harness = CodingHarness(
        user, Agent(run), features("one"), ShellCheck(), workspace=tmp_path / "space", health_check=NoHealthCheck()
    )
    await run_to_end(harness)
    assert harness.state.standings[0].tries == (1 if confined else 2)
    if confined:
        return

    steps = [step.output.verdict for step in harness.step_history if step.output.verdict is not None]
    refused = next(verdict for verdict in steps if not verdict.passed)
    assert ".git/config was changed; .git/hooks/post-commit was added, during the turn" in refused.evidence


def test_links_modes_and_removals_of_hooks_are_seen(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("a", "b", "c"):
        (hooks / name).write_text("x")
    before = fingerprint(tmp_path)
    (hooks / "a").chmod(0o755)
    (hooks / "b").unlink()
    (hooks / "c").unlink()
    (hooks / "c").symlink_to("/elsewhere")
    assert changed_settings(before, fingerprint(tmp_path)) == [
        ".git/hooks/a was changed",
        ".git/hooks/b was removed",
        ".git/hooks/c was changed",
    ]


@pytest.mark.parametrize("name", ["lib/core", "lib/objects"])
def test_hooks_and_settings_of_submodules_and_replaced_objects_are_watched_too(tmp_path: Path, name: str) -> None:
    module = tmp_path / "modules" / name
    for folder in ("hooks", "objects/ab", "refs/heads"):
        (module / folder).mkdir(parents=True)
    (module / "config").write_text("[core]\n")
    (module / "HEAD").write_text("ref: refs/heads/main\n")
    before = fingerprint(tmp_path)

    (module / "hooks" / "post-checkout").write_text("evil\n")
    (module / "config").write_text("[core]\n\tfsmonitor = evil\n")
    (module / "objects" / "ab" / "new").write_text("an object\n")
    (tmp_path / "refs" / "replace").mkdir(parents=True)
    (tmp_path / "refs" / "replace" / "0123").write_text("4567\n")
    (tmp_path / "packed-refs").write_text("# pack-refs with: sorted\n01 refs/heads/main\n45 refs/replace/23\n")

    assert changed_settings(before, fingerprint(tmp_path)) == [
        f".git/modules/{name}/config was changed",
        f".git/modules/{name}/hooks/post-checkout was added",
        ".git/refs/replace in packed-refs was added",
        ".git/refs/replace/0123 was added",
    ]
    before = fingerprint(tmp_path)
    (tmp_path / "packed-refs").write_text("01 refs/heads/main\n02 refs/tags/new\n45 refs/replace/23\n")
    assert changed_settings(before, fingerprint(tmp_path)) == []


def test_pipes_links_and_masses_of_hooks_are_reported_without_being_read(tmp_path: Path) -> None:
    hooks, elsewhere = tmp_path / "hooks", tmp_path / "elsewhere"
    hooks.mkdir()
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("x")
    before = fingerprint(tmp_path)

    os.mkfifo(hooks / "pre-commit")
    found: list[list[str]] = []
    reader = Thread(target=lambda: found.append(changed_settings(before, fingerprint(tmp_path))), daemon=True)
    reader.start()
    reader.join(20)
    if not found:
        os.close(os.open(hooks / "pre-commit", os.O_WRONLY | os.O_NONBLOCK))  # lets the reader go
    assert found == [[".git/hooks/pre-commit was added"]]

    (hooks / "pre-commit").unlink()
    (hooks / "long").write_bytes(bytes(1_000_001))
    longer = fingerprint(tmp_path)
    (hooks / "long").write_bytes(bytes(1_000_000) + b"1")
    assert changed_settings(longer, fingerprint(tmp_path)) == [".git/hooks/long was changed"]

    for number in range(1_001):
        (hooks / f"{number}").touch()
    masses = fingerprint(tmp_path)
    assert changed_settings(masses, masses) == [".git/hooks has more than 1,000 files"]

    shutil.rmtree(hooks)
    hooks.symlink_to(elsewhere)
    linked = fingerprint(tmp_path)
    assert dict(linked) == {"hooks": f"link {elsewhere}"}
    assert changed_settings(before, linked) == [".git/hooks was added"]
