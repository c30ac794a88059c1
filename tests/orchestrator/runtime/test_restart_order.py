"""A harness that has ended, however it did, is brought back in the running program; its siblings notice nothing."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from harnesses import Budget
from harnesses.errors import NoRestart, Waiting
from orchestrator import HarnessFailed, MemoryStore, Orchestrator, OutcomeKind, Status, Store, UsageError
from tests.orchestrator.scripted import STEADY, Scripted, Steps, events, numbers, poll, to_the_end


class Moody:
    """A script that ends as it is told, once; from the second life on it makes steps for ever."""

    def __init__(self, *ends: Exception | None) -> None:
        self.ends = list(ends)
        self.lives = 0

    async def __call__(self, harness: Scripted) -> Steps:
        self.lives += 1
        yield harness.current_step + 1, None
        if self.ends:
            end = self.ends.pop(0)
            if end is not None:
                raise end
            return
        while True:
            await harness.sleep(1)
            yield harness.current_step + 1, None


@pytest.fixture
def store() -> Store:
    return MemoryStore()


ENDS: list[tuple[Exception | None, OutcomeKind]] = [
    (None, OutcomeKind.FINISHED),
    (Waiting("a person is needed"), OutcomeKind.BLOCKED),
    (NoRestart("it cannot be mended"), OutcomeKind.FAILED),
]


@pytest.mark.parametrize(("end", "kind"), ENDS, ids=[kind.value for _, kind in ENDS])
async def test_whatever_has_ended_is_started_again_and_goes_on_after_its_last_step(store, autojump_clock, end, kind):
    async with Orchestrator(store) as orchestrator:
        sibling = orchestrator.start(Scripted(poll), name="sibling")
        first = orchestrator.start(Scripted(Moody(end)), name="one")
        assert (await first.wait()).kind is kind
        again = await orchestrator.restart("one")
        await trio.sleep(5)
        assert (again.status, again.attempt) == (Status.RUNNING, 2)
        assert (sibling.status, sibling.attempt) == (Status.RUNNING, 1)
        orchestrator.stop()

    assert numbers(store, "one") == list(range(1, again.current_step + 1))


async def test_what_was_stopped_is_started_again(store, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        await orchestrator.start(Scripted(poll), name="one").stop()
        again = await orchestrator.restart("one")
        assert again.status is Status.RUNNING
        orchestrator.stop()


async def test_what_gave_up_is_started_again_with_no_restart_counted(store, autojump_clock):
    """Else it would give up at its next crash."""
    crashes = [ValueError(str(number)) for number in range(6)]
    async with Orchestrator(store, intensity=2, backoff=STEADY) as orchestrator:
        first = orchestrator.start(Scripted(Moody(*crashes[:5])), name="one")
        assert (await first.wait()).kind is OutcomeKind.GAVE_UP
        again = await orchestrator.restart("one")
        await trio.sleep(20)
        assert (again.status, again.attempt) == (Status.RUNNING, 6)
        orchestrator.stop()


async def test_a_failed_one_is_started_again_with_no_restart_counted(store, autojump_clock):
    ends = [ValueError("1"), ValueError("2"), NoRestart("3"), ValueError("4"), ValueError("5")]
    async with Orchestrator(store, intensity=2, backoff=STEADY) as orchestrator:
        await orchestrator.start(Scripted(Moody(*ends)), name="one").wait()
        again = await orchestrator.restart("one")
        await trio.sleep(20)
        assert (again.status, again.attempt) == (Status.RUNNING, 6)
        orchestrator.stop()


async def test_the_end_of_the_group_is_that_of_the_last_life(store, autojump_clock):
    async with to_the_end(store) as (orchestrator, errors):
        orchestrator.start(Scripted(poll), name="sibling")
        await orchestrator.start(Scripted(Moody(NoRestart("no"), None)), name="one").wait()
        await (await orchestrator.restart("one")).wait()
        orchestrator.stop()

    assert errors == []


async def test_it_is_started_again_on_the_terms_that_it_was_started_with(store, autojump_clock):
    def large(key: str, arguments: tuple[Any, ...]) -> str | None:
        return "order"

    async def act(number: int) -> int:
        return number

    async def script(harness: Scripted) -> Steps:
        yield 1, None
        if harness.current_step == 1:
            raise Waiting("a person is needed")
        yield 2, await harness.once("act", act, 1)

    async with Orchestrator(store) as orchestrator:
        supervisor = orchestrator.supervisor("desk")
        options: dict[str, Any] = {"supervisor": supervisor, "approve": large, "budget": Budget(steps=2)}
        first = orchestrator.start(Scripted(script), name="one", **options)
        orchestrator.start(Scripted(poll), name="two", supervisor=supervisor)
        await first.wait()
        again = await orchestrator.restart("one")

        assert [child.name for child in supervisor.children] == ["one", "two"]
        assert (await again.wait()).kind is OutcomeKind.BUDGET_SPENT
        orchestrator.stop()


async def test_one_that_runs_is_stopped_first_within_its_grace_period(store, autojump_clock):
    async def stubborn(harness: Scripted) -> Steps:
        yield harness.current_step + 1, None
        await trio.sleep_forever()

    async with Orchestrator(store) as orchestrator:
        first = orchestrator.start(Scripted(stubborn), name="one")
        await trio.sleep(1)
        begun = trio.current_time()
        again = await orchestrator.restart("one", grace=3)
        assert trio.current_time() - begun == pytest.approx(3)
        assert (again.status, again.attempt, again.outcome) == (Status.RUNNING, 2, None)
        assert first.outcome is not None
        assert first.outcome.kind is OutcomeKind.STOPPED
        orchestrator.stop(0)

    assert events(store, "one") == ["started", "stopped", "started", "stopped"]


async def test_the_only_one_is_restarted_before_the_program_finds_that_all_have_ended(store, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        orchestrator.start(Scripted(poll), name="one")
        await trio.sleep(2)

        async def end_it() -> None:
            again = await orchestrator.restart("one")
            await trio.sleep(3)
            again.stop()

        orchestrator_nursery = orchestrator._registry.nursery  # pyright: ignore[reportPrivateUsage]
        assert orchestrator_nursery is not None
        orchestrator_nursery.start_soon(end_it)

    assert events(store, "one") == ["started", "stopped", "started", "stopped"]


async def test_one_that_backs_off_begins_at_once(store, autojump_clock):
    async with Orchestrator(store, backoff=STEADY) as orchestrator:
        orchestrator.start(Scripted(Moody(ValueError("1"))), name="one")
        await trio.sleep(0.5)
        begun = trio.current_time()
        again = await orchestrator.restart("one")
        assert (trio.current_time() - begun, again.status) == (pytest.approx(0), Status.RUNNING)
        orchestrator.stop()


async def test_what_is_completed_is_not_started_again_and_that_is_said(store, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        await orchestrator.start(Scripted(poll, until=2), name="one").wait()
        with pytest.raises(UsageError, match=r"'one' has completed: .*reopens"):
            await orchestrator.restart("one")


async def test_a_name_that_was_not_started_here_is_told(store, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        orchestrator.start(Scripted(poll), name="one")
        with pytest.raises(UsageError, match=r"'two' was not started .*expected one of one"):
            orchestrator.restart("two")
        orchestrator.stop()


async def test_a_program_that_is_ending_starts_nothing_again(store, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="one")
        await trio.sleep(1)
        orchestrator.restart("one")
        orchestrator.stop()
        with pytest.raises(UsageError, match="is ending"):
            orchestrator.restart("one")

    assert (handle.status, events(store, "one")) == (Status.STOPPED, ["started", "stopped"])


async def test_a_stop_after_a_restart_counts(store, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="one")
        await trio.sleep(1)
        orchestrator.restart("one")
        await handle.stop()

    assert events(store, "one") == ["started", "stopped"]


async def test_a_restart_that_a_stop_has_overtaken_says_so(store, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="one")
        orchestrator.start(Scripted(poll), name="two")
        await trio.sleep(1)
        order, other = orchestrator.restart("one"), orchestrator.restart("two")
        handle.stop()
        with pytest.raises(UsageError, match="'one' is not started again: it was told to stop"):
            await order
        await other
        last = orchestrator.restart("two")
        orchestrator.stop()
        with pytest.raises(UsageError, match="'two' is not started again: the program is ending"):
            await last


async def test_two_restarts_of_one_are_one_and_both_give_the_life_that_came_of_it(store, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        orchestrator.start(Scripted(poll), name="one")
        await trio.sleep(1)
        orders = orchestrator.restart("one"), orchestrator.restart("one")
        first, second = [await order for order in orders]
        assert (first.status, first.attempt) == (second.status, second.attempt) == (Status.RUNNING, 2)
        orchestrator.stop()


async def test_what_makes_it_anew_is_asked_before_anything_is_stopped(store, autojump_clock):
    def renew() -> Any:
        raise UsageError("run.toml is not valid")

    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Scripted(poll), name="one", renew=renew)
        await trio.sleep(1)
        with pytest.raises(UsageError, match=r"run\.toml is not valid"):
            orchestrator.restart("one")
        await trio.sleep(1)
        assert (handle.status, handle.attempt) == (Status.RUNNING, 1)
        orchestrator.stop()


async def test_what_makes_it_anew_gives_another_object_and_other_terms(store, autojump_clock):
    async def spend(harness: Scripted) -> Steps:
        while True:
            async with harness.spending(tokens=60):
                pass
            yield harness.current_step + 1, None
            await harness.sleep(1)

    async with Orchestrator(store) as orchestrator:

        def start(tokens: int) -> Any:
            return orchestrator.start(
                Scripted(spend), name="one", budget=Budget(tokens=tokens), renew=lambda: lambda: start(600)
            )

        first = start(100)
        assert (await first.wait()).kind is OutcomeKind.BUDGET_SPENT
        again = await orchestrator.restart("one")
        assert (await again.wait()).kind is OutcomeKind.BUDGET_SPENT

    assert again.current_step == 10


async def test_a_failure_of_the_first_life_is_not_raised_when_the_second_one_was_stopped(store, autojump_clock):
    async with to_the_end(store) as (orchestrator, errors):
        orchestrator.start(Scripted(Moody(NoRestart("no"))), name="one")
        await trio.sleep(1)
        if orchestrator.handles[0].outcome is not None:
            orchestrator.restart("one")
        await trio.sleep(3)
        orchestrator.stop()

    assert not any(isinstance(error, HarnessFailed) for error in errors)
