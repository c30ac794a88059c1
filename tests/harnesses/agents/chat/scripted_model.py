"""A model provider that answers by a script, and keeps the requests that it got."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio
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
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
)
from harnesses.agents.model.model_client import ModelClient

Answer = ModelResponse | Exception | Callable[[ModelRequest], ModelResponse]


def says(text: str = "", *calls: ToolCall, stop: StopReason | None = None, **usage: int) -> ModelResponse:
    """Return an answer with a text and tool calls."""
    usual = StopReason.TOOL_USE if calls else StopReason.END_TURN
    return ModelResponse(
        provider="scripted",
        model="script-1",
        message=Message(role=Role.ASSISTANT, text=text, calls=calls),
        stop_reason=stop or usual,
        usage=ModelUsage(**({"input_tokens": 10, "output_tokens": 5} | usage)),
        response_id="r",
    )


def calls(name: str, arguments: str = "{}", id: str = "c1") -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


@define
class ScriptedProvider:
    """Gives the answers of a script, one for each request; the last one for all further ones."""

    script: Sequence[Answer]
    requests: list[ModelRequest] = field(factory=list[ModelRequest])
    id: str = "scripted"
    account: str = "http://localhost script"
    piece: int = 5
    """Characters of a streamed delta."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        await trio.lowlevel.checkpoint()
        answer = self.script[min(len(self.requests), len(self.script) - 1)]
        self.requests.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, ModelResponse) else answer(request)

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[StreamEvent]]:
        yield self._events(await self.complete(request))

    async def _events(self, response: ModelResponse) -> AsyncIterator[StreamEvent]:
        message = response.message
        for thought in message.thinking:
            yield ThinkingDelta(thought.text)
        for at in range(0, len(message.text), self.piece):
            await trio.lowlevel.checkpoint()
            yield TextDelta(message.text[at : at + self.piece])
        for call in message.calls:
            yield ToolCallDelta(call.id, call.name, call.arguments)
        yield response

    def client(self) -> ModelClient:
        return ModelClient([(self, "script-1")])


def scripted(*script: Answer) -> ScriptedProvider:
    return ScriptedProvider(script)
