"""Where the list of a coding harness comes from, what is told of it, and what becomes of it when it grows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harnesses.coding.sources import FailingTests, NothingToDo
from harnesses.coding.workplace.coding_harness import DEFAULT_OBJECTIVE, CodingHarness
from harnesses.features.feature import Feature
from harnesses.features.health_checks import NoHealthCheck
from orchestrator.store.in_memory.memory_store import MemoryStore
from orchestrator.testing import run_to_end
from tests.harnesses.coding.coding_parts import ShellCheck, agent, features, writes_right
from tests.harnesses.coding.git_repositories import commit_files, git, make_repository

TOML = '[[feature]]\nid = "{0}"\ndescription = "{0}.txt is right"\nsteps = ["grep finds it"]\n'


def made(folder: Path, source, *, amend: bool = False, objective: str | None = None) -> CodingHarness:
    """Return a harness for `user.git` that works a list."""
    return CodingHarness(
        folder / "user.git",
        agent(writes_right),
        source,
        ShellCheck(),
        workspace=folder / "space",
        confirmations=1,
        health_check=NoHealthCheck(),
        amend=amend,
        objective=objective,
    )


def push(folder: Path, files: dict[str, str]) -> str:
    """Commit files on `main` as a person would who works in a clone; return the commit."""
    work = folder / "user.git.work"
    git(work, "pull", "--quiet", folder / "user.git", "main")
    commit = commit_files(work, files)
    git(work, "push", "--quiet", folder / "user.git", "main")
    return commit


async def test_a_list_whose_items_are_all_ticked_off_meanwhile_is_still_complete(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", {"a.txt": "a"}, bare=True)
    todo, store = tmp_path / "TODO.md", MemoryStore()
    todo.write_text("- [ ] one: one.txt is right\n")
    first = await run_to_end(made(tmp_path, todo, amend=True), name="runner", store=store)
    todo.write_text("- [x] one: one.txt is right\n")

    end = await run_to_end(made(tmp_path, todo, amend=True), name="runner", store=store)

    assert str(first.outcome) == str(end.outcome) == "completed"
    assert [feature.passes for feature in end.state.features] == [True]


async def test_a_complete_list_beside_the_repository_that_grows_is_worked_on(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", bare=True)
    listed, store = tmp_path / "list.toml", MemoryStore()
    listed.write_text(TOML.format("one"))
    await run_to_end(made(tmp_path, listed, amend=True), name="runner", store=store)
    listed.write_text(TOML.format("one") + TOML.format("two"))

    end = await run_to_end(made(tmp_path, listed, amend=True), name="runner", store=store)

    assert str(end.outcome) == "completed"
    assert git(user, "ls-tree", "--name-only", "main").splitlines() == ["a.txt", "one.txt", "two.txt"]


async def test_a_complete_list_in_which_nothing_is_new_is_complete_at_once(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", bare=True)
    listed, store = tmp_path / "list.toml", MemoryStore()
    listed.write_text(TOML.format("one"))
    await run_to_end(made(tmp_path, listed, amend=True), name="runner", store=store)

    end = await run_to_end(made(tmp_path, listed, amend=True), name="runner", store=store)

    assert str(end.outcome) == "completed"
    assert [str(step.state_delta.summary) for step in end.steps][-1] == "nothing new in the list"
    assert len(end.steps) == 3


async def test_a_complete_list_that_a_person_adds_to_on_the_branch_is_worked_on_once_that_is_accepted(tmp_path: Path) -> None:
    user = make_repository(tmp_path / "user.git", {"list.toml": TOML.format("one")}, bare=True)
    store = MemoryStore()
    await run_to_end(made(tmp_path, "list.toml", amend=True), name="runner", store=store)
    tip = push(tmp_path, {"list.toml": TOML.format("one") + TOML.format("two")})

    asks = await run_to_end(made(tmp_path, "list.toml", amend=True), name="runner", store=store)
    order = {"accept_base": tip}
    end = await run_to_end(made(tmp_path, "list.toml", amend=True), name="runner", store=store, messages=[order])

    assert f'{{"accept_base": "{tip}"}}' in str(asks.outcome)
    assert str(end.outcome) == "completed"
    assert git(user, "show", "main:two.txt") == "right"


async def test_a_branch_that_moved_but_brings_nothing_new_leaves_a_complete_list_complete(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", {"list.toml": TOML.format("one")}, bare=True)
    store = MemoryStore()
    await run_to_end(made(tmp_path, "list.toml", amend=True), name="runner", store=store)
    push(tmp_path, {"other.txt": "other"})

    end = await run_to_end(made(tmp_path, "list.toml", amend=True), name="runner", store=store)

    assert str(end.outcome) == "completed"


async def test_what_a_file_says_it_is_for_is_the_objective(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", {"list.toml": 'objective = "Sell more."\n' + TOML.format("one")}, bare=True)

    end = await run_to_end(made(tmp_path, "list.toml"), name="runner")

    assert end.state.manifest.current_objective == "Sell more."


async def test_an_objective_that_was_given_counts_more_than_that_of_the_file(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", {"list.toml": 'objective = "Sell more."\n' + TOML.format("one")}, bare=True)

    end = await run_to_end(made(tmp_path, "list.toml", objective="Sell less."), name="runner")

    assert end.state.manifest.current_objective == "Sell less."


async def test_without_any_objective_there_is_a_usual_one(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", bare=True)

    end = await run_to_end(made(tmp_path, features("one")), name="runner")

    assert end.state.manifest.current_objective == DEFAULT_OBJECTIVE


class Noting:
    """Finds one thing to do, and leaves something out; later it finds nothing."""

    notes: tuple[str, ...] = ()

    def __init__(self, *, done: bool = False) -> None:
        self.done = done

    async def load(self, checkout: Path) -> Sequence[Feature]:
        self.notes = ("left out, because it fails only sometimes: tests/a.py::test_b",)
        if self.done:
            raise NothingToDo("there is nothing to do")
        return features("one")

    def validator(self) -> None:
        return None


async def test_what_a_source_leaves_out_is_told_with_the_first_step(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", bare=True)
    source = Noting()

    end = await run_to_end(made(tmp_path, source), name="runner")

    assert end.state.progress[0].summary == f"Initializer scaffold created\n{source.notes[0]}"
    assert end.steps[0].state_delta.summary == f"! {source.notes[0]}; 1 features for: {DEFAULT_OBJECTIVE}"


async def test_a_source_that_finds_nothing_more_leaves_the_list_as_it_is(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", bare=True)
    store = MemoryStore()
    await run_to_end(made(tmp_path, Noting(), amend=True), name="runner", store=store)

    end = await run_to_end(made(tmp_path, Noting(done=True), amend=True), name="runner", store=store)

    assert str(end.outcome) == "completed"
    assert [feature.id for feature in end.state.features] == ["one"]


class Failing(FailingTests):
    """Finds a test that fails otherwise each time."""

    def __init__(self, message: str) -> None:
        super().__init__()
        self.message = message

    async def load(self, checkout: Path) -> tuple[Feature, ...]:
        return (Feature("one", f"tests/one.py passes\n\nAt the beginning: {self.message}", steps=["pytest tests/one.py"]),)


async def test_a_test_that_fails_otherwise_by_now_is_the_same_feature(tmp_path: Path) -> None:
    make_repository(tmp_path / "user.git", bare=True)
    store = MemoryStore()
    first = await run_to_end(made(tmp_path, Failing("a"), amend=True), name="runner", store=store)

    end = await run_to_end(made(tmp_path, Failing("b"), amend=True), name="runner", store=store)

    assert end.state.standings == first.state.standings
