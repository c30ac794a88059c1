"""G3, G15: a child is started exactly if its step is recorded, and resumed with its parent; nobody runs twice under a name."""

from __future__ import annotations

import gc
import re
import sqlite3
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from harnesses import BaseHarness, Budget, HarnessMisuse
from orchestrator import AlreadyRunning, MemoryStore, Orchestrator, SqliteStore, Status, Store, UsageError
from orchestrator.records import ChildRecord
from orchestrator.runtime.child import Child
from orchestrator.runtime.started_children import MAX_DEPTH, StoredChildSpec
from orchestrator.store import SqliteReader
from orchestrator.store.file.schema import CHILDREN, CHILDREN_OF
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune
from orchestrator.store.sqlite.sqlite_file import open_reader
from orchestrator.testing import FaultyStore
from tests.orchestrator import brood
from tests.orchestrator.brood import Buying, Hedger, Mid, Parent, Recursive, Reopening, Returning
from tests.orchestrator.scripted import STEADY, Scripted, Steps, numbers, poll, to_the_end

CHILD = "a.hedger"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "run.db")


async def live(
    store: Store, *harnesses: tuple[str, BaseHarness[Any, Any, Any]], seconds: float = 2.5, **options: Any
) -> dict[str, Status]:
    """Run a program for a while, and return how each of its harnesses has ended."""
    async with to_the_end(store) as (orchestrator, _):
        for name, harness in harnesses:
            orchestrator.start(harness, name=name, **options)
        await trio.sleep(seconds)
        orchestrator.stop()
    return {handle.name: handle.status for handle in orchestrator.handles}


def give_back(store: Store) -> None:
    """Have the next program own what the last one did; a store in memory can be used after it."""
    if isinstance(store, MemoryStore):
        store.close()


def names(store: Store) -> list[str]:
    return [child.name for child in store.children()]


def attempts(store: Store) -> dict[str, int]:
    return {harness.name: harness.attempt for harness in store.harnesses()}


# starting


async def test_a_child_runs_beside_its_parent_from_the_step_on_that_it_was_started_with(
    store: Store, autojump_clock: MockClock
) -> None:
    parent = Parent({"args": ("EURUSD", Decimal("2.50")), "arguments": {"until": 2}})

    ended = await live(store, ("a", parent), seconds=3.5)

    assert ended == {"a": Status.STOPPED, CHILD: Status.COMPLETED}
    assert (numbers(store, CHILD), set(parent.started)) == ([1, 2], {CHILD})
    assert [(child.harness, child.step_number, child.name, child.status) for child in store.children()] == [
        ("a", 1, CHILD, Status.COMPLETED)
    ]
    assert store.state_at(CHILD, 0) == '{"limit":"2.50","steps":0,"symbol":"EURUSD"}'


async def test_without_a_step_there_is_no_child(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        harness.start_child(Hedger, "X", name="b")
        if harness.current_step < 0:
            yield 0, None
        raise ValueError("boom")

    store = MemoryStore()
    async with to_the_end(store) as (orchestrator, errors):
        orchestrator.start(Scripted(script), name="a", restart="temporary")

    assert ([handle.name for handle in orchestrator.handles], names(store), len(errors)) == (["a"], [], 1)


async def test_a_child_of_a_step_that_could_not_be_recorded_is_not_started(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    faulty = FaultyStore(store, OSError("disk full"), only_steps=True)
    async with to_the_end(faulty) as (orchestrator, _):
        orchestrator.start(Parent({}), name="a")

    assert [handle.name for handle in orchestrator.handles] == ["a"]
    assert names(store) == []


async def test_a_child_of_a_step_that_crashed_is_not_started_with_the_next_one(autojump_clock: MockClock) -> None:
    attempts: list[int] = []

    async def script(harness: Scripted) -> Steps:
        attempts.append(harness.current_step)
        if len(attempts) == 1:
            harness.start_child(Hedger, "X", name="b")
            raise ValueError("boom")
        yield 0, None

    store = MemoryStore()
    async with to_the_end(store) as (orchestrator, _):
        orchestrator.start(Scripted(script), name="a")
        await trio.sleep(60)
        orchestrator.stop()

    assert ([handle.name for handle in orchestrator.handles], names(store), attempts) == (["a"], [], [0, 0])


async def test_a_child_goes_on_when_its_parent_ends(autojump_clock: MockClock) -> None:
    store = MemoryStore()

    ended = await live(store, ("a", Parent({}, until=1)), seconds=4.5)

    assert ended == {"a": Status.COMPLETED, CHILD: Status.STOPPED}
    assert len(numbers(store, CHILD)) == 5


async def test_a_child_is_restarted_as_its_supervision_says(autojump_clock: MockClock) -> None:
    async with to_the_end() as (orchestrator, errors):
        orchestrator.start(Parent({"args": ("EURUSD", Decimal(1)), "factory": brood.Hedger, "deadline_s": 3}), name="a")
        await trio.sleep(5)
        orchestrator.stop()

    assert [handle.status for handle in orchestrator.handles] == [Status.STOPPED, Status.FAILED]
    assert "its deadline has passed" in str(errors)


# going on


async def test_a_child_is_resumed_with_its_parent(store: Store, autojump_clock: MockClock) -> None:
    for life in range(1, 4):
        ended = await live(store, ("a", Parent({})))
        give_back(store)

        assert ended == {"a": Status.STOPPED, CHILD: Status.STOPPED}
        assert attempts(store) == {"a": life, CHILD: life}

    assert numbers(store, CHILD) == list(range(1, len(numbers(store, CHILD)) + 1))
    assert (len(numbers(store, CHILD)), names(store)) == (9, [CHILD])


async def test_a_child_whose_program_died_before_it_was_started_is_started_by_the_next(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with to_the_end(FaultyStore(store, OSError("gone"), after=True, only_steps=True)) as (orchestrator, _):
        orchestrator.start(Parent({}), name="a")
    store.close()

    assert (names(store), [harness.name for harness in store.harnesses()]) == ([CHILD], ["a"])

    await live(store, ("a", Parent({})))

    assert len(numbers(store, CHILD)) == 3


@pytest.mark.parametrize("until", [1, None])
async def test_children_are_resumed_whatever_has_become_of_their_parent(until: int | None, autojump_clock: MockClock) -> None:
    store = MemoryStore()
    await live(store, ("a", Parent({}, until=until)))
    store.close()

    async def broken(harness: Scripted) -> Steps:
        raise ValueError("boom")
        yield

    cls: Callable[[], BaseHarness[Any, Any, Any]] = (lambda: Parent({}, until=1)) if until else (lambda: Scripted(broken, 0))
    await live(store, ("a", cls()), restart="temporary")

    assert attempts(store)[CHILD] == 2


async def test_children_of_children_are_resumed_also_if_the_child_in_between_has_ended(
    store: Store, autojump_clock: MockClock
) -> None:
    await live(store, ("a", Parent({"factory": Mid, "name": "mid"})), seconds=3.5)
    give_back(store)
    ended = await live(store, ("a", Parent({"factory": Mid, "name": "mid"})))

    assert ended == {"a": Status.STOPPED, "mid.leaf": Status.STOPPED}
    assert attempts(store) == {"a": 2, "mid": 1, "mid.leaf": 2}
    assert {child.name: child.harness for child in store.children()} == {"mid": "a", "mid.leaf": "mid"}


async def test_a_child_that_has_completed_or_returned_is_not_started_again(autojump_clock: MockClock) -> None:
    for child in ({"factory": Returning}, {"arguments": {"until": 1}}):
        store = MemoryStore()
        for _ in range(2):
            await live(store, ("a", Parent(child)), seconds=4.5)
            store.close()

        assert attempts(store) == {"a": 2, CHILD: 1}


@pytest.mark.parametrize("word", ["permanent", "budget"])
async def test_words_among_its_arguments_are_not_its_terms(word: str, autojump_clock: MockClock) -> None:
    store = MemoryStore()
    for _ in range(2):
        ended = await live(store, ("a", Parent({"factory": Mid, "args": (word,), "name": "mid"})), seconds=3.5)
        store.close()

    assert attempts(store) == {"a": 2, "mid": 1, "mid.leaf": 2}
    assert ended == {"a": Status.STOPPED, "mid.leaf": Status.STOPPED}


async def test_a_permanent_child_that_has_returned_is_started_again(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    await live(store, ("a", Parent({"factory": Returning, "restart": "permanent"})), seconds=0.5)
    store.close()
    await live(store, ("a", Parent({"factory": Returning, "restart": "permanent"})), seconds=0.5)

    assert attempts(store)[CHILD] == 2


async def test_a_child_that_reopens_is(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    for _ in range(2):
        await live(store, ("a", Parent({"factory": Reopening, "arguments": {"until": 1}})))
        store.close()

    assert (attempts(store), numbers(store, CHILD)) == ({"a": 2, CHILD: 2}, [1, 2])


async def test_a_child_that_was_held_is_held_when_it_is_resumed(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Parent({}), name="a")
        await trio.sleep(1.5)
        await orchestrator.handles[1].pause()
        orchestrator.stop()
    store.close()

    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Parent({}), name="a")
        await trio.sleep(2.5)
        status = orchestrator.handles[1].status
        orchestrator.stop()

    assert status is Status.PAUSED


# names


async def test_one_that_the_program_starts_too_is_the_same(autojump_clock: MockClock) -> None:
    for before in (True, False):
        store = MemoryStore()
        for _ in range(2):
            async with Orchestrator(store, handle_signals=False) as orchestrator:
                if before:
                    orchestrator.start(Hedger("EURUSD"), name=CHILD)
                orchestrator.start(Parent({}), name="a")
                await trio.sleep(1.5)
                if not before:
                    handle = orchestrator.start(Hedger("EURUSD"), name=CHILD)
                    assert handle.status is Status.RUNNING
                await trio.sleep(1)
                orchestrator.stop()
            store.close()

        assert attempts(store) == {"a": 2, CHILD: 2}
        assert names(store) == [CHILD]


async def test_limits_for_a_child_that_runs_without_them_are_refused(autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        orchestrator.start(Parent({}), name="a")
        await trio.sleep(0.5)
        with pytest.raises(AlreadyRunning, match=r"'a' has started it: expected .*start it before 'a'"):
            orchestrator.start(Hedger("EURUSD"), name=CHILD, budget=Budget(steps=1))
        with pytest.raises(AlreadyRunning, match="expected one of the same class"):
            orchestrator.start(Scripted(poll), name=CHILD)
        orchestrator.stop()


async def test_the_name_of_a_supervisor_beside_the_parent_is_refused_before_the_step(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with to_the_end(store) as (orchestrator, errors):
        team = orchestrator.supervisor("team")
        orchestrator.supervisor(CHILD, parent=team)
        orchestrator.start(Parent({}), name="a", restart="temporary", supervisor=team)
        await trio.sleep(5)
        orchestrator.stop()

    (error,) = errors
    assert re.search(r"start_child 'a.hedger': .*a supervisor beside 'a' has it; choose another", str(error)), error
    assert (names(store), [handle.name for handle in orchestrator.handles], numbers(store, "a")) == ([], ["a"], [])


async def _refused(**child: Any) -> str:
    """Return what a parent is told that starts a child so."""
    async with to_the_end() as (orchestrator, errors):
        orchestrator.start(Parent(child), name="a", restart="temporary")
    assert [handle.name for handle in orchestrator.handles] == ["a"]
    (error,) = errors
    assert isinstance(error.__cause__, HarnessMisuse)
    return str(error)


def _local() -> type[Hedger]:
    class Inner(Hedger):
        pass

    return Inner


class _InMain(Hedger):
    """Says that it is the program's own."""


_InMain.__module__ = "__main__"


@pytest.mark.parametrize(
    ("child", "words"),
    [
        ({"name": "a b"}, "expected letters, digits"),
        ({"name": "a"}, "was itself or one of its ancestors"),
        ({"restart": "often"}, "expected permanent, transient or temporary"),
        ({"deadline_s": -1}, "deadline_s: expected a number of seconds"),
        ({"budget": 3}, "expected a Budget"),
        ({"factory": lambda: Hedger("X")}, "can import; define it at the top of a module"),
        ({"factory": _local()}, "can import; define it at the top of a module"),
        ({"factory": partial(Hedger, "X")}, "pass the class or function itself"),
        ({"factory": Hedger("X").reopens}, "is not what .* names"),
        ({"factory": _InMain}, "`__main__`"),
        ({"factory": brood.make_nothing, "args": ()}, "expected a harness class, or a function annotated to return a harness"),
        ({"factory": brood.make_unsaid, "args": ()}, "annotated to return a harness, got .*make_unsaid.*; annotate what it"),
        ({"factory": brood.make_wrong, "args": ()}, "returned None: expected a harness"),
        ({"factory": "tests:Hedger"}, "pass the class or function itself"),
        ({"args": ()}, "missing a required argument"),
        ({"args": (object(),)}, "cannot be stored"),
        ({"args": (3,)}, "Expected `str`, got `int`"),
        ({"args": ("X",), "arguments": {"never": 1}}, "unexpected keyword argument 'never'"),
        ({"factory": brood.Unsaid, "args": (Decimal("1.0"),)}, r"argument 1 would come back from the store as '1.0'"),
        ({"factory": brood.Unsaid, "args": ((1, 2),)}, r"would come back from the store as \[1, 2\], was \(1, 2\)"),
        ({"args": ("X" * 100_000,)}, "at most 100,000 characters"),
    ],
)
async def test_what_another_start_of_the_program_could_not_make_is_refused_at_once(
    child: dict[str, Any], words: str, autojump_clock: MockClock
) -> None:
    told = await _refused(**child)

    assert re.search(words, told), told
    assert "start_child" in told


async def test_arguments_come_back_as_the_types_that_they_are_annotated_with(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    await live(store, ("a", Parent({"factory": brood.make_spending, "args": ("X", Budget(steps=7))})))

    assert store.state_at(CHILD, 0) == '{"limit":"7","steps":0,"symbol":"X"}'


async def test_a_child_takes_its_state_as_its_base_class_does(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    await live(store, ("a", Parent({"factory": brood.Inheriting, "args": (brood.Book("X", Decimal("2.50")),)})))

    assert [step.output for step in store.steps(CHILD)] == ["Book 2.50"]


async def test_the_same_start_again_changes_nothing_and_another_is_refused(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    await live(store, ("a", Parent({})))
    store.close()
    async with to_the_end(store) as (orchestrator, errors):
        orchestrator.start(Parent({"args": ("GBPUSD",)}), name="a", restart="temporary")
        await trio.sleep(0.5)
        orchestrator.stop()

    assert "was started before with another arguments: expected the same again, or another name" in str(errors)
    assert attempts(store)[CHILD] == 2
    assert names(store) == [CHILD]


async def test_two_parents_do_not_share_a_child(autojump_clock: MockClock) -> None:
    async with to_the_end() as (orchestrator, errors):
        orchestrator.start(Parent({"name": "one"}), name="a", restart="temporary")
        orchestrator.start(Parent({"name": "one"}), name="b", restart="temporary")
        await trio.sleep(1.5)
        orchestrator.stop()

    assert [handle.name for handle in orchestrator.handles] == ["a", "b", "one"]
    assert re.search("'[ab]' has started it: expected a name of its own for each", str(errors))


async def test_a_harness_that_starts_itself_ever_deeper_is_stopped(autojump_clock: MockClock) -> None:
    async with to_the_end() as (orchestrator, errors):
        orchestrator.start(Recursive(0), name="level0", restart="temporary")
        await trio.sleep(20)
        orchestrator.stop()

    assert len(orchestrator.handles) == MAX_DEPTH + 1
    assert f"expected at most {MAX_DEPTH} levels of harnesses that start harnesses" in str(errors)


async def test_more_children_than_there_may_be_are_refused(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> None:
    monkeypatch.setattr("orchestrator.runtime.started_children.MAX_CHILDREN", 3)

    async def script(harness: Scripted) -> Steps:
        for number in range(harness.current_step, 9):
            harness.start_child(Hedger, "X", name=f"b{number}", arguments={"until": 1} if number < 3 else {})
            yield number, None
            await harness.sleep(1)

    async with to_the_end() as (orchestrator, errors):
        orchestrator.start(Scripted(script), name="a", restart="temporary")
        await trio.sleep(20)
        orchestrator.stop()

    assert len(orchestrator.handles) == 7
    assert "expected at most 3 harnesses started by others at once" in str(errors)


async def test_alone_there_is_nobody_to_run_a_child() -> None:
    with pytest.raises(HarnessMisuse, match="runs alone and cannot start children: start 'Parent' in an Orchestrator"):
        await Parent({"name": "b"}).run()


# limits


async def test_a_child_spends_from_its_parents_budgets_too(store: Store, autojump_clock: MockClock) -> None:
    for _ in range(2):
        async with to_the_end(store) as (orchestrator, _):
            orchestrator.start(Parent({}), name="a", budget=Budget(steps=4))
            await trio.sleep(10)
        give_back(store)

    assert len(numbers(store, "a")) + len(numbers(store, CHILD)) == 4
    assert [handle.status for handle in orchestrator.handles] == [Status.BUDGET_SPENT] * 2


async def test_a_child_has_a_budget_of_its_own_over_all_runs(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    for _ in range(2):
        ended = await live(store, ("a", Parent({"budget": Budget(steps=2)})), seconds=4.5)
        store.close()

    assert ended[CHILD] is Status.BUDGET_SPENT
    assert len(numbers(store, CHILD)) == 2


async def test_a_child_needs_the_approvals_that_its_parents_rule_asks_for(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    for _ in range(2):
        ended = await live(store, ("a", Parent({"factory": Buying})), approve=lambda key, args: "trade")
        store.close()

    assert numbers(store, CHILD) == []
    assert [approval.harness for approval in store.approvals()] == [CHILD]
    assert ended[CHILD] is Status.STOPPED


# trouble


async def test_a_child_that_can_not_be_made_again_fails_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch, store: Store, autojump_clock: MockClock
) -> None:
    await live(store, ("a", Parent({"factory": Mid, "name": "mid"})), ("b", Parent({})), seconds=0.5)
    give_back(store)
    before = {harness.name: harness.harness_class for harness in store.harnesses()}
    with monkeypatch.context() as patched:
        patched.delattr(brood, "Mid")
        patched.setattr(Parent, "start_child", lambda *args, **named: "")
        ended = await live(store, ("a", Parent({})), ("b", Parent({})))
        give_back(store)

    assert ended == {
        "a": Status.STOPPED,
        "b": Status.STOPPED,
        "mid": Status.FAILED,
        "mid.leaf": Status.STOPPED,
        "b.hedger": Status.STOPPED,
    }
    cause = next(harness.event["cause"] for harness in store.harnesses() if harness.name == "mid")
    assert "child 'mid' of 'a' cannot be made again: tests.orchestrator.brood has no 'Mid': expected one of" in cause
    assert before == {harness.name: harness.harness_class for harness in store.harnesses()}

    ended = await live(store, ("a", Parent({"factory": Mid, "name": "mid"})))

    assert ended["mid"] in (Status.STOPPED, Status.FINISHED)


async def test_one_that_never_began_and_can_not_be_made_is_told_as_a_failure(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    store = MemoryStore()
    async with to_the_end(FaultyStore(store, OSError("gone"), after=True, only_steps=True)) as (orchestrator, _):
        orchestrator.start(Parent({"factory": Mid, "name": "mid"}), name="a")
    store.close()
    with monkeypatch.context() as patched:
        patched.delattr(brood, "Mid")
        patched.setattr(Parent, "start_child", lambda *args, **named: "")
        async with to_the_end(store) as (orchestrator, errors):
            orchestrator.start(Parent({}), name="a")
            await trio.sleep(1)
            orchestrator.stop()
        store.close()

    assert "child 'mid' of 'a' cannot be made again" in str(errors)
    assert [harness.name for harness in store.harnesses()] == ["a"]

    ended = await live(store, ("a", Parent({"factory": Mid, "name": "mid"})))

    assert ended["mid"] is Status.STOPPED or ended["mid"] is Status.FINISHED


async def test_secrets_that_a_child_is_started_with_come_back_as_they_were(autojump_clock: MockClock) -> None:
    secret = "password=hunter2hunter2 sk-ant-REDACTED"
    store = MemoryStore()
    for _ in range(2):
        await live(store, ("a", Parent({"args": (secret,)})), seconds=0.5)
        store.close()

    assert store.steps(CHILD)[0].harness == CHILD
    assert f'"symbol":"{secret}"' in store.state_at(CHILD, 1)
    assert attempts(store)[CHILD] == 2


async def test_what_a_child_is_started_with_is_encrypted_with_the_store(tmp_path: Path, autojump_clock: MockClock) -> None:
    pytest.importorskip("cryptography")
    key = bytes(range(32))
    for _ in range(2):
        with closing(SqliteStore(tmp_path / "run.db", key=key)) as store:
            await live(store, ("a", Parent({"args": ("SECRET-SYMBOL",)})), seconds=0.5)
            assert attempts(store)[CHILD] == 2 if _ else True

    assert b"SECRET-SYMBOL" not in (tmp_path / "run.db").read_bytes().replace(b'"output":"SECRET-SYMBOL"', b"")
    with closing(SqliteReader(tmp_path / "run.db")) as reader:
        assert '"arguments":"encrypted:' in reader.children("a")[0].body


async def test_pruning_leaves_which_children_there_are(tmp_path: Path, autojump_clock: MockClock) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        await live(store, ("a", Parent({})), seconds=300)
    prune(tmp_path / "run.db", Rule(keep=1, context=0), by="test")
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        ended = await live(store, ("a", Parent({})))

        assert ended == {"a": Status.STOPPED, CHILD: Status.STOPPED}
        assert store.steps("a")[0].step_number > 1
        assert store.children("a")[0].step_number == 1


async def test_children_are_found_without_a_look_at_any_step(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "run.db").close()
    with closing(open_reader(tmp_path / "run.db")) as db:
        for statement, args in ((CHILDREN, ()), (CHILDREN_OF, (1,))):
            plan = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", args))
            assert "USING INDEX child_records" in plan, plan


@pytest.mark.parametrize("factory", ["os:makedirs", "os:mkdir"])
async def test_what_a_changed_store_names_is_not_called(factory: str, tmp_path: Path, autojump_clock: MockClock) -> None:
    path, made = tmp_path / "run.db", tmp_path / "made"
    with closing(SqliteStore(path)) as store:
        await live(store, ("a", Parent({}, until=1)))
    body = f'{{"child":"{CHILD}","factory":"{factory}","arguments":[["{made}"],{{}}],"restart":"transient"}}'
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE records SET body = ? WHERE kind = 'child'", (body,))
    with closing(SqliteStore(path)) as store:
        ended = await live(store, ("a", Parent({}, until=1)))

    assert (made.exists(), ended) == (False, {"a": Status.COMPLETED, CHILD: Status.FAILED})


async def test_a_class_on_record_is_not_imported_to_find_out_whether_it_reopens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    path = tmp_path / "run.db"
    (tmp_path / "planted_module.py").write_text("class Made:\n    def reopens(self): return True\n")
    monkeypatch.syspath_prepend(tmp_path)
    with closing(SqliteStore(path)) as store:
        await live(store, ("a", Parent({"arguments": {"until": 1}})))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE harnesses SET class = 'planted_module:Made' WHERE name = ?", (CHILD,))
    with closing(SqliteStore(path)) as store:
        ended = await live(store, ("a", Parent({"arguments": {"until": 1}})))

    assert ("planted_module" in sys.modules, ended) == (False, {"a": Status.STOPPED})


async def test_what_its_parent_reserves_does_not_pay_for_a_child(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with to_the_end(store) as (orchestrator, _):
        orchestrator.start(brood.Settling(), name="a", budget=Budget(tokens=1000))
        await trio.sleep(5)
        orchestrator.stop()

    assert store.accounts()["harness/a"].spent.tokens == 510


@pytest.mark.parametrize(("above", "own"), [(Budget(tokens=10), None), (None, Budget(tokens=10))])
async def test_a_limit_that_cannot_be_held_for_a_childs_agent_is_refused_before_the_step(
    above: Budget | None, own: Budget | None, autojump_clock: MockClock
) -> None:
    store = MemoryStore()
    async with to_the_end(store) as (orchestrator, errors):
        parent = Parent({"factory": brood.Asking, "args": ([],), "budget": own})
        orchestrator.start(parent, name="a", budget=above, restart="temporary")
        await trio.sleep(5)
        orchestrator.stop()

    assert re.search("start_child 'a.hedger': .*its budget of tokens cannot be enforced: expected agents", str(errors)), errors
    assert (names(store), numbers(store, "a")) == ([], [])


async def test_a_limit_that_cannot_be_held_for_a_childs_agent_any_more_is_refused_when_it_is_resumed(
    autojump_clock: MockClock,
) -> None:
    store = MemoryStore()
    async with to_the_end(FaultyStore(store, OSError("gone"), after=True, only_steps=True)) as (orchestrator, _):
        orchestrator.start(Parent({"factory": brood.Asking, "args": ([],)}), name="a")
    store.close()
    async with to_the_end(store) as (orchestrator, errors):
        orchestrator.start(Parent({"factory": brood.Asking, "args": ([],)}), name="a", budget=Budget(tokens=10))
        await trio.sleep(2)
        orchestrator.stop()

    assert "harness 'a.hedger': its budget of tokens cannot be enforced" in str(errors)
    assert [harness.name for harness in store.harnesses()] == ["a"]


async def test_no_option_is_dropped_for_a_child_that_runs_already(autojump_clock: MockClock) -> None:
    async with Orchestrator(handle_signals=False) as orchestrator:
        orchestrator.start(Parent({}), name="a")
        await trio.sleep(0.5)
        options: list[dict[str, Any]] = [
            {"pool": orchestrator.pool("two", Budget(steps=2))},
            {"restart": "permanent"},
            {"grace_s": 1},
            {"take_over": True},
            {"backoff": STEADY},
            {"renew": lambda: lambda: None},
        ]
        for option in options:
            with pytest.raises(AlreadyRunning, match="without options of its own"):
                orchestrator.start(Hedger("EURUSD"), name=CHILD, **option)
        assert orchestrator.start(Hedger("EURUSD"), name=CHILD, restart="transient").status is Status.RUNNING
        orchestrator.stop()


async def test_a_child_that_an_operator_has_stopped_stays_so_when_its_parent_is_restarted(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Parent({}), name="a")
        await trio.sleep(0.5)
        await orchestrator.handles[1].stop()
        await orchestrator.restart("a")
        await trio.sleep(3)
        assert {handle.name: handle.status for handle in orchestrator.handles} == {"a": Status.RUNNING, CHILD: Status.STOPPED}
        orchestrator.stop()
    store.close()

    await live(store, ("a", Parent({})))

    assert attempts(store) == {"a": 3, CHILD: 2}


async def test_a_child_that_has_ended_is_let_go_and_can_be_started_again(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Parent({"factory": Returning}), name="a")
        await trio.sleep(0.5)
        made = weakref.ref(orchestrator.harnesses[CHILD])
        await orchestrator.handles[1].wait()
        await trio.sleep(1)
        gc.collect()
        assert (made(), set(orchestrator.harnesses)) == (None, {"a"})
        assert (orchestrator.handles[1].status, orchestrator.handles[1].current_step) == (Status.FINISHED, 2)
        again = await orchestrator.restart(CHILD)
        assert (await again.wait()).step == 2
        orchestrator.stop()

    assert attempts(store)[CHILD] == 2


async def start_in_turn(harness: Scripted, children: int) -> Steps:
    """Start a child with each step, which completes before the next one."""
    for number in range(harness.current_step, children):
        harness.start_child(Hedger, "X", name=f"b{number}", arguments={"until": 1}, budget=Budget(steps=5))
        yield number, None
        await harness.sleep(1)


async def test_memory_does_not_grow_with_children_that_have_ended(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr("orchestrator.runtime.child_registry.KEPT_ENDED", 100)
    async with Orchestrator(MemoryStore(), handle_signals=False) as orchestrator:
        handle = orchestrator.start(Scripted(partial(start_in_turn, children=700)), name="a")
        await handle.wait()
        gc.collect()
        kept = Counter(type(one) for one in gc.get_objects() if type(one) in (Child, StoredChildSpec))
        sizes = len(orchestrator.handles), len(orchestrator._root.children), len(orchestrator._pools.funded)

    assert max(*kept.values(), *sizes) < 150


@pytest.mark.parametrize(
    ("name", "symbol", "error"),
    [
        ("a", "X", ""),
        ("a", "Y", "was started before with another arguments"),
        ("b", "X", "'a' has started it: expected a name of its own"),
    ],
)
async def test_a_child_that_the_program_has_forgotten_is_not_started_twice(
    name: str, symbol: str, error: str, store: Store, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async def again(harness: Scripted) -> Steps:
        if harness.name == "a":
            async for step in start_in_turn(harness, 4):
                yield step
        await harness.sleep(5)
        if harness.name == name:
            harness.start_child(Hedger, symbol, name="b0", arguments={"until": 1}, budget=Budget(steps=5))
        yield 5, None

    monkeypatch.setattr("orchestrator.runtime.child_registry.KEPT_ENDED", 2)
    async with to_the_end(store) as (orchestrator, errors):
        for parent in ("a", "b"):
            orchestrator.start(Scripted(again), name=parent, restart="temporary")

    assert {handle.name for handle in orchestrator.handles} == {"a", "b", "b2", "b3"}
    assert error in str(errors)
    assert bool(errors) == bool(error)
    assert attempts(store)["b0"] == 1


async def test_a_child_that_has_returned_is_not_started_again_by_a_parent_that_is(
    store: Store, autojump_clock: MockClock
) -> None:
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Parent({"factory": Returning}), name="a")
        await trio.sleep(3.5)
        await orchestrator.restart("a")
        await trio.sleep(3.5)
        orchestrator.stop()

    assert (attempts(store), names(store)) == ({"a": 2, CHILD: 1}, [CHILD])


class Counting(MemoryStore):
    """Counts how often all children were read."""

    reads = 0

    def children(self, name: str | None = None) -> tuple[ChildRecord, ...]:
        self.reads += name is None
        return super().children(name)


async def test_children_that_have_ended_are_read_once_for_a_step_that_orders_them_again(autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        for number in range(5):
            harness.start_child(Hedger, "X", name=f"b{number}", arguments={"until": 1})
        yield 1, None
        await harness.sleep(5)

    store = Counting()
    for _ in range(2):
        store.reads = 0
        await live(store, ("a", Scripted(script)))
        give_back(store)

    assert attempts(store) == {"a": 2, **{f"b{number}": 1 for number in range(5)}}
    assert store.reads == 1


async def test_a_child_goes_on_by_order_when_its_parent_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr("orchestrator.runtime.child_registry.KEPT_ENDED", 0)
    async with Orchestrator(handle_signals=False) as orchestrator:
        orchestrator.start(Parent({"factory": Mid}), name="a")
        await trio.sleep(3.5)
        assert [handle.name for handle in orchestrator.handles] == ["a", f"{CHILD}.leaf"]
        again = await orchestrator.restart(f"{CHILD}.leaf")
        assert again.attempt == 2
        with pytest.raises(
            UsageError, match=f"'{CHILD}' was not started in this program, or ended long ago: expected one of a,"
        ):
            orchestrator.restart(CHILD)
        orchestrator.stop()
