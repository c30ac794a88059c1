"""G1: with `durability="group"` a step is stored within its bound; what must not precede it waits; a crash leaves no gap."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from harnesses import Request
from harnesses.budgets.budget import Budget
from orchestrator import MemoryStore, Orchestrator, OwnershipLost, SqliteStore, Store, StoreError, StoreLost, UsageError
from orchestrator.history import fork, replay
from orchestrator.outcome import OutcomeKind
from orchestrator.recording import grouped_steps
from orchestrator.store.store_protocol import Claim, Committed, StepRow
from orchestrator.testing import FaultyStore
from tests.orchestrator.scripted import Scripted, Steps, kinds, numbers, to_the_end

GROUP: Any = {"durability": "group", "group_s": 9}


def counting(until: int, then: Callable[[Scripted], Any] | None = None) -> Scripted:
    """Return a harness that makes steps at once, then awaits `then` and makes one more."""

    async def count(harness: Scripted) -> Steps:
        while harness.current_step < until:
            harness.update_state(lambda total: total + 1)
            yield harness.current_step + 1, harness.state
        if then is not None:
            harness.ran.append(repr(await then(harness)))
            yield harness.current_step + 1, "after"

    return Scripted(count, 0)


async def run(harness: Scripted, store: Any = None, **options: Any) -> Any:
    """Run a harness with group durability to its end; return the store."""
    store = MemoryStore() if store is None else store
    async with to_the_end(store) as (orchestrator, errors):
        orchestrator.start(harness, name="a", **{**GROUP, **options})
    if errors:
        raise ExceptionGroup("errors", errors)  # type: ignore[type-var]
    return store


async def test_a_step_is_accepted_at_once_and_stored_in_time(autojump_clock: MockClock) -> None:
    seen: list[tuple[float, int, int]] = []

    async def watch(harness: Scripted) -> Steps:
        for number in (1, 2, 3):
            yield number, None
            seen.append((trio.current_time(), harness.current_step, harness.durable_step))
            await harness.sleep(3)
        await harness.sleep(5)
        seen.append((trio.current_time(), harness.current_step, harness.durable_step))

    store = MemoryStore()
    async with to_the_end(store) as (orchestrator, _):
        handle = orchestrator.start(Scripted(watch), name="a", **GROUP)
        begun = trio.current_time()
        await trio.sleep(4)
        early = handle.current_step, handle.durable_step, numbers(store, "a")
        await trio.sleep(4)
        late = handle.durable_step, numbers(store, "a")

    assert [(time - begun, made, stored) for time, made, stored in seen] == [(0, 1, 0), (3, 2, 0), (6, 3, 2), (14, 3, 3)]
    assert early == (2, 0, [])
    assert late == (2, [1, 2])
    assert numbers(store, "a") == [1, 2, 3]


async def test_without_group_durability_nothing_is_accepted_before_it_is_stored(autojump_clock: MockClock) -> None:
    harness = counting(3, then=check_stored)

    await run(harness, durability="step")

    assert harness.ran == ["3"]


async def check_stored(harness: Scripted) -> int:
    return harness.durable_step


async def effect(harness: Scripted) -> Any:
    async def act() -> int:
        return harness.durable_step

    return await harness.once("act", act)


async def approval(harness: Scripted) -> Any:
    await harness.approval("key", "pay")
    return harness.durable_step


async def question(harness: Scripted) -> Any:
    return await harness.ask("b", "what?", timeout_s=50)


async def spend(harness: Scripted) -> Any:
    async with harness.spending(tokens=5):
        return harness.durable_step


@pytest.mark.parametrize("then", [effect, approval, question, spend])
async def test_what_must_not_precede_the_steps_before_it_waits_for_them(
    then: Callable[[Scripted], Any], autojump_clock: MockClock
) -> None:
    store, harness = MemoryStore(), counting(3, then)

    async def answer(other: Scripted) -> Steps:
        request: Request = await other.receive()
        await other.reply(request, len(numbers(store, "a")))
        yield None, None

    async with to_the_end(store) as (orchestrator, errors):
        orchestrator.start(Scripted(answer), name="b", durability="group", group_s=10)
        orchestrator.start(harness, name="a", budget=Budget(tokens=100), **GROUP)
        await trio.sleep(0.5)
        for request in store.approvals():
            await orchestrator.approve(request.id, by="me")
        await trio.sleep(1)
        orchestrator.stop()

    assert errors == []
    assert harness.ran == ["3"]


@pytest.mark.parametrize("what", ["send", "attach", "log", "child"])
async def test_a_step_that_others_see_is_stored_before_the_next_one(what: str, autojump_clock: MockClock) -> None:
    stored: list[int] = []

    async def act(harness: Scripted) -> Steps:
        for number in range(1, 5):
            if number == 3:
                if what == "send":
                    await harness.send("b", "hello")
                elif what == "attach":
                    harness.attach("evidence", {"of": number})
                elif what == "child":
                    harness.start_child(Counting, name="child")
                else:
                    harness.log("a line")
            yield number, None
            stored.append(harness.durable_step)

    async with to_the_end(store := MemoryStore()) as (orchestrator, errors):
        orchestrator.start(Scripted(wait_for_ever), name="b")
        orchestrator.start(Scripted(act), name="a", **GROUP)
        await trio.sleep(1)
        orchestrator.stop()

    assert errors == []
    # A line belongs to the step in progress: it waits for the steps before it only.
    assert stored == ([0, 0, 2, 2] if what == "log" else [0, 0, 3, 3])
    assert numbers(store, "a") == [1, 2, 3, 4]
    if what == "log":
        assert [kind for kind in kinds(store, "a") if kind in ("step", "output")] == ["step", "step", "output", "step", "step"]


async def wait_for_ever(harness: Scripted) -> Steps:
    await harness.sleep(1e6)
    yield None, None


class Counting(Scripted):
    """A child that makes three steps."""

    def __init__(self) -> None:
        super().__init__(count_three, 0)


async def count_three(harness: Scripted) -> Steps:
    while harness.current_step < 3:
        yield harness.current_step + 1, harness.durable_step


async def test_a_child_has_the_durability_of_its_parent(autojump_clock: MockClock) -> None:
    async def start(harness: Scripted) -> Steps:
        harness.start_child(Counting, name="child")
        yield 1, None

    store = await run(Scripted(start))

    assert [step.output for step in store.steps("child")] == [0, 0, 0]


async def test_a_pause_is_recorded_after_the_steps_accepted_before_it(autojump_clock: MockClock) -> None:
    async def go(harness: Scripted) -> Steps:
        while True:
            yield harness.current_step + 1, None
            await harness.sleep(1)

    async with to_the_end(store := MemoryStore()) as (orchestrator, _):
        handle = orchestrator.start(Scripted(go), name="a", **GROUP)
        await trio.sleep(2.5)
        made = handle.current_step
        await handle.pause()
        stored = handle.durable_step, handle.current_step
        assert kinds(store, "a")[-2:] == ["step", "paused"]
        await trio.sleep(100)
        orchestrator.stop()

    assert made == 3
    assert stored[0] >= 3


@pytest.mark.parametrize("how", ["stop", "abort", "complete", "crash", "finish"])
async def test_every_accepted_step_is_stored_before_the_end_is_recorded(how: str, autojump_clock: MockClock) -> None:
    async def go(harness: Scripted) -> Steps:
        for number in range(1, 6):
            yield number, None
        if how == "crash":
            raise ValueError("boom")
        if how == "abort":
            await trio.sleep_forever()
        if how != "finish":
            await harness.sleep(1e6)

    harness = Scripted(go, until=5 if how == "complete" else None)
    async with to_the_end(store := MemoryStore()) as (orchestrator, _):
        handle = orchestrator.start(harness, name="a", restart="temporary", **GROUP)
        if how in ("stop", "abort"):
            await wait_all_tasks_blocked()
            handle.stop(grace=0 if how == "abort" else None)
        await handle.wait()

    ends = {"stop": "stopped", "abort": "stopped", "complete": "completed", "crash": "failed", "finish": "finished"}
    assert numbers(store, "a") == [1, 2, 3, 4, 5]
    assert kinds(store, "a")[-2:] == ["step", ends[how]]
    assert handle.outcome is not None
    assert handle.outcome.step == handle.durable_step == 5


async def test_a_crash_in_execute_loses_no_accepted_step(autojump_clock: MockClock) -> None:
    async def go(harness: Scripted) -> Steps:
        harness.ran.append(str(harness.current_step))
        for _ in range(3):
            yield harness.current_step + 1, None
        if harness.current_step < 6:
            raise ValueError("boom")

    harness = Scripted(go)
    store = await run(harness)

    assert harness.ran == ["0", "3"]
    assert numbers(store, "a") == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("after", [False, True])
async def test_a_lost_store_loses_what_was_not_stored_and_no_later_step_follows(
    after: bool, autojump_clock: MockClock
) -> None:
    async def go(harness: Scripted) -> Steps:
        while True:
            yield harness.current_step + 1, None
            await harness.sleep(1)

    memory = MemoryStore()
    store = FaultyStore(memory, StoreError("the disk is gone"), at=2, after=after, only_steps=True)
    async with to_the_end(store) as (orchestrator, errors):
        handle = orchestrator.start(Scripted(go), name="a", **GROUP)

    assert {type(error) for error in errors} <= {StoreLost}
    assert handle.outcome is not None
    assert isinstance(handle.outcome.error, StoreLost)
    assert numbers(memory, "a") == list(range(1, 11 if after else 6))
    # Whether the last ones are stored is not known: the program says what it knows.
    assert handle.outcome.step == handle.durable_step == 5


async def test_a_harness_that_was_taken_over_stores_no_further_step(autojump_clock: MockClock) -> None:
    async def go(harness: Scripted) -> Steps:
        while True:
            yield harness.current_step + 1, None
            await harness.sleep(1)

    async with to_the_end(store := MemoryStore()) as (orchestrator, errors):
        handle = orchestrator.start(Scripted(go), name="a", **GROUP)
        await trio.sleep(7)
        store.commit([], [Claim("a", "null", take_over=True)])
        outcome = await handle.wait()

    assert outcome.kind is OutcomeKind.FAILED
    assert isinstance(outcome.error, OwnershipLost)
    assert errors
    assert numbers(store, "a") == [1, 2, 3, 4, 5]
    assert outcome.step == 5


async def test_a_program_that_dies_again_and_again_makes_every_step_once(autojump_clock: MockClock) -> None:
    async def go(harness: Scripted) -> Steps:
        while harness.current_step < 20:
            if harness.current_step % 4 == 0:
                harness.ran.append(str(await harness.once("act", act)))
            harness.update_state(lambda total: total + 1)
            yield harness.current_step + 1, harness.state

    acts: list[int] = []

    async def act() -> int:
        acts.append(1)
        return len(acts)

    store = await lives(lambda: Scripted(go, 0))

    assert numbers(store, "a") == list(range(1, 21))
    assert [step.output for step in store.steps("a")] == list(range(1, 21))
    assert len(acts) == 5


async def lives(make: Callable[[], Scripted]) -> MemoryStore:
    """Run a harness in programs whose store fails at the first commit with a step, before or after it, until it has ended."""
    store = MemoryStore()
    for life in range(1, 100):
        deadly = FaultyStore(store, StoreError("dies"), at=2 if life % 2 else 1, after=life % 2 == 0, only_steps=True)
        async with to_the_end(deadly) as (orchestrator, errors):
            orchestrator.start(make(), name="a", durability="group", group_s=0)
        if not errors:
            return store
        store.close()
    raise AssertionError("it has not ended")


async def test_a_fork_has_the_stored_steps_and_goes_on_from_them(autojump_clock: MockClock) -> None:
    store = await run(counting(5))

    with pytest.raises(UsageError):
        fork(store, "a", 6, to="b")
    fork(store, "a", 3, to="b")
    async with to_the_end(store) as (orchestrator, errors):
        orchestrator.start(counting(8), name="b", **GROUP)

    assert errors == []
    assert [step.output for step in store.steps("b")] == list(range(1, 9))
    assert [record.step async for record in replay(store) if record.harness == "a" and record.kind == "step"] == [
        1,
        2,
        3,
        4,
        5,
    ]


async def test_history_holds_steps_that_are_not_stored(autojump_clock: MockClock) -> None:
    async def go(harness: Scripted) -> Steps:
        for number in range(1, 41):
            yield number, number * 2
        harness.ran.append(repr([step.output for step in harness.step_history[5:25]]))
        harness.ran.append(repr([step.output for step in harness.load_context().recent_steps]))
        harness.ran.append(repr(harness.durable_step))

    harness = Scripted(go)
    await run(harness)

    assert harness.ran == [repr([n * 2 for n in range(6, 26)]), repr([n * 2 for n in range(31, 41)]), "0"]


async def test_a_follower_sees_stored_steps_alone(autojump_clock: MockClock) -> None:
    seen: list[tuple[int, bool]] = []
    store = MemoryStore()

    async with to_the_end(store) as (orchestrator, _):
        handle = orchestrator.start(counting(5), name="a", **GROUP)
        async for step in handle.steps():
            seen.append((step.step_number, step.step_number in numbers(store, "a")))

    assert seen == [(number, True) for number in range(1, 6)]


async def test_a_harness_that_outruns_the_disk_waits(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped_steps, "MAX_BYTES", 10_000)
    most = 0

    async def go(harness: Scripted) -> Steps:
        nonlocal most
        for number in range(1, 201):
            yield number, "x" * 500
            most = max(most, harness.current_step - harness.durable_step)

    store = await run(Scripted(go))

    assert numbers(store, "a") == list(range(1, 201))
    assert 10 <= most <= 40


class Gated(FaultyStore):
    """A store whose commits of steps wait, in the writer's thread, until the gate is open."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, lambda: None, at=0)
        self.gate = threading.Event()

    def commit(self, steps: Sequence[StepRow], *args: Any, **more: Any) -> Committed:
        if steps:
            self.gate.wait()
        return super().commit(steps, *args, **more)


async def test_no_step_is_accepted_while_an_earlier_one_waits_for_longer_than_its_bound(tmp_path: Path) -> None:
    async def go(harness: Scripted) -> Steps:
        while harness.current_step < 300:
            yield harness.current_step + 1, None
            await trio.sleep(0.001)

    store = SqliteStore(tmp_path / "run.db")
    gated = Gated(store)
    async with to_the_end(gated) as (orchestrator, errors):
        handle = orchestrator.start(Scripted(go), name="a", durability="group", group_s=0.02)
        with trio.fail_after(60):
            while True:
                before = handle.current_step
                await trio.sleep(0.1)
                if before and before == handle.current_step:
                    break
        assert (handle.durable_step, numbers(store, "a")) == (0, [])
        gated.gate.set()

    assert errors == []
    assert before < 100
    assert numbers(store, "a") == list(range(1, 301))
    store.close()


async def test_the_options_are_checked() -> None:
    async with Orchestrator() as orchestrator:
        wrongs: list[dict[str, Any]] = [{"durability": "none"}, {"group_s": -1}, {"group_s": "soon"}]
        for wrong in wrongs:
            with pytest.raises(UsageError, match="expected"):
                orchestrator.start(counting(1), name="a", **wrong)


def test_a_harness_alone_stores_every_step_on_a_real_disk(tmp_path: Path) -> None:
    async def main() -> None:
        async with Orchestrator(tmp_path / "run.db") as orchestrator:
            orchestrator.start(counting(3000), name="a", durability="group")

    trio.run(main)

    with closing(SqliteStore(tmp_path / "run.db")) as store:
        assert numbers(store, "a") == list(range(1, 3001))


async def test_other_tasks_get_their_turn_even_if_the_clock_stands_still(mock_clock: MockClock) -> None:
    async def go(harness: Scripted) -> Steps:
        while True:
            yield harness.current_step + 1, None

    async with Orchestrator() as orchestrator:
        handle = orchestrator.start(Scripted(go), name="a", durability="group")
        while not handle.current_step:
            await trio.lowlevel.checkpoint()
        handle.stop()

    assert handle.outcome is not None
    assert handle.outcome.step == handle.current_step > 0
