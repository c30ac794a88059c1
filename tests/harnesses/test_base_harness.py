"""Laws of `BaseHarness`: one loop, steps numbered from 1, recorded before `execute()` is resumed, and a private state."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
import trio
from attrs import evolve, frozen

from harnesses import (
    Agent,
    AgentRun,
    BaseHarness,
    Ending,
    HarnessMisuse,
    LocalRuntime,
    StateDelta,
    StateError,
    Step,
    StepYield,
    Unstorable,
)
from harnesses.data.delta import Delta


@frozen
class Count:
    total: int = 0


class Counting(BaseHarness[Count, int, int]):
    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for number in range(1, 4):
            self.update_state(add(number))
            yield number, number * 2


def add(more: int) -> Callable[[Count], Count]:
    return lambda count: evolve(count, total=count.total + more)


class Scripted(BaseHarness[Any, Any, Any]):
    """Runs a generator function of the harness, so that a test shows its steps where it asserts on them."""

    def __init__(self, script: Callable[[Any], Any], initial_state: object = None, **options: Any) -> None:
        super().__init__(initial_state, **options)
        self.script = script
        self.complete: Callable[[], bool] = bool

    def execute(self) -> Any:
        return self.script(self)

    def is_complete(self) -> bool:
        return self.complete()


def numbers(steps: Sequence[Step[Any, Any]]) -> list[int]:
    return [step.step_number for step in steps]


# a harness and its loop


async def test_the_first_example_works_as_the_documentation_shows_it() -> None:
    harness = Counting(Count())

    ending = await harness.run()

    assert ending is Ending.FINISHED
    assert harness.current_step == 3
    assert harness.state == Count(6)
    assert [(step.input, step.output) for step in harness.step_history] == [(1, 2), (2, 4), (3, 6)]


def test_a_working_harness_takes_fewer_than_25_lines() -> None:
    assert len(inspect.getsource(Counting).splitlines()) < 25


def test_a_harness_without_execute_can_not_be_made() -> None:
    with pytest.raises(TypeError, match="execute"):
        BaseHarness(Count())  # type: ignore[abstract]


async def test_execute_is_resumed_only_when_its_step_is_recorded() -> None:
    seen: list[list[int]] = []

    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        for number in range(3):
            yield number, number
            seen.append(numbers(harness.step_history))

    await Scripted(script).run()

    assert seen == [[1], [1, 2], [1, 2, 3]]


async def test_while_a_step_is_made_the_current_step_is_the_last_one() -> None:
    seen: list[int] = []

    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        for number in range(3):
            seen.append(harness.current_step)
            yield number, number

    await Scripted(script).run()

    assert seen == [0, 1, 2]


async def test_a_harness_that_yields_nothing_makes_no_step() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        if harness.current_step:
            yield 1, 1

    harness = Scripted(script)

    assert await harness.run() is Ending.FINISHED
    assert harness.current_step == 0
    assert list(harness.step_history) == []


async def test_is_complete_is_asked_once_after_each_recorded_step() -> None:
    harness = Scripted(_count_for_ever)
    asked: list[tuple[int, list[int]]] = []

    def complete() -> bool:
        asked.append((harness.current_step, numbers(harness.step_history)))
        return harness.current_step == 3

    harness.complete = complete

    assert await harness.run() is Ending.COMPLETED
    assert asked == [(1, [1]), (2, [1, 2]), (3, [1, 2, 3])]


async def test_a_change_before_the_yield_is_seen_by_is_complete() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        while True:
            harness.update_state(add(1))
            yield 0, 0

    harness = Scripted(script, Count())
    harness.complete = lambda: harness.state.total == 2

    await harness.run()

    assert harness.current_step == 2


async def test_completion_runs_the_clean_up_and_nothing_after_the_yield() -> None:
    ran: list[str] = []

    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        try:
            yield 1, 1
            ran.append("after the yield")
        finally:
            await trio.lowlevel.checkpoint()
            ran.append("clean-up")

    harness = Scripted(script)
    harness.complete = lambda: True
    await harness.run()

    assert ran == ["clean-up"]


async def test_steps_are_numbered_from_1_and_stamped_in_utc() -> None:
    before = datetime.now(UTC)
    harness = Counting(Count())

    await harness.run()

    stamps = [step.timestamp for step in harness.step_history]
    assert numbers(harness.step_history) == [1, 2, 3]
    assert [before, *stamps] == sorted([before, *stamps])
    assert {stamp.tzinfo for stamp in stamps} == {UTC}


# running twice


async def test_a_second_run_goes_on_numbering() -> None:
    harness = Counting(Count())

    await harness.run()
    await harness.run()

    assert numbers(harness.step_history) == [1, 2, 3, 4, 5, 6]
    assert harness.state == Count(12)


async def test_a_run_after_a_failed_one_goes_on_numbering() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        yield 1, 1
        if harness.current_step == 1:
            raise LookupError

    harness = Scripted(script)
    with pytest.raises(LookupError):
        await harness.run()

    await harness.run()

    assert numbers(harness.step_history) == [1, 2]


async def test_execute_called_anew_has_the_state_of_the_last_recorded_step() -> None:
    seen: list[int] = []

    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        seen.append(harness.state)
        harness.update_state(lambda state: state + 1)
        yield 1, 1
        harness.update_state(lambda state: state + 100)
        raise LookupError

    harness = Scripted(script, 0)
    for _ in range(2):
        with pytest.raises(LookupError):
            await harness.run()

    assert seen == [0, 1]
    assert harness.state == 2
    assert [step.state_delta.modified for step in harness.step_history] == [("state",), ("state",)]


async def test_a_second_run_at_the_same_time_is_refused_and_the_first_goes_on() -> None:
    gate = trio.Event()

    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        yield 1, 1
        await gate.wait()
        yield 2, 2

    harness = Scripted(script)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.run)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(HarnessMisuse, match=r"'Scripted', step 2: run\(\) was called while it runs.*make a second"):
            await harness.run()
        gate.set()

    assert numbers(harness.step_history) == [1, 2]


async def test_run_called_from_execute_is_an_error_that_says_so() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        yield 1, 1
        await harness.run()

    harness = Scripted(script)

    with pytest.raises(
        HarnessMisuse,
        match=r"'Scripted', step 2 \(.*py:\d+\): run\(\) was called from execute\(\).*yield the steps",
    ):
        await harness.run()

    assert numbers(harness.step_history) == [1]


async def test_run_called_from_a_task_of_execute_is_refused() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(harness.run)
        yield 1, 1

    with pytest.RaisesGroup(pytest.RaisesExc(HarnessMisuse, match="was called while it runs")):
        await Scripted(script).run()


async def test_a_harness_may_run_another() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[str, int]]:
        inner = Counting(Count())
        await inner.run()
        yield "inner", inner.state.total

    harness = Scripted(script)
    await harness.run()

    assert harness.step_history[0].output == 6


async def test_a_harness_complete_in_the_store_makes_no_further_step() -> None:
    harness = Counting(Count())
    await harness.run()
    harness.is_complete = lambda: True  # type: ignore[method-assign]
    resumed = LocalRuntime("counting")
    resumed.resumed = True

    assert await harness.run(resumed) is Ending.COMPLETED

    assert harness.current_step == 3


# errors


async def test_an_error_in_execute_is_raised_and_the_steps_before_it_are_kept() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        yield 1, 1
        raise LookupError("no such market")

    harness = Scripted(script)

    with pytest.raises(LookupError, match="no such market"):
        await harness.run()

    assert numbers(harness.step_history) == [1]
    assert harness.current_step == 1


async def test_an_error_in_is_complete_is_raised_after_the_clean_up_and_its_step_is_kept() -> None:
    cleaned: list[bool] = []

    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        try:
            yield 1, 1
        finally:
            cleaned.append(True)

    harness = Scripted(script)
    harness.complete = lambda: bool(1 / 0)

    with pytest.raises(ZeroDivisionError):
        await harness.run()

    assert cleaned == [True]
    assert harness.current_step == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_an_order_to_the_program_passes_through(error: type[BaseException]) -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        yield 1, 1
        raise error

    with pytest.raises(error):
        await Scripted(script).run()


async def _not_a_generator(harness: Scripted) -> list[tuple[int, int]]:
    return [(1, 1)]


def _plain_generator(harness: Scripted) -> Any:
    yield 1, 1


def _list(harness: Scripted) -> Any:
    return [(1, 1)]


def _nothing(harness: Scripted) -> Any:
    return None


@pytest.mark.parametrize(
    ("script", "was"),
    [
        (_not_a_generator, "a coroutine: it has no `yield`"),
        (_plain_generator, "a plain generator: write `async def`"),
        (_list, r"\[.*\]"),
        (_nothing, "None"),
    ],
)
async def test_an_execute_that_is_no_async_generator_is_an_error_that_says_so(script: Any, was: str) -> None:
    with pytest.raises(
        HarnessMisuse,
        match=rf"'Scripted', step 1 \(.*py:\d+\): execute\(\) is not an async generator.*got {was}; `yield",
    ):
        await Scripted(script).run()


@pytest.mark.parametrize("value", ["ab", b"ab", {"a": 1, "b": 2}, {1, 2}, (1,), (1, 2, 3), [], (), None, 7, Count()])
async def test_what_is_not_a_pair_is_refused(value: object) -> None:
    async def script(harness: Scripted) -> AsyncIterator[object]:
        yield 1, 1
        yield value

    harness = Scripted(script)

    with pytest.raises(
        HarnessMisuse,
        match=r"'Scripted', step 2 \(.*py:\d+\): execute\(\) yielded .*expected StepYield.*or a pair",
    ):
        await harness.run()

    assert numbers(harness.step_history) == [1]


@pytest.mark.parametrize("pair", [("in", "out"), ["in", "out"], StepYield("in", "out"), StepYield(output="out", input="in")])
async def test_a_pair_and_a_step_yield_make_the_same_step(pair: object) -> None:
    async def script(harness: Scripted) -> AsyncIterator[object]:
        yield pair

    harness = Scripted(script)
    await harness.run()

    step = harness.step_history[0]
    assert (step.input, step.output) == ("in", "out")


async def test_a_pair_of_nones_is_a_step() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[None, None]]:
        yield None, None

    harness = Scripted(script)
    await harness.run()

    assert harness.current_step == 1


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((float("nan"), 1), r"'Scripted', step 1 \(.*py:\d+\): input is nan"),
        ((1, {"price": float("inf")}), r"'Scripted', step 1 \(.*py:\d+\): output\.price is inf"),
        (
            (1, {"orders": [1, object()]}),
            r"'Scripted', step 1 \(.*py:\d+\): output\.orders\[1\] cannot be stored",
        ),
        (({(1, 2): 3}, 1), r"'Scripted', step 1 \(.*py:\d+\): input has the key \(1, 2\)"),
    ],
)
async def test_an_unstorable_step_is_refused_with_harness_step_and_path(pair: Any, message: str) -> None:
    async def script(harness: Scripted) -> AsyncIterator[Any]:
        yield pair

    harness = Scripted(script)

    with pytest.raises(Unstorable, match=message):
        await harness.run()

    assert harness.current_step == 0
    assert list(harness.step_history) == []


class FullRuntime(LocalRuntime):
    """A recorder that cannot record."""

    async def commit(self, step: Step[object, object], delta: Delta, state: Callable[[], object]) -> None:
        raise OSError("disk full")


async def test_a_step_that_can_not_be_recorded_is_not_shown_and_its_change_is_still_to_be_recorded() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        harness.update_state(lambda count: Count(7))
        yield 1, 1

    harness = Scripted(script, Count())
    with pytest.raises(OSError, match="disk full"):
        await harness.run(FullRuntime("full"))
    assert harness.current_step == len(harness.step_history) == 0

    await harness.run()

    assert numbers(harness.step_history) == [1]
    assert harness.step_history[0].state_delta.modified == ("total",)


# state


async def test_an_update_that_returns_none_names_harness_step_and_remedy() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        yield 1, 1
        harness.update_state(lambda state: None)
        yield 2, 2

    harness = Scripted(script, Count(7))

    with pytest.raises(
        StateError,
        match=r"'Scripted', step 2 \(.*py:\d+\): update_state: the change returned None.*return the new state",
    ):
        await harness.run()

    assert harness.state == Count(7)


def test_an_update_to_another_type_is_refused() -> None:
    harness = Counting(Count(7))

    with pytest.raises(StateError, match=r"'Counting', step 1 \(.*py:\d+\): update_state: .*expected a Count, got int"):
        harness.update_state(lambda state: 8)  # type: ignore[arg-type, return-value]

    assert harness.state == Count(7)


def test_an_update_to_something_unstorable_names_harness_step_and_path() -> None:
    harness = Scripted(_count_for_ever, {"price": 0.0})

    with pytest.raises(Unstorable, match=r"'Scripted', step 1 \(.*py:\d+\): \$\.price is nan"):
        harness.update_state(lambda state: {"price": float("nan")})

    assert harness.state == {"price": 0.0}


async def test_the_initial_state_is_shared_by_nobody() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        harness.update_state(lambda state: {"items": [*state["items"], "b"]})
        yield 1, 1

    initial = {"items": ["a"]}
    one, other = Scripted(script, initial), Scripted(script, initial)

    await one.run()

    assert one.state == {"items": ["a", "b"]}
    assert other.state == initial == {"items": ["a"]}


async def test_a_state_read_before_an_update_is_not_changed_by_it() -> None:
    seen: list[Any] = []

    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        for number in range(3):
            seen.append(harness.state)
            harness.update_state(lambda state: state["items"].append("x") or state)
            yield number, number

    await Scripted(script, {"items": []}).run()

    assert seen == [{"items": []}, {"items": ["x"]}, {"items": ["x", "x"]}]


async def test_changing_a_state_that_was_read_is_refused() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        with pytest.raises(HarnessMisuse, match="read-only"):
            harness.state["items"].append("x")
        yield 1, 1

    harness = Scripted(script, {"items": []})
    await harness.run()

    assert harness.state == {"items": []}
    assert harness.step_history[0].state_delta == StateDelta()


async def test_an_output_changed_after_its_yield_does_not_change_history() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[list[int], dict[str, Any]]]:
        asked: list[int] = []
        answer: dict[str, Any] = {"inner": {}}
        for number in range(3):
            asked.append(number)
            answer["inner"][str(number)] = number
            yield asked, answer

    harness = Scripted(script)
    await harness.run()

    assert [step.input for step in harness.step_history] == [[0], [0, 1], [0, 1, 2]]
    assert [len(step.output["inner"]) for step in harness.step_history] == [1, 2, 3]


async def test_each_step_names_what_changed_since_the_one_before() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        harness.update_state(lambda state: {**state, "balance": Decimal("9.50")}, summary="bought one")
        yield 1, 1
        yield 2, 2
        harness.update_state(lambda state: {"balance": state["balance"], "orders": [1]})
        yield 3, 3

    harness = Scripted(script, {"balance": Decimal("10.00"), "note": ""})
    await harness.run()

    deltas = [step.state_delta for step in harness.step_history]
    assert deltas[:2] == [StateDelta(("balance",), "bought one"), StateDelta()]
    assert sorted(deltas[2].modified) == ["note", "orders"]


async def test_a_state_without_fields_is_called_state() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        harness.update_state(lambda number: number + 1)
        yield 1, 1

    harness = Scripted(script, 0)
    await harness.run()

    assert harness.step_history[0].state_delta.modified == ("state",)


async def test_a_change_after_the_yield_belongs_to_the_next_step() -> None:
    async def script(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
        yield 1, 1
        harness.update_state(add(1))
        yield 2, 2

    harness = Scripted(script, Count())
    await harness.run()

    assert [step.state_delta.modified for step in harness.step_history] == [(), ("total",)]


# agents and their context


async def test_run_agent_tells_context_number_recent_steps_and_constraints() -> None:
    told: list[AgentRun[Any, Any]] = []

    async def answer(run: AgentRun[Any, str]) -> str:
        told.append(run)
        return run.input.upper()

    async def script(harness: Scripted) -> AsyncIterator[tuple[str, str]]:
        for letter in "abcd":
            yield letter, await harness.run_agent(Agent(answer), letter)

    harness = Scripted(script, Count(7), max_context_steps=2, constraints={"max_drawdown": Decimal("0.1")})
    await harness.run()

    assert [step.output for step in harness.step_history] == ["A", "B", "C", "D"]
    assert [run.step_number for run in told] == [1, 2, 3, 4]
    assert [numbers(run.step_history) for run in told] == [[], [1], [1, 2], [2, 3]]
    assert [numbers(run.context.recent_steps) for run in told] == [[], [1], [1, 2], [2, 3]]
    assert {run.context.state for run in told} == {Count(7)}
    assert [run.constraints for run in told] == [{"max_drawdown": Decimal("0.1")}] * 4


async def test_two_agents_asked_within_one_step_are_told_the_same_number() -> None:
    async def which(run: AgentRun[Any, str]) -> int:
        return run.step_number

    async def script(harness: Scripted) -> AsyncIterator[tuple[int, list[int]]]:
        for number in range(2):
            yield number, [await harness.run_agent(Agent(which), "plan"), await harness.run_agent(Agent(which), "do")]

    harness = Scripted(script)
    await harness.run()

    assert [step.output for step in harness.step_history] == [[1, 1], [2, 2]]


async def test_an_agent_that_changes_the_state_it_is_told_changes_nothing() -> None:
    async def meddle(run: AgentRun[Any, str]) -> int:
        run.context.state["items"].append("mine")
        return len(run.context.state["items"])

    async def script(harness: Scripted) -> AsyncIterator[tuple[str, int]]:
        yield "?", await harness.run_agent(Agent(meddle), "?")

    harness = Scripted(script, {"items": []})
    await harness.run()

    assert harness.step_history[0].output == 1
    assert harness.state == {"items": []}


@pytest.mark.parametrize(("bound", "expected"), [(0, []), (1, [3]), (3, [1, 2, 3]), (10, [1, 2, 3])])
async def test_a_context_is_bounded_and_oldest_first(bound: int, expected: list[int]) -> None:
    harness = Counting(Count(), max_context_steps=bound)

    await harness.run()

    context = harness.load_context()
    assert numbers(context.recent_steps) == expected
    assert context.state == Count(6)
    assert len(harness.step_history) == 3


def test_a_context_before_the_first_step_has_no_steps() -> None:
    assert Counting(Count()).load_context().recent_steps == ()


def test_a_negative_bound_is_refused() -> None:
    with pytest.raises(HarnessMisuse, match=r"Counting: max_context_steps: expected a whole number from 0 up, got -1"):
        Counting(Count(), max_context_steps=-1)


def test_the_callers_constraints_are_not_shared() -> None:
    limits = {"max_orders": 1}
    harness = Counting(Count(), constraints=limits)

    limits["max_orders"] = 100

    assert harness.constraints == {"max_orders": 1}
    assert Counting(Count()).constraints == {}


# what needs surroundings


@pytest.mark.parametrize(("verb", "args"), [("sleep", (1,)), ("receive", ()), ("send", ("other", 1))])
async def test_what_only_a_running_harness_can_do_says_so(verb: str, args: tuple[object, ...]) -> None:
    with pytest.raises(HarnessMisuse, match=rf"{verb}: Counting is not running; call it from execute\(\)"):
        await getattr(Counting(Count()), verb)(*args)


async def _count_for_ever(harness: Scripted) -> AsyncIterator[tuple[int, int]]:
    number = 0
    while True:
        number += 1
        yield number, number


async def test_what_a_harness_knows_is_told_to_its_agents():
    told = []

    class Knowing(BaseHarness[int, int, int]):
        async def execute(self):
            self.know({"episodes": ["it was slow"]})
            yield 1, await self.run_agent(Agent(self.tell), 1)

        async def tell(self, run):
            told.append(dict(run.context.relevant_knowledge))
            return run.input

    await Knowing(0).run()

    assert told == [{"episodes": ["it was slow"]}]
