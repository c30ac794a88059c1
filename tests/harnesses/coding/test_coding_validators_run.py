"""What runs a commit believes no exit code, no edited check and nothing that was left behind. Real processes, so real time."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import trio
from attrs import evolve

from harnesses.agents import Bubblewrap
from harnesses.agents.sandbox import Sandbox
from harnesses.coding.validators import Command, PytestNodes, SuiteKept, TestsKept, pytest_process
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature
from tests.harnesses.coding.judged import DONE, ENV, FEATURE, Repository, repository_in


@pytest.fixture
async def repository(tmp_path: Path) -> Repository:
    return await repository_in(tmp_path)


async def test_a_command_that_ends_well_passes_and_says_what_was_run(repository: Repository) -> None:
    candidate = await repository.commit({"shop.py": DONE})

    verdict = await Command(["sh", "check.sh"], env={"A": "b"}).validate(FEATURE, candidate)

    assert verdict.passed, verdict.evidence
    assert verdict.commit == candidate.commit
    first, second, *_ = verdict.evidence.splitlines()
    assert re.fullmatch(r"`sh check.sh` ended with code 0 after \d+\.\d s; expected code 0 within .* s", first)
    sandbox = "bubblewrap, no network" if Sandbox().works() else "none"
    assert second.startswith(f"in ., sandbox: {sandbox}, clean environment and A=b PYTHONHASHSEED=")


async def test_a_command_that_fails_keeps_the_end_of_its_output(repository: Repository) -> None:
    verdict = await Command(["sh", "check.sh"]).validate(FEATURE, await repository.commit({}))

    assert not verdict.passed
    assert "ended with code 1" in verdict.evidence
    assert verdict.evidence.endswith("NotImplementedError")


async def test_a_commit_that_changes_the_script_that_judges_is_refused(repository: Repository) -> None:
    candidate = await repository.commit({"check.sh": "exit 0\n"})

    verdict = await Command(["sh", "check.sh"]).validate(FEATURE, candidate)

    assert not verdict.passed
    assert verdict.evidence == "check.sh: is a judging file, and the commit changes it: restore it"


async def test_a_script_that_became_a_link_is_refused_and_the_link_is_not_followed(
    repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").write_text("exit 0\n")
    candidate = await repository.commit({}, links={"check.sh": str(tmp_path / "elsewhere")})

    verdict = await Command(["sh", "check.sh"]).validate(FEATURE, candidate)

    assert not verdict.passed
    assert (tmp_path / "elsewhere").read_text() == "exit 0\n"


async def test_a_commit_that_adds_what_matches_protect_is_refused(repository: Repository) -> None:
    candidate = await repository.commit({"lib/easy.sh": "exit 0\n"})

    verdict = await Command(["sh", "-c", "test -e lib/easy.sh"], protect=["lib/"]).validate(FEATURE, candidate)

    assert not verdict.passed


async def test_a_file_that_a_command_only_looks_at_is_judged(repository: Repository) -> None:
    candidate = await repository.commit({"shop.py": DONE})

    verdict = await Command(["grep", "-q", "sum", "shop.py"]).validate(FEATURE, candidate)

    assert verdict.passed


async def test_a_command_is_told_the_feature(repository: Repository) -> None:
    command = Command(["sh", "-c", 'test "$FEATURE" = "$1"', "sh", "{feature}"])

    verdict = await command.validate(FEATURE, await repository.commit({}))

    assert verdict.passed
    assert command.depends_on_feature
    assert not Command(["make", "check"]).depends_on_feature


@pytest.mark.skipif(not Bubblewrap().works(), reason="bubblewrap is not installed, or may not run")
@pytest.mark.parametrize("network", [False, True])
async def test_a_command_has_no_network_unless_it_is_given_one_and_writes_nowhere_else(
    repository: Repository, tmp_path: Path, network: bool
) -> None:
    mine, outside = os.readlink("/proc/self/ns/net"), tmp_path / "outside"
    shared = "=" if network else "!="
    looks = f'test "$(readlink /proc/self/ns/net)" {shared} "{mine}" && (touch {outside}; touch here)'

    verdict = await Command(["sh", "-c", looks], network=network).validate(FEATURE, await repository.commit({}))

    assert verdict.passed, verdict.evidence
    assert not outside.is_file()


async def test_a_command_finds_nothing_of_this_programs_environment(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "x")

    verdict = await Command(["sh", "-c", 'test -z "$SECRET" && test -z "$(ls "$HOME" "$TMPDIR" | grep -v :)"']).validate(
        FEATURE, await repository.commit({})
    )

    assert verdict.passed, verdict.evidence


async def test_a_command_that_never_ends_is_killed(repository: Repository) -> None:
    verdict = await Command(["sleep", "60"], limit_s=0.3).validate(FEATURE, await repository.commit({}))

    assert not verdict.passed
    assert "was killed at its time limit" in verdict.evidence


async def test_another_exit_code_may_stand_for_yes(repository: Repository) -> None:
    candidate = await repository.commit({})

    assert (await Command(["sh", "-c", "exit 3"], code=3).validate(FEATURE, candidate)).passed
    assert not (await Command(["sh", "-c", "exit 0"], code=3).validate(FEATURE, candidate)).passed


@pytest.mark.parametrize(
    "make",
    [
        lambda: Command("make check"),
        lambda: Command([]),
        lambda: Command(["make"], limit_s=0),
        lambda: Command(["make"], cwd="../up"),
        lambda: PytestNodes([]),
        lambda: PytestNodes(limit_s=0),
        lambda: SuiteKept(limit_s=-1),
    ],
)
def test_what_can_not_be_is_refused_at_once(make: object) -> None:
    with pytest.raises(InvalidRequest):
        make()  # type: ignore[operator]


async def test_nodes_pass_and_the_hash_seed_differs_from_one_confirmation_to_the_next(repository: Repository) -> None:
    candidate = await repository.commit({"shop.py": DONE})
    validator = PytestNodes(env=ENV)

    first = await validator.validate(FEATURE, candidate)
    second = await validator.validate(FEATURE, evolve(candidate, confirmation=2))

    assert first.passed, first.evidence
    assert second.passed
    assert first.evidence.splitlines()[0] != second.evidence.splitlines()[0]


async def test_a_node_that_fails_is_told_with_its_reason(repository: Repository) -> None:
    verdict = await PytestNodes(env=ENV).validate(FEATURE, await repository.commit({"shop.py": DONE.replace("sum", "max")}))

    assert not verdict.passed
    assert "tests/test_shop.py::test_total: failed" in verdict.evidence
    assert "assert 2 == 3" in verdict.evidence


async def test_a_commit_that_weakens_a_test_is_refused(repository: Repository) -> None:
    candidate = await repository.commit({"tests/test_shop.py": "def test_total():\n    pass\n", "shop.py": DONE})

    verdict = await PytestNodes(env=ENV).validate(FEATURE, candidate)

    assert not verdict.passed
    assert "tests/test_shop.py" in verdict.evidence


async def test_a_test_that_the_commit_changes_is_run_as_it_was(repository: Repository) -> None:
    candidate = await repository.commit({"tests/test_shop.py": "def test_total():\n    pass\n"})

    verdict = await (PytestNodes(env=ENV) & TestsKept(allow=["tests/*"])).validate(FEATURE, candidate)

    assert not verdict.passed
    assert "restored to the base before the run: tests/test_shop.py" in verdict.evidence


async def test_a_node_that_is_not_there_did_not_run(repository: Repository) -> None:
    candidate = await repository.commit({"shop.py": DONE})

    verdict = await PytestNodes(["tests/test_shop.py::test_gone"], env=ENV).validate(FEATURE, candidate)

    assert not verdict.passed
    assert "test_gone" in verdict.evidence


async def test_a_program_that_ends_the_process_is_told_so(repository: Repository) -> None:
    verdict = await PytestNodes(env=ENV).validate(FEATURE, await repository.commit({"shop.py": "import os\nos._exit(0)\n"}))

    assert not verdict.passed
    assert "the process ended with code 0 before the last test was reported" in verdict.evidence


async def test_a_feature_without_tests_can_not_be_judged_by_tests(repository: Repository) -> None:
    with pytest.raises(InvalidRequest, match="has no tests"):
        await PytestNodes().validate(Feature("a", "b"), await repository.commit({}))


async def test_a_cancelled_validator_leaves_no_worktree(repository: Repository) -> None:
    candidate = await repository.commit({})
    with trio.move_on_after(0.5):
        await Command(["sleep", "60"]).validate(FEATURE, candidate)

    assert not [place for place in repository.judge.folder.iterdir() if place.name.startswith("at")]


async def test_a_step_may_be_a_node_id_after_the_word_pytest(repository: Repository) -> None:
    feature = evolve(FEATURE, steps=tuple(f"pytest {step}" for step in FEATURE.steps))

    verdict = await PytestNodes(env=ENV).validate(feature, await repository.commit({"shop.py": DONE}))

    assert verdict.passed, verdict.evidence
    assert verdict.evidence.startswith("`pytest tests/test_shop.py::test_total` with")


async def test_the_suite_is_kept_if_what_passed_passes(repository: Repository) -> None:
    verdict = await SuiteKept(env=ENV).validate(FEATURE, await repository.commit({"shop.py": DONE}))

    assert verdict.passed, verdict.evidence
    assert verdict.evidence.startswith("1 tests passed at the base and still pass")


async def test_validators_compose_and_the_cheapest_is_asked_first(repository: Repository) -> None:
    together = SuiteKept(env=ENV) & PytestNodes(env=ENV) & TestsKept()

    verdict = await together.validate(FEATURE, await repository.commit({"shop.py": DONE}, gone=("tests/test_shop.py",)))

    assert repr(together) == "TestsKept() & PytestNodes() & SuiteKept()"
    assert together.proves
    assert not (TestsKept() & SuiteKept()).proves
    assert verdict.evidence == "TestsKept: tests/test_shop.py: was removed: restore it"


def test_the_command_line_of_a_session_does_not_tell_that_a_test_is_run() -> None:
    assert "test" not in f"{pytest_process._PLUGIN.parent.name}/{pytest_process._PLUGIN.name}"


async def test_the_package_of_the_repository_is_tested_and_not_a_copy_that_a_plugin_of_pytest_has_loaded(
    tmp_path: Path,
) -> None:
    tests = "import sniffio\nfrom sniffio import answer\n\n\ndef test_answer():\n    assert answer.value() == 7\n"
    package = {"sniffio/__init__.py": "", "sniffio/answer.py": "def value():\n    return 0\n"}
    repository = await repository_in(tmp_path, {**package, "tests/test_answer.py": tests})
    feature = Feature("answer", "It is right.", steps=("tests/test_answer.py::test_answer",))
    right = await repository.commit({"sniffio/answer.py": "def value():\n    return 7\n"})
    shadow = await repository.commit({"outcome.py": "", "sniffio/answer.py": "import outcome\n\n\nvalue = outcome.Value\n"})
    nodes = PytestNodes(env={**ENV, "PYTEST_PLUGINS": "pytest_trio"})

    verdict = await nodes.validate(feature, right)
    shadowed = await nodes.validate(feature, shadow)

    assert verdict.passed, verdict.evidence
    assert "outcome.py" not in shadowed.evidence
    assert "Value" in shadowed.evidence
