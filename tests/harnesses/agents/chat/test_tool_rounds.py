"""Laws of the rounds of a turn: what the model is told of tools and their results, and how the turn ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from harnesses import LoadedContext
from harnesses.agents.chat.chat_policy import ChatPolicy
from harnesses.agents.chat.model_agent import ModelAgent
from harnesses.agents.chat.typed_answer import ANSWER_TOOL
from harnesses.agents.model.messages import ModelRequest, Role, StopReason
from harnesses.agents.tools.function_tool import FunctionTool, tool
from harnesses.agents.tools.tool import ToolEffect
from harnesses.budgets.budget import Budget
from harnesses.errors import BudgetExhausted, HarnessMisuse
from tests.harnesses.agents.chat.scripted_model import ScriptedProvider, calls, says, scripted

made: list[str] = []


@tool(effect=ToolEffect.READS)
async def look(at: str) -> str:
    """Look at something."""
    made.append(at)
    await trio.sleep(1)
    return f"{at} is fine"


@tool
async def fail(at: str = "") -> str:
    """Fail."""
    raise ValueError(f"{at} is broken")


@pytest.fixture(autouse=True)
def _empty() -> None:
    made.clear()


async def ask(provider: ScriptedProvider, *tools: FunctionTool | Callable[..., Any], **options: Any) -> Any:
    agent = ModelAgent(provider.client(), tools=tools, **options)
    return await agent.run(input="Do it.", context=LoadedContext(None), step_number=1)


def look_at(*places: str) -> Any:
    return says("", *(calls("look", f'{{"at": "{at}"}}', f"c{at}") for at in places))


async def test_the_tools_are_sent_with_every_request(autojump_clock: object) -> None:
    provider = scripted(look_at("a"), says("done"))

    await ask(provider, look)

    assert [[one.name for one in request.tools] for request in provider.requests] == [["look"], ["look"]]


async def test_all_messages_and_all_results_of_all_rounds_are_sent(autojump_clock: object) -> None:
    provider = scripted(look_at("a"), look_at("b"), says("done"))

    assert await ask(provider, look) == "done"

    last = provider.requests[-1].messages
    assert [message.role for message in last[2:]] == [Role.ASSISTANT, Role.TOOL, Role.ASSISTANT, Role.TOOL]
    assert [result.text for message in last for result in message.results] == ["a is fine", "b is fine"]


async def test_a_failing_tool_is_told_to_the_model_and_the_turn_goes_on() -> None:
    provider = scripted(says("", calls("fail", '{"at": "it"}')), says("I see"))

    assert await ask(provider, fail) == "I see"

    told = provider.requests[1].messages[-1].results[0]
    assert told.is_error
    assert "it is broken" in told.text


async def test_results_come_in_the_order_of_the_calls_and_calls_run_side_by_side(autojump_clock: object) -> None:
    provider = scripted(look_at(*"abcdef"), says("done"))
    before = trio.current_time()

    await ask(provider, look)

    assert [result.call_id for result in provider.requests[1].messages[-1].results] == [f"c{at}" for at in "abcdef"]
    assert trio.current_time() - before == pytest.approx(1)


async def test_at_most_so_many_calls_run_at_the_same_time(autojump_clock: object) -> None:
    before = trio.current_time()
    await ask(scripted(look_at(*"abcdef"), says("done")), look, chat=ChatPolicy(max_parallel_tools=2))

    assert trio.current_time() - before == pytest.approx(3)


async def test_at_the_limit_of_rounds_the_model_is_asked_once_without_tools(autojump_clock: object) -> None:
    provider = scripted(*[look_at("a")] * 4, says("what I know", calls("look")))

    assert await ask(provider, look) == "what I know"

    assert len(provider.requests) == 5
    assert [request.options.tool_choice for request in provider.requests] == [None] * 4 + ["none"]
    assert "final answer" in provider.requests[-1].messages[-1].text
    assert made == ["a"] * 4


async def test_without_rounds_no_tool_is_run(autojump_clock: object) -> None:
    provider = scripted(says("as I know", calls("look", '{"at": "a"}')))

    assert await ask(provider, look, max_rounds=0) == "as I know"
    assert made == []
    assert len(provider.requests) == 1


async def test_a_call_that_was_cut_off_is_told_as_such() -> None:
    provider = scripted(says("", calls("fail", '{"at": "it'), stop=StopReason.MAX_TOKENS), says("shorter"))

    assert await ask(provider, fail) == "shorter"
    assert "cut off" in provider.requests[1].messages[-1].results[0].text


@pytest.mark.parametrize("levels", [101, 900, 5_000])
@pytest.mark.parametrize("stop", [StopReason.TOOL_USE, StopReason.MAX_TOKENS])
async def test_arguments_that_are_nested_too_deeply_are_told_to_the_model(levels: int, stop: StopReason) -> None:
    deep = "[" * (levels - 1) + "]" * (levels - 1)
    provider = scripted(
        says("", *(calls(name, f'{{"at": {deep}}}', f"c{name}") for name in ("fail", "unknown")), stop=stop),
        says("", calls(ANSWER_TOOL, f'{{"answer": {deep}}}'), stop=stop),
        says(deep),
        says("[]"),
    )

    assert await ask(provider, fail, answer=list[Any], chat=ChatPolicy(max_corrections=2)) == []

    told = [result.text for request in provider.requests[1:3] for result in request.messages[-1].results]
    assert len(told) == 3
    assert all("100 levels" in text or ("cut off" in text and stop is StopReason.MAX_TOKENS) for text in told)
    assert "100 levels" in provider.requests[3].messages[-1].text


async def test_no_request_has_a_call_without_its_result(autojump_clock: object) -> None:
    def checked(request: ModelRequest) -> Any:
        for message, after in zip(request.messages, request.messages[1:], strict=False):
            assert [call.id for call in message.calls] == [result.call_id for result in after.results]
        return None

    provider = scripted(look_at("a"), says("no JSON", calls("look", id="late")), says("[1]"))
    await ask(provider, look, max_rounds=1, answer=list[int])

    assert len(provider.requests) == 3
    for request in provider.requests:
        checked(request)


async def test_a_budget_of_a_turn_ends_it(autojump_clock: object) -> None:
    with pytest.raises(BudgetExhausted, match="2 tool_calls"):
        await ask(scripted(look_at("a"), look_at("b"), look_at("c")), look, budget=Budget(tool_calls=2))
    with pytest.raises(BudgetExhausted, match="tokens"):
        await ask(scripted(look_at("a")), look, budget=Budget(tokens=9_000))

    assert made == ["a", "b"]


def test_a_budget_of_a_turn_has_no_limit_of_steps() -> None:
    with pytest.raises(HarnessMisuse, match="steps"):
        ModelAgent(scripted(says()).client(), budget=Budget(steps=1))


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(HarnessMisuse, match="'colour'"):
        ModelAgent(scripted(says()).client(), colour="red")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
