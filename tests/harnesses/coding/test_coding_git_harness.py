"""The coding harness on real repositories: what is proven is merged, what is not is left on its branch."""

from __future__ import annotations

from pathlib import Path

from harnesses.coding.harness import CodingHarness
from orchestrator.testing import run_to_end
from tests.harnesses.coding.coding_parts import ShellCheck, agent, features, writes_right, wrong_first
from tests.harnesses.coding.repositories import fingerprint, git, make_repository


async def test_what_is_proven_is_merged(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)
    harness = CodingHarness(user, agent(writes_right), features("one", "two"), ShellCheck(), workspace=tmp_path / "space")

    end = await run_to_end(harness, name="runner")

    assert str(end.outcome) == "completed"
    assert git(user, "log", "--first-parent", "--format=%s", "main").splitlines() == [
        "two: two.txt is right",
        "one: one.txt is right",
        "work",
    ]
    assert git(user, "show", "main:two.txt") == "right"
    assert git(user, "rev-parse", "main") == harness.state.manifest.last_known_good_commit


async def test_a_failed_try_is_left_on_its_branch_and_the_next_starts_clean(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)
    check = ShellCheck()
    harness = CodingHarness(user, agent(wrong_first), features("one"), check, workspace=tmp_path / "space")

    end = await run_to_end(harness, name="runner")

    assert str(end.outcome) == "completed"
    assert git(user, "show", "harness/runner/one/1:one.txt") == "wrong"
    assert git(user, "branch", "--list", "--format=%(refname:short)").splitlines() == ["harness/runner/one/1", "main"]
    assert git(user, "log", "--format=%s", "main").splitlines().count("one: one.txt is right") == 2
    assert not list((tmp_path / "space" / "trees").glob("*"))


async def test_the_user_s_checkout_is_not_touched(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user")
    (user / "a.txt").write_text("not committed")
    before = fingerprint(user)
    harness = CodingHarness(user, agent(wrong_first), features("one"), ShellCheck(), workspace=tmp_path / "space")

    await run_to_end(harness, name="runner")

    assert fingerprint(user) == before
    assert git(user, "show", "harness/runner/main:one.txt") == "right"
