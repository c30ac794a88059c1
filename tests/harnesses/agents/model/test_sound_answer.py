"""Laws of what becomes of a model's answer that no budget could charge, or no provider takes back."""

from __future__ import annotations

import logging
import re

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from harnesses.agents.model.messages import Message, ModelRequest, ModelUsage, Role, ToolCall, ToolCallDelta, ToolDefinition
from harnesses.agents.model.model_client import ModelClient
from harnesses.agents.model.sound_answer import MOST_TOKENS, sound_answer
from tests.harnesses.agents.chat.scripted_model import scripted
from tests.harnesses.agents.model.provider_dialects import REQUEST, Dialect, each_dialect
from tests.harnesses.agents.model.raw_server import raw_server
from tests.harnesses.agents.model.scripted_provider import response

LOOK = ToolDefinition(name="look_up", description="Looks up.", input_schema='{"type":"object"}')
IDS = st.sampled_from(["", "c1", "c2", "call_1", "call_2", "call_3", "a b", "x" * 65, "\x1b[31m"]) | st.text(max_size=5)
NAMES = st.sampled_from(["look_up", "look up", "look_up\n", "unknown_a", "a!", "", "x" * 65]) | st.text(max_size=5)
CALLS = st.lists(st.builds(ToolCall, id=IDS, name=NAMES), max_size=5).map(tuple)


def asked(calls: tuple[ToolCall, ...]) -> ModelRequest:
    earlier = (Message(role=Role.USER, text="hello"), Message(role=Role.ASSISTANT, calls=calls))
    return ModelRequest(model="m", messages=earlier, tools=(LOOK, evolve(LOOK, name="unknown_a")))


@given(first=CALLS, second=CALLS)
def test_ids_and_names_of_calls_can_be_sent_back(first: tuple[ToolCall, ...], second: tuple[ToolCall, ...]) -> None:
    def sound(before: tuple[ToolCall, ...], calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        answer = evolve(response(), message=Message(role=Role.ASSISTANT, calls=calls))
        made = sound_answer(asked(before), answer)
        assert made == sound_answer(asked(before), answer) == sound_answer(asked(before), made)
        return made.message.calls

    earlier = sound((), first)
    calls = (*earlier, *sound(earlier, second))

    assert len({call.id for call in calls}) == len(first) + len(second)
    assert all(re.fullmatch("[A-Za-z0-9_.:-]{1,64}", call.id) for call in calls)
    for call, told in zip(calls, (*first, *second), strict=True):
        assert re.fullmatch("[A-Za-z0-9_-]{1,64}", call.name)
        assert call.name == told.name or call.name not in ("look_up", "unknown_a")


def test_ids_and_names_that_are_well_formed_are_kept() -> None:
    calls = (ToolCall(id="functions.look_up:0", name="look_up"), ToolCall(id="toolu_01", name="nope"))
    answer = evolve(response(), message=Message(role=Role.ASSISTANT, calls=calls))

    assert sound_answer(asked(()), answer) is answer


async def test_what_is_streamed_of_a_call_has_the_id_and_name_that_are_recorded() -> None:
    calls = (ToolCall(id="a b", name="look up", arguments="{}"), ToolCall(id="c1", name="look_up", arguments="{}"))
    given = evolve(response(), message=Message(role=Role.ASSISTANT, calls=calls))
    told = list[object]()

    call = await ModelClient([(scripted(given), "m")]).call(asked((ToolCall(id="c1", name="look_up"),)), tell=told.append)

    streamed = [(event.call_id, event.name) for event in told if isinstance(event, ToolCallDelta)]
    assert streamed == [(one.id, one.name) for one in call.response.message.calls]
    assert streamed == [("call_2", "unknown_look_up"), ("call_3", "look_up")]


def test_the_parts_of_a_usage_are_no_more_than_the_whole() -> None:
    told = ModelUsage(input_tokens=10, output_tokens=5, cached_tokens=MOST_TOKENS, cache_write_tokens=9, reasoning_tokens=6)

    usage = sound_answer(REQUEST, response(usage=told)).usage

    assert usage == ModelUsage(input_tokens=10, output_tokens=5, cached_tokens=10, reasoning_tokens=5)


@each_dialect
@pytest.mark.parametrize("count", [b"-3", b"2.5", b"1" + b"0" * 30, b'"3"', b"[3]"])
async def test_an_answer_whose_usage_makes_no_sense_is_kept_and_charged_by_an_estimate(
    dialect: Dialect, count: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    parts = [re.sub(rb'("[a-z]*_tokens"):[0-9]', rb"\1:" + count, part) for part in dialect.parts]
    async with raw_server(*parts) as server:
        client = ModelClient([(dialect.make(server.url), "m")], prices={"*": {"input": 1, "output": 1}})
        with caplog.at_level(logging.WARNING):
            calls = [await client.call(REQUEST) for _ in range(2)]

    assert [call.response.message.text for call in calls] == ["Hello world"] * 2
    assert calls[0].response.usage == ModelUsage()
    assert calls[0].usage.estimated_tokens == calls[0].usage.total_tokens > 10
    assert [record.getMessage() for record in caplog.records if "token counts" in record.getMessage()] == [
        f"{dialect.make(server.url).id}:m reports no usable token counts: they are estimated"
    ]
