"""G5: under supervision a finished effect is never run again, and one of unknown outcome blocks its harness and no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio
from trio.testing import MockClock

from harnesses.effects.effect import Answer, Confirmed, EffectOutcome, NotDone, Undecided
from harnesses.errors import Refused, UnknownOutcome
from orchestrator import MemoryStore, Orchestrator, OutcomeKind, OwnershipLost, Restart, SqliteStore, Status, Store, StoreLost
from orchestrator.errors import OwnedElsewhere
from orchestrator.recording import recorder
from orchestrator.store.store_protocol import Post, Settle
from orchestrator.testing import FaultyStore
from tests.orchestrator.scripted import STEADY, Scripted, Steps, crash, kinds, numbers, poll, to_the_end


class Venue:
    """A world outside, which knows what was done to it, and may be slow, or fail after it has done it."""

    def __init__(self) -> None:
        self.orders: Counter[str] = Counter()
        self.takes_s = 0.0
        self.breaks = 0
        """How many answers are lost on their way back."""
        self.is_down = 0
        """How many questions are not answered."""

    async def place(self, order: str) -> str:
        self.orders[order] += 1
        await trio.sleep(self.takes_s)
        if self.breaks:
            self.breaks -= 1
            raise ConnectionError("the answer was lost")
        return f"{order} filled"

    async def ask(self, key: str, order: str) -> Answer:
        if self.is_down:
            self.is_down -= 1
            raise ConnectionError("down")
        return Confirmed(f"{order} filled") if self.orders[order] else NotDone()


@pytest.fixture(params=[MemoryStore, SqliteStore])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = MemoryStore() if request.param is MemoryStore else SqliteStore(tmp_path / "run.db")
    yield store
    store.close()


@pytest.fixture
def memory() -> Store:
    """Give a store without a thread, which virtual time could not wait for."""
    return MemoryStore()


def trading(venue: Venue, *, asks: bool = True, until: int = 3, crashes: int = 0) -> Scripted:
    """Return a harness that places an order in each step, and may crash between the order and the yield."""

    async def script(harness: Scripted) -> Steps:
        nonlocal crashes
        while True:
            order = f"order {harness.current_step + 1}"
            options: dict[str, Any] = {"reconcile": venue.ask} if asks else {}
            said = await harness.once("order", venue.place, order, **options)
            if crashes:
                crashes -= 1
                raise ValueError("boom")
            yield order, said
            await harness.sleep(1)

    return Scripted(script, until=until)


def outcomes(store: Store, name: str) -> list[tuple[int, str]]:
    return [(effect.step_number, effect.outcome.value) for effect in store.effects(name)]


def each_once(orders: int) -> Counter[str]:
    return Counter({f"order {number}": 1 for number in range(1, orders + 1)})


# effects in memory


@pytest.mark.parametrize("durability", ["step", "group"])
async def test_an_effect_in_memory_is_recorded_in_the_commit_of_its_step(
    store: Store, durability: Any, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    commit, commits, seen = store.commit, list[bool](), list[Any]()

    def note(steps: Any, *given: Any, effects: Any = (), **more: Any) -> Any:
        commits.append(bool(effects) and not steps)
        return commit(steps, *given, effects=effects, **more)

    monkeypatch.setattr(store, "commit", note)
    text = "api_key=sk-ant-api03-" + "A" * 80

    async def script(harness: Scripted) -> Steps:
        for number in range(1, 4):
            said = await harness.once("order", lambda order: f"{order} filled", f"order {number} {text}", in_memory=True)
            seen.append([(effect.key, effect.outcome.value) for effect in harness.effects])
            yield number, said[:7]

    async with to_the_end(store) as (orchestrator, _):
        orchestrator.start(Scripted(script, until=3), name="a", durability=durability)

    effects = store.effects("a")
    assert [(effect.step_number, effect.outcome.value) for effect in effects] == [(n, "confirmed") for n in (1, 2, 3)]
    # Like those of any effect, so that they are the same when they are compared.
    assert [effect.arguments for effect in effects] == [[f"order {n} {text}"] for n in (1, 2, 3)]
    assert [effect.result for effect in effects] == [f"order {n} {text} filled" for n in (1, 2, 3)]
    assert seen == [[("order", "confirmed")]] * 3
    assert not any(commits)
    made_us = {record.step: record.time_us for record in store.records() if record.kind == "step"}
    assert all(effect.time_us <= made_us[effect.step_number] for effect in effects)


@pytest.mark.parametrize("durability", ["step", "group"])
async def test_an_effect_in_memory_of_an_attempt_that_fails_is_recorded_with_its_end_and_not_run_again(
    store: Store, durability: Any, autojump_clock: MockClock
) -> None:
    venue, tries = Venue(), count(1)

    async def script(harness: Scripted) -> Steps:
        yield None, None
        said = await harness.once("order", venue.place, "order 2", in_memory=True)
        with suppress(UnknownOutcome):
            venue.breaks = 1
            await harness.once("lost", venue.place, "lost 2", in_memory=True)
        assert await harness.settle("lost", lambda *_: Confirmed("found")) is EffectOutcome.CONFIRMED
        if next(tries) == 1:
            raise ValueError("boom")
        yield "order 2", said

    async with to_the_end(store) as (orchestrator, _):
        orchestrator.start(Scripted(script, until=2), name="a", durability=durability)

    assert venue.orders == Counter({"order 2": 1, "lost 2": 1})
    marks = ["intent", "outcome", "intent", "outcome", "outcome"]
    assert kinds(store, "a") == ["started", "step", *marks, "failed", "restarting", "started", "step", "completed"]
    assert [(effect.key, effect.outcome.value) for effect in store.effects("a")] == [
        ("order", "confirmed"),
        ("lost", "confirmed"),
    ]


@pytest.mark.parametrize("alone", [0, 10], ids=["in a batch", "in the loop"])
async def test_a_step_that_is_refused_leaves_its_effects_in_memory_on_record_once(
    store: Store, alone: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(recorder, "_QUICK_S", 60.0)
    venue, tries = Venue(), count(1)

    class Full(Scripted):
        mailbox_limit: ClassVar[int | None] = 1

    async def script(harness: Scripted) -> Steps:
        for number in range(harness.current_step, alone):
            yield number, None
        said = await harness.once("order", venue.place, "order", in_memory=True)
        if next(tries) == 1:
            await harness.send("full", 1)
            store.commit([], [Post("full", "elsewhere", 0, "2")])
        yield "order", said

    async with to_the_end(store) as (orchestrator, _):
        full = orchestrator.start(Full(poll, until=1), name="full")
        full.pause()
        await trio.sleep(1)
        await orchestrator.start(Scripted(script, until=alone + 1), name="a").wait()
        full.resume()

    assert venue.orders == Counter({"order": 1})
    steps = ["step"] * alone
    marks = ["intent", "outcome"]
    assert kinds(store, "a") == ["started", *steps, *marks, "failed", "restarting", "started", "step", "completed"]


async def test_what_is_no_longer_in_memory_is_recorded_after_what_it_was_in_memory(
    store: Store, autojump_clock: MockClock
) -> None:
    venue, tries = Venue(), count(1)

    async def script(harness: Scripted) -> Steps:
        if next(tries) == 1:
            venue.breaks = 1
            with suppress(ConnectionError):
                await harness.once("order", venue.place, "order", reconcile=lambda *_: NotDone(), in_memory=True)
            await harness.once("order", venue.place, "order")
            raise ValueError("boom")
        yield 1, harness.effects[0].outcome.value

    async with to_the_end(store) as (orchestrator, _):
        orchestrator.start(Scripted(script, until=1), name="a")

    marks = ["intent", "outcome", "outcome", "intent", "outcome"]
    assert kinds(store, "a")[1:7] == [*marks, "failed"]
    assert outcomes(store, "a") == [(1, "confirmed")]


# what is on record


async def test_intent_and_outcome_are_on_record_before_their_step(store: Store, autojump_clock: MockClock) -> None:
    venue = Venue()

    async with to_the_end(store) as (orchestrator, _):
        orchestrator.start(trading(venue, until=2), name="a")

    assert kinds(store, "a") == ["started", *["intent", "outcome", "step"] * 2, "completed"]
    assert [(record.step, record.attempt) for record in store.records()][1:-1] == [(1, 1)] * 3 + [(2, 1)] * 3
    assert outcomes(store, "a") == [(1, "confirmed"), (2, "confirmed")]


async def test_the_intent_is_on_record_before_the_effect_begins(store: Store, autojump_clock: MockClock) -> None:
    seen: list[Any] = []

    async def script(harness: Scripted) -> Steps:
        await harness.once("look", lambda *given: seen.extend(store.effects("a")), 7)
        yield None, None

    async with to_the_end(store) as (orchestrator, _):
        orchestrator.start(Scripted(script), name="a")

    [effect] = seen
    assert (effect.key, effect.arguments, effect.outcome, effect.attempt) == ("look", [7], EffectOutcome.BEGUN, 1)


async def test_a_finished_effect_is_not_run_again_after_a_crash(store: Store, autojump_clock: MockClock) -> None:
    venue = Venue()

    async with to_the_end(store) as (orchestrator, _):
        handle = orchestrator.start(trading(venue, asks=False, crashes=4), name="a")

    assert handle.attempt == 5
    assert venue.orders == each_once(3)
    assert [step.output for step in store.steps("a")] == [f"order {number} filled" for number in (1, 2, 3)]


async def test_a_finished_effect_is_not_run_again_in_the_next_life(store: Store, autojump_clock: MockClock) -> None:
    venue = Venue()
    async with to_the_end(store) as (orchestrator, _):
        orchestrator.start(trading(venue, asks=False, crashes=1), name="a", restart="temporary")

    async with to_the_end(store) as (orchestrator, _):
        orchestrator.start(trading(venue, asks=False), name="a")

    assert venue.orders == each_once(3)
    assert outcomes(store, "a") == [(number, "confirmed") for number in (1, 2, 3)]


async def test_a_refusal_is_not_tried_again_in_the_next_attempt(store: Store, autojump_clock: MockClock) -> None:
    async def script(harness: Scripted) -> Steps:
        def refuse() -> None:
            harness.ran.append("asked")
            raise Refused("no money")

        with pytest.raises(Refused, match=r"^no money$"):
            await harness.once("order", refuse)
        if harness.ran == ["asked"]:
            harness.ran.append("crashed")
            raise ValueError("boom")
        yield None, None

    harness = Scripted(script)
    async with to_the_end(store) as (orchestrator, _):
        orchestrator.start(harness, name="a")

    assert harness.ran == ["asked", "crashed"]
    assert (outcomes(store, "a"), numbers(store, "a")) == ([(1, "refused")], [1])


async def test_many_harnesses_do_each_effect_once(store: Store, autojump_clock: MockClock) -> None:
    venues = [Venue() for _ in range(60)]

    async with to_the_end(store) as (orchestrator, _):
        for number, venue in enumerate(venues):
            orchestrator.start(trading(venue, asks=False, until=5, crashes=number % 3), name=f"h{number}")

    assert all(venue.orders == each_once(5) for venue in venues)
    assert len(store.effects()) == 300


# blocked


@pytest.mark.parametrize("restart", Restart)
async def test_a_harness_that_does_not_know_is_blocked_and_never_started_again(
    restart: Restart, store: Store, autojump_clock: MockClock
) -> None:
    venue = Venue()
    venue.breaks = 1

    async with to_the_end(store) as (orchestrator, errors):
        handle = orchestrator.start(trading(venue, asks=False), name="a", restart=restart)

    outcome = await handle.wait()
    assert (outcome.kind, outcome.attempt, outcome.step, errors) == (OutcomeKind.BLOCKED, 1, 0, [])
    assert outcome.cause.startswith(
        "UnknownOutcome: harness 'a', step 1: effect 'order' is of unknown outcome (ConnectionError"
    )
    assert (venue.orders, outcomes(store, "a")) == (each_once(1), [(1, "unknown")])


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
async def test_a_blocked_harness_leaves_its_siblings_stepping(strategy: str, store: Store, autojump_clock: MockClock) -> None:
    venue = Venue()
    venue.breaks = 1

    async with to_the_end(store, strategy=strategy) as (orchestrator, errors):
        before = orchestrator.start(Scripted(poll, until=20), name="before")
        blocked = orchestrator.start(trading(venue, asks=False), name="blocked")
        after = orchestrator.start(Scripted(poll, until=20), name="after")

    assert [handle.status for handle in (before, blocked, after)] == [Status.COMPLETED, Status.BLOCKED, Status.COMPLETED]
    assert [handle.attempt for handle in (before, blocked, after)] == [1, 1, 1]
    assert errors == []


@pytest.mark.parametrize("asks", [False, True])
async def test_a_sibling_taken_down_in_mid_effect_asks_or_is_blocked(
    asks: bool, memory: Store, autojump_clock: MockClock
) -> None:
    venue = Venue()
    venue.takes_s = 100

    async with to_the_end(memory, strategy="one_for_all", grace_s=2) as (orchestrator, _):
        handle = orchestrator.start(trading(venue, asks=asks, until=1), name="a")
        other = orchestrator.start(Scripted(crash), name="b")
        await trio.sleep(50)
        other.stop()

    assert venue.orders == each_once(1)
    assert handle.status is (Status.COMPLETED if asks else Status.BLOCKED)


async def test_a_blocked_harness_is_not_taken_along_by_its_siblings_crashes(memory: Store, autojump_clock: MockClock) -> None:
    venue = Venue()
    venue.breaks = 1

    async with to_the_end(memory, strategy="one_for_all") as (orchestrator, _):
        blocked = orchestrator.start(trading(venue, asks=False), name="a")
        other = orchestrator.start(Scripted(crash), name="b")
        await trio.sleep(5)
        other.stop()

    assert (blocked.status, blocked.attempt, other.attempt > 1) == (Status.BLOCKED, 1, True)
    assert venue.orders == each_once(1)


@pytest.mark.parametrize("same_program", [False, True])
@pytest.mark.parametrize("done", [False, True])
async def test_what_a_person_has_settled_is_gone_on_from(
    done: bool, same_program: bool, store: Store, autojump_clock: MockClock
) -> None:
    venue = Venue()
    venue.breaks = 1

    def settle() -> None:
        word = Settle("a", "order", done, '"by hand"' if done else "null", "I looked", 0)
        assert isinstance(store.commit([], [word]).results[0], int)

    async with to_the_end(store) as (orchestrator, _):
        await orchestrator.start(trading(venue, asks=False), name="a").wait()
        if same_program:
            settle()
            await orchestrator.start(trading(venue, asks=False), name="a").wait()
    if not same_program:
        settle()
        async with to_the_end(store) as (orchestrator, _):
            orchestrator.start(trading(venue, asks=False), name="a")

    assert venue.orders == each_once(3) + Counter({} if done else {"order 1": 1})
    assert next(iter(store.steps("a"))).output == ("by hand" if done else "order 1 filled")
    assert numbers(store, "a") == [1, 2, 3]


async def test_unsettled_it_is_blocked_again_and_again(store: Store, autojump_clock: MockClock) -> None:
    venue = Venue()
    venue.breaks = 1

    for _ in range(3):
        async with to_the_end(store) as (orchestrator, _):
            handle = orchestrator.start(trading(venue, asks=False), name="a")
        assert handle.status is Status.BLOCKED

    assert venue.orders == each_once(1)


async def test_nobody_else_settles_what_a_running_harness_is_at(memory: Store, autojump_clock: MockClock) -> None:
    venue = Venue()
    venue.takes_s = 10

    async with to_the_end(memory) as (orchestrator, _):
        handle = orchestrator.start(trading(venue, until=1), name="a")
        await trio.sleep(5)
        (refused,) = memory.commit([], [Settle("a", "order", True, "1", "", 0)]).results

    assert isinstance(refused, OwnedElsewhere)
    assert handle.status is Status.COMPLETED


@pytest.mark.parametrize("kind", [Exception, BaseException])
async def test_who_swallows_it_and_goes_on_is_blocked_at_the_yield(
    kind: type[BaseException], store: Store, autojump_clock: MockClock
) -> None:
    venue = Venue()
    venue.breaks = 1

    async def script(harness: Scripted) -> Steps:
        while True:
            try:
                await harness.once("order", venue.place, "order 1")
            except kind:
                harness.ran.append("swallowed")
            yield None, None

    harness = Scripted(script)
    async with to_the_end(store) as (orchestrator, _):
        handle = orchestrator.start(harness, name="a", restart="permanent")

    assert (handle.status, handle.attempt, harness.ran) == (Status.BLOCKED, 1, ["swallowed"])
    assert (venue.orders, numbers(store, "a")) == (each_once(1), [])


async def test_who_makes_another_error_of_it_crashes_but_does_it_no_second_time(
    store: Store, autojump_clock: MockClock
) -> None:
    venue = Venue()
    venue.breaks = 1

    async def script(harness: Scripted) -> Steps:
        try:
            await harness.once("order", venue.place, "order 1")
        except Exception as error:
            raise ValueError("boom") from error
        yield None, None

    async with to_the_end(store, intensity=3) as (orchestrator, _):
        handle = orchestrator.start(Scripted(script), name="a")

    assert (handle.status, handle.attempt) == (Status.GAVE_UP, 4)
    assert venue.orders == each_once(1)


# asking the world


async def test_after_a_lost_answer_the_world_is_asked_and_the_step_is_made(store: Store, autojump_clock: MockClock) -> None:
    venue = Venue()
    venue.breaks = 3

    async with to_the_end(store) as (orchestrator, _):
        handle = orchestrator.start(trading(venue), name="a")

    assert (handle.status, handle.attempt) == (Status.COMPLETED, 1)
    assert venue.orders == each_once(3)


async def test_a_world_that_does_not_answer_is_asked_again_after_a_restart(store: Store, autojump_clock: MockClock) -> None:
    venue = Venue()
    venue.breaks, venue.is_down = 1, 3

    async with to_the_end(store) as (orchestrator, _):
        handle = orchestrator.start(trading(venue), name="a")

    assert (handle.status, handle.attempt) == (Status.COMPLETED, 4)
    assert venue.orders == each_once(3)


async def test_a_world_that_is_undecided_blocks(store: Store, autojump_clock: MockClock) -> None:
    venue = Venue()
    venue.breaks = 1
    venue.ask = lambda key, order: Undecided("two orders look alike")  # type: ignore[assignment, method-assign, return-value]

    async with to_the_end(store) as (orchestrator, _):
        handle = orchestrator.start(trading(venue), name="a")

    assert "two orders look alike" in (await handle.wait()).cause
    assert (handle.status, venue.orders) == (Status.BLOCKED, each_once(1))


# stops, deadlines, and the end of the program in mid-effect


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (lambda orchestrator, handle: handle.stop(grace=1), Status.STOPPED),
        (lambda orchestrator, handle: handle.stop(grace=0), Status.STOPPED),
        (lambda orchestrator, handle: orchestrator.stop(grace=1), Status.STOPPED),
        (lambda orchestrator, handle: orchestrator._shutdown.abort("the end"), Status.STOPPED),
    ],
    ids=["stop", "at once", "all", "abort"],
)
async def test_an_effect_cut_off_by_a_stop_is_asked_about_in_the_next_life(
    end: Callable[[Orchestrator, Any], None], status: Status, memory: Store, autojump_clock: MockClock
) -> None:
    venue = Venue()
    venue.takes_s = 10

    async with to_the_end(memory) as (orchestrator, _):
        handle = orchestrator.start(trading(venue), name="a")
        await trio.sleep(5)
        end(orchestrator, handle)
    before = outcomes(memory, "a")
    async with to_the_end(memory) as (orchestrator, _):
        again = orchestrator.start(trading(venue), name="a")

    assert (handle.status, before) == (status, [(1, "unknown")])
    assert (again.status, venue.orders) == (Status.COMPLETED, each_once(3))


async def test_an_effect_that_ends_within_the_grace_is_recorded_with_its_step(
    memory: Store, autojump_clock: MockClock
) -> None:
    venue = Venue()
    venue.takes_s = 3

    async with to_the_end(memory) as (orchestrator, _):
        handle = orchestrator.start(trading(venue), name="a")
        await trio.sleep(1)
        handle.stop(grace=5)

    assert (handle.status, numbers(memory, "a")) == (Status.STOPPED, [1])
    assert (venue.orders, outcomes(memory, "a")) == (each_once(1), [(1, "confirmed")])


async def test_an_effect_that_a_step_timeout_cuts_off_is_asked_about_by_the_next_attempt(
    memory: Store, autojump_clock: MockClock
) -> None:
    venue = Venue()
    venue.takes_s = 10

    async with to_the_end(memory) as (orchestrator, _):
        handle = orchestrator.start(trading(venue, until=2), name="a", step_timeout_s=5)

    assert (handle.status, handle.attempt) == (Status.COMPLETED, 3)
    assert venue.orders == each_once(2)


async def test_clean_up_may_do_effects_which_belong_to_the_step_that_comes(memory: Store, autojump_clock: MockClock) -> None:
    venue = Venue()

    async def script(harness: Scripted) -> Steps:
        try:
            while True:
                yield None, None
                await harness.sleep(1)
        finally:
            await harness.once("close", venue.place, "order 1")

    async with to_the_end(memory) as (orchestrator, _):
        handle = orchestrator.start(Scripted(script), name="a")
        await trio.sleep(2.5)
        handle.stop()

    assert (venue.orders, outcomes(memory, "a"), numbers(memory, "a")) == (each_once(1), [(4, "confirmed")], [1, 2, 3])


# a program that dies at a commit


@asynccontextmanager
async def mortal(store: Store, at: int, *, after: bool) -> AsyncGenerator[Orchestrator, None]:
    """A program that dies at a commit, right before it or right after it."""
    dying = FaultyStore(store, StoreLost("the program dies here"), at=at, after=after)
    try:
        async with Orchestrator(dying, handle_signals=False, backoff=STEADY) as orchestrator:
            yield orchestrator
    except* StoreLost:
        pass
    finally:
        if isinstance(store, MemoryStore):
            store.close()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_death_at_each_commit_doubles_nothing_and_loses_nothing(after: bool, autojump_clock: MockClock) -> None:
    """Every commit of a program in turn: claim, start, intent, outcome, step, end."""
    for at in range(1, 20):
        store, venue = MemoryStore(), Venue()
        async with mortal(store, at, after=after) as orchestrator:
            orchestrator.start(trading(venue, until=4), name="a")
        assert set(venue.orders.values()) <= {1}
        async with to_the_end(store) as (orchestrator, errors):
            handle = orchestrator.start(trading(venue, until=4), name="a")

        assert (handle.status, errors) == (Status.COMPLETED, [])
        assert (venue.orders, numbers(store, "a")) == (each_once(4), [1, 2, 3, 4])
        assert outcomes(store, "a") == [(number, "confirmed") for number in range(1, 5)]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_with_nobody_to_ask_death_between_intent_and_outcome_blocks(after: bool, autojump_clock: MockClock) -> None:
    statuses: set[Status] = set()
    for at in range(1, 20):
        store, venue = MemoryStore(), Venue()
        async with mortal(store, at, after=after) as orchestrator:
            orchestrator.start(trading(venue, asks=False, until=4), name="a")
        async with to_the_end(store) as (orchestrator, _):
            handle = orchestrator.start(trading(venue, asks=False, until=4), name="a")

        begun = any(outcome == "begun" for _, outcome in outcomes(store, "a"))
        assert handle.status is (Status.BLOCKED if begun else Status.COMPLETED)
        assert set(venue.orders.values()) <= {1}
        statuses.add(handle.status)

    assert statuses == {Status.BLOCKED, Status.COMPLETED}


# two programs on one store


async def two_programs(path: Path, run: Callable[[Orchestrator, Orchestrator], Any]) -> list[BaseException]:
    """Run `run(first, second)` in two programs on one file; return what the first raises in the end."""
    errors: list[BaseException] = []
    async with to_the_end(path) as (second, _):  # type: ignore[arg-type]
        try:
            async with Orchestrator(path, handle_signals=False, backoff=STEADY) as first:
                await run(first, second)
        except* Exception as group:
            errors.extend(group.exceptions)
    return errors


async def test_who_has_lost_a_harness_begins_no_effect_of_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    mine, theirs, begun, gate = Venue(), Venue(), trio.Event(), trio.Event()

    async def hesitant(harness: Scripted) -> Steps:
        begun.set()
        await gate.wait()
        await harness.once("order", mine.place, "order 1")
        yield None, None

    async def run(first: Orchestrator, second: Orchestrator) -> None:
        first.start(Scripted(hesitant), name="a")
        await begun.wait()
        await second.start(trading(theirs, until=1), name="a", take_over=True).wait()
        gate.set()

    [error] = await two_programs(tmp_path / "run.db", run)

    assert isinstance(error, OwnershipLost)
    assert (mine.orders, theirs.orders) == (Counter(), each_once(1))


async def test_who_loses_a_harness_in_mid_effect_records_nothing_of_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    venue, begun, gate = Venue(), trio.Event(), trio.Event()

    async def slow(order: str) -> str:
        said = await Venue.place(venue, order)
        begun.set()
        await gate.wait()
        return f"{said} late"

    async def first_then(harness: Scripted) -> Steps:
        yield None, await harness.once("order", slow, "order 1")

    async def run(first: Orchestrator, second: Orchestrator) -> None:
        first.start(Scripted(first_then), name="a")
        await begun.wait()
        await second.start(trading(venue, until=1), name="a", take_over=True).wait()
        gate.set()

    [error] = await two_programs(tmp_path / "run.db", run)

    assert isinstance(error, OwnershipLost)
    assert venue.orders == each_once(1)
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        assert [kind for kind in kinds(store, "a") if kind in ("intent", "outcome")] == ["intent", "outcome"]
        assert [step.output for step in store.steps("a")] == ["order 1 filled"]
