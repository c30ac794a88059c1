"""A model provider that follows a script: what each request takes, answers and fails with, by Trio's clock."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import trio
from attrs import define, field

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
)

USAGE = ModelUsage(input_tokens=1_000, output_tokens=100)


def request(text: str = "hello", *, max_tokens: int | None = 100) -> ModelRequest:
    """Return a request of one message."""
    options = ModelOptions(max_tokens=max_tokens)
    return ModelRequest(model="any", messages=(Message(role=Role.USER, text=text),), options=options)


def response(text: str = "done", usage: ModelUsage = USAGE, *, model: str = "small") -> ModelResponse:
    """Return an answer."""
    message = Message(role=Role.ASSISTANT, text=text)
    return ModelResponse(provider="scripted", model=model, message=message, stop_reason=StopReason.END_TURN, usage=usage)


@define
class ScriptedProvider:
    """A provider whose requests meet the script in turn, and are answered after it.

    Args:
        script: exceptions to raise, answers to give, or texts to stream before the next entry.
        takes_s: seconds that each request takes.
        is_down: returns an error for a request while the provider is down.
    """

    script: list[Exception | ModelResponse | str] = field(factory=list)
    takes_s: float = 0.0
    is_down: Callable[[ModelRequest], Exception | None] = lambda request: None
    id: str = "scripted"
    account: str = "https://models.example 0000"
    sent: list[tuple[float, ModelRequest]] = field(factory=list)
    """Requests with the time of each."""
    under_way: int = 0
    most_under_way: int = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        async with self.stream(request) as events:
            async for event in events:
                if isinstance(event, ModelResponse):
                    return event
        raise AssertionError("no answer")

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[StreamEvent]]:
        self.sent.append((trio.current_time(), request))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            events = self._events(request)
            yield events
            await events.aclose()
        finally:
            self.under_way -= 1

    async def _events(self, request: ModelRequest) -> AsyncGenerator[StreamEvent]:
        await trio.sleep(self.takes_s)
        if (error := self.is_down(request)) is not None:
            raise error
        while self.script:
            await trio.lowlevel.checkpoint()
            entry = self.script.pop(0)
            if isinstance(entry, Exception):
                raise entry
            if isinstance(entry, ModelResponse):
                yield entry
                return
            yield TextDelta(entry)
        yield response()

    @property
    def times(self) -> list[float]:
        """When each request was sent."""
        return [when for when, _ in self.sent]


def texts(events: Iterable[object]) -> list[str]:
    """Return the streamed texts."""
    return [event.text for event in events if isinstance(event, TextDelta)]
