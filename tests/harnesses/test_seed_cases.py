"""The 44 cases that any harness of this model must pass: count them with `pytest -m seed`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
import trio
from attrs import evolve, fields, frozen
from trio.testing import MockClock

import harnesses
from harnesses import (
    Agent,
    AgentRun,
    BaseHarness,
    Constraints,
    Ending,
    HarnessConfig,
    LoadedContext,
    PersistentState,
    StateDelta,
    Step,
    StepYield,
)
from harnesses import step as nouns

pytestmark = pytest.mark.seed

NOW = datetime(2024, 12, 24, tzinfo=UTC)


@frozen
class Count:
    count: int = 0


@frozen
class Nothing:
    pass


@frozen
class Work:
    done: bool


def a_step(number: int = 1, input: str = "test", output: int = 42) -> Step[str, int]:
    return Step(step_number=number, timestamp=NOW, input=input, output=output, state_delta=StateDelta())


async def length(run: AgentRun[Any, str]) -> int:
    return len(run.input)


# types


def test_a_step_has_its_five_fields() -> None:
    step = a_step()

    assert [field.name for field in fields(Step)] == ["step_number", "timestamp", "input", "output", "state_delta"]
    assert (step.step_number, step.timestamp, step.input, step.output) == (1, NOW, "test", 42)
    assert step.state_delta == StateDelta()


def test_a_delta_tracks_modifications() -> None:
    delta = StateDelta(modified=("balance", "position"), summary="Updated portfolio")

    assert "balance" in delta.modified
    assert "position" in delta.modified
    assert delta.summary == "Updated portfolio"


def test_the_summary_of_a_delta_is_optional() -> None:
    delta = StateDelta(modified=("balance",))

    assert delta.modified == ("balance",)
    assert delta.summary is None


def test_a_loaded_context_provides_bounded_state() -> None:
    context = LoadedContext(Count(5))

    assert context.state.count == 5
    assert context.recent_steps == ()
    assert context.relevant_knowledge == {}


def test_a_loaded_context_includes_recent_steps() -> None:
    context = LoadedContext(Count(5), recent_steps=(a_step(),), relevant_knowledge={})

    assert len(context.recent_steps) == 1
    assert context.recent_steps[0].step_number == 1


def test_a_config_has_the_initial_state() -> None:
    config = HarnessConfig(initial_state=Count(0))

    assert config.initial_state.count == 0


def test_the_context_bound_of_a_config_is_optional() -> None:
    config = HarnessConfig(initial_state=Count(0))

    assert config.max_context_steps == 10


def test_a_config_can_have_a_context_bound() -> None:
    config = HarnessConfig(initial_state=Count(0), max_context_steps=5)

    assert config.max_context_steps == 5


def test_a_step_yield_has_input_and_output() -> None:
    value = StepYield(input="test", output=42)

    assert value.input == "test"
    assert value.output == 42
    assert value._fields == ("input", "output")


def test_constraints_can_be_numbers_and_switches() -> None:
    harness = Simple(Count(), constraints={"max_iterations": 10, "timeout_s": 5.0, "allow_retries": True})

    assert harness.constraints == {"max_iterations": 10, "timeout_s": 5.0, "allow_retries": True}


def test_constraints_can_be_strings() -> None:
    harness = Simple(Count(), constraints={"mode": "strict", "level": "high"})

    assert harness.constraints == {"mode": "strict", "level": "high"}


def test_constraints_can_be_mixed() -> None:
    harness = Simple(Count(), constraints={"max_iterations": 10, "mode": "strict", "enabled": True})

    assert harness.constraints == {"max_iterations": 10, "mode": "strict", "enabled": True}


def test_an_agent_can_be_made_without_a_name() -> None:
    assert isinstance(Agent(length), Agent)
    assert inspect.signature(Agent).parameters["name"].default == "Agent"


def test_an_agent_can_be_made_with_a_name() -> None:
    assert Agent(length, name="TestAgent").name == "TestAgent"


def test_an_agent_can_not_be_made_without_a_run_function() -> None:
    with pytest.raises(TypeError, match="run"):
        Agent(name="TestAgent")  # type: ignore[call-arg]


async def test_an_agents_function_takes_an_agent_run_and_returns_the_output() -> None:
    agent: Agent[Count, str, int] = Agent(length)

    answer = await agent.run(input="test", context=LoadedContext(Count()), step_number=1, step_history=(), constraints={})

    assert answer == 4


def test_an_agent_can_be_made_without_a_predicate() -> None:
    assert inspect.signature(Agent).parameters["is_complete"].default is None


def test_an_agent_can_be_made_with_a_predicate() -> None:
    agent: Agent[Work, str, int] = Agent(length, is_complete=lambda work: work.done)

    assert agent.is_complete(Work(done=True)) is True


def test_an_agent_run_has_its_five_fields() -> None:
    run = AgentRun(
        input="test",
        context=LoadedContext(Count(5)),
        step_number=2,
        step_history=(a_step(input="previous", output=10),),
        constraints={"max_tokens": 1000},
    )

    assert [field.name for field in fields(AgentRun)] == ["input", "context", "step_number", "step_history", "constraints"]
    assert (run.input, run.context.state.count, run.step_number) == ("test", 5, 2)
    assert len(run.step_history) == 1
    assert run.constraints["max_tokens"] == 1000


# state


def test_the_state_begins_as_given() -> None:
    state: PersistentState[dict[str, int], str, str] = PersistentState({"count": 0})

    assert state.state == {"count": 0}


def test_update_state_replaces_the_state() -> None:
    state: PersistentState[dict[str, int], str, str] = PersistentState({"count": 0})
    before = state.state

    state.update_state(lambda old: {"count": old["count"] + 1})

    assert state.state == {"count": 1}
    assert before == {"count": 0}


def test_record_adds_a_step_to_the_history() -> None:
    state: PersistentState[Nothing, str, str] = PersistentState(Nothing())

    state.record(1, "input-a", "output-a", StateDelta())
    state.record(2, "input-b", "output-b", StateDelta())

    assert [step.step_number for step in state.step_history] == [1, 2]


def test_load_context_is_bounded() -> None:
    state: PersistentState[Count, str, str] = PersistentState(Count(), max_context_steps=5)
    for number in range(1, 11):
        state.record(number, f"input-{number}", f"output-{number}", StateDelta())

    context = state.load_context()

    assert [step.step_number for step in context.recent_steps] == [6, 7, 8, 9, 10]
    assert context.state == Count(0)


def test_recent_steps_are_the_last_ones_in_order() -> None:
    state: PersistentState[Nothing, str, str] = PersistentState(Nothing())
    for number, letter in enumerate("abc", 1):
        state.record(number, letter, letter.upper(), StateDelta())

    recent = state.recent_steps(2)

    assert [step.input for step in recent] == ["b", "c"]


# agents


async def test_run_passes_everything_to_the_agents_function() -> None:
    told: list[AgentRun[Count, str]] = []

    async def answer(run: AgentRun[Count, str]) -> int:
        told.append(run)
        return 42

    context = LoadedContext(Count(1))

    result = await Agent(answer).run(input="hello", context=context, step_number=5, step_history=(), constraints={})

    assert result == 42
    assert told == [AgentRun(input="hello", context=context, step_number=5, step_history=(), constraints={})]


def test_an_agent_has_a_name() -> None:
    assert Agent(length, name="MyAgent").name == "MyAgent"


def test_an_agents_name_is_agent_unless_given() -> None:
    assert Agent(length).name == "Agent"


def test_an_agent_is_complete_when_its_predicate_says_so() -> None:
    agent: Agent[Work, str, int] = Agent(length, is_complete=lambda work: work.done)

    assert agent.is_complete(Work(done=False)) is False
    assert agent.is_complete(Work(done=True)) is True


def test_an_agent_without_a_predicate_is_never_complete() -> None:
    agent: Agent[Nothing, str, int] = Agent(length)

    assert agent.is_complete(Nothing()) is False


# the harness


class Simple(BaseHarness[Count, str, str]):
    async def execute(self) -> AsyncIterator[StepYield[str, str]]:
        for item in ("a", "b", "c"):
            yield StepYield(input=item, output=f"processed: {item}")


def test_a_harness_begins_at_step_0() -> None:
    assert Simple(Count()).current_step == 0


async def test_run_executes_every_yield() -> None:
    harness = Simple(Count())

    await harness.run()

    assert harness.current_step == 3


async def test_run_records_each_step_in_the_history() -> None:
    harness = Simple(Count())

    await harness.run()

    assert len(harness.step_history) == 3
    first = harness.step_history[0]
    assert (first.step_number, first.input, first.output) == (1, "a", "processed: a")


def test_a_harness_shows_its_state() -> None:
    assert Simple(Count(42)).state == Count(42)


def test_a_harness_is_not_complete_unless_it_says_so() -> None:
    assert Simple(Count()).is_complete() is False


def add(more: int) -> Callable[[Count], Count]:
    return lambda state: evolve(state, count=state.count + more)


class Counting(BaseHarness[Count, int, int]):
    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for number in range(1, 4):
            self.update_state(add(number))
            yield number, number * 2


async def test_the_state_persists_across_steps() -> None:
    harness = Counting(Count())

    await harness.run()

    assert harness.state == Count(6)


@frozen
class Value:
    value: int


class Asking(BaseHarness[Value, str, str]):
    def __init__(self, initial_state: Value) -> None:
        super().__init__(initial_state)
        self.agent = Agent(self.answer, name="TestAgent")

    async def answer(self, run: AgentRun[Value, str]) -> str:
        return f"step {run.step_number}: {run.input} (value: {run.context.state.value})"

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        for item in ("first", "second"):
            yield item, await self.run_agent(self.agent, item)


async def test_agents_receive_the_context_of_the_step() -> None:
    harness = Asking(Value(100))

    await harness.run()

    assert [step.output for step in harness.step_history] == ["step 1: first (value: 100)", "step 2: second (value: 100)"]


class Polling(BaseHarness[Nothing, int, int]):
    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for poll in range(1, 4):
            yield poll, poll * 10
            await trio.sleep(5)


async def test_a_harness_can_poll(autojump_clock: MockClock) -> None:
    harness = Polling(Nothing())

    await harness.run()

    assert harness.current_step == 3
    assert [step.output for step in harness.step_history] == [10, 20, 30]


@frozen
class Remaining:
    remaining: int


class EarlyStop(BaseHarness[Remaining, int, int]):
    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while True:
            self.update_state(lambda state: Remaining(state.remaining - 1))
            yield self.state.remaining, self.state.remaining

    def is_complete(self) -> bool:
        return self.state.remaining <= 0


async def test_run_stops_when_is_complete_is_true() -> None:
    harness = EarlyStop(Remaining(3))

    ending = await harness.run()

    assert ending is Ending.COMPLETED
    assert harness.current_step == len(harness.step_history) == 3
    assert harness.is_complete()


class Finite(BaseHarness[Nothing, str, str]):
    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        yield "a", "A"
        yield "b", "B"


async def test_run_ends_when_the_generator_is_exhausted() -> None:
    harness = Finite(Nothing())

    ending = await harness.run()

    assert ending is Ending.FINISHED
    assert harness.current_step == 2
    assert not harness.is_complete()


class ImmediatelyComplete(BaseHarness[Work, int, int]):
    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        yield 1, 1
        yield 2, 2

    def is_complete(self) -> bool:
        return self.state.done


async def test_one_step_is_made_even_if_the_harness_is_complete_before_it() -> None:
    harness = ImmediatelyComplete(Work(done=True))

    await harness.run()

    assert harness.current_step == len(harness.step_history) == 1


# what the package offers


def test_the_modules_hold_the_primitives_that_the_package_exports() -> None:
    assert BaseHarness.__module__ == "harnesses.base"
    assert Agent.__module__ == "harnesses.agent"
    assert PersistentState.__module__ == "harnesses.state"


def test_the_modules_hold_the_types_that_the_package_exports() -> None:
    classes: Sequence[type] = (Step, StateDelta, LoadedContext, StepYield)

    assert {cls.__module__ for cls in classes} == {"harnesses.step"}
    assert HarnessConfig.__module__ == "harnesses.config"
    assert Constraints is nouns.Constraints


def test_the_package_exports_the_primitives() -> None:
    assert {"BaseHarness", "Agent", "PersistentState"} <= set(harnesses.__all__)


def test_the_package_exports_the_types() -> None:
    names = {"Step", "StateDelta", "Constraints", "LoadedContext", "HarnessConfig", "StepYield", "AgentRun"}

    assert names <= set(harnesses.__all__)
    assert all(hasattr(harnesses, name) for name in harnesses.__all__)
