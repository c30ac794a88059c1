"""Messages of transcripts in the formats of other programs, as plain data, one object for each message. Pure.

openai     Chat Completions, `messages`. Source: https://platform.openai.com/docs/api-reference/chat/create. The format has no
           place for reasoning and for failures of tools: reasoning is left out, an error is the content of the tool's message
inspect    Inspect AI, `ChatMessage` in an eval log. Source: https://inspect.aisi.org.uk/reference/inspect_ai.model.html#messages
           and https://inspect.aisi.org.uk/eval-logs.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from harnesses.agents.model.messages import Message, Role, Thinking, ToolCall
from harnesses.agents.model.transcript import ModelRound, Transcript
from harnesses.data.json_depth import MAX_LEVELS, is_too_deep


def openai_messages(transcript: Transcript) -> Iterator[dict[str, Any]]:
    """Yield the messages of a transcript as Chat Completions takes them."""
    for message in transcript.messages:
        if message.role is Role.TOOL:
            for result in message.results:
                yield {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
        elif message.calls:
            calls = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.calls
            ]
            yield {"role": "assistant", "content": message.text or None, "tool_calls": calls}
        else:
            yield {"role": message.role.value, "content": message.text}


def inspect_messages(transcript: Transcript) -> Iterator[dict[str, Any]]:
    """Yield the messages of a transcript as an eval log of Inspect AI has them."""
    rounds = {each.message: each for each in transcript.rounds}
    for place, message in enumerate(transcript.messages):
        if message.role is Role.TOOL:
            for result in message.results:
                said = {"role": "tool", "content": result.text, "tool_call_id": result.call_id, "function": result.name}
                yield said | ({"error": {"type": "unknown", "message": result.text}} if result.is_error else {})
        elif message.role is Role.ASSISTANT:
            yield _inspect_answer(message, rounds.get(place))
        else:
            yield {"role": message.role.value, "content": message.text, "source": "input"}


def _inspect_answer(message: Message, answered: ModelRound | None) -> dict[str, Any]:
    text = [{"type": "text", "text": message.text}] if message.text else []
    content: Any = [*map(_reasoning, message.thinking), *text] if message.thinking else message.text
    calls = {"tool_calls": [_inspect_call(call) for call in message.calls]} if message.calls else {}
    model = {"model": answered.model.replace(":", "/", 1)} if answered is not None else {}
    return {"role": "assistant", "content": content, "source": "generate", **calls, **model}


def _reasoning(thinking: Thinking) -> dict[str, Any]:
    signature = {"signature": thinking.proof} if thinking.proof else {}
    return {"type": "reasoning", "reasoning": thinking.text, "redacted": not thinking.text, **signature}


def _inspect_call(call: ToolCall) -> dict[str, Any]:
    said = {"id": call.id, "function": call.name, "type": "function"}
    if is_too_deep(call.arguments):
        return said | {"arguments": {}, "parse_error": f"nested in more than {MAX_LEVELS} levels: {call.arguments}"}
    try:
        return said | {"arguments": msgspec.json.decode(call.arguments or "{}", type=dict[str, Any])}
    except msgspec.DecodeError as error:
        return said | {"arguments": {}, "parse_error": f"{error}: {call.arguments}"}


FORMATS: Mapping[str, Callable[[Transcript], Iterator[dict[str, Any]]]] = {
    "openai": openai_messages,
    "inspect": inspect_messages,
}
"""The formats by name."""
