"""`AnthropicProvider`: Anthropic's Messages API, on the SDK `anthropic` (extra of that name).

Prompts are cached: the system prompt with the tools before it, and the conversation so far.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, cast

import msgspec
from attrs import define, evolve, field

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
)
from harnesses.agents.model.providers.provider_failures import Failure, error_of
from harnesses.agents.model.providers.sdk_provider import SdkProvider, as_mapping, decoded
from harnesses.agents.model.sound_answer import counted
from harnesses.data.json_depth import is_too_deep
from harnesses.diagnostics.extras import load_extra
from harnesses.timing.clock import now_s

DEFAULT_MAX_TOKENS = 8_192
"""Output tokens of a request that names no maximum: the API wants one."""
_SIGNED = "anthropic:"
"""Before the signature of a thinking block."""
_REDACTED = "anthropic-redacted:"
"""Before the data of a thinking block that is encrypted as a whole."""
_CACHE = {"type": "ephemeral"}
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_-]")
"""Ids of calls that another provider has made may have these."""
_BUDGETS = {"low": 1_024, "medium": 4_096, "high": 16_384}
"""Thinking tokens by effort, for models that want a number."""
_WANTS_BUDGET = re.compile(r"claude-(?:3|(?:opus|sonnet|haiku)-4-(?:[0-5]\b|2025))")
_STOPS = {
    "end_turn": StopReason.END_TURN,
    "stop_sequence": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "tool_use": StopReason.TOOL_USE,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSED,
}


class AnthropicProvider(SdkProvider):
    """Anthropic's Messages API. See `SdkProvider` for the arguments."""

    default_id: ClassVar[str] = "anthropic"
    vendor_id: ClassVar[str] = "anthropic"
    key_variable: ClassVar[str] = "ANTHROPIC_API_KEY"
    default_url: ClassVar[str] = "https://api.anthropic.com"

    def _make_client(self, key: str) -> Any:
        sdk = load_extra("anthropic", "anthropic", "the model provider anthropic")
        client = self._connect(sdk, sdk.AsyncAnthropic, key)
        assert client.messages  # imports the rest of the SDK, here in the worker thread
        return client

    def _send(self, client: Any, request: ModelRequest) -> AbstractAsyncContextManager[Any]:
        body = body_of(request)
        # As `extra_body`, which the SDK does not look through: that takes milliseconds for a long conversation.
        sent: AbstractAsyncContextManager[Any] = client.messages.with_streaming_response.create(
            model=request.model, max_tokens=body["max_tokens"], messages=[], stream=True, extra_body=body
        )
        return sent

    def _reader(self, request: ModelRequest) -> MessageReader:
        return MessageReader(self.id, request.model)


def body_of(request: ModelRequest) -> dict[str, Any]:
    """Return the body of a request."""
    options = request.options
    max_tokens = options.max_tokens or DEFAULT_MAX_TOKENS
    reasoning = _reasoning(request.model, options, max_tokens)
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": max_tokens,
        "messages": _messages([message for message in request.messages if message.role is not Role.SYSTEM]),
    }
    if system := [_text(message.text) for message in request.messages if message.role is Role.SYSTEM and message.text.strip()]:
        body["system"] = _cached(system)
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": msgspec.json.decode(tool.input_schema)}
            for tool in request.tools
        ]
        if options.tool_choice is not None:
            body["tool_choice"] = _tool_choice(options.tool_choice, thinks="thinking" in reasoning)
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.stop:
        body["stop_sequences"] = list(options.stop)
    if "user_id" in request.metadata:
        body["metadata"] = {"user_id": request.metadata["user_id"]}
    return {**body, **reasoning}


def _reasoning(model: str, options: ModelOptions, max_tokens: int) -> dict[str, Any]:
    if options.reasoning is None:
        return {}
    if _WANTS_BUDGET.search(model) is None:
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": options.reasoning}}
    budget = min(_BUDGETS.get(options.reasoning, _BUDGETS["medium"]), max_tokens - 1)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _BUDGETS["low"] else {}


def _tool_choice(choice: str, *, thinks: bool) -> dict[str, str]:
    """Return the choice of a tool. The API refuses to force one on a model that thinks."""
    if thinks and choice != "none":
        return {"type": "auto"}
    kinds = {"auto": "auto", "none": "none", "required": "any"}
    return {"type": kinds[choice]} if choice in kinds else {"type": "tool", "name": choice}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _cached(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*blocks[:-1], {**blocks[-1], "cache_control": _CACHE}]


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages, those of one side after another merged into one; the last one is cached."""
    merged: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        blocks = list(_blocks(message))
        if merged and merged[-1]["role"] == role:
            merged[-1]["content"] += blocks
        elif blocks:
            merged.append({"role": role, "content": blocks})
    if merged and merged[-1]["content"][-1]["type"] in ("text", "tool_result"):
        merged[-1]["content"] = _cached(merged[-1]["content"])
    return merged


def _blocks(message: Message) -> Iterator[dict[str, Any]]:
    """Yield the content blocks of a message. The API refuses empty texts, and thinking of other providers."""
    for thinking in message.thinking:
        if thinking.proof.startswith(_SIGNED):
            yield {"type": "thinking", "thinking": thinking.text, "signature": thinking.proof.removeprefix(_SIGNED)}
        elif thinking.proof.startswith(_REDACTED):
            yield {"type": "redacted_thinking", "data": thinking.proof.removeprefix(_REDACTED)}
    for result in message.results:
        content = {"content": [_text(result.text)]} if result.text.strip() else {}
        yield {"type": "tool_result", "tool_use_id": _id(result.call_id), "is_error": result.is_error, **content}
    if message.text.strip():
        yield _text(message.text.rstrip() if message.role is Role.ASSISTANT else message.text)
    for call in message.calls:
        yield {"type": "tool_use", "id": _id(call.id), "name": call.name, "input": _arguments(call.arguments)}


def _id(id: str) -> str:
    return _NOT_IN_ID.sub("_", id)


def _arguments(text: str) -> Mapping[str, Any]:
    """Return the arguments of a call as an object; the API refuses anything else, also if the model wrote it."""
    try:
        found: Any = text if is_too_deep(text) else msgspec.json.decode(text)
    except msgspec.DecodeError:
        found = text
    return cast(Mapping[str, Any], found) if isinstance(found, dict) else {"malformed": found}


class _Opening(msgspec.Struct):
    id: str = ""
    model: str = ""
    usage: Any = None


class _Block(msgspec.Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    input: Any = None


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Failed(msgspec.Struct):
    type: str = ""
    message: str = ""


class _Event(msgspec.Struct):
    """An event of the stream; fields and kinds that are not named here are ignored."""

    type: str = ""
    index: int = 0
    message: _Opening | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: Any = None
    error: _Failed | None = None


_decoder = msgspec.json.Decoder(_Event)


@define
class _Part:
    """A content block in progress."""

    index: int
    block: _Block
    written: list[str] = field(factory=list[str])
    signature: list[str] = field(factory=list[str])

    @property
    def text(self) -> str:
        return "".join(self.written)


@define
class MessageReader:
    """Reads the events of one message."""

    provider: str
    model: str
    is_complete: bool = False
    _id: str = ""
    _parts: list[_Part] = field(factory=list[_Part])
    _by_index: dict[int, _Part] = field(factory=dict[int, _Part])
    _usage: ModelUsage = field(factory=ModelUsage)
    _stop: str | None = None

    def read(self, data: bytes) -> Iterator[StreamEvent]:
        """See `AnswerReader.read`."""
        event = decoded(_decoder, data, self.provider)
        match event.type:
            case "error":
                said = event.error or _Failed()
                raise error_of(Failure(provider=self.provider, message=said.message, kinds=(said.type,)), now_s())
            case "message_start" if event.message is not None:
                self._id = event.message.id
                self.model = event.message.model or self.model
                self._count(event.message.usage)
            case "content_block_start" if event.content_block is not None:
                part = self._by_index[event.index] = _Part(event.index, event.content_block)
                self._parts.append(part)
                yield from self._begun(part)
            case "content_block_delta" if event.delta is not None and event.index in self._by_index:
                yield from self._added(self._by_index[event.index], event.delta)
            case "message_delta":
                self._stop = (event.delta.stop_reason if event.delta else None) or self._stop
                self._count(event.usage)
            case "message_stop" if self._stop is not None:
                self.is_complete = True
            case _:
                pass

    def _begun(self, part: _Part) -> Iterator[StreamEvent]:
        block = part.block
        if block.signature:
            part.signature.append(block.signature)
        if block.type == "tool_use":
            yield ToolCallDelta(block.id, block.name, "")
        elif block.type == "text" and block.text:
            part.written.append(block.text)
            yield TextDelta(block.text)
        elif block.type == "thinking" and block.thinking:
            part.written.append(block.thinking)
            yield ThinkingDelta(block.thinking)

    def _added(self, part: _Part, delta: _Delta) -> Iterator[StreamEvent]:
        if delta.signature:
            part.signature.append(delta.signature)
        text = delta.text or delta.thinking or delta.partial_json
        if text:
            part.written.append(text)
            kind = part.block.type
            if kind == "text":
                yield TextDelta(text)
            elif kind == "thinking":
                yield ThinkingDelta(text)
            elif kind == "tool_use":
                yield ToolCallDelta(part.block.id, part.block.name, text)

    def _count(self, usage: object) -> None:
        """Read token counts; a later event corrects an earlier one."""
        said, known = as_mapping(usage), self._usage

        def now(before: int, value: object) -> int:
            return before if value is None else counted(value)

        cached = now(known.cached_tokens, said.get("cache_read_input_tokens"))
        cache_write = now(known.cache_write_tokens, said.get("cache_creation_input_tokens"))
        fresh = now(known.input_tokens - known.cached_tokens - known.cache_write_tokens, said.get("input_tokens"))
        thought = as_mapping(said.get("output_tokens_details")).get("thinking_tokens")
        self._usage = evolve(
            known,
            input_tokens=fresh + cached + cache_write,
            output_tokens=now(known.output_tokens, said.get("output_tokens")),
            cached_tokens=cached,
            cache_write_tokens=cache_write,
            reasoning_tokens=now(known.reasoning_tokens, thought),
        )

    def end(self) -> bool:
        """See `AnswerReader.end`."""
        return self.is_complete

    def finish(self) -> ModelResponse:
        """See `AnswerReader.finish`."""
        parts = sorted(self._parts, key=lambda part: part.index)
        message = Message(
            role=Role.ASSISTANT,
            text="".join(part.text for part in parts if part.block.type == "text"),
            thinking=tuple(_thinking(part) for part in parts if part.block.type in ("thinking", "redacted_thinking")),
            calls=tuple(_call(part) for part in parts if part.block.type == "tool_use"),
        )
        return ModelResponse(
            provider=self.provider,
            model=self.model,
            message=message,
            stop_reason=_STOPS.get(self._stop or "", StopReason.OTHER),
            usage=self._usage,
            response_id=self._id,
        )


def _thinking(part: _Part) -> Thinking:
    if part.block.type == "redacted_thinking":
        return Thinking(proof=f"{_REDACTED}{part.block.data}")
    signature = "".join(part.signature)
    return Thinking(text=part.text, proof=f"{_SIGNED}{signature}" if signature else "")


def _call(part: _Part) -> ToolCall:
    given = part.text or (msgspec.json.encode(part.block.input).decode() if part.block.input else "{}")
    return ToolCall(id=part.block.id, name=part.block.name, arguments=given)
