"""A conformance test for model providers, to run over your own.

    async def test_my_provider_conforms():
        await check_provider(lambda url: MyProvider(base_url=url), MyServer(), model="my-model")

The server speaks the provider's protocol and gives the answers it is asked for (`ConformanceServer`). Between the two stands a
relay that cuts and stalls connections and sees whether they are closed. All of it is on loopback.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
import trio
from attrs import define, field

from harnesses.agents.model.errors import (
    AuthenticationFailed,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
    TransportFailed,
)
from harnesses.agents.model.messages import (
    Message,
    ModelRequest,
    ModelResponse,
    Role,
    StopReason,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolDefinition,
    ToolResult,
)
from harnesses.agents.model.provider import ModelProvider

TEXT = "The quick brown fox jumps over the lazy dog. " * 20
TOOL = "look_up"
ARGUMENTS = {"city": "Zürich", "days": 3}
RETRY_AFTER_S = 7
CUTS = 6
"""Places at which an answer is cut off, in two ways: within a connection that fails, and within one that ends as usual."""
PROMPT_S = 2.0
"""How long a call may take to end when it is cancelled."""
_PATIENCE_S = 20.0
_ERRORS: Sequence[tuple[int, type[ProviderError]]] = (
    (400, RequestRejected),
    (401, AuthenticationFailed),
    (403, AuthenticationFailed),
    (404, RequestRejected),
    (429, RateLimited),
    (500, ProviderUnavailable),
    (503, ProviderUnavailable),
)


class ConformanceServer(Protocol):
    """A server on loopback that speaks the provider's protocol. It chooses its answer by the last user message."""

    @property
    def url(self) -> str:
        """The base URL that the provider is made with."""
        ...

    def answer(self, prompt: str, text: str) -> None:
        """Answer with a text, streamed in several parts."""
        ...

    def call(self, prompt: str, tools: Sequence[str], arguments: dict[str, Any], then: str) -> None:
        """Answer with a call of each tool with these arguments; and once the results have been sent, with a text."""
        ...

    def fail(self, prompt: str, status: int, retry_after_s: int) -> None:
        """Answer with an HTTP error, one of 429 with `Retry-After`."""
        ...


@define
class _Relay:
    """Passes bytes between the provider and the server, unless told otherwise."""

    server_port: int
    most: int | None = None
    """Bytes of an answer after which it is cut or stalled; None to pass them all."""
    is_stalling: bool = False
    is_clean: bool = False
    """Whether the body of an answer is cut so that its end looks like that of a whole one."""
    passed: int = 0
    """Bytes of the last answer."""
    opened: int = 0
    closed: int = 0
    """Connections that the provider has closed."""
    begun: trio.Event = field(factory=trio.Event)
    """Set when a part of an answer has been passed on."""

    def reset(self, most: int | None = None, *, is_stalling: bool = False, is_clean: bool = False) -> None:
        self.most, self.is_stalling, self.is_clean, self.passed, self.opened, self.closed = (
            most,
            is_stalling,
            is_clean,
            0,
            0,
            0,
        )
        self.begun = trio.Event()

    async def serve(self, client: trio.SocketStream) -> None:
        self.opened += 1
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with client, await trio.open_tcp_stream("127.0.0.1", self.server_port) as server:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._requests, client, server, nursery.cancel_scope)
                    await self._answers(client, server)
                    nursery.cancel_scope.cancel()

    async def _requests(self, client: trio.SocketStream, server: trio.SocketStream, scope: trio.CancelScope) -> None:
        with suppress(trio.BrokenResourceError):
            async for chunk in client:
                self.passed = 0
                await server.send_all(chunk)
        self.closed += 1
        scope.cancel()

    async def _answers(self, client: trio.SocketStream, server: trio.SocketStream) -> None:
        if self.is_clean:
            await self._cut_clean(client, server)
            return
        async for chunk in server:
            left = len(chunk) if self.most is None else max(0, self.most - self.passed)
            if left:
                await client.send_all(chunk[:left])
                self.passed += min(left, len(chunk))
                self.begun.set()
            if self.most is not None and self.passed >= self.most:
                if self.is_stalling:
                    await trio.sleep_forever()
                return

    async def _cut_clean(self, client: trio.SocketStream, server: trio.SocketStream) -> None:
        """Send the beginning of an answer's body, without a length, and close the connection: the client sees no error."""
        head, body = b"", b""
        async for chunk in server:
            body += chunk
            if not head and b"\r\n\r\n" in body:
                head, _, body = body.partition(b"\r\n\r\n")
            if head and (b"chunked" not in head.lower() or body.endswith(b"0\r\n\r\n")):
                break
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(_LENGTHS)]
        body = _without_chunks(body) if b"chunked" in head.lower() else body
        await client.send_all(b"\r\n".join([*lines, b"Connection: close", b"", body[: self.most]]))
        await client.send_eof()


_LENGTHS = (b"transfer-encoding:", b"content-length:", b"connection:", b"keep-alive:")


def _without_chunks(body: bytes) -> bytes:
    """Return a body from its chunked form."""
    parts: list[bytes] = []
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        parts.append(body[:length])
        body = body[length + 2 :] if length else b""
    return b"".join(parts)


@define
class _Room:
    """What a check works with."""

    provider: ModelProvider
    server: ConformanceServer
    relay: _Relay
    model: str

    def request(self, prompt: str, *more: Message, tools: Sequence[str] = ()) -> ModelRequest:
        schema = '{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}'
        return ModelRequest(
            model=self.model,
            messages=(
                Message(role=Role.SYSTEM, text="You are a test."),
                Message(role=Role.USER, text=prompt),
                *more,
            ),
            tools=tuple(ToolDefinition(name=name, description="Looks it up.", input_schema=schema) for name in tools),
        )

    async def events(self, request: ModelRequest) -> list[StreamEvent]:
        with trio.fail_after(_PATIENCE_S):
            async with self.provider.stream(request) as events:
                return [event async for event in events]

    async def complete(self, request: ModelRequest) -> ModelResponse:
        with trio.fail_after(_PATIENCE_S):
            return await self.provider.complete(request)


async def check_provider(
    make: Callable[[str], ModelProvider], server: ConformanceServer, *, model: str, secret: str = ""
) -> None:
    """Check a provider.

    Args:
        make: makes the provider for a base URL.
        secret: the key that it is made with: it must not appear anywhere.

    Raises:
        AssertionError: the provider breaks a rule of the protocol; the message says which.
    """
    port = urlsplit(server.url).port
    assert port is not None, f"the server's URL must have a port, was {server.url}"
    relay = _Relay(port)
    async with _listening(relay) as relay_port:
        provider = make(server.url.replace(f":{port}", f":{relay_port}", 1))
        room = _Room(provider, server, relay, model)
        assert provider.id, "a provider must have an id"
        assert provider.account == provider.account, "the account must not change"
        assert not secret or secret not in f"{provider!r} {provider.account}", "the key must not be in repr or account"
        for check in CHECKS:
            relay.reset()
            await check(room)
        relay.reset()
        await _check_errors(room, secret)
    with trio.fail_after(_PATIENCE_S):
        error = await _error(provider.complete(room.request("nobody")))
    assert isinstance(error, TransportFailed), f"a refused connection must raise TransportFailed, was {error!r}"


@asynccontextmanager
async def _listening(relay: _Relay) -> AsyncGenerator[int, None]:
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, relay.serve, listeners)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def _error(call: Awaitable[object]) -> Exception | None:
    try:
        await call
    except Exception as error:
        return error
    return None


async def _check_order(room: _Room) -> None:
    room.server.answer("order", TEXT)
    events = await room.events(room.request("order"))
    *deltas, response = events
    assert isinstance(response, ModelResponse), f"the last event must be the response, was {response!r}"
    assert not any(isinstance(event, ModelResponse) for event in deltas), "there must be exactly one response"
    said = "".join(event.text for event in deltas if isinstance(event, TextDelta))
    assert said == response.message.text == TEXT, f"the deltas must add up to the text, were {said!r}"
    assert len(deltas) > 1, "the text must come in parts"
    assert response.stop_reason is StopReason.END_TURN, f"the answer must end the turn, was {response.stop_reason!r}"
    assert response.provider == room.provider.id, f"the response must name the provider, was {response.provider!r}"
    assert response.message.role is Role.ASSISTANT, f"the message must be an assistant's, was {response.message.role!r}"
    whole = await room.complete(room.request("order"))
    assert whole.message == response.message, "complete() must return what stream() does"
    stored = msgspec.json.decode(msgspec.json.encode(whole), type=ModelResponse)
    assert stored == whole, "a response must come back unchanged from JSON"


async def _check_tools(room: _Room) -> None:
    names = (TOOL, "second")
    room.server.call("tools", names, ARGUMENTS, TEXT)
    events = await room.events(room.request("tools", tools=names))
    response = events[-1]
    assert isinstance(response, ModelResponse), f"the last event must be the response, was {response!r}"
    calls = response.message.calls
    assert [call.name for call in calls] == list(names), f"the calls must come in order, were {calls!r}"
    assert response.stop_reason is StopReason.TOOL_USE, f"the stop reason must be tool_use, was {response.stop_reason!r}"
    assert len({call.id for call in calls}) == len(names), f"each call must have an id of its own, were {calls!r}"
    for call in calls:
        assert json.loads(call.arguments) == ARGUMENTS, f"arguments must be those of the model, were {call.arguments!r}"
        parts = [event for event in events if isinstance(event, ToolCallDelta) and event.call_id == call.id]
        assert "".join(part.arguments for part in parts) == call.arguments, "the deltas must add up to the arguments"
        assert all(part.name == call.name for part in parts), f"each delta must name the tool, were {parts!r}"
    results = tuple(ToolResult(call_id=call.id, name=call.name, text=f"result of {call.name}") for call in calls)
    answer = await room.complete(
        room.request("tools", response.message, Message(role=Role.TOOL, results=results), tools=names)
    )
    assert answer.message.text == TEXT, f"all results must be sent, and the answer read, was {answer.message!r}"


async def _check_usage(room: _Room) -> None:
    room.server.answer("usage", TEXT)
    usage = (await room.complete(room.request("usage"))).usage
    counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.reasoning_tokens)
    assert all(count >= 0 for count in counts), f"tokens must not be negative, were {usage!r}"
    assert usage.cached_tokens + usage.cache_write_tokens <= usage.input_tokens, f"cached tokens are read, were {usage!r}"
    assert usage.reasoning_tokens <= usage.output_tokens, f"reasoning tokens are written, were {usage!r}"


async def _check_cuts(room: _Room) -> None:
    room.server.answer("cut", TEXT)
    request = room.request("cut")
    whole = await room.complete(request)
    size = room.relay.passed
    for place in range(2 * CUTS):
        room.relay.reset(most=size * (place + 1) // (2 * CUTS + 2), is_clean=place % 2 == 0)
        answers: list[ModelResponse] = []
        if (error := await _error(_collect(room, request, answers))) is None:
            assert answers[0].message == whole.message, f"an answer that is cut must raise, was {answers[0]!r}"
            continue
        is_retryable = isinstance(error, ProviderError) and error.retryable
        assert is_retryable, f"a cut answer must raise a retryable ProviderError, was {error!r}"


async def _collect(room: _Room, request: ModelRequest, answers: list[ModelResponse]) -> None:
    answers.append(await room.complete(request))


async def _check_cancel(room: _Room) -> None:
    room.server.answer("cancel", TEXT)
    request = room.request("cancel")
    await room.complete(request)
    half = room.relay.passed // 2
    room.relay.reset(most=half, is_stalling=True)
    with trio.fail_after(_PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(room.complete, request)
            await room.relay.begun.wait()
            nursery.cancel_scope.cancel()
            begun = trio.current_time()
        _assert_prompt(begun, "a cancelled call")
        await _closed(room, "a cancelled call")
        room.relay.reset(most=half, is_stalling=True)
        async with room.provider.stream(request) as events:
            async for _ in events:
                break
            begun = trio.current_time()
        _assert_prompt(begun, "a stream that is left early")
        await _closed(room, "a stream that is left early")


def _assert_prompt(begun: float, what: str) -> None:
    took_s = trio.current_time() - begun
    assert took_s < PROMPT_S, f"{what} must end within {PROMPT_S:g} s, took {took_s:.1f} s"


async def _closed(room: _Room, what: str) -> None:
    for _ in range(200):
        if room.relay.closed >= max(room.relay.opened, 1):
            return
        await trio.sleep(0.01)
    raise AssertionError(f"{what} must close its connection")


async def _check_side_by_side(room: _Room) -> None:
    room.server.answer("beside", TEXT)
    answers: list[str] = []

    async def ask() -> None:
        answers.append((await room.complete(room.request("beside"))).message.text)

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(ask)
    assert answers == [TEXT] * 8, "calls side by side must not disturb each other"


async def _check_errors(room: _Room, secret: str) -> None:
    for status, kind in _ERRORS:
        prompt = f"fails with {status}"
        room.server.fail(prompt, status, RETRY_AFTER_S)
        error = await _error(room.complete(room.request(prompt)))
        assert isinstance(error, ProviderError), f"status {status} must raise a ProviderError, was {error!r}"
        assert type(error) is kind, f"status {status} must raise {kind.__name__}, was {error!r}"
        assert error.status == status, f"the error must have the status {status}, was {error.status!r}"
        assert error.provider == room.provider.id, f"the error must name the provider, was {error.provider!r}"
        assert not secret or secret not in f"{error} {error!r} {vars(error)}", "the key must not be in an error"
        if status == 429:
            assert error.retry_after_s == RETRY_AFTER_S, f"Retry-After must be read, was {error.retry_after_s!r}"
            streamed = await _error(room.events(room.request(prompt)))
            assert type(streamed) is kind, f"stream() must raise as complete() does, was {streamed!r}"


CHECKS: Sequence[Callable[[_Room], Awaitable[None]]] = (
    _check_order,
    _check_tools,
    _check_usage,
    _check_cuts,
    _check_cancel,
    _check_side_by_side,
)
