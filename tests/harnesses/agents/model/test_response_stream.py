"""What a connection can do to an answer, for each provider: it is cut, late, endless, malformed, or not what was asked for."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest
import trio

from harnesses.agents.model.errors import MalformedResponse, ProviderTimeout, ProviderUnavailable, TransportFailed
from harnesses.agents.model.messages import ModelResponse, StreamEvent, TextDelta
from harnesses.agents.model.providers.response_stream import CallLimits, EventDecoder
from harnesses.errors import HarnessMisuse
from tests.harnesses.agents.model.provider_dialects import REQUEST, Dialect, each_dialect
from tests.harnesses.agents.model.raw_server import HEAD, events, raw_server


@each_dialect
async def test_an_answer_is_read_whole(dialect: Dialect) -> None:
    async with raw_server(*dialect.parts) as server:
        async with dialect.make(server.url).stream(REQUEST) as stream:
            found = [event async for event in stream]

    *deltas, response = found
    assert deltas == [TextDelta("Hello "), TextDelta("world")]
    assert isinstance(response, ModelResponse)
    assert response.message.text == "Hello world"
    assert (response.usage.input_tokens, response.usage.output_tokens, response.model) == (3, 2, "m")


@each_dialect
async def test_an_answer_that_comes_byte_by_byte_is_read_whole(dialect: Dialect) -> None:
    body = b"".join(dialect.parts)
    async with raw_server(*(body[place : place + 7] for place in range(0, len(body), 7))) as server:
        response = await dialect.make(server.url).complete(REQUEST)

    assert response.message.text == "Hello world"


@each_dialect
async def test_an_answer_that_is_cut_anywhere_fails_retryably(dialect: Dialect) -> None:
    """In mid-event, between events, before the first byte of the body, and before the head."""
    body = b"".join(dialect.parts[:2])
    for script in ([HEAD], [HEAD, body[:9]], [HEAD, dialect.parts[0]], [HEAD, body[:-5]], [HEAD, body], [b"HTTP/1.1 "], [b""]):
        async with raw_server(*script) as server:
            server.script = script
            with pytest.raises((TransportFailed, MalformedResponse)) as caught, trio.fail_after(60):
                await dialect.make(server.url).complete(REQUEST)

        assert caught.value.retryable
        assert caught.value.provider == dialect.name


async def test_a_chat_whose_last_line_is_missing_is_whole_once_it_has_a_finish_reason() -> None:
    dialect = each_dialect.args[1][1]
    without_end = dialect.parts[2].replace(b"data: [DONE]\n\n", b"")
    async with raw_server(*dialect.parts[:2], without_end) as server:
        response = await dialect.make(server.url).complete(REQUEST)

    assert response.message.text == "Hello world"


@each_dialect
@pytest.mark.parametrize(
    ("script", "limits", "message"),
    [
        (lambda parts: (HEAD[:9], 9.0), CallLimits(first_byte_s=0.3), r"expected an answer to begin within 0\.3 s"),
        (
            lambda parts: (HEAD, 9.0),
            CallLimits(first_byte_s=0.3),
            r"expected (its first part|an answer to begin) within 0\.3 s",
        ),
        (lambda parts: (HEAD, parts[0], 9.0), CallLimits(between_s=0.3), r"expected its next part within 0\.3 s"),
        (
            lambda parts: (HEAD, parts[0], *([0.1, b": ping\n\n"] * 50)),
            CallLimits(whole_s=1.5),
            r"expected the whole answer within 1\.5 s",
        ),
    ],
    ids=["head", "first", "next", "whole"],
)
async def test_an_answer_that_is_late_times_out(
    dialect: Dialect, script: Callable[..., tuple[bytes | float, ...]], limits: CallLimits, message: str
) -> None:
    async with raw_server(*script(dialect.parts)) as server:
        provider = dialect.make(server.url, limits)
        async with provider._client():
            begun = time.monotonic()
            with pytest.raises(ProviderTimeout, match=message):
                await provider.complete(REQUEST)
            assert time.monotonic() - begun < 5
            with trio.fail_after(5):
                await server.closed.wait()


@each_dialect
async def test_the_server_sees_that_a_cancelled_call_closes_its_connection(dialect: Dialect) -> None:
    async with raw_server(dialect.parts[0], 30.0) as server:
        async with trio.open_nursery() as nursery:
            async with dialect.make(server.url).stream(REQUEST) as stream:
                assert await anext(stream) == TextDelta("Hello ")
                nursery.cancel_scope.cancel()
                await anext(stream)
        with trio.fail_after(5):
            await server.closed.wait()
    gc.collect()  # nothing that was left open is found


@each_dialect
async def test_a_connection_is_used_again_after_a_whole_answer(dialect: Dialect) -> None:
    body = b"".join(dialect.parts)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with raw_server(head, body) as server:
        provider = dialect.make(server.url)
        for _ in range(3):
            await provider.complete(REQUEST)

        assert (server.connections, len(server.requests)) == (1, 3)


@each_dialect
async def test_a_server_that_leaves_the_connection_open_does_not_delay_the_answer(dialect: Dialect) -> None:
    async with raw_server(*dialect.parts, 30.0) as server:
        provider = dialect.make(server.url)
        async with provider._client():
            begun = time.monotonic()
            response = await provider.complete(REQUEST)

    assert response.message.text == "Hello world"
    assert time.monotonic() - begun < 5


@each_dialect
async def test_an_endless_answer_is_cut_off(dialect: Dialect) -> None:
    async with raw_server(dialect.parts[0], *([dialect.parts[1]] * 2_000)) as server:
        with pytest.raises(MalformedResponse, match="expected at most 20000 bytes"):
            await dialect.make(server.url, CallLimits(answer_bytes=20_000)).complete(REQUEST)


@each_dialect
@pytest.mark.parametrize(
    "body", [b'data: {"type": \n\n', b"data: \xff\xfe\n\n", b"data: [1, 2]\n\n", b"data: " + b"[" * 100_000 + b"\n\n"]
)
async def test_a_malformed_event_is_told(dialect: Dialect, body: bytes) -> None:
    async with raw_server(dialect.parts[0], body) as server:
        with pytest.raises(MalformedResponse, match="the answer is malformed"):
            await dialect.make(server.url).complete(REQUEST)


@each_dialect
async def test_a_page_instead_of_events_is_told(dialect: Dialect) -> None:
    async with raw_server(
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"<html>Welcome\x1b[2J to the proxy</html>"
    ) as server:
        with pytest.raises(MalformedResponse, match="expected server-sent events") as caught:
            await dialect.make(server.url).complete(REQUEST)

    assert "Welcome" in str(caught.value)
    assert "\x1b" not in str(caught.value)


@each_dialect
async def test_a_gateway_that_answers_with_a_page_is_an_outage(dialect: Dialect) -> None:
    page = b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<html>no</html>"
    async with raw_server(page) as server:
        with pytest.raises(ProviderUnavailable) as caught:
            await dialect.make(server.url).complete(REQUEST)

    assert caught.value.status == 502


@each_dialect
async def test_an_error_of_the_caller_stays_what_it_is(dialect: Dialect) -> None:
    seen: list[StreamEvent] = []
    async with raw_server(*dialect.parts) as server:
        with pytest.raises(ValueError, match="mine"):  # noqa: PT012
            async with dialect.make(server.url).stream(REQUEST) as stream:
                async for event in stream:
                    seen.append(event)
                    raise ValueError("mine")
    assert seen == [TextDelta("Hello ")]


@pytest.mark.parametrize("name", ["connect_s", "first_byte_s", "between_s", "whole_s", "answer_bytes"])
def test_limits_must_be_above_zero(name: str) -> None:
    with pytest.raises(HarnessMisuse, match=f"call limits: {name}: expected above 0, got 0"):
        CallLimits(**{name: 0})


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_events_are_decoded_wherever_chunks_end(size: int) -> None:
    sent = b": comment\r\nevent: one\r\ndata: {1}\r\n\r\nid: 7\ndata:2a\ndata: 2b\n\n\n\n" + events("3") + b"data: cut"
    decoder = EventDecoder()
    found = [data for place in range(0, len(sent), size) for data in decoder.feed(sent[place : place + size])]

    assert found == [b"{1}", b"2a\n2b", b"3"]
