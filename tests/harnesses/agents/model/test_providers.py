"""What each provider sends, and how it reads what comes: messages, tools, results, thinking, options, usage, stop reasons."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from harnesses.agents.model.errors import (
    ContextTooLong,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
    UsageLimitReached,
)
from harnesses.agents.model.messages import (
    Message,
    ModelOptions,
    ModelRequest,
    ModelResponse,
    ModelUsage,
    Role,
    StopReason,
    StreamEvent,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolDefinition,
    ToolResult,
)
from harnesses.agents.model.providers import anthropic_provider, openai_chat_provider, openai_responses_provider
from harnesses.agents.model.providers.anthropic_provider import MessageReader
from harnesses.agents.model.providers.openai_chat_provider import ChunkReader
from harnesses.agents.model.providers.openai_responses_provider import ItemReader
from harnesses.agents.model.providers.response_stream import AnswerReader

SCHEMA = '{"type":"object","properties":{"path":{"type":"string"}}}'
TOOL = ToolDefinition(name="read", description="Reads.", input_schema=SCHEMA)
TALK = (
    Message(role=Role.SYSTEM, text="Be brief."),
    Message(role=Role.USER, text="Compare a and b."),
    Message(
        role=Role.ASSISTANT,
        text="I read both.",
        thinking=(
            Thinking(text="so", proof="anthropic:SIG"),
            Thinking(proof="anthropic-redacted:DATA"),
            Thinking(text="well", proof="openai:rs_1:CRYPT"),
            Thinking(text="unproven"),
        ),
        calls=(
            ToolCall(id="c1", name="read", arguments='{"path":"a"}'),
            ToolCall(id="c2", name="read", arguments='{"path": '),
        ),
    ),
    Message(
        role=Role.TOOL,
        results=(
            ToolResult(call_id="c1", name="read", text="A"),
            ToolResult(call_id="c2", name="read", text="malformed arguments", is_error=True),
        ),
    ),
    Message(role=Role.USER, text="Now answer."),
)


def request(*messages: Message, **options: Any) -> ModelRequest:
    return ModelRequest(
        model="some-model",
        messages=messages or TALK,
        tools=(TOOL,),
        options=ModelOptions(**options),
        metadata={"user_id": "u"},
    )


# requests


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-5-5"])
@pytest.mark.parametrize(("choice", "sent"), [("read", "auto"), ("required", "auto"), ("none", "none"), ("auto", "auto")])
def test_a_model_of_anthropic_that_thinks_is_not_forced_to_use_a_tool(model: str, choice: str, sent: str) -> None:
    thinking = evolve(request(tool_choice=choice, reasoning="medium", max_tokens=8_192), model=model)
    body = anthropic_provider.body_of(thinking)
    assert "thinking" in body
    assert body["tool_choice"] == {"type": sent}


def test_anthropic_is_sent_the_whole_conversation_with_the_begin_and_the_end_cached() -> None:
    assert anthropic_provider.body_of(request(tool_choice="read", max_tokens=99, temperature=0.5, stop=("END",))) == {
        "model": "some-model",
        "max_tokens": 99,
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u"},
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [
            {
                "name": "read",
                "description": "Reads.",
                "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
            }
        ],
        "tool_choice": {"type": "tool", "name": "read"},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Compare a and b."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "so", "signature": "SIG"},
                    {"type": "redacted_thinking", "data": "DATA"},
                    {"type": "text", "text": "I read both."},
                    {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
                    {"type": "tool_use", "id": "c2", "name": "read", "input": {"malformed": '{"path": '}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "is_error": False,
                        "content": [{"type": "text", "text": "A"}],
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "c2",
                        "is_error": True,
                        "content": [{"type": "text", "text": "malformed arguments"}],
                    },
                    {"type": "text", "text": "Now answer.", "cache_control": {"type": "ephemeral"}},
                ],
            },
        ],
    }


def test_chat_completions_are_sent_the_whole_conversation() -> None:
    body = openai_chat_provider.body_of(request(tool_choice="read", max_tokens=99, stop=("END",)), is_openai=True)

    assert body == {
        "model": "some-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 99,
        "stop": ["END"],
        "user": "u",
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read",
                    "description": "Reads.",
                    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
                },
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "read"}},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Compare a and b."},
            {
                "role": "assistant",
                "content": "I read both.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}},
                    {"id": "c2", "type": "function", "function": {"name": "read", "arguments": '{"path": '}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "A"},
            {"role": "tool", "tool_call_id": "c2", "content": "Error: malformed arguments"},
            {"role": "user", "content": "Now answer."},
        ],
    }


def test_responses_are_sent_the_whole_conversation_with_encrypted_reasoning() -> None:
    body = openai_responses_provider.body_of(request(tool_choice="required", reasoning="low", max_tokens=99))

    assert body == {
        "model": "some-model",
        "stream": True,
        "store": False,
        "instructions": "Be brief.",
        "max_output_tokens": 99,
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "metadata": {"user_id": "u"},
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Reads.",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
                "strict": False,
            }
        ],
        "tool_choice": "required",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Compare a and b."}]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "well"}],
                "encrypted_content": "CRYPT",
            },
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I read both."}]},
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"a"}'},
            {"type": "function_call", "call_id": "c2", "name": "read", "arguments": '{"path": '},
            {"type": "function_call_output", "call_id": "c1", "output": "A"},
            {"type": "function_call_output", "call_id": "c2", "output": "Error: malformed arguments"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Now answer."}]},
        ],
    }


@pytest.mark.parametrize(
    ("choice", "anthropic", "openai"),
    [("auto", {"type": "auto"}, "auto"), ("none", {"type": "none"}, "none"), ("required", {"type": "any"}, "required")],
)
def test_the_choice_of_tools_has_its_name_in_each_protocol(choice: str, anthropic: object, openai: str) -> None:
    assert anthropic_provider.body_of(request(tool_choice=choice))["tool_choice"] == anthropic
    assert openai_chat_provider.body_of(request(tool_choice=choice), is_openai=True)["tool_choice"] == openai
    assert openai_responses_provider.body_of(request(tool_choice=choice))["tool_choice"] == openai


@pytest.mark.parametrize(
    ("model", "effort", "max_tokens", "sent"),
    [
        ("claude-opus-5", "high", 100, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ("claude-sonnet-4-6", "low", 100, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ("claude-sonnet-4-5-20250929", "medium", 9_000, {"thinking": {"type": "enabled", "budget_tokens": 4_096}}),
        ("claude-haiku-4-5", "high", 9_000, {"thinking": {"type": "enabled", "budget_tokens": 8_999}}),
        ("claude-opus-4-20250514", "low", 500, {}),
        ("claude-opus-5", None, 100, {}),
    ],
)
def test_claude_is_asked_to_think_as_its_model_wants(model: str, effort: str | None, max_tokens: int, sent: object) -> None:
    asked = ModelRequest(model=model, messages=TALK, options=ModelOptions(reasoning=effort, max_tokens=max_tokens))
    body = anthropic_provider.body_of(asked)

    assert {name: body[name] for name in ("thinking", "output_config") if name in body} == sent


def test_a_compatible_server_is_sent_the_older_name_of_the_limit() -> None:
    assert openai_chat_provider.body_of(request(max_tokens=5), is_openai=False)["max_tokens"] == 5


@pytest.mark.parametrize(("model", "is_asked"), [("gpt-5.6", True), ("o4-mini", True), ("gpt-4.1", False)])
def test_encrypted_reasoning_is_only_asked_of_models_that_reason(model: str, is_asked: bool) -> None:
    assert ("include" in openai_responses_provider.body_of(ModelRequest(model=model, messages=TALK))) is is_asked


def test_responses_refuse_stop_sequences() -> None:
    with pytest.raises(RequestRejected, match="use `openai-chat:`"):
        openai_responses_provider.body_of(request(stop=("END",)))


def test_ids_of_another_provider_are_sent_to_anthropic_in_its_form() -> None:
    call = ToolCall(id="functions.read:0", name="read")
    answered = Message(role=Role.TOOL, results=(ToolResult(call_id=call.id, name="read", text="A"),))
    sent = anthropic_provider.body_of(request(Message(role=Role.ASSISTANT, calls=(call,)), answered))["messages"]

    assert sent[0]["content"][0]["id"] == sent[1]["content"][0]["tool_use_id"] == "functions_read_0"


def test_empty_texts_are_not_sent_to_anthropic() -> None:
    body = anthropic_provider.body_of(
        request(Message(role=Role.SYSTEM, text=" "), Message(role=Role.USER, text="hi"), Message(role=Role.ASSISTANT))
    )

    assert "system" not in body
    assert [message["role"] for message in body["messages"]] == ["user"]


# answers


def read(reader: AnswerReader, *datas: str) -> tuple[list[StreamEvent], ModelResponse]:
    deltas = [event for data in datas for event in reader.read(data.encode())]
    assert reader.is_complete
    return deltas, reader.finish()


def test_an_answer_of_anthropic_is_read() -> None:
    deltas, response = read(
        MessageReader("anthropic", "asked"),
        '{"type":"message_start","message":{"id":"msg_1","model":"claude-x","usage":{"input_tokens":3,'
        '"cache_read_input_tokens":40,"cache_creation_input_tokens":5,"output_tokens":1}}}',
        '{"type":"ping"}',
        '{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"see."}}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"SIG"}}',
        '{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"DATA"}}',
        '{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}',
        '{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"I read."}}',
        '{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{}}}',
        '{"type":"content_block_start","index":3,"content_block":{"type":"hologram","text":"no"}}',
        '{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"no"}}',
        '{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"t1","name":"read","input":{}}}',
        '{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\\"path\\":"}}',
        '{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"\\"a\\"}"}}',
        '{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"t2","name":"list","input":{}}}',
        '{"type":"a_kind_of_next_year","index":5}',
        '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":50,'
        '"output_tokens_details":{"thinking_tokens":30}}}',
        '{"type":"message_stop"}',
    )

    assert deltas == [
        ThinkingDelta("Let me "),
        ThinkingDelta("see."),
        TextDelta("I read."),
        ToolCallDelta("t1", "read", ""),
        ToolCallDelta("t1", "read", '{"path":'),
        ToolCallDelta("t1", "read", '"a"}'),
        ToolCallDelta("t2", "list", ""),
    ]
    assert response == ModelResponse(
        provider="anthropic",
        model="claude-x",
        message=Message(
            role=Role.ASSISTANT,
            text="I read.",
            thinking=(Thinking(text="Let me see.", proof="anthropic:SIG"), Thinking(proof="anthropic-redacted:DATA")),
            calls=(
                ToolCall(id="t1", name="read", arguments='{"path":"a"}'),
                ToolCall(id="t2", name="list", arguments="{}"),
            ),
        ),
        stop_reason=StopReason.TOOL_USE,
        usage=ModelUsage(input_tokens=48, output_tokens=50, cached_tokens=40, cache_write_tokens=5, reasoning_tokens=30),
        response_id="msg_1",
    )


def test_a_block_of_anthropic_whose_index_comes_twice_is_kept() -> None:
    begun = '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"%s"}}'
    end = ('{"type":"message_delta","delta":{"stop_reason":"end_turn"}}', '{"type":"message_stop"}')
    _, response = read(MessageReader("anthropic", "asked"), begun % "one", begun % "two", *end)

    assert response.message.text == "onetwo"


def test_an_answer_of_chat_completions_is_read() -> None:
    deltas, response = read(
        ChunkReader("openai-chat", "asked"),
        '{"id":"c_1","model":"gpt-x","choices":[{"delta":{"role":"assistant","content":null}}]}',
        '{"id":"c_1","choices":[{"delta":{"reasoning_content":"Let me see."}}]}',
        '{"id":"c_1","choices":[{"delta":{"content":"I read."}}]}',
        '{"id":"c_1","choices":[{"delta":{"tool_calls":[{"index":0,"id":"t1","function":{"name":"read","arguments":""}}]}}]}',
        '{"id":"c_1","choices":[{"delta":{"tool_calls":[{"index":1,"id":"t2","function":{"name":"list","arguments":"{}"}}]}}]}',
        '{"id":"c_1","choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"path\\":\\"a\\"}"}}]}}]}',
        '{"id":"c_1","choices":[{"delta":{},"finish_reason":"tool_calls"}]}',
        '{"id":"c_1","choices":[],"usage":{"prompt_tokens":48,"completion_tokens":50,"prompt_tokens_details":'
        '{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":30}}}',
        "[DONE]",
    )

    assert deltas == [
        ThinkingDelta("Let me see."),
        TextDelta("I read."),
        ToolCallDelta("t1", "read", ""),
        ToolCallDelta("t2", "list", "{}"),
        ToolCallDelta("t1", "read", '{"path":"a"}'),
    ]
    assert response == ModelResponse(
        provider="openai-chat",
        model="gpt-x",
        message=Message(
            role=Role.ASSISTANT,
            text="I read.",
            thinking=(Thinking(text="Let me see."),),
            calls=(
                ToolCall(id="t1", name="read", arguments='{"path":"a"}'),
                ToolCall(id="t2", name="list", arguments="{}"),
            ),
        ),
        stop_reason=StopReason.TOOL_USE,
        usage=ModelUsage(input_tokens=48, output_tokens=50, cached_tokens=40, reasoning_tokens=30),
        response_id="c_1",
    )


def test_calls_of_a_server_without_indexes_and_ids_are_told_apart() -> None:
    _, response = read(
        ChunkReader("openai-chat", "asked"),
        '{"id":"c","choices":[{"delta":{"tool_calls":[{"function":{"name":"read","arguments":"{\\"a\\":1}"}},'
        '{"function":{"name":"read","arguments":"{\\"a\\":2}"}}]}}]}',
        '{"id":"c","choices":[{"delta":{},"finish_reason":"stop"}]}',
        "[DONE]",
    )

    assert [(call.id, call.arguments) for call in response.message.calls] == [
        ("call_c_0", '{"a":1}'),
        ("call_c_1", '{"a":2}'),
    ]
    assert response.stop_reason is StopReason.TOOL_USE


def test_calls_of_a_server_that_gives_each_the_index_0_are_told_apart_by_their_ids() -> None:
    chunk = '{"id":"c","choices":[{"delta":{"tool_calls":[{"index":0,%s"function":{%s"arguments":"%s"}}]}}]}'
    deltas, response = read(
        ChunkReader("openai-chat", "asked"),
        chunk % ('"id":"t1",', '"name":"read",', "{"),
        chunk % ("", "", "}"),
        chunk % ('"id":"t2",', '"name":"list",', "["),
        chunk % ("", "", "]"),
        chunk % ('"id":"t1",', '"name":"read",', " "),
        chunk % ('"id":"t2-of-this-piece",', "", " "),
        '{"id":"c","choices":[{"delta":{},"finish_reason":"tool_calls"}]}',
        "[DONE]",
    )

    assert [(call.id, call.name, call.arguments) for call in response.message.calls] == [
        ("t1", "read", "{} "),
        ("t2", "list", "[] "),
    ]
    assert [delta.call_id for delta in deltas if isinstance(delta, ToolCallDelta)] == ["t1", "t1", "t2", "t2", "t1", "t2"]


def test_an_answer_of_responses_is_read() -> None:
    deltas, response = read(
        ItemReader("openai", "asked"),
        '{"type":"response.created","response":{"id":"resp_1","model":"gpt-x"}}',
        '{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}',
        '{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"Let me see."}',
        '{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1",'
        '"summary":[{"type":"summary_text","text":"Let me see."}],"encrypted_content":"CRYPT"}}',
        '{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"m_1","content":[]}}',
        '{"type":"response.output_text.delta","output_index":1,"delta":"I read."}',
        '{"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"m_1",'
        '"content":[{"type":"output_text","text":"I read."}]}}',
        '{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"f","call_id":"t1",'
        '"name":"read","arguments":""}}',
        '{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\\"path\\":\\"a\\"}"}',
        '{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"f","call_id":"t1",'
        '"name":"read","arguments":"{\\"path\\":\\"a\\"}"}}',
        '{"type":"response.a_kind_of_next_year","delta":{"text":"no"}}',
        '{"type":"response.completed","response":{"id":"resp_1","model":"gpt-x","output":[],"usage":{"input_tokens":48,'
        '"output_tokens":50,"input_tokens_details":{"cached_tokens":40,"cache_write_tokens":5},'
        '"output_tokens_details":{"reasoning_tokens":30}}}}',
    )

    assert deltas == [
        ThinkingDelta("Let me see."),
        TextDelta("I read."),
        ToolCallDelta("t1", "read", ""),
        ToolCallDelta("t1", "read", '{"path":"a"}'),
    ]
    assert response == ModelResponse(
        provider="openai",
        model="gpt-x",
        message=Message(
            role=Role.ASSISTANT,
            text="I read.",
            thinking=(Thinking(text="Let me see.", proof="openai:rs_1:CRYPT"),),
            calls=(ToolCall(id="t1", name="read", arguments='{"path":"a"}'),),
        ),
        stop_reason=StopReason.TOOL_USE,
        usage=ModelUsage(input_tokens=48, output_tokens=50, cached_tokens=40, cache_write_tokens=5, reasoning_tokens=30),
        response_id="resp_1",
    )


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("end_turn", StopReason.END_TURN),
        ("stop_sequence", StopReason.END_TURN),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("tool_use", StopReason.TOOL_USE),
        ("refusal", StopReason.REFUSAL),
        ("pause_turn", StopReason.PAUSED),
        ("a_reason_of_next_year", StopReason.OTHER),
    ],
)
def test_anthropic_says_why_it_stops(said: str, meant: StopReason) -> None:
    stop = f'{{"type":"message_delta","delta":{{"stop_reason":"{said}"}}}}'
    _, response = read(
        MessageReader("anthropic", "m"), '{"type":"message_start","message":{}}', stop, '{"type":"message_stop"}'
    )

    assert response.stop_reason is meant
    assert response.message == Message(role=Role.ASSISTANT)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("stop", StopReason.END_TURN),
        ("length", StopReason.MAX_TOKENS),
        ("function_call", StopReason.TOOL_USE),
        ("content_filter", StopReason.REFUSAL),
        ("vanished", StopReason.OTHER),
    ],
)
def test_chat_completions_say_why_they_stop(said: str, meant: StopReason) -> None:
    _, response = read(ChunkReader("p", "m"), f'{{"choices":[{{"finish_reason":"{said}"}}]}}', "[DONE]")

    assert response.stop_reason is meant


@pytest.mark.parametrize(
    ("details", "output", "meant"),
    [
        ("null", "[]", StopReason.END_TURN),
        ('{"reason":"max_output_tokens"}', "[]", StopReason.MAX_TOKENS),
        ('{"reason":"content_filter"}', "[]", StopReason.REFUSAL),
        ('{"reason":"weather"}', "[]", StopReason.OTHER),
        ("null", '[{"type":"message","content":[{"type":"refusal","refusal":"No."}]}]', StopReason.REFUSAL),
    ],
)
def test_responses_say_why_they_stop(details: str, output: str, meant: StopReason) -> None:
    event = f'{{"type":"response.incomplete","response":{{"incomplete_details":{details},"output":{output}}}}}'
    _, response = read(ItemReader("p", "m"), event)

    assert response.stop_reason is meant


def test_a_refusal_in_chat_is_a_refusal_with_its_text() -> None:
    deltas, response = read(
        ChunkReader("p", "m"), '{"choices":[{"delta":{"refusal":"No."},"finish_reason":"stop"}]}', "[DONE]"
    )

    assert deltas == [TextDelta("No.")]
    assert (response.message.text, response.stop_reason) == ("No.", StopReason.REFUSAL)


@pytest.mark.parametrize(
    ("reader", "data", "kind"),
    [
        (MessageReader, '{"type":"error","error":{"type":"overloaded_error","message":"busy"}}', ProviderUnavailable),
        (MessageReader, '{"type":"error","error":{"type":"rate_limit_error","message":"busy"}}', RateLimited),
        (
            MessageReader,
            '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 5"}}',
            ContextTooLong,
        ),
        (ChunkReader, '{"error":{"message":"busy","code":502}}', ProviderUnavailable),
        (ChunkReader, '{"error":{"message":"busy","type":"server_error"}}', ProviderUnavailable),
        (ChunkReader, '{"error":"busy"}', ProviderUnavailable),
        (
            ItemReader,
            '{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"busy"}}}',
            RateLimited,
        ),
        (ItemReader, '{"type":"error","code":"server_error","message":"busy"}', ProviderUnavailable),
        (
            ItemReader,
            '{"type":"error","error":{"type":"usage_limit_reached","message":"busy","resets_at":1795600000}}',
            UsageLimitReached,
        ),
        (ItemReader, '{"type":"response.failed","response":{}}', ProviderUnavailable),
    ],
)
def test_an_error_within_a_stream_has_its_class(reader: Any, data: str, kind: type[ProviderError]) -> None:
    with pytest.raises(ProviderError) as caught:
        list(reader("p", "m").read(data.encode()))

    assert type(caught.value) is kind
    assert caught.value.provider == "p"
