"""The values of a conversation come back unchanged from JSON, and the opaque parts of them from redaction."""

from __future__ import annotations

import base64
import random

import msgspec

from harnesses.agents.model.messages import Message, ModelResponse, ModelUsage, Role, StopReason, Thinking, ToolCall
from harnesses.redaction import redact, redact_text


def response(proof: str) -> ModelResponse:
    return ModelResponse(
        provider="anthropic",
        model="claude-sonnet-5",
        message=Message(
            role=Role.ASSISTANT,
            text="hm",
            thinking=(Thinking(text="so", proof=proof),),
            calls=(ToolCall(id="toolu_1", name="read", arguments='{"path":"a"}'),),
        ),
        stop_reason=StopReason.TOOL_USE,
        usage=ModelUsage(input_tokens=3, output_tokens=2),
    )


def test_the_proof_of_thinking_is_not_redacted() -> None:
    """A provider refuses a conversation whose proofs have changed, and results of effects are redacted."""
    chance = random.Random(1)
    for _ in range(50):
        answer = response("anthropic:" + base64.b64encode(chance.randbytes(700)).decode())
        text = msgspec.json.encode(answer).decode()

        assert redact(answer) is answer
        assert redact_text(text) == text
        assert msgspec.json.decode(text, type=ModelResponse) == answer
