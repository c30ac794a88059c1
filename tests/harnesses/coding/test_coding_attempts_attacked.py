"""What an agent does to what judges it, to the workspace, or by doing nothing, never makes a feature pass."""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path

import pytest

from harnesses.agents import CommandAgent
from harnesses.coding import CodingHarness, Command
from harnesses.coding.candidate import leads_out
from harnesses.features import NoHealthCheck
from harnesses.features.feature_record import Assignment
from orchestrator.testing import run_to_end
from tests.harnesses.coding.coding_parts import Deed, ShellCheck, agent, features, writes_right
from tests.harnesses.coding.git_repositories import git, make_repository

FILES = {"check.sh": 'grep -q right "$1.txt"\n'}
CHECK = ["sh", "check.sh", "{feature}"]


def made(folder: Path, deed: Deed, check: object, *ids: str) -> CodingHarness:
    return CodingHarness(
        folder / "user.git",
        agent(deed),
        features(*ids),
        check,  # type: ignore[arg-type]
        workspace=folder / "space",
        health_check=NoHealthCheck(),
        confirmations=1,
    )


async def passed(harness: CodingHarness) -> str:
    """Run it to its end; return the ids of what passes."""
    await run_to_end(harness, name="runner")
    return " ".join(feature.id for feature in harness.state.features if feature.passes)


async def test_what_judges_is_not_merged_changed_with_honest_work_to_judge_the_next_feature(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", FILES, bare=True)

    def poison(asked: Assignment, tree: Path) -> None:
        (tree / "check.sh").write_text("exit 0\n")
        if asked.feature.id == "one":
            writes_right(asked, tree)

    harness = made(tmp_path, poison, Command(CHECK), "one", "two")

    assert await passed(harness) == ""
    assert "check.sh: is a judging file" in str(harness.state.standings[0].last_failure)


@pytest.mark.parametrize(("argv", "passes"), [(["sh", "check.sh", "done"], ""), (CHECK, "done")])
async def test_work_that_changes_nothing_passes_only_by_what_is_about_the_feature(tmp_path: Path, argv, passes: str) -> None:
    make_repository(tmp_path / "user.git", {**FILES, "done.txt": "right\n"}, bare=True)

    assert await passed(made(tmp_path, lambda asked, tree: None, Command(argv), "done")) == passes


async def test_a_link_that_leads_out_of_the_repository_proves_nothing(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", FILES, bare=True)
    (tmp_path / "outside").write_text("right\n")
    harness = made(tmp_path, lambda asked, tree: os.symlink(tmp_path / "outside", tree / "one.txt"), ShellCheck(), "one")

    assert await passed(harness) == ""
    assert "one.txt: a symbolic link that leads out" in str(harness.state.standings[0].last_failure)


@pytest.mark.parametrize(
    ("path", "target", "out"),
    [
        ("a", "/etc/passwd", True),
        ("a", "../b", True),
        ("sub/a", "../../b", True),
        ("a", ".git/config", True),
        ("sub/a", "../b", False),
        ("a", "..b", False),
        ("a", "sub/../b", False),
    ],
)
def test_where_a_link_leads_is_told_from_where_it_lies(path: str, target: str, out: bool) -> None:
    assert leads_out(path, target) is out


async def test_an_object_that_was_forged_in_the_repository_of_the_judge_is_not_believed(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", FILES, bare=True)
    name = git(user, "rev-parse", "main:check.sh")

    def forge(asked: Assignment, tree: Path) -> None:
        (tree / "one.txt").write_text("wrong\n")
        place = tmp_path / "space" / "judge.git" / "objects" / name[:2] / name[2:]
        place.chmod(0o644)
        place.write_bytes(zlib.compress(b"blob 7\0exit 0\n"))

    harness = made(tmp_path, forge, Command(CHECK), "one")
    await run_to_end(harness, name="runner")

    assert not harness.state.features[0].passes
    assert git(user, "show", "main:check.sh") == FILES["check.sh"].strip()


async def test_who_wrecks_the_workspace_does_not_keep_the_next_feature_from_being_worked(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", FILES, bare=True)

    def wreck(asked: Assignment, tree: Path) -> None:
        if asked.feature.id == "one":
            shutil.rmtree(tmp_path / "space" / "judge.git")
        else:
            writes_right(asked, tree)

    assert await passed(made(tmp_path, wreck, Command(CHECK), "one", "two")) == "two"


async def test_a_workspace_within_a_repository_is_refused(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user")
    harness = CodingHarness(user, agent(writes_right), features("one"), ShellCheck(), workspace=user / "space")

    end = await run_to_end(harness, name="runner")

    assert (end.outcome.kind, end.outcome.attempt) == ("failed", 1)
    assert "expected a directory outside of all repositories" in end.outcome.cause
    assert not (user / "space").exists()


@pytest.mark.parametrize("missing", ["agent", "command"])
async def test_a_program_that_is_missing_blocks_the_harness_before_any_try_is_spent(tmp_path: Path, missing: str) -> None:
    user = make_repository(tmp_path / "user.git", FILES, bare=True)
    worker = CommandAgent(["no-such-agent"]) if missing == "agent" else agent(writes_right)
    check = Command(["no-such-check"]) if missing == "command" else Command(CHECK)
    harness = CodingHarness(user, worker, features("one", "two"), check, workspace=tmp_path / "space")

    end = await run_to_end(harness, name="runner")

    assert (end.outcome.kind, end.outcome.attempt) == ("blocked", 1)
    assert "no-such-" in end.outcome.cause
    assert [standing.turns for standing in harness.state.standings] == [0, 0]
