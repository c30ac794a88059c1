"""`OpenAIChatProvider`: Chat Completions, on the SDK `openai` (extra of that name).

Many servers speak this protocol, local ones too: vLLM, llama.cpp, Ollama. What some of them leave out may be missing: ids and
indexes of tool calls, usage, the last line of a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, ClassVar

import msgspec
from attrs import define, field

from harnesses.agents.model.messages import (
    Message,
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
    ToolResult,
)
from harnesses.agents.model.providers.provider_failures import Failure, error_of
from harnesses.agents.model.providers.sdk_provider import SdkProvider, as_mapping, decoded, kinds_of
from harnesses.agents.model.sound_answer import counted
from harnesses.diagnostics.extras import load_extra
from harnesses.timing.clock import now_s

OPENAI_URL = "https://api.openai.com/v1"
_END = b"[DONE]"
_STOPS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "content_filter": StopReason.REFUSAL,
}


def openai_client(provider: str, connect: Callable[[Any, Any], Any]) -> Any:
    """Import OpenAI's SDK and return its client."""
    sdk = load_extra("openai", "openai", f"the model provider {provider}")
    client = connect(sdk, sdk.AsyncOpenAI)
    assert client.responses  # imports the rest of the SDK, here in the worker thread
    assert client.chat.completions
    return client


class OpenAIChatProvider(SdkProvider):
    """Chat Completions of OpenAI or any compatible server. See `SdkProvider` for the arguments."""

    default_id: ClassVar[str] = "openai-chat"
    vendor_id: ClassVar[str] = "openai"
    key_variable: ClassVar[str] = "OPENAI_API_KEY"
    default_url: ClassVar[str] = OPENAI_URL

    def _make_client(self, key: str) -> Any:
        return openai_client(self.id, partial(self._connect, key=key))

    def _send(self, client: Any, request: ModelRequest) -> AbstractAsyncContextManager[Any]:
        body = body_of(request, is_openai=self.is_vendor)
        # As `extra_body`: the SDK's look at each message takes 80 % of the processor time of a call with 100 messages.
        sent: AbstractAsyncContextManager[Any] = client.chat.completions.with_streaming_response.create(
            model=request.model, messages=[], stream=True, extra_body=body
        )
        return sent

    def _reader(self, request: ModelRequest) -> ChunkReader:
        return ChunkReader(self.id, request.model)


def body_of(request: ModelRequest, *, is_openai: bool) -> dict[str, Any]:
    """Return the body of a request.

    Args:
        is_openai: whether the server is OpenAI's own, which wants `max_completion_tokens`; others want `max_tokens`.
    """
    options = request.options
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [said for message in request.messages for said in _messages(message)],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": msgspec.json.decode(tool.input_schema),
                },
            }
            for tool in request.tools
        ]
        if options.tool_choice is not None:
            is_mode = options.tool_choice in ("auto", "none", "required")
            named = {"type": "function", "function": {"name": options.tool_choice}}
            body["tool_choice"] = options.tool_choice if is_mode else named
    if options.max_tokens is not None:
        body["max_completion_tokens" if is_openai else "max_tokens"] = options.max_tokens
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.stop:
        body["stop"] = list(options.stop)
    if options.reasoning is not None:
        body["reasoning_effort"] = options.reasoning
    if "user_id" in request.metadata:
        body["user"] = request.metadata["user_id"]
    return body


def _messages(message: Message) -> Iterator[dict[str, Any]]:
    """Yield a message in the protocol's form: each tool result is one of its own. Thinking has no place in it."""
    if message.role is Role.TOOL:
        for result in message.results:
            yield {"role": "tool", "tool_call_id": result.call_id, "content": result_text(result)}
    elif message.role is not Role.ASSISTANT:
        yield {"role": message.role.value, "content": message.text}
    elif message.calls:
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}
            for call in message.calls
        ]
        yield {"role": "assistant", "content": message.text or None, "tool_calls": calls}
    elif message.text:
        yield {"role": "assistant", "content": message.text}


def result_text(result: ToolResult) -> str:
    """Return the text of a tool result; the protocol has no other sign of an error."""
    return f"Error: {result.text}" if result.is_error and not result.text.lower().startswith("error") else result.text


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _CallDelta(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    """A chunk of the stream; fields that are not named here are ignored."""

    id: str | None = None
    model: str | None = None
    choices: Sequence[_Choice] | None = None
    usage: Any = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Chunk)


@define
class _Call:
    id: str
    name: str = ""
    written: list[str] = field(factory=list[str])


@define
class ChunkReader:
    """Reads the chunks of one answer."""

    provider: str
    model: str
    is_complete: bool = False
    _id: str = ""
    _text: list[str] = field(factory=list[str])
    _thinking: list[str] = field(factory=list[str])
    _calls: dict[int, list[_Call]] = field(factory=dict[int, list[_Call]])
    _usage: dict[str, Any] = field(factory=dict[str, Any])
    _finish: str = ""
    _is_refused: bool = False

    def read(self, data: bytes) -> Iterator[StreamEvent]:
        """See `AnswerReader.read`."""
        if data == _END:
            self.is_complete = bool(self._finish)
            return
        chunk = decoded(_decoder, data, self.provider)
        if chunk.error:
            said = as_mapping(chunk.error)
            message = str(said.get("message") or chunk.error)
            status = said.get("code") if isinstance(said.get("code"), int) else None
            raise error_of(Failure(provider=self.provider, message=message, status=status, kinds=kinds_of(said)), now_s())
        self._id = self._id or chunk.id or ""
        self.model = chunk.model or self.model
        self._usage = as_mapping(chunk.usage) or self._usage
        for choice in (chunk.choices or ())[:1]:
            if choice.delta is not None:
                yield from self._added(choice.delta)
            self._finish = choice.finish_reason or self._finish

    def end(self) -> bool:
        """Return whether the answer is whole although the last line of its stream is missing."""
        self.is_complete = bool(self._finish)
        return self.is_complete

    def _added(self, delta: _Delta) -> Iterator[StreamEvent]:
        if thinking := delta.reasoning_content or delta.reasoning:
            self._thinking.append(thinking)
            yield ThinkingDelta(thinking)
        if text := delta.content or delta.refusal:
            self._is_refused = self._is_refused or not delta.content
            self._text.append(text)
            yield TextDelta(text)
        for said in delta.tool_calls or ():
            call = self._call(said)
            arguments = (said.function.arguments if said.function else None) or ""
            call.written.append(arguments)
            yield ToolCallDelta(call.id, call.name, arguments)

    def _call(self, said: _CallDelta) -> _Call:
        """Return the call that a delta belongs to.

        Without an index, one with another id or a name begins a new call; with one, another id beside a name does, since some
        servers give every call the index 0.
        """
        index = said.index
        name = (said.function.name if said.function else None) or ""
        if index is None:
            last = max(self._calls, default=-1)
            known = self._calls[last][-1].id if last >= 0 else ""
            is_new = last < 0 or (said.id or known) != known or (bool(name) and not said.id)
            index = last + 1 if is_new else last
        calls = self._calls.setdefault(index, [])
        call = next((one for one in calls if one.id == said.id), None) or (calls[-1] if calls else None)
        if call is None or (said.id and name and call.id != said.id):
            calls.append(call := _Call(id=said.id or f"call_{self._id}_{index}"))
        call.name = call.name or name
        return call

    def finish(self) -> ModelResponse:
        """See `AnswerReader.finish`."""
        calls = tuple(
            ToolCall(id=call.id, name=call.name, arguments="".join(call.written) or "{}")
            for _, several in sorted(self._calls.items())
            for call in several
        )
        thinking = "".join(self._thinking)
        stop = StopReason.REFUSAL if self._is_refused else _STOPS.get(self._finish, StopReason.OTHER)
        return ModelResponse(
            provider=self.provider,
            model=self.model,
            message=Message(
                role=Role.ASSISTANT,
                text="".join(self._text),
                thinking=(Thinking(text=thinking),) if thinking else (),
                calls=calls,
            ),
            stop_reason=StopReason.TOOL_USE if calls and stop is StopReason.END_TURN else stop,
            usage=usage_of(self._usage, "prompt_tokens", "completion_tokens"),
            response_id=self._id,
        )


def usage_of(said: dict[str, Any], read: str, written: str) -> ModelUsage:
    """Return the tokens of a call, from the totals of these names and their details."""
    of_read, of_written = as_mapping(said.get(f"{read}_details")), as_mapping(said.get(f"{written}_details"))
    return ModelUsage(
        input_tokens=counted(said.get(read)),
        output_tokens=counted(said.get(written)),
        cached_tokens=counted(of_read.get("cached_tokens")),
        cache_write_tokens=counted(of_read.get("cache_write_tokens")),
        reasoning_tokens=counted(of_written.get("reasoning_tokens")),
    )
