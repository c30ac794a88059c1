"""One answer, `Hello world`, in the protocol of each provider, in parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from attrs import field, frozen

from harnesses.agents.model.messages import Message, ModelRequest, Role
from harnesses.agents.model.providers.anthropic_provider import AnthropicProvider
from harnesses.agents.model.providers.credentials import Credential
from harnesses.agents.model.providers.openai_chat_provider import OpenAIChatProvider
from harnesses.agents.model.providers.openai_responses_provider import OpenAIResponsesProvider
from harnesses.agents.model.providers.response_stream import CallLimits
from harnesses.agents.model.providers.sdk_provider import SdkProvider
from tests.harnesses.agents.model.raw_server import events

KEY = "sk-test-0123456789abcdefghij"
REQUEST = ModelRequest(model="some-model", messages=(Message(role=Role.USER, text="hello"),))


@frozen
class Dialect:
    """A provider, and the parts of an answer that it reads."""

    name: str
    provider: type[SdkProvider]
    parts: Sequence[bytes] = field(repr=False)

    def make(self, url: str, limits: CallLimits | None = None) -> SdkProvider:
        return self.provider(base_url=url, key=Credential(KEY), limits=limits)


DIALECTS = (
    Dialect(
        "anthropic",
        AnthropicProvider,
        [
            events(
                '{"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":3,"output_tokens":1}}}',
                '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
                '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello "}}',
            ),
            events(
                '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"world"}}',
                '{"type":"content_block_stop","index":0}',
            ),
            events(
                '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}',
                '{"type":"message_stop"}',
            ),
        ],
    ),
    Dialect(
        "openai-chat",
        OpenAIChatProvider,
        [
            events('{"id":"chat_1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello "}}]}'),
            events('{"id":"chat_1","model":"m","choices":[{"index":0,"delta":{"content":"world"}}]}'),
            events(
                '{"id":"chat_1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
                '{"id":"chat_1","model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}',
                "[DONE]",
            ),
        ],
    ),
    Dialect(
        "openai",
        OpenAIResponsesProvider,
        [
            events(
                '{"type":"response.created","response":{"id":"resp_1","model":"m","output":[]}}',
                '{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","content":[]}}',
                '{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hello "}',
            ),
            events('{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"world"}'),
            events(
                '{"type":"response.completed","response":{"id":"resp_1","model":"m","status":"completed","output":[{"type":'
                '"message","id":"msg_1","content":[{"type":"output_text","text":"Hello world","annotations":[]}]}],'
                '"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}}'
            ),
        ],
    ),
)
each_dialect: Callable[..., pytest.MarkDecorator] = pytest.mark.parametrize(
    "dialect", DIALECTS, ids=[dialect.name for dialect in DIALECTS]
)
