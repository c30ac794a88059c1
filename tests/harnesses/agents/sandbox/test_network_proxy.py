"""The proxy connects to allowed hosts alone, and to the address that it has judged. Real sockets on loopback."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import field, frozen

from harnesses.agents.sandbox.host_rules import read_host_rule
from harnesses.agents.sandbox.network_proxy import read_request, serve_proxy

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="the proxy listens on a Unix socket")


@frozen
class Origin:
    """A host that answers each request with its head."""

    port: int
    requests: list[bytes] = field(factory=list)


@asynccontextmanager
async def origin() -> AsyncGenerator[Origin, None]:
    requests: list[bytes] = []

    async def answer(client: trio.SocketStream) -> None:
        read = b""
        async for chunk in client:
            read += chunk
            if read.endswith(b"\r\n\r\n"):
                break
        requests.append(read)
        await client.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        await client.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
        yield Origin(listeners[0].socket.getsockname()[1], requests)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def proxy(folder: Path, rules: Sequence[str], log: list[str]) -> AsyncGenerator[str, None]:
    path = str(folder / "p")
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_proxy, path, list(map(read_host_rule, rules)), log=log.append))
        yield path
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def speaking(*parts: bytes) -> AsyncGenerator[int, None]:
    """Serve a host that answers every request with these bytes, part by part, and keeps the connection open."""

    async def answer(client: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            await client.receive_some()
            for part in parts:
                await client.send_all(part)
                await trio.sleep(0.01)
            async for _ in client:
                pass

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def said(path: str, request: bytes, *more: bytes) -> bytes:
    """Send a request to the proxy, further parts after each answer, and return all that comes back."""
    came = b""
    with trio.fail_after(10):
        async with await trio.open_unix_socket(path) as stream:
            await stream.send_all(request)
            for part in more:
                came += await stream.receive_some()
                await stream.send_all(part)
            async for chunk in stream:
                came += chunk
    return came


async def test_a_tunnel_to_an_allowed_host_carries_both_directions(tmp_path: Path) -> None:
    log: list[str] = []
    async with origin() as host, proxy(tmp_path, [f"localhost:{host.port}"], log) as path:
        ask = f"CONNECT localhost:{host.port} HTTP/1.1\r\nHost: localhost:{host.port}\r\n\r\n".encode()
        came = await said(path, ask, b"GET /x HTTP/1.1\r\n\r\n")

    assert came.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
    assert (host.requests, log) == ([b"GET /x HTTP/1.1\r\n\r\n"], [])


async def test_what_is_sent_behind_a_request_for_a_tunnel_is_not_lost(tmp_path: Path) -> None:
    async with origin() as host, proxy(tmp_path, [f"localhost:{host.port}"], []) as path:
        await said(path, f"CONNECT localhost:{host.port} HTTP/1.1\r\n\r\nGET /early HTTP/1.1\r\n\r\n".encode())

    assert host.requests == [b"GET /early HTTP/1.1\r\n\r\n"]


async def test_a_plain_request_is_sent_on_with_its_path_alone(tmp_path: Path) -> None:
    async with origin() as host, proxy(tmp_path, [f"localhost:{host.port}"], []) as path:
        head = f"GET http://localhost:{host.port}/a?b=c HTTP/1.1\r\nHost: localhost\r\nProxy-Authorization: x\r\n"
        came = await said(path, f"{head}Connection: keep-alive\r\n\r\n".encode())

    assert came.endswith(b"hello")
    assert host.requests == [b"GET /a?b=c HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"]


async def asked(path: str, port: int) -> bytes:
    """Return what comes back for a plain request, as soon as it ends with its last byte."""
    came = b""
    with trio.fail_after(10):
        async with await trio.open_unix_socket(path) as stream:
            await stream.send_all(f"GET http://localhost:{port}/ HTTP/1.1\r\n\r\n".encode())
            while not came.endswith((b"hello", b"HTTP/1.1\n")):
                came += await stream.receive_some()
    return came


async def test_a_client_is_told_to_close_whatever_the_host_says(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\nContent-Length: 5\r\n\r\nhe"
    async with speaking(head[:20], head[20:], b"llo") as port, proxy(tmp_path, [f"localhost:{port}"], []) as path:
        came = await asked(path, port)

    assert came == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"


async def test_an_interim_answer_is_sent_on(tmp_path: Path) -> None:
    interim, last = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    async with speaking(interim + last) as port, proxy(tmp_path, [f"localhost:{port}"], []) as path:
        came = await asked(path, port)

    assert came.startswith(interim + b"HTTP/1.1 200 OK\r\n")


async def test_a_host_that_does_not_speak_http_is_told(tmp_path: Path) -> None:
    async with speaking(b"SSH-2.0-x\r\n\r\n") as port, proxy(tmp_path, [f"localhost:{port}"], []) as path:
        came = await asked(path, port)

    assert came.startswith(b"HTTP/1.1 502 Bad Gateway")


async def test_a_client_that_is_gone_before_the_answer_harms_nobody(tmp_path: Path) -> None:
    big = b"HTTP/1.1 200 OK\r\n\r\n" + bytes(4_000_000)
    async with speaking(big[:20], big) as port, origin() as host:
        async with proxy(tmp_path, [f"localhost:{port}", f"localhost:{host.port}"], []) as path:
            for ask in ("GET http://localhost:{0}/ HTTP/1.1\r\n\r\n", "CONNECT localhost:{0} HTTP/1.1\r\n\r\nx"):
                async with await trio.open_unix_socket(path) as stream:
                    await stream.send_all(ask.format(port).encode())
                await trio.sleep(0.1)
            good = await said(path, f"CONNECT localhost:{host.port} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n".encode())

    assert good.endswith(b"hello")


@pytest.mark.parametrize("ask", ["CONNECT {}:{} HTTP/1.1\r\n\r\n", "GET http://{}:{}/ HTTP/1.1\r\n\r\n"])
async def test_a_host_that_is_not_allowed_is_refused_and_told_once(tmp_path: Path, ask: str) -> None:
    log: list[str] = []
    async with origin() as host, proxy(tmp_path, ["pypi.org:443", f"localhost:{host.port + 1}"], log) as path:
        for _ in range(2):
            came = await said(path, ask.format("localhost", host.port).encode())

    assert came.startswith(b"HTTP/1.1 403 Forbidden")
    assert host.requests == []
    assert log == [f"[sandbox: localhost:{host.port} refused: not in the allowed hosts]"]


class Resolver(trio.abc.HostnameResolver):
    """Answers with one address at first, and with another one afterwards."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # type: ignore[no-untyped-def]
        address = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, int(port)))]

    async def getnameinfo(self, sockaddr, flags):  # type: ignore[no-untyped-def]
        raise NotImplementedError


async def test_a_name_server_does_not_lead_an_allowed_name_to_this_machine(tmp_path: Path) -> None:
    log: list[str] = []
    trio.socket.set_custom_hostname_resolver(Resolver("127.0.0.1"))
    async with origin() as host, proxy(tmp_path, [f"evil.example:{host.port}"], log) as path:
        came = await said(path, f"CONNECT evil.example:{host.port} HTTP/1.1\r\n\r\n".encode())

    assert came.startswith(b"HTTP/1.1 403 Forbidden")
    assert host.requests == []
    assert log == [f"[sandbox: evil.example:{host.port} refused: resolves to 127.0.0.1, which is not a public address]"]


async def test_the_address_that_was_judged_is_the_one_that_is_connected_to(tmp_path: Path) -> None:
    resolver = Resolver("127.0.0.1", "169.254.169.254")
    trio.socket.set_custom_hostname_resolver(resolver)
    async with origin() as host, proxy(tmp_path, [f"model.example:{host.port}", f"127.0.0.1:{host.port}"], []) as path:
        ask = f"CONNECT model.example:{host.port} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n".encode()
        came = await said(path, ask)

    assert came.endswith(b"hello")
    assert resolver.answers == ["169.254.169.254"]


@pytest.mark.parametrize(
    "head",
    [
        *(b"", b"\r\n", b"GET / HTTP/1.1\r\n", b"CONNECT pypi.org HTTP/1.1\r\n", b"CONNECT a b:1 HTTP/1.1\r\n"),
        *(b"GET https://pypi.org/ HTTP/1.1\r\n", b"GET http://user@pypi.org/ HTTP/1.1\r\n", b"GET http:/// HTTP/1.1\r\n"),
        *(b"GET http://pypi.org:99999/ HTTP/1.1\r\n", b"GET http://pypi.org/ HTTP/2\r\n", b"\x16\x03\x01\x02\x00"),
        *(b"CONNECT pypi.org:443\x00 HTTP/1.1\r\n", b"get http://pypi.org/ HTTP/1.1\r\n", b"GET http://[::1/ HTTP/1.1\r\n"),
    ],
)
def test_what_is_no_request_for_a_proxy_is_refused(head: bytes) -> None:
    assert read_request(head) is None


async def test_a_client_that_sends_no_request_is_answered_and_harms_nobody(tmp_path: Path) -> None:
    async with origin() as host, proxy(tmp_path, [f"localhost:{host.port}"], []) as path:
        garbage = await said(path, b"\x00" * 70_000)
        good = await said(path, f"CONNECT localhost:{host.port} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n".encode())

    assert garbage.startswith(b"HTTP/1.1 400 Bad Request")
    assert good.endswith(b"hello")
