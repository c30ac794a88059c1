"""Whatever a server sends, a reader either reads it or raises an error of model calls."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesses.agents.model.errors import ProviderError
from harnesses.agents.model.messages import ModelResponse
from harnesses.agents.model.providers.anthropic_provider import MessageReader
from harnesses.agents.model.providers.openai_chat_provider import ChunkReader
from harnesses.agents.model.providers.openai_responses_provider import ItemReader

NAMES = """type index message content_block delta usage error id model text thinking signature data input name partial_json
stop_reason input_tokens output_tokens output_tokens_details choices finish_reason content refusal reasoning tool_calls
function
arguments prompt_tokens_details cached_tokens item output_index response output call_id summary code status encrypted_content
incomplete_details reason resets_at resets_in_seconds"""
WORDS = """message_start content_block_start content_block_delta message_delta message_stop error text tool_use thinking stop
redacted_thinking end_turn response.output_item.added response.output_item.done response.output_text.delta function_call
message
response.function_call_arguments.delta response.completed response.incomplete response.failed"""
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 1 << 70)
    | st.floats(allow_nan=False)
    | st.sampled_from(WORDS.split())
    | st.text(max_size=5)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=5),
    max_leaves=20,
)
EVENTS = st.lists(
    st.builds(
        lambda kind, rest: msgspec.json.encode({**rest, "type": kind}),
        st.sampled_from(WORDS.split()),
        st.dictionaries(st.sampled_from(NAMES.split()), VALUES, max_size=6),
    )
    | st.binary(max_size=20)
    | st.just(b"[DONE]"),
    max_size=8,
)


@pytest.mark.parametrize("reader", [MessageReader, ChunkReader, ItemReader])
@given(events=EVENTS)
def test_any_events_are_read_or_are_an_error_of_model_calls(reader: Any, events: list[bytes]) -> None:
    one = reader("p", "m")
    with suppress(ProviderError):
        for event in events:
            list(one.read(event))
    one.end()
    response = one.finish()

    assert msgspec.json.decode(msgspec.json.encode(response), type=ModelResponse) == response
