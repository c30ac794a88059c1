"""The coding harness on real repositories: what is proven is merged, what is not is left on its branch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from attrs import evolve

from harnesses.coding.candidate import Candidate
from harnesses.coding.validators import Command
from harnesses.coding.workplace.coding_harness import CodingHarness
from harnesses.coding.workspace import Workspace
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature, Verdict
from harnesses.features.feature_record import Assignment
from harnesses.features.health_checks import NoHealthCheck
from harnesses.features.run_policy import FailFast, RunPolicy
from orchestrator import Orchestrator
from orchestrator.history import fork
from orchestrator.store.in_memory.memory_store import MemoryStore
from orchestrator.testing import run_in_lives, run_to_end
from tests.harnesses.coding.coding_parts import Deed, ShellCheck, agent, features, writes_right, wrong_first
from tests.harnesses.coding.git_repositories import commit_files, fingerprint, git, make_repository


def made(folder: Path, deed: Deed, *ids: str, check: ShellCheck | None = None, check_first: bool = False) -> CodingHarness:
    """Return a harness for `user.git`."""
    return CodingHarness(
        folder / "user.git",
        agent(deed),
        features(*ids),
        check or ShellCheck(),
        workspace=folder / "space",
        check_first=check_first,
        health_check=NoHealthCheck(),
    )


async def test_what_is_proven_is_merged(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)
    harness = CodingHarness(user, agent(writes_right), features("one", "two"), ShellCheck(), workspace=tmp_path / "space")

    end = await run_to_end(harness, name="runner")

    assert str(end.outcome) == "completed"
    assert git(user, "log", "--first-parent", "--format=%s", "main").splitlines() == [
        "two.txt is right",
        "one.txt is right",
        "work",
    ]
    assert git(user, "show", "main:two.txt") == "right"
    assert harness.state.manifest is not None
    assert git(user, "rev-parse", "main") == harness.state.manifest.last_known_good_commit


async def test_a_feature_that_others_have_repaired_does_not_stay_blocked(tmp_path: Path) -> None:
    user, asked = make_repository(tmp_path / "user.git", bare=True), list[str]()

    def deed(assignment: Assignment, tree: Path) -> None:
        asked.append(assignment.feature.id)
        if assignment.feature.id == "two":
            for id in ("one", "two"):
                (tree / f"{id}.txt").write_text("right")
        else:
            (tree / "one.txt").write_text("wrong")

    check, policy = ShellCheck(), RunPolicy(mode="unlimited_batch", fail_fast=FailFast(on_validation_failure=False))
    harness = CodingHarness(
        user,
        agent(deed),
        features("one", "two"),
        check,
        workspace=tmp_path / "space",
        health_check=NoHealthCheck(),
        policy=policy,
    )

    end = await run_to_end(harness)

    assert (str(end.outcome), asked) == ("completed", ["one", "two"])
    assert len([seen for seen in check.seen if seen.confirmation > 1]) >= 4
    assert "passes now, after other work" in " ".join(entry.summary for entry in harness.state.progress)


async def test_a_feature_nobody_has_implemented_stays_blocked_although_a_validator_for_all_passes(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)

    def deed(assignment: Assignment, tree: Path) -> None:
        (tree / "state").write_text("fail" if assignment.feature.id == "one" else "pass")

    harness = CodingHarness(
        user,
        agent(deed),
        features("one", "two"),
        Command(["grep", "-q", "pass", "state"]),
        workspace=tmp_path / "space",
        health_check=NoHealthCheck(),
        policy=RunPolicy(mode="unlimited_batch", fail_fast=FailFast(on_validation_failure=False)),
    )

    end = await run_to_end(harness)

    assert str(end.outcome).startswith("blocked")
    assert [str(standing.status) for standing in harness.state.standings] == ["blocked", "passed"]
    assert "does not depend on the feature" in (harness.state.standings[0].last_failure or "")


async def test_a_failed_try_is_left_on_its_branch_and_the_next_starts_clean(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)
    check = ShellCheck()
    harness = CodingHarness(user, agent(wrong_first), features("one"), check, workspace=tmp_path / "space")

    end = await run_to_end(harness, name="runner")

    assert str(end.outcome) == "completed"
    assert git(user, "show", "harness/runner/one/1:one.txt") == "wrong"
    assert git(user, "branch", "--list", "--format=%(refname:short)").splitlines() == ["harness/runner/one/1", "main"]
    assert git(user, "log", "--format=%s", "main").splitlines().count("one.txt is right") == 2
    assert not list((tmp_path / "space" / "trees").glob("*"))


async def test_the_user_s_checkout_is_not_touched(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user")
    (user / "a.txt").write_text("not committed")
    before = fingerprint(user)
    harness = CodingHarness(user, agent(wrong_first), features("one"), ShellCheck(), workspace=tmp_path / "space")

    await run_to_end(harness, name="runner")

    assert fingerprint(user) == before
    assert git(user, "show", "harness/runner/main:one.txt") == "right"


async def test_an_empty_repository_can_be_worked(tmp_path: Path) -> None:
    user = tmp_path / "user.git"
    user.mkdir()
    git(user, "init", "--quiet", "--bare", "--initial-branch=main")

    end = await run_to_end(made(tmp_path, writes_right, "one"), name="runner")

    assert str(end.outcome) == "completed"
    assert git(user, "ls-tree", "--name-only", "main") == "one.txt"


async def test_what_an_agent_has_left_that_failed_is_on_its_branch(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)

    def fails_first(asked: Assignment, tree: Path) -> None:
        writes_right(asked, tree)
        if asked.turn == 1:
            raise RuntimeError("no more tokens")

    await run_to_end(made(tmp_path, fails_first, "one"), name="runner")

    assert git(user, "show", "harness/runner/one/1:one.txt") == "right"
    assert "RuntimeError" not in git(user, "log", "--format=%B", "main")
    assert "no more tokens" in git(user, "log", "--format=%B", "harness/runner/one/1")


async def test_what_can_not_be_committed_is_a_failed_try_that_says_why(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", bare=True)
    told: list[str | None] = []

    def nests_first(asked: Assignment, tree: Path) -> None:
        told.append(asked.last_failure)
        writes_right(asked, tree)
        if asked.turn == 1:
            (tree / "inner").mkdir()
            git(tree / "inner", "init", "--quiet")

    end = await run_to_end(made(tmp_path, nests_first, "one"), name="runner")

    assert str(end.outcome) == "completed"
    assert "another git repository in 'inner'" in str(told[1])


async def test_a_pass_by_luck_is_no_pass(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", bare=True)

    class Lucky(ShellCheck):
        async def validate(self, feature: Feature, work: Candidate) -> Verdict:
            verdict = await super().validate(feature, work)
            return evolve(verdict, passed=verdict.passed and work.confirmation < 3)

    harness = made(tmp_path, writes_right, "one", check=Lucky())
    end = await run_to_end(harness, name="runner")

    assert str(end.outcome).startswith("blocked")
    assert "it passed 2 times before" in str(harness.state.standings[0].last_failure)


@pytest.mark.parametrize("proves", [True, False])
async def test_nothing_changed_is_accepted_only_if_something_proves_it(tmp_path: Path, proves: bool) -> None:
    make_repository(tmp_path / "user.git", {"one.txt": "right"}, bare=True)
    check = ShellCheck()
    check.proves = proves
    harness = made(tmp_path, lambda asked, tree: None, "one", check=check)

    end = await run_to_end(harness, name="runner")

    assert str(end.outcome).startswith("completed" if proves else "blocked")
    assert git(tmp_path / "user.git", "rev-list", "--count", "main") == "1"


async def test_what_passes_already_is_not_given_to_the_agent(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", {"one.txt": "right"}, bare=True)
    asked: list[str] = []

    def deed(given: Assignment, tree: Path) -> None:
        asked.append(given.feature.id)
        writes_right(given, tree)

    await run_to_end(made(tmp_path, deed, "one", "two", check_first=True), name="runner")

    assert asked == ["two"]


async def test_whether_it_passes_already_is_asked_once_at_each_commit(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", bare=True)
    check = ShellCheck()

    await run_to_end(made(tmp_path, wrong_first, "one", check=check, check_first=True), name="runner")

    assert [seen.base == seen.commit for seen in check.seen] == [True, False, False, False, False]


async def test_a_branch_that_somebody_else_moved_waits_for_a_person_and_is_never_overwritten(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)
    theirs: list[str] = []

    def meanwhile(asked: Assignment, tree: Path) -> None:
        writes_right(asked, tree)
        if not theirs:
            theirs.append(commit_files(tmp_path / "user.git.work", {"theirs.txt": "theirs"}))
            git(tmp_path / "user.git.work", "push", "--quiet", user, "main")

    harness = made(tmp_path, meanwhile, "one")
    store = MemoryStore()
    first = await run_to_end(harness, name="runner", store=store)
    tip = git(user, "rev-parse", "main")
    again = made(tmp_path, meanwhile, "one")
    end = await run_to_end(again, name="runner", store=store, messages=[{"accept_base": tip[:10]}])

    assert tip == theirs[0]
    assert f"expected it at {git(user, 'rev-parse', 'main~2')}, was at {tip}" in str(first.outcome)
    assert str(end.outcome) == "completed"
    assert git(user, "show", "main:theirs.txt") == "theirs"
    assert git(user, "show", "main:one.txt") == "right"


async def test_a_branch_that_is_checked_out_meanwhile_waits_for_a_person(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)

    def meanwhile(asked: Assignment, tree: Path) -> None:
        writes_right(asked, tree)
        git(user, "worktree", "add", "--quiet", tmp_path / "checkout", "main")

    end = await run_to_end(made(tmp_path, meanwhile, "one"), name="runner")

    assert str(end.outcome).startswith("blocked")
    assert "'main' is checked out" in str(end.outcome)
    assert git(tmp_path / "checkout", "status", "--short") == ""


async def test_a_lost_workspace_costs_tries_and_nothing_else(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)

    def make() -> CodingHarness:
        shutil.rmtree(tmp_path / "space", ignore_errors=True)
        return made(tmp_path, writes_right, "one", "two")

    end = await run_in_lives(make, name="runner")

    assert str(end.outcome) == "completed"
    assert git(user, "ls-tree", "--name-only", "main").splitlines() == ["a.txt", "one.txt", "two.txt"]


async def test_harnesses_side_by_side_do_not_meet(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user")
    names = ["alpha", "beta", "gamma"]

    async with Orchestrator(MemoryStore(), handle_signals=False) as orchestrator:
        for name in names:
            harness = CodingHarness(user, agent(wrong_first), features("one", "two"), ShellCheck(), workspace=tmp_path / name)
            orchestrator.start(harness, name=name)

    for name in names:
        assert git(user, "show", f"harness/{name}/main:two.txt") == "right"
        assert git(user, "show", f"harness/{name}/one/1:one.txt") == "wrong"


async def test_a_workspace_is_one_program_s_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_repository(tmp_path / "user.git", bare=True)
    monkeypatch.setattr("harnesses.coding.workspace._WAIT_S", 0.05)
    holder = Workspace(tmp_path / "space")
    await holder.take()

    end = await run_to_end(made(tmp_path, writes_right, "one"), name="runner", restart="temporary")
    holder.release()

    assert "is in use: expected it to be free" in str(end.outcome)


async def test_people_and_agents_can_read_where_it_stands(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", bare=True)

    await run_to_end(made(tmp_path, writes_right, "one"), name="runner")

    assert "one" in (tmp_path / "space" / "HANDOFF.md").read_text()


def test_a_validator_must_be_chosen(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no validator was given"):
        CodingHarness(tmp_path, agent(writes_right), features("one"))


async def test_the_agent_is_told_where_it_works(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)
    seen: list[Assignment] = []

    def deed(asked: Assignment, tree: Path) -> None:
        seen.append(asked)
        assert git(tree, "status", "--short", "--branch") == f"## {asked.branch}"
        assert git(tree, "rev-parse", "HEAD") == asked.base
        writes_right(asked, tree)

    await run_to_end(made(tmp_path, deed, "odd id: ü"), name="runner")

    assert seen[0].base == git(user, "rev-parse", "main~1")
    assert str(seen[0].branch).startswith("harness/runner/odd-id-")


async def test_a_fork_works_on_a_branch_of_its_own_from_where_it_was_forked(tmp_path: Path) -> None:
    user, store = make_repository(tmp_path / "user.git", bare=True), MemoryStore()

    async def work(name: str) -> CodingHarness:
        space = tmp_path / f"space of {name}"
        harness = CodingHarness(user, agent(writes_right), features("one", "two"), ShellCheck(), workspace=space)
        async with Orchestrator(store) as orchestrator:
            assert str(await orchestrator.start(harness, name=name).wait()) == "completed"
        return harness

    await work("runner")
    before = git(user, "rev-parse", "main")
    fork(store, "runner", 2, to="other")
    forked = await work("other")

    assert forked.state.manifest is not None
    assert (forked.state.manifest.session_id, forked.state.manifest.active_branch) == ("other", "harness/other/main")
    assert git(user, "rev-parse", "main") == before
    log = git(user, "log", "--first-parent", "--format=%s", "harness/other/main").splitlines()
    assert log == ["two.txt is right", "one.txt is right", "work"]
    assert git(user, "rev-parse", "main~1") == git(user, "rev-parse", "harness/other/main~1")
    await work("other")
