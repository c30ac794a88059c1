"""`OpenAIResponsesProvider`: OpenAI's Responses API, on the SDK `openai` (extra of that name).

Nothing is kept by the provider: each request has the whole conversation, with the reasoning in encrypted form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, ClassVar

import msgspec
from attrs import define, field

from harnesses.agents.model.errors import RequestRejected
from harnesses.agents.model.messages import (
    Message,
    ModelRequest,
    ModelResponse,
    Role,
    StopReason,
    StreamEvent,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
)
from harnesses.agents.model.providers.openai_chat_provider import OPENAI_URL, openai_client, result_text, usage_of
from harnesses.agents.model.providers.provider_failures import Failure, error_of, resets_at
from harnesses.agents.model.providers.sdk_provider import SdkProvider, as_mapping, decoded, kinds_of
from harnesses.timing.clock import now_s

_REASONING = "openai:"
"""Before the id and the encrypted content of a reasoning item."""
_REASONS = re.compile(r"^(?:o\d|gpt-[5-9]|codex)")
"""Models that reason also when no effort is named."""


class OpenAIResponsesProvider(SdkProvider):
    """OpenAI's Responses API. See `SdkProvider` for the arguments."""

    default_id: ClassVar[str] = "openai"
    vendor_id: ClassVar[str] = "openai"
    key_variable: ClassVar[str] = "OPENAI_API_KEY"
    default_url: ClassVar[str] = OPENAI_URL

    def _make_client(self, key: str) -> Any:
        return openai_client(self.id, partial(self._connect, key=key))

    def _send(self, client: Any, request: ModelRequest) -> AbstractAsyncContextManager[Any]:
        # As `extra_body`, which the SDK does not look through: that takes milliseconds for a long conversation.
        sent: AbstractAsyncContextManager[Any] = client.responses.with_streaming_response.create(
            model=request.model, input=[], stream=True, extra_body=body_of(request)
        )
        return sent

    def _reader(self, request: ModelRequest) -> ItemReader:
        return ItemReader(self.id, request.model)


def body_of(request: ModelRequest) -> dict[str, Any]:
    """Return the body of a request.

    Raises:
        RequestRejected: it has `stop`, which this API does not know.
    """
    options = request.options
    if options.stop:
        raise RequestRejected(
            f"openai: stop: expected none, got {options.stop!r}; the Responses API has no stop sequences: use `openai-chat:`"
        )
    body: dict[str, Any] = {
        "model": request.model,
        "input": [item for message in request.messages if message.role is not Role.SYSTEM for item in _items(message)],
        "store": False,
        "stream": True,
    }
    if system := [message.text for message in request.messages if message.role is Role.SYSTEM and message.text.strip()]:
        body["instructions"] = "\n\n".join(system)
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": msgspec.json.decode(tool.input_schema),
                "strict": False,
            }
            for tool in request.tools
        ]
        if options.tool_choice is not None:
            is_mode = options.tool_choice in ("auto", "none", "required")
            body["tool_choice"] = options.tool_choice if is_mode else {"type": "function", "name": options.tool_choice}
    if options.max_tokens is not None:
        body["max_output_tokens"] = options.max_tokens
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.reasoning is not None:
        body["reasoning"] = {"effort": options.reasoning, "summary": "auto"}
    if options.reasoning is not None or _REASONS.match(request.model):
        body["include"] = ["reasoning.encrypted_content"]
    if request.metadata:
        body["metadata"] = dict(request.metadata)
    return body


def _items(message: Message) -> Iterator[dict[str, Any]]:
    """Yield the items of a message."""
    if message.role is Role.USER:
        yield {"type": "message", "role": "user", "content": [{"type": "input_text", "text": message.text}]}
        return
    for thinking in message.thinking:
        if thinking.proof.startswith(_REASONING):
            id, _, content = thinking.proof.removeprefix(_REASONING).partition(":")
            summary = [{"type": "summary_text", "text": thinking.text}] if thinking.text else []
            yield {"type": "reasoning", "id": id, "summary": summary, "encrypted_content": content}
    if message.text and message.role is Role.ASSISTANT:
        yield {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": message.text}]}
    for call in message.calls:
        yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments or "{}"}
    for result in message.results:
        yield {"type": "function_call_output", "call_id": result.call_id, "output": result_text(result)}


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[_Part] | None = None
    summary: list[_Part] | None = None
    encrypted_content: str | None = None


class _Response(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    output: list[_Item] | None = None
    usage: Any = None
    error: Any = None
    incomplete_details: dict[str, Any] | None = None


class _Event(msgspec.Struct):
    """An event of the stream; fields and kinds that are not named here are ignored."""

    type: str = ""
    output_index: int = 0
    delta: Any = None
    item: _Item | None = None
    response: _Response | None = None
    code: str | None = None
    message: str | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Event)
_THINKING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_TEXT = ("response.output_text.delta", "response.refusal.delta")


@define
class ItemReader:
    """Reads the events of one response."""

    provider: str
    model: str
    is_complete: bool = False
    _items: dict[int, _Item] = field(factory=dict[int, _Item])
    _response: _Response = field(factory=_Response)
    _cut_by: str = ""

    def read(self, data: bytes) -> Iterator[StreamEvent]:
        """See `AnswerReader.read`."""
        if data == b"[DONE]":
            return
        event = decoded(_decoder, data, self.provider)
        text = event.delta if isinstance(event.delta, str) else ""
        match event.type:
            case "error":
                said = as_mapping(event.error) or {"code": event.code, "message": event.message}
                raise self._failed(said)
            case "response.failed":
                raise self._failed(as_mapping(event.response.error) if event.response else {})
            case "response.output_item.added" | "response.output_item.done" if event.item is not None:
                self._items[event.output_index] = event.item
                if event.item.type == "function_call" and event.type.endswith("added"):
                    yield ToolCallDelta(event.item.call_id or "", event.item.name or "", "")
            case "response.function_call_arguments.delta" if text and event.output_index in self._items:
                item = self._items[event.output_index]
                yield ToolCallDelta(item.call_id or "", item.name or "", text)
            case "response.completed" | "response.incomplete" if event.response is not None:
                self._response = event.response
                reason = as_mapping(event.response.incomplete_details).get("reason")
                self._cut_by = str(reason or ("max_output_tokens" if event.response.status == "incomplete" else ""))
                self.is_complete = True
            case kind if text and kind in _TEXT:
                yield TextDelta(text)
            case kind if text and kind in _THINKING:
                yield ThinkingDelta(text)
            case _:
                pass

    def _failed(self, said: dict[str, Any]) -> Exception:
        message = str(said.get("message") or "the response has failed")
        failure = Failure(provider=self.provider, message=message, kinds=kinds_of(said), resets_at=resets_at(said, now_s()))
        return error_of(failure, now_s())

    def end(self) -> bool:
        """See `AnswerReader.end`."""
        return self.is_complete

    def finish(self) -> ModelResponse:
        """See `AnswerReader.finish`."""
        response = self._response
        items = response.output or [self._items[index] for index in sorted(self._items)]
        parts = [part for item in items if item.type == "message" for part in item.content or ()]
        calls = tuple(
            ToolCall(id=item.call_id or item.id or "", name=item.name or "", arguments=item.arguments or "{}")
            for item in items
            if item.type == "function_call"
        )
        message = Message(
            role=Role.ASSISTANT,
            text="".join(part.text or part.refusal or "" for part in parts),
            thinking=tuple(_thinking(item) for item in items if item.type == "reasoning"),
            calls=calls,
        )
        return ModelResponse(
            provider=self.provider,
            model=response.model or self.model,
            message=message,
            stop_reason=self._stop(is_refused=any(part.refusal for part in parts), has_calls=bool(calls)),
            usage=usage_of(as_mapping(response.usage), "input_tokens", "output_tokens"),
            response_id=response.id or "",
        )

    def _stop(self, *, is_refused: bool, has_calls: bool) -> StopReason:
        if self._cut_by == "max_output_tokens":
            return StopReason.MAX_TOKENS
        if is_refused or self._cut_by == "content_filter":
            return StopReason.REFUSAL
        if self._cut_by:
            return StopReason.OTHER
        return StopReason.TOOL_USE if has_calls else StopReason.END_TURN


def _thinking(item: _Item) -> Thinking:
    text = "\n\n".join(part.text or "" for part in (item.summary or item.content or ()))
    content = item.encrypted_content
    return Thinking(text=text, proof=f"{_REASONING}{item.id or ''}:{content}" if content else "")
