"""A provider that somebody else might write: Ollama's own protocol, JSON lines over HTTP, without a vendor's SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import httpx2
import msgspec
from attrs import define, field

from harnesses.agents.model.errors import MalformedResponse
from harnesses.agents.model.messages import (
    Message,
    ModelRequest,
    ModelResponse,
    ModelUsage,
    Role,
    StopReason,
    StreamEvent,
    TextDelta,
    ToolCall,
    ToolCallDelta,
)
from harnesses.agents.model.providers.provider_failures import Failure, error_of
from harnesses.agents.model.providers.response_stream import CallLimits, ResponseStream, transport_failed
from harnesses.timing.clock import now_s


class OllamaProvider:
    """Ollama's `/api/chat`."""

    def __init__(self, base_url: str) -> None:
        self.id = "my-ollama"
        self.account = base_url

    async def complete(self, request: ModelRequest) -> ModelResponse:
        async with self.stream(request) as events:
            async for event in events:
                if isinstance(event, ModelResponse):
                    return event
        raise AssertionError("a stream ends with its response, or raises")

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[StreamEvent], None]:
        async with AsyncExitStack() as stack:
            try:
                client = await stack.enter_async_context(httpx2.AsyncClient(timeout=None))
                sending = client.stream("POST", f"{self.account}/api/chat", json=_body(request))
                response = await stack.enter_async_context(sending)
                if response.status_code != 200:
                    raise await self.failed(response)
            except httpx2.HTTPError as error:
                raise transport_failed(self.id, error) from error
            answer = ResponseStream(self.id, response.aiter_bytes(), self.reader(request), CallLimits(), decoder=Lines())
            async with aclosing(answer) as events:
                yield events

    def reader(self, request: ModelRequest) -> LineReader:
        return LineReader(self.id, request)

    async def failed(self, response: httpx2.Response) -> Exception:
        failure = Failure(
            provider=self.id,
            message=(await response.aread()).decode(errors="replace"),
            status=response.status_code,
            headers={name.lower(): value for name, value in response.headers.items()},
        )
        return error_of(failure, now_s())


@define
class Lines:
    """Divides an answer into its lines."""

    rest: bytes = b""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        yield from lines


@define
class LineReader:
    """Reads the lines of an answer."""

    provider: str
    request: ModelRequest
    last: dict[str, Any] = field(factory=dict[str, Any])
    text: str = ""
    calls: list[ToolCall] = field(factory=list[ToolCall])

    @property
    def is_complete(self) -> bool:
        return bool(self.last)

    def end(self) -> bool:
        return self.is_complete

    def read(self, data: bytes) -> Iterator[StreamEvent]:
        try:
            said: dict[str, Any] = msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            raise MalformedResponse(f"{self.provider}: malformed line", provider=self.provider) from error
        if part := said["message"]["content"]:
            self.text += part
            yield TextDelta(part)
        for call in said["message"].get("tool_calls", ()):
            id = f"call_{len(self.request.messages)}_{len(self.calls)}"
            arguments = msgspec.json.encode(call["function"]["arguments"]).decode()
            self.calls.append(ToolCall(id=id, name=call["function"]["name"], arguments=arguments))
            yield ToolCallDelta(id, call["function"]["name"], arguments)
        if said["done"]:
            self.last = said

    def finish(self) -> ModelResponse:
        return ModelResponse(
            provider=self.provider,
            model=self.last.get("model", self.request.model),
            message=Message(role=Role.ASSISTANT, text=self.text, calls=tuple(self.calls)),
            stop_reason=StopReason.TOOL_USE if self.calls else StopReason.END_TURN,
            usage=ModelUsage(input_tokens=self.last.get("prompt_eval_count", 0), output_tokens=self.last.get("eval_count", 0)),
        )


def _body(request: ModelRequest) -> dict[str, Any]:
    tools = [
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
    messages = [said for message in request.messages for said in _messages(message)]
    return {"model": request.model, "messages": messages, "tools": tools, "stream": True}


def _messages(message: Message) -> Iterator[dict[str, Any]]:
    if message.role is Role.TOOL:
        yield from ({"role": "tool", "tool_name": result.name, "content": result.text} for result in message.results)
        return
    calls = [{"function": {"name": call.name, "arguments": msgspec.json.decode(call.arguments)}} for call in message.calls]
    yield {"role": message.role.value, "content": message.text, **({"tool_calls": calls} if calls else {})}
