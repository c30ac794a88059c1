"""Laws of `Agent`: a named function of one `AgentRun`, called once for each `run`."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from harnesses import Agent, AgentRun, LoadedContext


async def echo(run: AgentRun[Any, str]) -> str:
    return run.input


async def test_history_and_constraints_are_empty_unless_given() -> None:
    told: list[AgentRun[int, str]] = []

    async def remember(run: AgentRun[int, str]) -> None:
        told.append(run)

    await Agent(remember).run(input="question", context=LoadedContext(7), step_number=3)

    assert len(told) == 1
    assert tuple(told[0].step_history) == ()
    assert told[0].constraints == {}


async def test_constraints_reach_the_function() -> None:
    async def limit(run: AgentRun[int, str]) -> object:
        return run.constraints["max_drawdown"]

    answer = await Agent(limit).run(input="", context=LoadedContext(0), step_number=1, constraints={"max_drawdown": 0.1})

    assert answer == 0.1


async def test_an_error_of_the_function_is_the_callers() -> None:
    async def fail(run: AgentRun[int, str]) -> None:
        raise LookupError(run.input)

    with pytest.raises(LookupError, match="no such market"):
        await Agent(fail).run(input="no such market", context=LoadedContext(0), step_number=1)


async def test_an_agent_is_cancelled_with_its_caller(autojump_clock: MockClock) -> None:
    async def think(run: AgentRun[int, str]) -> None:
        await trio.sleep_forever()

    with trio.move_on_after(1) as patience:
        await Agent(think).run(input="", context=LoadedContext(0), step_number=1)

    assert patience.cancelled_caught


async def test_everything_is_given_by_name() -> None:
    with pytest.raises(TypeError):
        await Agent(echo).run("question", LoadedContext(0), 1)  # type: ignore[call-arg]


def test_an_empty_name_is_kept() -> None:
    assert Agent(echo, name="").name == ""


def test_an_agent_shows_its_name() -> None:
    assert repr(Agent(echo, name="reviewer")) == "<Agent 'reviewer'>"


@pytest.mark.parametrize(("answer", "complete"), [(1, True), (0, False), ("yes", True), (None, False)])
def test_the_answer_of_a_predicate_is_true_or_false(answer: object, complete: bool) -> None:
    agent: Agent[object, str, str] = Agent(echo, is_complete=lambda state: state)  # type: ignore[arg-type, return-value]

    assert agent.is_complete(answer) is complete


async def test_who_listens_to_an_agent_is_no_part_of_what_it_is_told():
    heard: list[str] = []

    async def echo(run: AgentRun) -> AgentRun:
        run.log("line")
        return run

    listened = await Agent(echo).run(input=1, context=LoadedContext(0), step_number=1, log=heard.append)
    alone = await Agent(echo).run(input=1, context=LoadedContext(0), step_number=1)

    assert listened == alone == AgentRun(input=1, context=LoadedContext(0), step_number=1)
    assert heard == ["line"]
