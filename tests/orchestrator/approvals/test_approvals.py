"""G12: a person's word on one exact action: asked once, used once and before the act, and only its harness waits for it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses.budgets.budget import Budget
from harnesses.effects.approval import Action
from harnesses.errors import ApprovalDenied, ApprovalExpired, HarnessMisuse, Waiting
from harnesses.runtime import LocalRuntime
from orchestrator import MemoryStore, Orchestrator, OutcomeKind, SqliteStore, Store, UsageError
from orchestrator.store.sqlite.sqlite_rows import ALL_FILED, OF_REQUEST
from orchestrator.store.store_operations import USED
from orchestrator.testing import FaultyStore
from tests.orchestrator.scripted import STEADY, Scripted, Steps, poll

PUSH = Action("publish", "push main to origin", {"remote": "origin"}, expires_s=100)
"""Longer than any wait in here but one."""


class World:
    """Where effects happen."""

    def __init__(self) -> None:
        self.pushed: Counter[str] = Counter()

    async def push(self, branch: str) -> str:
        self.pushed[branch] += 1
        return branch


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(params=[MemoryStore, SqliteStore])
def store(request, tmp_path):
    made = MemoryStore() if request.param is MemoryStore else SqliteStore(tmp_path / "run.db")
    yield made
    made.close()


def pushing(world: World, approval: Any = PUSH):
    async def script(harness: Scripted) -> Steps:
        yield harness.current_step + 1, await harness.once("push", world.push, "main", approval=approval)

    return script


async def asked(store: Store, count: int = 1) -> str:
    """Return the id of the newest request, when there are so many."""
    while len(store.approvals()) < count:  # noqa: ASYNC110 - a store rings for nobody
        await trio.sleep(0.01)
    return store.approvals()[-1].id


async def test_nothing_is_done_before_a_person_has_approved_it(store, world, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(pushing(world)), name="one")
        id = await asked(store)
        await trio.sleep(50)
        before = dict(world.pushed)
        assert await orchestrator.approve(id, by="ann", reason="fine")
        outcome = await handle.wait()

    assert (before, world.pushed, outcome.step) == ({}, {"main": 1}, 1)


async def test_the_use_is_on_record_before_the_act_begins(store, world, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        orchestrator.start(Scripted(pushing(world)), name="one")
        await orchestrator.approve(await asked(store), by="ann")

    kinds = [record.kind for record in store.records()]
    assert kinds.index("approval_requested") < kinds.index("approval_answered") < kinds.index(USED) < kinds.index("intent")


async def test_what_is_denied_is_not_done_and_not_asked_for_again(store, world, autojump_clock):
    async def script(harness: Scripted) -> Steps:
        for _ in range(2):
            with pytest.raises(ApprovalDenied, match="denied by ann: not today"):
                await harness.once("push", world.push, "main", approval=PUSH)
        yield 1, "went on"

    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(script), name="one")
        await orchestrator.deny(await asked(store), by="ann", reason="not today")
        outcome = await handle.wait()

    assert (outcome.step, world.pushed, len(store.approvals())) == (1, {}, 1)


async def test_deny_wins_over_an_approval_that_was_not_used(store, world, autojump_clock):
    async def script(harness: Scripted) -> Steps:
        with pytest.raises(ApprovalDenied, match="denied by bob: wait for me"):
            await harness.once("push", world.push, "main", approval=PUSH)
        yield 1, None

    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(pushing(world)), name="one")
        id = await asked(store)
        await handle.stop()
        await orchestrator.approve(id, by="ann")
        await orchestrator.deny(id, by="bob", reason="wait for me")
        with pytest.raises(UsageError, match="denied by 'bob'"):
            await orchestrator.approve(id, by="ann")
        outcome = await orchestrator.start(Scripted(script), name="one").wait()

    assert (outcome.step, world.pushed) == (1, {})


async def test_a_request_survives_a_stop_and_is_not_made_twice(store, world, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        orchestrator.start(Scripted(pushing(world)), name="one")
        id = await asked(store)
        orchestrator.stop()
    async with Orchestrator(store) as orchestrator:
        orchestrator.start(Scripted(pushing(world)), name="one")
        await trio.sleep(1)
        await orchestrator.approve(id, by="ann")

    assert (len(store.approvals()), world.pushed) == (1, {"main": 1})


async def test_a_harness_that_crashes_after_the_approval_is_not_asked_again(store, world, autojump_clock):
    async def script(harness: Scripted) -> Steps:
        harness.ran.append("")
        grant = await harness.approval("gate", PUSH)
        if len(harness.ran) == 1:
            raise ValueError("boom")
        yield grant.by, None

    async with Orchestrator(store, backoff=STEADY) as orchestrator:
        orchestrator.start(Scripted(script), name="one")
        await orchestrator.approve(await asked(store), by="ann")

    used = [record for record in store.records() if record.kind == USED]
    assert (store.steps("one")[0].input, len(store.approvals()), len(used)) == ("ann", 1, 1)


async def test_an_approval_serves_one_step_only(store, world, autojump_clock):
    async def script(harness: Scripted) -> Steps:
        while harness.current_step < 2:
            yield harness.current_step + 1, await harness.once("push", world.push, "main", approval=PUSH)

    async with Orchestrator(store) as orchestrator:
        orchestrator.start(Scripted(script), name="one")
        await orchestrator.approve(await asked(store), by="ann")
        second = await asked(store, 2)
        await trio.sleep(20)
        assert world.pushed == {"main": 1}
        await orchestrator.approve(second, by="ann")

    assert world.pushed == {"main": 2}


async def test_what_nobody_answers_in_time_blocks_and_is_asked_anew(store, world, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        outcome = await orchestrator.start(Scripted(pushing(world)), name="one").wait()
        handle = orchestrator.start(Scripted(pushing(world)), name="one")
        second = await asked(store, 2)
        with pytest.raises(UsageError, match="has expired"):
            await orchestrator.approve(store.approvals()[0].id, by="ann")
        await orchestrator.approve(second, by="ann")
        again = await handle.wait()

    assert (outcome.kind, type(outcome.error)) == (OutcomeKind.BLOCKED, ApprovalExpired)
    assert (again.step, world.pushed) == (1, {"main": 1})


async def test_only_the_harness_that_waits_stands_still_and_its_clocks_with_it(store, world, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        waiting = orchestrator.start(Scripted(pushing(world)), name="one", step_timeout_s=5, deadline_s=10)
        sibling = orchestrator.start(Scripted(poll, until=60), name="two")
        id = await asked(store)
        await sibling.wait()
        await orchestrator.approve(id, by="ann")
        outcome = await waiting.wait()

    assert (outcome.kind, outcome.step) == (OutcomeKind.FINISHED, 1)


@pytest.mark.parametrize("working_s", [10, 40])
async def test_no_working_time_is_charged_for_waiting(store, world, autojump_clock, working_s):
    """Also of a slice of which more had been reserved in time."""

    async def script(harness: Scripted) -> Steps:
        await harness.sleep(3)
        await harness.once("push", world.push, "main", approval=PUSH)
        await harness.sleep(4)
        yield 1, None

    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(script), name="one", budget=Budget(working_time_s=working_s))
        id = await asked(store)
        await trio.sleep(90)
        await orchestrator.approve(id, by="ann")
        outcome = await handle.wait()
        spent = store.accounts()["harness/one"].spent.working_time_s

    assert (outcome.step, spent) == (1, pytest.approx(7, abs=0.1))


async def test_the_clocks_go_on_with_what_was_left(store, world, autojump_clock):
    async def script(harness: Scripted) -> Steps:
        await harness.sleep(6)
        await harness.once("push", world.push, "main", approval=PUSH)
        await harness.sleep(6)
        yield 1, None

    ended: list[Any] = []

    async def run() -> None:
        async with Orchestrator(store) as orchestrator:
            handle = orchestrator.start(Scripted(script), name="one", deadline_s=10)
            id = await asked(store)
            await trio.sleep(50)
            began = trio.current_time()
            await orchestrator.approve(id, by="ann")
            ended.extend(((await handle.wait()).kind, trio.current_time() - began))

    with pytest.raises(ExceptionGroup, match="1 of 1"):
        await run()

    assert ended == [OutcomeKind.FAILED, pytest.approx(4, abs=0.1)]


async def test_what_is_done_is_what_was_approved_or_nothing(store, autojump_clock):
    """A list that grows while a person thinks about it."""
    basket, bought = ["apple"], []

    async def script(harness: Scripted) -> Steps:
        with pytest.raises(HarnessMisuse, match="changed after they were approved"):
            await harness.once("buy", bought.extend, basket, approval="order")
        yield 1, None

    async with Orchestrator(store) as orchestrator:
        orchestrator.start(Scripted(script), name="one")
        id = await asked(store)
        basket.append("yacht")
        await orchestrator.approve(id, by="ann")

    assert bought == []


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (lambda pay: (partial(pay, force=False), 5), lambda pay: (partial(pay, force=True), 5)),
        (lambda pay: (pay, 5), lambda pay: (pay, 500)),
    ],
    ids=["keywords", "arguments"],
)
async def test_an_approval_is_for_all_that_the_effect_is_done_with(store, autojump_clock, first, then):
    """Also if the action says in words of its own what it is about."""
    done = []

    async def pay(amount: int, force: bool = False) -> None:
        done.append((amount, force))

    def paying(how):
        async def script(harness: Scripted) -> Steps:
            yield 1, await harness.once("pay", *how(pay), approval=Action("order", "pay the bill", {"bill": 7}))

        return script

    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(paying(first)), name="one")
        id = await asked(store)
        await handle.stop()
        await orchestrator.approve(id, by="ann")
        handle = orchestrator.start(Scripted(paying(then)), name="one")
        second = await asked(store, 2)
        await handle.stop()

    assert (second != id, done) == (True, [])


async def test_a_step_can_not_end_while_an_approval_of_it_is_waited_for(store, autojump_clock):
    async def script(harness: Scripted) -> Steps:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(harness.approval, "gate", PUSH)
            await harness.sleep(1)
            yield 1, None

    async with Orchestrator(store) as orchestrator:
        outcome = await orchestrator.start(Scripted(script), name="one", restart="temporary").wait()
        assert "await it before" in outcome.cause
        orchestrator.start(Scripted(poll, until=1), name="one")

    assert outcome.step == 0


async def test_two_tasks_may_wait_for_the_same_word(store, autojump_clock):
    async def script(harness: Scripted) -> Steps:
        granted = []

        async def wait() -> None:
            granted.append((await harness.approval("gate", PUSH)).by)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            nursery.start_soon(wait)
        yield granted, None

    async with Orchestrator(store) as orchestrator:
        orchestrator.start(Scripted(script), name="one")
        await orchestrator.approve(await asked(store), by="ann")

    assert store.steps("one")[0].input == ["ann", "ann"]


async def test_an_answer_wakes_whom_it_is_for_and_nobody_else(autojump_clock):
    """Of a hundred that wait, each looks at the store twice: when it asks, and when it is answered."""
    inner = MemoryStore()
    store = FaultyStore(inner, lambda: None, at=10**9)

    async with Orchestrator(store) as orchestrator:
        for number in range(100):
            orchestrator.start(Scripted(pushing(World())), name=f"h{number}")
        await asked(inner, 100)
        await trio.sleep(1)
        before = store.commits
        for record in inner.approvals():
            await orchestrator.approve(record.id, by="ann")
            await trio.sleep(0.01)

    assert store.commits - before < 100 * 8


async def test_a_rule_has_the_effects_of_any_harness_approved(store, world, autojump_clock):
    def rule(key: str, arguments: tuple[Any, ...]) -> str | None:
        return "order" if arguments[0] != "dev" else None

    async def script(harness: Scripted) -> Steps:
        for branch in ("dev", "main"):
            yield branch, await harness.once("push", world.push, branch)

    async with Orchestrator(store) as orchestrator:
        orchestrator.start(Scripted(script), name="one", approve=rule)
        id = await asked(store)
        request = store.approvals()[0]
        await orchestrator.approve(id, by="ann")

    assert ('"arguments":["main"]' in request.case.request, request.step_number) == (True, 2)
    assert world.pushed == {"dev": 1, "main": 1}


@pytest.mark.parametrize(("given", "error"), [(True, None), (False, ApprovalDenied)])
async def test_a_harness_that_runs_alone_asks_its_approver(given, error, world):
    heard = []

    def approver(key: str, action: Action) -> bool:
        heard.append((key, action.category, action.arguments))
        return given

    harness = Scripted(pushing(world, "publish"))
    if error is None:
        await harness.run(LocalRuntime("one", approver=approver))
    else:
        with pytest.raises(error):
            await harness.run(LocalRuntime("one", approver=approver))

    assert (heard, sum(world.pushed.values())) == ([("push", "publish", ["main"])], int(given))


async def test_a_harness_that_runs_alone_with_nobody_to_ask_is_blocked(world):
    with pytest.raises(Waiting, match="approver"):
        await Scripted(pushing(world)).run()

    assert not world.pushed


async def test_the_answer_of_another_process_is_heard(tmp_path, world):
    """Real time: another connection answers, as `orchestrator approve` does."""
    from harnesses.timing.clock import now_us
    from orchestrator.operating.store_writing import commit
    from orchestrator.store.rules.signing_key import read_secret
    from orchestrator.store.store_operations import Respond

    path = tmp_path / "run.db"
    with trio.fail_after(20):
        async with Orchestrator(path) as orchestrator:
            orchestrator.start(Scripted(pushing(world)), name="one")
            id = await asked(orchestrator.store)
            said = Respond(id, "approved", "ann", "", now_us(), read_secret(path))
            await trio.to_thread.run_sync(commit, str(path), said)

    assert world.pushed == {"main": 1}


async def test_an_answer_is_given_once(store, world, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(pushing(world)), name="one")
        id = await asked(store)
        handle.pause()
        first, second = orchestrator.approve(id, by="ann"), orchestrator.approve(id, by="ann")
        changed = [await first, await second]
        await trio.sleep(1)
        with pytest.raises(UsageError, match="was used already"):
            await orchestrator.deny(id, by="bob")
        handle.resume()

    assert changed == [True, False]


async def test_an_unknown_id_is_told():
    async with Orchestrator() as orchestrator:
        with pytest.raises(UsageError, match="no approval request 'nothing'"):
            await orchestrator.deny("nothing", by="ann")


def test_what_is_on_record_of_a_request_is_found_without_reading_what_was_recorded_since(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "run.db")), closing(sqlite3.connect(tmp_path / "run.db")) as db:
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {OF_REQUEST}", {"id": "a"})]

    assert "SEARCH r USING INDEX approval_records (seq>?)" in plan


def test_approvals_are_listed_without_reading_other_records(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "run.db")), closing(sqlite3.connect(tmp_path / "run.db")) as db:
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {ALL_FILED}")]

    assert "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)" in plan
