"""G13: whatever clients do, the run goes on, others are answered, and nothing is left."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from attrs import evolve
from trio.testing import wait_all_tasks_blocked

from orchestrator.control.control_server import Limits, Request, Response, Server, answered
from tests.orchestrator.control.asked import Said, read_all, said

SHORT = Limits(connections=3, read_s=0.3, answer_s=0.1, write_s=0.3, body_bytes=100)


async def echo(request: Request) -> Response:
    """Answer with what was asked."""
    if request.parts == ("broken",):
        raise ValueError("broken \x1b[31m")
    if request.parts == ("never",):
        await trio.sleep_forever()
    if request.parts == ("large",):
        return Response(200, b"x" * 50_000_000)
    return answered(200, {"method": request.method, "parts": request.parts, "options": request.options})


class Running:
    """A server on a port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def raw(self, data: bytes) -> Said:
        async with await self.open() as stream:
            await stream.send_all(data)
            return said(await read_all(stream))

    async def get(self, target: str) -> Said:
        return await self.raw(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


@asynccontextmanager
async def serving(limits: Limits = SHORT, **options: Any) -> AsyncGenerator[Running]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery, listener:
        nursery.start_soon(Server(echo, limits=limits, **options).serve, listener)
        yield Running(listener.socket.getsockname()[1])
        nursery.cancel_scope.cancel()


async def test_a_request_is_answered_and_the_connection_closed() -> None:
    async with serving() as server:
        answer = await server.get("/a%2Fb/c?d=e")

    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert answer.fields == {"method": "GET", "parts": ["a/b", "c"], "options": {"d": "e"}}


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"\x00\xff\xfe\r\n\r\n", 400),
        (b"GET /%ff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20_000, 431),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n" + b"a" * 101, 413),
        (b"GET /broken HTTP/1.1\r\nHost: x\r\n\r\n", 500),
        (b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n", 503),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", 408),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nhalf", 408),
    ],
)
async def test_what_is_wrong_is_answered_in_a_sentence(data: bytes, status: int) -> None:
    async with serving() as server:
        answer = await server.raw(data)
        after = await server.get("/still-there")

    assert (answer.status, after.status) == (status, 200)
    assert "\x1b" not in answer.fields["error"]
    assert answer.fields["error"]


async def test_clients_that_say_nothing_keep_others_waiting_for_a_moment_only() -> None:
    async with serving() as server, trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(server.raw, b"GET /")
        await wait_all_tasks_blocked()

        assert (await server.get("/late")).status == 200
        nursery.cancel_scope.cancel()


async def test_a_client_that_does_not_read_is_left() -> None:
    async with serving(evolve(SHORT, connections=1)) as server, await server.open() as stream:
        await stream.send_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")

        # There is one place, so who is answered next is so when this one is left.
        assert (await server.get("/other")).status == 200
        assert len(await read_all(stream)) < 50_000_000


async def test_clients_that_hang_up_at_any_moment_harm_nobody() -> None:
    whole = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    async with serving(evolve(SHORT, read_s=5.0)) as server:
        for end in range(len(whole)):
            async with await server.open() as stream:
                await stream.send_all(whole[:end])

        assert (await server.get("/after")).status == 200


async def test_no_more_clients_are_heard_at_a_time_than_there_are_places() -> None:
    happened: list[str] = []
    welcome = partial(_noted, happened)
    async with serving(Limits(connections=2), welcome=welcome) as server, trio.open_nursery() as nursery:
        idle = [await server.open() for _ in range(2)]
        nursery.start_soon(server.get, "/third")
        await wait_all_tasks_blocked(0.01)
        for stream in idle:
            happened.append("left")
            await stream.aclose()

    assert happened[:3] == ["heard", "heard", "left"]
    assert happened.count("heard") == 3


def _noted(happened: list[str], stream: trio.SocketStream) -> bool:
    happened.append("heard")
    return True


async def test_who_asks_for_the_head_alone_gets_no_body(capfd: pytest.CaptureFixture[str]) -> None:
    async with serving() as server:
        answers = [await server.raw(f"HEAD {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()) for target in ("/a", "/%ff")]

    assert [(answer.status, answer.body) for answer in answers] == [(200, b""), (400, b"")]
    assert int(answers[0].headers["content-length"]) > 0
    assert not capfd.readouterr().err


async def test_what_fails_again_and_again_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    async with serving() as server:
        statuses = [(await server.get("/broken")).status for _ in range(3)]

    assert statuses == [500] * 3
    assert capfd.readouterr().err.count("control: ") == 1


async def test_a_bare_cancel_ends_it_at_once_with_clients_connected() -> None:
    async with serving(Limits(read_s=600)) as server:
        idle = [await server.open() for _ in range(5)]
        for stream in idle:
            await stream.send_all(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n")
        await wait_all_tasks_blocked()

    assert [await read_all(stream) for stream in idle] == [b""] * 5
    for stream in idle:
        await stream.aclose()
